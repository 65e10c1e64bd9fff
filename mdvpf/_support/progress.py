"""The progress bar: one for runs over a stream, lists of runs and whatever else takes long.

It goes to the standard error, with the rate and the time left, and vanishes when the work is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mdvpf._support.extras import needed


@contextmanager
def progress_bar(
    show: bool, total: int, label: str, unit: str = "symbols"
) -> Iterator[Callable[[int], None]]:
    """Show a progress bar while the context lasts; yields a function to advance it.

    Nothing is shown where the output is not a terminal.

    Parameters
    ----------
    show : bool
        Whether to show it at all.
    total : int
        How much there is to do.
    label : str
        What is being done.
    unit : str, default "symbols"
        What `total` counts.
    """
    if not show:
        yield lambda n: None
        return
    with needed("progress=True", "rich", "cli"):
        from rich import progress as bars
        from rich.console import Console
        from rich.text import Text

    class Rate(bars.ProgressColumn):
        def render(self, task: bars.Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.3g} {unit}/s")

    console = Console(stderr=True)
    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        Rate(),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(
        *columns, console=console, disable=not console.is_terminal, transient=True
    ) as bar:
        task = bar.add_task(label, total=total)
        yield lambda n: bar.advance(task, n)
