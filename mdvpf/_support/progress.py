"""The progress bar of runs over a stream, lists of runs and other long work.

It is written to standard error, shows the rate and the time left, and disappears at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mdvpf._support.extras import needed


@contextmanager
def progress_bar(
    show: bool, total: int, label: str, unit: str = "symbols"
) -> Iterator[Callable[[int], None]]:
    """Show a progress bar during the block; yield a function that advances it.

    Nothing is shown if the output is not a terminal.

    Parameters
    ----------
    show : bool
        Whether to show the bar.
    total : int
        Amount of work, in units.
    label : str
        Text in front of the bar.
    unit : str, default "symbols"
        Name of a unit of work.
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
