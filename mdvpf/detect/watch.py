"""The part of a detector that finds and explains incidents.

A detector with `false_incidents` has an `IncidentWatch`: the rule that judges blocks by p-values,
the trace of the last symbols, and the clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf import checkpoint
from mdvpf._support import validate
from mdvpf.detect.calibration import LARGEST_VALUE, PER, Rate
from mdvpf.detect.expectation import Expectation
from mdvpf.detect.explanation import Explanation, explain
from mdvpf.detect.incidents import COOLDOWN_BLOCKS, Incident, IncidentRule, Verdict
from mdvpf.detect.number_explanation import NumberExplanation, explain_numbers
from mdvpf.detect.threshold import LARGEST
from mdvpf.detect.trace import Trace
from mdvpf.model import NumberFamily, channels_of, read_time
from mdvpf.model.number_families import COMPILED, GAUSSIAN
from mdvpf.model.observations import row_of
from mdvpf.predictor import Label, Vocabulary

TRACE = 5000  # default number of symbols in the trace


@dataclass(slots=True)
class IncidentWatch:
    """The rule, the trace and the clock of a detector that looks for incidents.

    Attributes
    ----------
    rule : IncidentRule
    trace : Trace
    clock : float
        The latest known time, in seconds since 1970; NaN if there is none.
    family : NumberFamily or None
        The family if observations are numbers.
    """

    rule: IncidentRule
    trace: Trace
    clock: float = math.nan
    family: NumberFamily | None = None
    is_real: NDArray[np.bool_] = field(init=False)  # of each number: whether it has a density

    def __post_init__(self) -> None:
        channels = () if self.family is None else channels_of(self.family)
        # Nothing is known of a family of the user: its numbers count as real.
        self.is_real = np.array([each.kind in (GAUSSIAN, COMPILED) for each in channels])

    @classmethod
    def of(
        cls,
        *,
        block: int,
        memory: int,
        warm_up: int,
        sides: tuple[str, ...],
        false_incidents: float,
        per: str,
        cooldown: int | None,
        trace: int | None,
        family: NumberFamily | None = None,
    ) -> IncidentWatch:
        """Return a watch for these arguments of a detector, or raise."""
        rate = Rate(
            validate.real("false_incidents", false_incidents, low=1e-9, high=1e4),
            validate.choice("per", per, PER),
            block,
        )
        cooldown = COOLDOWN_BLOCKS * block if cooldown is None else cooldown
        cooldown = validate.integer("cooldown", cooldown, low=0)
        length = validate.integer("trace", TRACE if trace is None else trace, low=1)
        n_dims = 0 if family is None else len(channels_of(family))
        rule = IncidentRule(rate, memory, warm_up, cooldown, sides)
        return cls(rule, Trace(length, n_dims=n_dims), family=family)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of a detector for incidents."""
        rate = self.rule.rate
        return {
            "false_incidents": rate.wanted,
            "per": rate.per,
            "cooldown": self.rule.cooldown,
            "trace": self.trace.length,
        }

    def note(
        self,
        symbol: int,
        key: Label | None,
        surprise: float,
        expected: Expectation,
        ratio: float,
        missing: bool,
        numbers: NDArray[np.float64] | None = None,
    ) -> None:
        """Add a symbol, or the numbers of an observation."""
        entropy, likeliest, probability, values = expected
        excess = 0.0
        if not missing:
            # The surprise of an observation is a sum over its numbers, of which there may be many.
            limit = LARGEST if numbers is None else LARGEST_VALUE
            clipped = max(min(surprise, limit), -limit)
            excess = clipped if math.isnan(entropy) else clipped - entropy
            excess = excess if math.isnan(ratio) else ratio
            if numbers is None:
                self.rule.add(symbol, key, clipped, excess)
            else:
                has_real = bool((self.is_real & ~np.isnan(numbers)).any())
                repetition = LARGEST if has_real else max(0.0, clipped)
                self.rule.add(row_of(numbers), key, clipped, excess, repetition)
        self.trace.append(
            symbol, key, surprise, entropy, excess, likeliest, probability, numbers, values
        )

    def end_block(self, time: int) -> Verdict:
        """Judge the block whose last symbol has the index `time`."""
        return self.rule.end_block(time, self.clock)

    def end(self, key: Label | None) -> None:
        """End the sequence of a key."""
        self.rule.loops.end(key)
        self.trace.new_sequence(key)

    def explain(
        self, incident: Incident, vocabulary: Vocabulary | None, n: int
    ) -> Explanation | NumberExplanation:
        """Explain an incident from the trace."""
        if not isinstance(incident, Incident):
            raise TypeError(f"incident={incident!r}: expected an Incident")
        start, end, side = incident.start, incident.end, incident.side
        if self.family is not None:
            return explain_numbers(self.trace, self.family, start, end, side, n=n)
        return explain(self.trace, start, end, side, vocabulary=vocabulary, n=n)

    def copy(self) -> IncidentWatch:
        """Return an independent copy."""
        return IncidentWatch(self.rule.copy(), self.trace.copy(), self.clock, self.family)

    def to_values(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the values and the arrays for a checkpoint."""
        trace = self.trace.to_values()
        arrays = {name: each for name, each in trace.items() if isinstance(each, np.ndarray)}
        values = {
            "rule": self.rule.to_values(),
            "trace": {name: each for name, each in trace.items() if name not in arrays},
            "clock": None if math.isnan(self.clock) else self.clock,
        }
        return values, arrays

    def restore(
        self,
        values: dict[str, Any],
        arrays: dict[str, NDArray[Any]],
        n_symbols: int,
        time: int,
    ) -> None:
        """Restore the state of a checkpoint, or raise if `time` symbols cannot have led to it."""
        n_dims = self.trace.n_dims
        self.rule.restore(values["rule"], n_symbols, time, n_dims)
        of_trace = {name: arrays.pop(name) for name in list(arrays)}
        length = self.trace.length
        self.trace = Trace.from_values({**values["trace"], **of_trace}, n_dims)
        checkpoint.require(
            (self.trace.length, self.trace.time) == (length, time), f"{self.trace!r}"
        )
        clock = values["clock"]
        self.clock = math.nan if clock is None else read_time("clock", clock)
