"""Plots of the sweeps: ``python -m benchmarks.plots`` writes docs/images/*.svg.

The same results give the same bytes, so a figure changes only if its numbers do.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.figures import Point, load

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"

# By job: the label of the x axis, and the prefix of the curves of each panel.
PLOTS = {
    "sweep-particles": ("particles, K", ["ns a candidate", "bytes a particle"]),
    "sweep-stream": ("symbols seen, n", ["ns a candidate", "bytes a particle", "states"]),
    "sweep-states": ("states, M", ["ns a candidate", "bytes a particle"]),
    "sweep-symbols": ("symbols, V", ["ns a candidate", "bytes a particle"]),
}
LOGARITHMIC = {"bytes a particle"}


def draw(job: str, points: list[Point]) -> None:
    """Draw one panel for each quantity, and one line for each curve."""
    across, panels = PLOTS[job]
    figure, axes = plt.subplots(
        1, len(panels), figsize=(4.2 * len(panels), 3.2), squeeze=False, layout="constrained"
    )
    for axis, quantity in zip(axes[0], panels, strict=True):
        curves: dict[str, list[Point]] = {}
        for point in points:
            kind, _, name = point.curve.partition(": ")
            if kind == quantity:
                curves.setdefault(name, []).append(point)
        for name, line in curves.items():
            axis.plot([p.x for p in line], [p.y for p in line], "o-", label=name, markersize=3)
        axis.set(xscale="log", xlabel=across, ylabel=quantity)
        if quantity in LOGARITHMIC:
            axis.set_yscale("log")
        else:
            axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    # Above the panels, where the legend covers no line.
    lines, names = axes[0][0].get_legend_handles_labels()
    figure.legend(lines, names, fontsize="small", loc="outside upper center", ncols=len(names))
    save(figure, job)


def draw_profile(points: list[Point]) -> None:
    """Draw live, allocated and resident bytes a particle over the stream."""
    figure, axis = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
    curves: dict[str, list[Point]] = {}
    for point in points:
        curves.setdefault(point.curve, []).append(point)
    for name, line in curves.items():
        axis.plot([p.x for p in line], [p.y for p in line], label=name)
    axis.set(xlabel="symbols seen, n", ylabel="bytes a particle", yscale="log")
    axis.legend(fontsize="small")
    axis.grid(alpha=0.3)
    save(figure, "memory-profile")


def save(figure: plt.Figure, name: str) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    path = IMAGES / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    print(f"{path.relative_to(IMAGES.parents[1])}: {path.stat().st_size / 1000:.0f} kB")


def main() -> int:
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "mdvpf"})
    missing = []
    for job in [*PLOTS, "memory-profile"]:
        points = [item for item in load(job) if isinstance(item, Point)]
        if not points:
            missing.append(job)
        elif job in PLOTS:
            draw(job, points)
        else:
            draw_profile(points)
    if missing:
        print(f"no results, not drawn: {', '.join(missing)}")
    return len(missing)


if __name__ == "__main__":
    sys.exit(main())
