"""How a detector judges symbols that its predictor has absorbed.

`Judging` is the base class of `SurpriseDetector`. It has the state (levels, thresholds, incidents),
its properties, and the checkpoints. The public methods are in `detector.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf import checkpoint
from mdvpf._support import validate
from mdvpf._support.attributes import ReadOnly
from mdvpf.detect.background import Background, BackgroundReader
from mdvpf.detect.expectation import UNKNOWN, Expectation, summarize, summarize_numbers
from mdvpf.detect.incidents import NO_VERDICT, Incident
from mdvpf.detect.learning import LEARN, Belief
from mdvpf.detect.results import Detection
from mdvpf.detect.threshold import Level, Rise, Threshold, from_values, to_values
from mdvpf.detect.trace import Trace
from mdvpf.detect.watch import IncidentWatch
from mdvpf.model import read_observation, split_observations
from mdvpf.model.number_families import compiled_parts
from mdvpf.model.observations import observation_of, row_of
from mdvpf.predictor import MISSING, NONE_ENDS, Label, Predictor, Stream, read_step
from mdvpf.predictor.distributions import run_distributions

PART = 1000  # most symbols that are absorbed before they are judged
MANY_SYMBOLS = 1000  # with more, the expected entropy takes too long
ONE = np.full(1, MISSING, dtype=np.int32)  # for the summary of one distribution


class Judging(checkpoint.Saveable):
    """Base of a detector: its state, and the judging of symbols."""

    block: ReadOnly[int | None] = ReadOnly()
    smoothing: ReadOnly[float] = ReadOnly()

    _belief: Belief
    _level: Level
    _threshold: Threshold
    _rise: Rise
    _judged: int  # time of the last judgement
    _background: BackgroundReader | None
    _watch: IncidentWatch | None

    @property
    def predictor(self) -> Predictor:
        """The predictor, which has not learnt the current block unless `learn` is "all"."""
        return self._belief.predictor

    @property
    def reader(self) -> Predictor:
        """The predictor that absorbs the next symbol: `predictor`, or a copy that reads the block.

        It may be a different object after every symbol.
        """
        return self._belief.reader()

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of the detector, apart from the predictor and the background."""
        settings: dict[str, Any] = {
            "block": self.block,
            "smoothing": self.smoothing,
            "false_alarms": self._threshold.false_alarms,
            "learn": self.learn,
            "warm_up": self._threshold.warm_up,
            "memory": self._threshold.memory,
            "gain": self._threshold.gain,
            "change_limit": self._rise.limit,
        }
        return settings if self._watch is None else settings | self._watch.settings

    @property
    def background(self) -> Background | None:
        """The background with which the predictor is compared."""
        return None if self._background is None else self._background.background

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """The last incidents, 100 at most, oldest first; the last one may still grow."""
        return () if self._watch is None else tuple(self._watch.rule.recent)

    @property
    def trace(self) -> Trace | None:
        """The last symbols, for explanations and figures; None without `false_incidents`."""
        return None if self._watch is None else self._watch.trace

    @property
    def learn(self) -> str:
        """What the predictor learns; the background has its own `learn`."""
        return self._belief.learn

    @learn.setter
    def learn(self, learn: str) -> None:
        learn = validate.choice("learn", learn, LEARN)
        if self.block is None and learn != "all":
            raise ValueError(f"learn={learn!r} without block: expected 'all', or a block")
        if self._level.in_block:
            raise ValueError(f"learn={learn!r}: expected to be set between two blocks")
        if (self.predictor.is_open or self.predictor._n_seen) and learn != "all":
            raise ValueError(
                f"learn={learn!r}: expected 'all', as a predictor with an open alphabet would not "
                "know the symbols of the blocks that it does not learn"
            )
        if learn == "own" and self._background is None:
            raise ValueError("learn='own': expected a background, or another choice")
        if learn == "own" and type(self.predictor).freeze is Predictor.freeze:
            raise TypeError(f"learn='own': {type(self.predictor).__name__} cannot be frozen")
        self._belief = Belief(self.predictor, learn)

    @property
    def threshold(self) -> float:
        """The level above which the next judgement is an alarm (nats); infinite in the warm-up."""
        return self._threshold.level

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet; if it is open, how many symbols were seen."""
        return self.predictor.n_symbols

    def _tell_time(self, time: float) -> None:
        self._note_time(time)
        self.reader.tell_time(time)
        if self._background is not None:
            self._background.background.predictor.tell_time(time)

    def _note_time(self, time: float) -> None:
        if math.isnan(time):
            return
        self._belief.note_time(time)
        if self._watch is not None:
            self._watch.clock = time

    def _check_keys(self) -> None:
        """Raise unless predictor and background take keys."""
        self.predictor._check_keys()
        if self._background is not None:
            self._background.background.predictor._check_keys()

    @property
    def wants_entropy(self) -> bool:
        """Whether the surprise is compared with the entropy that the predictor expects."""
        if self._watch is None or self._background is not None:
            return False
        return self.predictor._family is None and self.n_symbols <= MANY_SYMBOLS

    @property
    def wants_predictive(self) -> bool:
        """Whether, over numbers, the surprise is compared with what `predictive` expects."""
        if self._watch is None or self._background is not None:
            return False
        family = self.predictor._family
        # The entropy of a family of the user would be an integral at every step.
        is_built_in = family is not None and not compiled_parts(family)
        return is_built_in and hasattr(self.predictor, "predictive")

    @property
    def _signed(self) -> bool:
        """Whether levels may be negative: log ratios, and the surprise of a density."""
        return self._background is not None or self.predictor._family is not None

    def _end(self, key: Label | None) -> None:
        if self._background is not None:
            self._background.end(key)
        if self._watch is not None:
            self._watch.end(key)

    def _until_judged(self) -> int:
        """Return how many symbols to absorb before a judgement may change the predictor."""
        if self.block is not None and self.learn != "all":
            return self.block - self._level.time % self.block
        if self.predictor.is_open and self.wants_entropy:
            # Within the part the alphabet cannot grow beyond MANY_SYMBOLS.
            return min(PART, MANY_SYMBOLS + 1 - self.n_symbols)
        return PART

    def _summaries(
        self, distributions: NDArray[np.float64], symbols: NDArray[np.int32], n_symbols: int
    ) -> list[Expectation]:
        """Return what was expected before each symbol, of `n_symbols` known before the first."""
        if not self.predictor.is_open:
            return summarize(distributions)
        last = np.concatenate([[n_symbols - 1], symbols[:-1]])
        return summarize(distributions, np.maximum.accumulate(last) + 1)

    def _absorb(
        self,
        symbols: NDArray[np.int32],
        keys: list[Label | None] | None,
        times: NDArray[np.float64] | None,
        rows: NDArray[np.float64] | None = None,
    ) -> list[Detection]:
        """Absorb symbols, and judge them; no judgement but the last may change the predictor.

        For a family over numbers, `rows` has the observations.
        """
        if self.wants_entropy:
            ended = np.full(len(symbols), NONE_ENDS, dtype=np.int32)
            stream = Stream(symbols, ended, None, keys, times)
            n_symbols = self.n_symbols
            reports, distributions = run_distributions(self.reader, stream)
            expected = self._summaries(distributions, symbols, n_symbols)
            return self._observe_all(symbols, keys, times, reports[:, 0], expected)
        observed: Any = np.ma.masked_array(symbols, symbols == MISSING)
        if rows is not None and self.predictor._family is not None:
            if self.wants_predictive:
                return self._absorb_each(rows, keys, times)
            observed = split_observations(self.predictor._family, rows)
        found = self.reader.run(observed, keys=keys, times=times).log_predictive
        return self._observe_all(symbols, keys, times, found, rows=rows)

    def _absorb_each(
        self,
        rows: NDArray[np.float64],
        keys: list[Label | None] | None,
        times: NDArray[np.float64] | None,
    ) -> list[Detection]:
        """Absorb and judge the rows of a family over numbers, with what was expected of each."""
        family: Any = self.predictor._family
        detections = []
        for i, row in enumerate(rows):
            if times is not None and not math.isnan(times[i]):
                self._tell_time(float(times[i]))
            key = None if keys is None else keys[i]
            detections.append(self._update(observation_of(family, row_of(row)), key))
        return detections

    def _update(self, symbol: Any, key: Label | None) -> Detection:
        """Absorb and judge a symbol or an observation of a validated key."""
        code = self.predictor._code(symbol)
        numbers = self._numbers(symbol)
        reader, named = self.reader, {} if key is None else {"key": key}
        expected = UNKNOWN
        if self.wants_entropy:
            probabilities = reader.predict_proba(**named)[np.newaxis]
            (expected,) = self._summaries(probabilities, ONE, self.n_symbols)
        elif self.wants_predictive:
            expected = summarize_numbers(reader.predictive(**named))  # type: ignore[attr-defined]
        step = read_step(reader, reader.update(symbol, **named))
        return self._observe(code, key, -step.log_predictive, expected, numbers=numbers)

    def _numbers(self, symbol: Any) -> NDArray[np.float64] | None:
        """Return the numbers of an observation; None if observations are symbols."""
        family = self.predictor._family
        return None if family is None else read_observation(family, symbol)

    def _observe_all(
        self,
        symbols: NDArray[np.int32],
        keys: list[Label | None] | None,
        times: NDArray[np.float64] | None,
        log_predictive: NDArray[np.float64],
        expected: list[Expectation] | None = None,
        rows: NDArray[np.float64] | None = None,
    ) -> list[Detection]:
        """Judge symbols that have been absorbed, with their expectations if these are known."""
        ratios = [math.nan] * len(symbols)
        if self._background is not None:
            ratios = self._background.ratios(symbols, keys, log_predictive, rows, times).tolist()
        surprises: list[float] = (-log_predictive).tolist()
        detections = []
        for i, code in enumerate(symbols.tolist()):
            key = None if keys is None else keys[i]
            if times is not None:
                self._note_time(float(times[i]))
            summary = UNKNOWN if expected is None else expected[i]
            detections.append(
                self._judge_symbol(
                    *(code, key, surprises[i], ratios[i], code == MISSING, summary),
                    None if rows is None else rows[i],
                )
            )
        return detections

    def _observe(
        self,
        code: int,
        key: Label | None,
        surprise: float,
        expected: Expectation,
        *,
        missing: bool | None = None,
        numbers: NDArray[np.float64] | None = None,
    ) -> Detection:
        """Judge a symbol that has been absorbed."""
        missing = code == MISSING if missing is None else missing
        ratio = math.nan
        if self._background is not None:
            symbols = np.array([code], dtype=np.int32)
            rows = None if numbers is None else numbers[np.newaxis]
            found = self._background.ratios(symbols, [key], np.array([-surprise]), rows)
            ratio = float(found[0])
        return self._judge_symbol(code, key, surprise, ratio, missing, expected, numbers)

    def _judge_symbol(
        self,
        code: int,
        key: Label | None,
        surprise: float,
        ratio: float,
        missing: bool,
        expected: Expectation,
        numbers: NDArray[np.float64] | None,
    ) -> Detection:
        """Judge a symbol, given its surprise and its log ratio (NaN without a background)."""
        if self.learn == "own":
            symbol = code if numbers is None else row_of(numbers)
            self._belief.note(None if missing else symbol, key)
        time, watch = self._level.time, self._watch
        threshold = self._threshold.level if watch is None else math.inf
        if self.predictor._family is None:
            surprise = max(0.0, surprise)  # in this order: -0.0 becomes 0.0 too
        else:
            surprise += 0.0  # -0.0 becomes 0.0; that of a density may be negative
        level = self._level.add(surprise if math.isnan(ratio) else ratio, missing)
        if watch is not None:
            watch.note(code, key, surprise, expected, ratio, missing, numbers)
        score, alarm, change, verdict = math.nan, False, None, NO_VERDICT
        if level is not None:
            score, alarm, change = self._judge(level, time)
        if self.block is not None and not self._level.in_block:
            if watch is not None:
                verdict = watch.end_block(time)
                alarm = verdict.alarm
            self._belief.end_block(alarm, level)
        level = math.nan if level is None else level
        p_value, side, incident = verdict.p_value, verdict.side, verdict.incident
        return Detection(
            *(time, surprise, level, score, threshold, alarm, change),
            *(ratio, expected.entropy, p_value, side, incident),
        )

    def _judge(self, level: float, time: int) -> tuple[float, bool, int | None]:
        """Judge a level; return its score, whether it is an alarm, and the start of a rise."""
        self._judged = time
        judges, score = self._threshold.judges, self._threshold.score(level)
        alarm = self._threshold.judge(level)
        first = time if self.block is None else time - self.block + 1
        found = self._rise.add(score, level, first) if judges else None
        if found is None:
            return score, alarm, None
        if self.learn == "all":  # the predictor adapts to the change, so the baseline does too
            self._threshold.centre = found[1]
        return score, alarm, found[0]

    def _running(self) -> dict[str, Any]:
        """Return the state that the stream changes, without the background and the watch."""
        return {
            "time": self._level.time,
            "judged": self._judged,
            "sum": self._level.total,
            "count": self._level.count,
            "threshold": to_values(self._threshold),
            "rise": to_values(self._rise),
        }

    def _restore(self, values: dict[str, Any], other: Predictor | None) -> None:
        time = validate.integer("time", values["time"], low=0, high=2**62)
        count = validate.integer("count", values["count"], low=0, high=time)
        total = validate.real("sum", values["sum"], low=-1e100, high=1e100)
        self._level = Level(self.block, self.smoothing, time, total, count)
        self._judged = validate.integer("judged", values["judged"], low=-1, high=time - 1)
        from_values(self._threshold, values["threshold"])
        from_values(self._rise, values["rise"])
        signed = self._signed
        self._level.check(signed)
        self._threshold.check(signed)
        self._rise.check(time, self._threshold.seen, signed)
        levels = time if self.block is None else time // self.block
        if self._threshold.seen > levels or (self._judged < 0) != (self._threshold.seen == 0):
            raise ValueError(f"seen={self._threshold.seen}: impossible after {time} symbols")
        self._belief.other = other
        self._belief.reading = other is not None and self._level.in_block

    def _to_checkpoint(self) -> checkpoint.State:
        parts: dict[str, Any] = {"predictor": self.predictor}
        values: dict[str, Any] = {"settings": self.settings, "running": self._running()}
        arrays: dict[str, NDArray[Any]] = {}
        if self._belief.other is not None:
            parts["other"] = self._belief.other
        if self._belief.reading and not self._level.in_block:  # has a time, but no symbol yet
            values["reading"] = True
        if self._belief.events:
            values["events"] = self._belief.events_to_values()
        if self._background is not None:
            parts["background"] = self._background.background
            values["reader"] = self._background.number
        if self._watch is not None:
            values["watch"], arrays = self._watch.to_values()
        return checkpoint.State(values, arrays, parts, version=1 if len(values) == 2 else 2)

    def _left_out(self) -> dict[str, Any]:
        return self.predictor._left_out()
