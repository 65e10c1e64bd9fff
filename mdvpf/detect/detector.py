"""When a stream looks strange: surprise, alarms at a wanted rate, and change points.

Belief, then threshold (Raginsky et al. 2012). The belief is any predictor: what it thought of the
symbol that came is its surprise, -log predictive (`learning.py`: what it learns from). Surprise is
averaged into *levels*, symbol by symbol with fading memory or block by block (`Level`), and a
level above a threshold is an alarm. The threshold follows the stream, such that the share of alarms
is the wanted one, and what the user says about past alarms (`Threshold`). A sustained rise of
the surprise is a change point.

Sequences that are interleaved, told apart by keys, are judged together: there is one level and one
threshold for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf import checkpoint
from mdvpf._support import validate
from mdvpf._support.attributes import ReadOnly
from mdvpf._support.progress import progress_bar
from mdvpf.detect.learning import LEARN, Belief
from mdvpf.detect.results import Detection, DetectionResult
from mdvpf.detect.threshold import Level, Rise, Threshold, from_values, to_values
from mdvpf.model import Time
from mdvpf.predictor import (
    MISSING,
    Label,
    Predictor,
    Step,
    Stream,
    read_key,
    read_step,
    read_symbol,
)

__all__ = ["Detection", "DetectionResult", "SurpriseDetector"]

_PART = 1000  # symbols absorbed between two looks at the threshold


@checkpoint.register("SurpriseDetector")
class SurpriseDetector(checkpoint.Saveable):
    """Alarms and change points on a stream, from the surprise of any predictor.

    Parameters
    ----------
    predictor : Predictor
        What is surprised: a filter, a Markov chain, a context tree, a mixture. It becomes the
        detector's own; a predictor that has learnt already is taken as it is. One with an open
        alphabet needs ``learn="all"``: it has to absorb every symbol to number them.
    block : int, optional
        Judge the mean surprise of blocks of so many symbols. Without it every symbol is judged.
    smoothing : float, default 1.0
        Without blocks: how many symbols the judged surprise is averaged over, with fading memory.
        1 judges the surprise of each symbol by itself.
    false_alarms : float, default 0.01
        The wanted share of alarms among judgements.
    learn : {"all", "unflagged", "none"}, default "all"
        What the predictor learns from: everything, blocks without alarm, or nothing any more. The
        latter two need `block`: within a block the predictor always goes along, on a copy. It
        can be set anew between two blocks: all at first, nothing any more when it is enough.
    warm_up : int, default 20
        So many levels are taken for usual and not judged.
    memory : int, default 500
        How many levels "usual" is a matter of.
    gain : float, default 0.1
        How far an alarm raises the threshold, in standard deviations of the level.
    change_limit : float, default 10.0
        How much excess, in standard deviations, makes a change point. Levels one standard
        deviation above the usual take some 20 to exceed 10, and fewer than 5 never do; smoothed
        levels overlap, and take as many times `smoothing`.

    Examples
    --------
    >>> import mdvpf
    >>> import numpy as np
    >>> usual, strange = [0, 1, 2] * 200, [2, 1, 0] * 20
    >>> detector = mdvpf.SurpriseDetector(mdvpf.Markov(3, order=1), block=10, learn="unflagged")
    >>> detector.run(usual).alarm.any(), detector.run(strange).alarm.any()
    (np.False_, np.True_)
    """

    block: ReadOnly[int | None] = ReadOnly()
    smoothing: ReadOnly[float] = ReadOnly()

    def __init__(
        self,
        predictor: Predictor,
        *,
        block: int | None = None,
        smoothing: float = 1.0,
        false_alarms: float = 0.01,
        learn: str = "all",
        warm_up: int = 20,
        memory: int = 500,
        gain: float = 0.1,
        change_limit: float = 10.0,
    ) -> None:
        if not isinstance(predictor, Predictor):
            raise TypeError(f"predictor={predictor!r}: expected a Predictor")
        self.block = None if block is None else validate.integer("block", block, low=1)
        self.smoothing = validate.real("smoothing", smoothing, low=1.0, high=1e9)
        if self.block is not None and self.smoothing != 1.0:
            raise ValueError(f"smoothing={smoothing!r} with block={block!r}: expected one of them")
        self._level = Level(self.block, self.smoothing)
        self._threshold = Threshold(
            validate.real("false_alarms", false_alarms, low=1e-9, high=0.5),
            validate.real("gain", gain, low=0.0, high=10.0),
            validate.integer("memory", memory, low=2),
            validate.integer("warm_up", warm_up, low=2),
        )
        limit = validate.real("change_limit", change_limit, low=1e-3, high=1e9)
        # Smoothed levels overlap: each counts for its part.
        self._rise = Rise(limit, pace=self.smoothing)
        self._judged = -1  # time of the last judgement
        self._belief = Belief(predictor, "all")
        self.learn = learn

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"SurpriseDetector({self.predictor!r}, {settings})"

    @property
    def predictor(self) -> Predictor:
        """What is surprised, as it has learnt so far.

        Inside of a block it is without that block, unless `learn` is "all".
        """
        return self._belief.predictor

    @property
    def reader(self) -> Predictor:
        """What absorbs the next symbol: `predictor`, or inside of a block the copy that reads it.

        Ask for it anew before every symbol.
        """
        return self._belief.reader(self._level.in_block)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of the detector, apart from the predictor."""
        return {
            "block": self.block,
            "smoothing": self.smoothing,
            "false_alarms": self._threshold.false_alarms,
            "learn": self.learn,
            "warm_up": self._threshold.warm_up,
            "memory": self._threshold.memory,
            "gain": self._threshold.gain,
            "change_limit": self._rise.limit,
        }

    @property
    def learn(self) -> str:
        """What the predictor learns from."""
        return self._belief.learn

    @learn.setter
    def learn(self, learn: str) -> None:
        learn = validate.choice("learn", learn, LEARN)
        if self.block is None and learn != "all":
            raise ValueError(f"learn={learn!r} without block: expected 'all', or a block")
        if self._level.in_block:
            raise ValueError(f"learn={learn!r}: expected to be set between two blocks")
        if self.predictor.is_open and learn != "all":
            raise ValueError(
                f"learn={learn!r}: expected 'all', as the predictor has an open alphabet: it would "
                "not know the symbols of the blocks that it does not learn"
            )
        self._belief = Belief(self.predictor, learn)

    @property
    def threshold(self) -> float:
        """The level above which there would be an alarm now, in nats; infinite in the warm-up."""
        return self._threshold.level

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet; if it is open, how many symbols were seen."""
        return self.predictor.n_symbols

    # -- the life of a symbol --------------------------------------------------------------

    def update(self, symbol: int | None, key: Label | None = None) -> Detection:
        """Absorb one symbol of a key, None if it is missing, and judge it.

        Examples
        --------
        >>> import mdvpf
        >>> detector = mdvpf.SurpriseDetector(mdvpf.Markov(2, order=0, beta=1.0))
        >>> round(detector.update(1).surprise, 3)  # both were equally likely: log 2
        0.693
        """
        code = read_symbol(symbol, self.n_symbols + self.predictor.is_open)
        reader = self.reader
        if key is None:
            step = reader.update(symbol)
        else:
            self.predictor._check_keys()
            step = reader.update(symbol, key)
        return self.judge(read_step(reader, step), missing=code == MISSING)

    def judge(self, step: Step, *, missing: bool = False) -> Detection:
        """Judge a symbol that `reader` has just absorbed: the second half of `update`.

        For callers that look at the predictor before it absorbs a symbol, or at its report.

        Parameters
        ----------
        step : Step
            What ``reader.update(symbol)`` returned.
        missing : bool, default False
            Whether the symbol was missing.

        Examples
        --------
        >>> import mdvpf
        >>> import numpy as np
        >>> detector = mdvpf.SurpriseDetector(mdvpf.Markov(2, order=0, beta=1.0))
        >>> expected = detector.reader.predict_proba()
        >>> detection = detector.judge(detector.reader.update(1))
        >>> bool(np.isclose(detection.surprise, -np.log(expected[1])))
        True
        """
        if not isinstance(step, Step):
            raise TypeError(f"step={step!r}: expected a Step, as update of a predictor returns it")
        return self._observe(-step.log_predictive, missing)

    def run(
        self,
        symbols: ArrayLike,
        lengths: ArrayLike | None = None,
        keys: Sequence[Label | None] | ArrayLike | None = None,
        progress: bool = False,
        *,
        times: Sequence[Time | None] | ArrayLike | None = None,
    ) -> DetectionResult:
        """Absorb and judge many symbols: the same as `update` on each.

        All input is checked first. After an interrupt (Ctrl-C) the last symbols that the predictor
        has absorbed may not have been judged.

        Parameters
        ----------
        symbols, lengths, keys, progress, times
            As for `Predictor.run`.

        Examples
        --------
        >>> import mdvpf
        >>> detector = mdvpf.SurpriseDetector(mdvpf.Markov(2, order=1), smoothing=5)
        >>> result = detector.run([0, 1] * 100 + [1, 1, 0, 0] * 20)
        >>> bool(result.alarm[:200].any()), bool(result.alarm[200:].any())
        (False, True)
        >>> result.change_points[0] - 200 < 5
        np.True_
        """
        predictor = self.predictor
        trial = None if predictor.vocabulary is None else predictor.vocabulary.copy()
        stream = Stream.read(
            symbols,
            lengths,
            self.n_symbols,
            keys,
            is_open=predictor.is_open,
            times=times,
            vocabulary=trial,
        )
        show = validate.flag("progress", progress)
        if keys is not None:
            predictor._check_keys()
        if self.learn == "all" and predictor._may_reject:
            # refuses what it would on the way
            predictor._plan(predictor._numbered(stream, predictor._table.copy()))
        try:
            with progress_bar(show, len(stream), type(self).__name__) as advance:
                return DetectionResult.of(self._run(stream, advance))
        finally:
            if trial is not None:
                self.predictor._learn_labels(trial)

    def _run(self, stream: Stream, advance: Callable[[int], None]) -> list[Detection]:
        """Absorb and judge a stream that was read."""
        starts = [*np.flatnonzero(stream.starts).tolist(), len(stream)]
        detections: list[Detection] = []
        first = 0
        while first < len(stream):
            if first == starts[0]:
                self.new_sequence()
                starts.pop(0)
            stop = min(starts[0], first + self._until_judged())
            keys = None if stream.keys is None else stream.keys[first:stop]
            times = None if stream.times is None else stream.times[first:stop]
            detections += self._absorb(stream.symbols[first:stop], keys, times)
            advance(stop - first)
            first = stop
        return detections

    def new_sequence(self, key: Label | None = None) -> None:
        """End the sequence of a key: its next symbol starts a new one. Blocks go on across them.

        Examples
        --------
        >>> import mdvpf
        >>> detector = mdvpf.SurpriseDetector(mdvpf.Markov(2, order=1))
        >>> detector.new_sequence()
        """
        if read_key("key", key) is not None:
            self.predictor._check_keys()
        self._belief.new_sequence(key)

    def _expire(self, key: Label | None) -> None:
        """End the sequence of a key if there is one."""
        self._belief.expire(key)

    def feedback(self, detection: Detection, strange: bool) -> None:
        """Tell the detector what a judgement was worth.

        What it is not told about it takes for usual. An alarm that was right no longer raises the
        threshold; a miss lowers it by as much as a false alarm raises it, so that each reported
        miss makes room for about one more false alarm. With ``learn="unflagged"``, and if no
        symbol has come since, the predictor forgets a block that was strange and learns one that
        was not.

        Parameters
        ----------
        detection : Detection
            The judgement, as `update` returned it. Each should be given once at most.
        strange : bool
            Whether there was reason for an alarm.

        Examples
        --------
        >>> import mdvpf
        >>> detector = mdvpf.SurpriseDetector(mdvpf.Markov(2, order=1))
        >>> _ = detector.run([0, 1] * 50)
        >>> missed, before = detector.update(0), detector.threshold
        >>> detector.feedback(missed, strange=True)
        >>> detector.threshold < before
        True
        """
        if not isinstance(detection, Detection):
            raise TypeError(f"detection={detection!r}: expected a Detection")
        strange = validate.flag("strange", strange)
        if not 0 <= detection.time < self._level.time:
            raise ValueError(f"detection={detection!r}: expected one of this detector")
        if math.isnan(detection.level) or math.isinf(detection.threshold):
            raise ValueError(f"detection={detection!r}: expected one that was judged")
        self._threshold.correct(detection.alarm, strange)
        last = detection.time == self._judged == self._level.time - 1
        if last and strange != detection.alarm:
            self._belief.revise()

    def copy(self) -> Self:
        """Return an independent copy.

        Examples
        --------
        >>> import mdvpf
        >>> detector = mdvpf.SurpriseDetector(mdvpf.Markov(2, order=1))
        >>> detector.copy().update(0) == detector.update(0)
        True
        """
        belief = self._belief.copy()
        twin = type(self)(belief.predictor, **self.settings)
        twin._restore(self._running(), belief.other)
        return twin

    def __copy__(self) -> Self:
        return self.copy()

    def _until_judged(self) -> int:
        """Return how many symbols can be absorbed before a judgement may change the predictor."""
        if self.block is None or self.learn == "all":
            return _PART
        return self.block - self._level.time % self.block

    def _absorb(
        self,
        symbols: NDArray[np.int32],
        keys: list[Label | None] | None,
        times: NDArray[np.float64] | None,
    ) -> list[Detection]:
        """Absorb symbols after whose last one a judgement may change the predictor."""
        missing = symbols == MISSING
        observed = np.ma.masked_array(symbols, missing)
        found = self.reader.run(observed, keys=keys, times=times).log_predictive
        pairs = zip(found.tolist(), missing.tolist(), strict=True)
        return [self._observe(-log_predictive, absent) for log_predictive, absent in pairs]

    def _observe(self, surprise: float, missing: bool) -> Detection:
        """Judge a symbol that has been absorbed."""
        time, threshold = self._level.time, self._threshold.level
        surprise = max(0.0, surprise)  # in this order: -0.0 becomes 0.0 too
        level = self._level.add(surprise, missing)
        score, alarm, change = math.nan, False, None
        if level is not None:
            score, alarm, change = self._judge(level, time)
        if self.block is not None and not self._level.in_block:
            self._belief.end_block(alarm)
        level = math.nan if level is None else level
        return Detection(time, surprise, level, score, threshold, alarm, change)

    def _judge(self, level: float, time: int) -> tuple[float, bool, int | None]:
        self._judged = time
        judges, score = self._threshold.judges, self._threshold.score(level)
        alarm = self._threshold.judge(level)
        first = time if self.block is None else time - self.block + 1
        found = self._rise.add(score, level, first) if judges else None
        if found is None:
            return score, alarm, None
        if self.learn == "all":  # the predictor goes with the change, and so does what is usual
            self._threshold.centre = found[1]
        return score, alarm, found[0]

    # -- checkpoints -----------------------------------------------------------------------

    def _running(self) -> dict[str, Any]:
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
        total = validate.real("sum", values["sum"], low=0.0, high=1e100)
        self._level = Level(self.block, self.smoothing, time, total, count)
        self._judged = validate.integer("judged", values["judged"], low=-1, high=time - 1)
        from_values(self._threshold, values["threshold"])
        from_values(self._rise, values["rise"])
        self._level.check()
        self._threshold.check()
        self._rise.check(time, self._threshold.seen)
        levels = time if self.block is None else time // self.block
        if self._threshold.seen > levels or (self._judged < 0) != (self._threshold.seen == 0):
            raise ValueError(f"seen={self._threshold.seen}: not what {time} symbols can have made")
        self._belief.other = other

    def _to_checkpoint(self) -> checkpoint.State:
        parts = {"predictor": self.predictor}
        if self._belief.other is not None:
            parts["other"] = self._belief.other
        return checkpoint.State(
            {"settings": self.settings, "running": self._running()}, parts=parts
        )

    @classmethod
    def _from_checkpoint(cls, state: checkpoint.State, given: dict[str, Any]) -> Self:
        if not {"predictor"} <= set(state.parts) <= {"predictor", "other"}:
            raise checkpoint.CheckpointError(f"file: a detector made of {sorted(state.parts)}")
        predictor, other = state.parts["predictor"], state.parts.get("other")
        detector = cls(predictor, **state.values["settings"])
        detector._restore(state.values["running"], other)
        if not detector._belief.fits(detector._level.in_block):
            raise checkpoint.CheckpointError("file: predictors that do not go together")
        return detector

    def _left_out(self) -> dict[str, Any]:
        return self.predictor._left_out()
