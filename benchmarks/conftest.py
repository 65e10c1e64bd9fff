"""The table that `make bench` ends with: nanoseconds a candidate, and ratios within one run."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest


@dataclass
class Speeds:
    """Seconds and candidates of each contender, by the stretch of the stream it ran on."""

    rows: dict[tuple[int, str], float] = field(default_factory=dict)

    def record(self, stretch: int, contender: str, seconds: float, candidates: float) -> None:
        self.rows[stretch, contender] = 1e9 * seconds / candidates

    def lines(self, base: str) -> list[str]:
        lines = [f"{'symbols':>8}  {'contender':<28}{'ns/candidate':>13}{'against ' + base:>20}"]
        for (stretch, contender), ns in sorted(self.rows.items()):
            own = self.rows.get((stretch, base))
            ratio = f"{ns / own:.2f} x" if own else "-"
            lines.append(f"{stretch:>8}  {contender:<28}{ns:>13.1f}{ratio:>20}")
        return lines


SPEEDS = pytest.StashKey[Speeds]()
BASE = "mdvpf VPA"


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SPEEDS] = Speeds()


@pytest.fixture(scope="session")
def speeds(pytestconfig: pytest.Config) -> Speeds:
    return pytestconfig.stash[SPEEDS]


@pytest.hookimpl(trylast=True)  # after the table of pytest-benchmark
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    speeds = config.stash[SPEEDS]
    if speeds.rows:
        terminalreporter.section("time a candidate, best round")
        for line in speeds.lines(BASE):
            terminalreporter.write_line(line)
