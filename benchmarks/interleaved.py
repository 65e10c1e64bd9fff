"""Interleaved sequences: the gain by keys, and the cost of sharing counts between them.

``python -m benchmarks.interleaved`` prints nats an event for two simulated logs with seeds 1 to 3
(settings were chosen with seed 0). Lines of eight processes: as one sequence, with keys, and with a
separate filter for each process. Tickets of a help desk: in time order as one sequence, with cases
as keys, and grouped by case.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import mdvpf
from mdvpf import datasets

SEEDS = (1, 2, 3)
N_PARTICLES = 200


def a_filter(n_symbols: int | None) -> mdvpf.ParticleFilter:
    """Return a filter with recommended settings, with an open alphabet if n_symbols is None."""
    model = mdvpf.InfiniteHMM(
        n_symbols,
        gamma=10.0,
        oracle="rows",
        machine="mealy",
        forget=4.0,
        emission=mdvpf.OpenVocabulary(concentration=0.1) if n_symbols is None else None,
    )
    return mdvpf.ParticleFilter(model, mdvpf.OptimalResampling(), N_PARTICLES, rng=0)


def separate(log: datasets.EventLog) -> NDArray[np.float64]:
    """Return the log predictives of a separate filter for each key, over the whole alphabet."""
    keys = np.array(log.keys)
    found = np.empty(len(keys))
    for key in dict.fromkeys(log.keys):
        mine = keys == key
        found[mine] = a_filter(log.n_symbols).run(log.symbols[mine]).log_predictive
    return found


def means(log: datasets.EventLog, *, by_case: bool) -> dict[str, float]:
    """Return nats an event for each variant."""
    n = log.n_symbols
    found = {
        "one sequence": a_filter(n).run(log.symbols).log_predictive,
        "keys": a_filter(n).run(log.symbols, keys=log.keys).log_predictive,
        "keys, open alphabet": a_filter(None).run(log.symbols, keys=log.keys).log_predictive,
    }
    if by_case:
        symbols, lengths = log.grouped()
        found["grouped"] = a_filter(n).run(symbols, lengths=lengths).log_predictive
    else:
        found["separate filters"] = separate(log)
    return {name: float(values.mean()) for name, values in found.items()}


def main() -> None:
    """Print the tables."""
    for title, draw, by_case in (
        ("eight processes", datasets.processes, False),
        ("help desk", datasets.help_desk, True),
    ):
        rows = [means(draw(rng=seed), by_case=by_case) for seed in SEEDS]
        print(f"{title}: nats an event, mean and standard error of {len(SEEDS)} logs")
        for name in rows[0]:
            values = np.array([row[name] for row in rows])
            error = values.std(ddof=1) / np.sqrt(len(values))
            print(f"  {name:22} {values.mean():7.3f} +- {error:.3f}")


if __name__ == "__main__":
    main()
