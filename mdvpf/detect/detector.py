"""Detect strange symbols: surprise, alarms at a wanted rate, and change points.

A detector has a belief and a threshold (Raginsky et al. 2012). The belief is any predictor;
`learning.py` decides which symbols it learns. The surprise of a symbol is -log predictive. Surprise
is averaged into *levels* (`Level`): for each symbol with fading memory, or for each block. A level
above the threshold is an alarm. The threshold adapts to the stream and to the user's feedback, to
keep the wanted share of alarms (`Threshold`). A sustained rise of the surprise is a change point.
With a background, the level is a likelihood ratio (`background.py`).

With `false_incidents`, the share of alarms is not fixed. Blocks are judged by p-values on several
sides, and alarms merge into incidents (`incidents.py`).

Interleaved sequences, identified by keys, are judged together: they share one level and one
threshold. `KeyedDetector` has a detector for each key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf import checkpoint
from mdvpf._support import validate
from mdvpf._support.progress import progress_bar
from mdvpf.detect.background import Background, BackgroundReader
from mdvpf.detect.expectation import UNKNOWN, summarize_numbers
from mdvpf.detect.explanation import Explanation
from mdvpf.detect.incidents import Incident
from mdvpf.detect.judging import ONE, Judging
from mdvpf.detect.learning import Belief
from mdvpf.detect.number_explanation import NumberExplanation
from mdvpf.detect.results import Detection, DetectionResult
from mdvpf.detect.sides import SIDES, SPIKE
from mdvpf.detect.threshold import Level, Rise, Threshold
from mdvpf.detect.watch import IncidentWatch
from mdvpf.filter.predictive import Predictive
from mdvpf.model import Time, channels_of, read_time
from mdvpf.predictor import (
    MISSING,
    Label,
    Predictor,
    Step,
    Stream,
    read_key,
)

__all__ = ["Detection", "DetectionResult", "SurpriseDetector"]

WARM_UP = 20  # levels
INCIDENT_BLOCK = 8  # default block with `false_incidents`
INCIDENT_WARM_UP = 50


@checkpoint.register("SurpriseDetector")
class SurpriseDetector(Judging):
    """Alarms and change points on a stream, from the surprise of any predictor.

    Parameters
    ----------
    predictor : Predictor
        Any predictor: a filter, a Markov chain, a context tree, a mixture. The detector uses this
        object itself, with all that it has learnt. A predictor with an open alphabet needs
        ``learn="all"``, because it numbers symbols as it absorbs them.
    block : int, optional
        Symbols in a block. The detector judges the mean surprise of each block; by default it
        judges every symbol.
    smoothing : float, default 1.0
        Without blocks: number of symbols over which the surprise is averaged, with fading memory.
        1 judges each symbol by itself.
    false_alarms : float, default 0.01
        The wanted share of alarms among judgements.
    learn : {"all", "unflagged", "none", "own"}, default "all"
        What the predictor learns: everything, blocks without an alarm, or nothing. "unflagged" and
        "none" need `block`; a copy of the predictor reads, and learns within, the current block.
        "own" needs `block` and `background`: the frozen predictor reads a block, and learns it
        afterwards if it explains the block better than the background does. The attribute `learn`
        can be changed between two blocks, for example to stop learning.
    warm_up : int, optional
        Number of initial levels that are assumed normal and not judged: 20 by default, 50 with
        `false_incidents`.
    memory : int, default 500
        Length of the baseline window, in levels. An incident longer than this becomes the new
        normal.
    gain : float, default 0.1
        How far an alarm raises the threshold, in standard deviations of the level.
    change_limit : float, default 10.0
        Sum of excess, in standard deviations, at which a change point is reported. By default, a
        rise by one standard deviation is reported after some 20 levels, and no rise after fewer
        than 5. Smoothed levels overlap and take `smoothing` times as long.
    background : Background or Predictor, optional
        Predictor of the whole population. Levels are then mean log likelihood ratios of background
        and predictor. A plain predictor is frozen. A `Background` may continue to learn, and
        detectors may share it.
    false_incidents : float, optional
        The wanted number of false incidents, per 10,000 symbols or per day. Alarms then have no
        fixed share: each block gets a p-value on four sides (surprising, predictable, repetitive,
        looping). With a background, "surprising" means that the background explains the block
        better. `block` is 8 by default. `mdvpf.detect.calibration` says when the p-values are
        valid.
    per : {"symbols", "day"}, default "symbols"
        The unit of `false_incidents`. "day" needs times (`tell_time`, or ``run(times=)``), and
        gives no alarm before the first two blocks with times.
    cooldown : int, optional
        With `false_incidents`: the largest number of symbols between two alarms of one incident. 8
        blocks by default.
    trace : int, optional
        With `false_incidents`: the number of last symbols that are kept to explain incidents, in
        some 44 bytes each (over numbers, 16 more for each number). 5,000 by default.

    Examples
    --------
    >>> import mdvpf
    >>> import numpy as np
    >>> usual, strange = [0, 1, 2] * 200, [2, 1, 0] * 20
    >>> detector = mdvpf.SurpriseDetector(mdvpf.Markov(3, order=1), block=10, learn="unflagged")
    >>> detector.run(usual).alarm.any(), detector.run(strange).alarm.any()
    (np.False_, np.True_)
    """

    def __init__(
        self,
        predictor: Predictor,
        *,
        block: int | None = None,
        smoothing: float = 1.0,
        false_alarms: float = 0.01,
        learn: str = "all",
        warm_up: int | None = None,
        memory: int = 500,
        gain: float = 0.1,
        change_limit: float = 10.0,
        background: Background | Predictor | None = None,
        false_incidents: float | None = None,
        per: str = "symbols",
        cooldown: int | None = None,
        trace: int | None = None,
    ) -> None:
        if not isinstance(predictor, Predictor):
            raise TypeError(f"predictor={predictor!r}: expected a Predictor")
        if false_incidents is not None:
            block = INCIDENT_BLOCK if block is None else block
        elif per != "symbols" or cooldown is not None or trace is not None:
            raise ValueError(
                f"per={per!r}, cooldown={cooldown!r}, trace={trace!r}: expected only with "
                "false_incidents"
            )
        if warm_up is None:
            warm_up = WARM_UP if false_incidents is None else INCIDENT_WARM_UP
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
        # Smoothed levels overlap, so each counts 1 / smoothing.
        self._rise = Rise(limit, pace=self.smoothing)
        self._judged = -1  # time of the last judgement
        self._belief = Belief(predictor, "all")
        self._background = (
            None if background is None else BackgroundReader.of(background, predictor)
        )
        self._watch = None
        if false_incidents is not None and self.block is not None:
            self._watch = IncidentWatch.of(
                block=self.block,
                memory=self._threshold.memory,
                warm_up=self._threshold.warm_up,
                sides=SIDES if predictor._family is None else (*SIDES, SPIKE),
                false_incidents=false_incidents,
                per=per,
                cooldown=cooldown,
                trace=trace,
                family=predictor._family,
            )
        self.learn = learn

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"SurpriseDetector({self.predictor!r}, {settings})"

    # -- the life of a symbol --------------------------------------------------------------

    def update(self, symbol: Any, key: Label | None = None) -> Detection:
        """Absorb one symbol or observation of a key, None if it is missing, and judge it.

        Examples
        --------
        >>> import mdvpf
        >>> detector = mdvpf.SurpriseDetector(mdvpf.Markov(2, order=0, beta=1.0))
        >>> round(detector.update(1).surprise, 3)  # both were equally likely: log 2
        0.693
        """
        self.predictor._code(symbol)
        key = read_key("key", key)
        if key is not None:
            self._check_keys()
        return self._update(symbol, key)

    def judge(
        self,
        step: Step,
        *,
        missing: bool = False,
        symbol: Any = None,
        key: Label | None = None,
        probabilities: NDArray[np.float64] | None = None,
        predictive: Predictive | None = None,
    ) -> Detection:
        """Judge a symbol that `reader` has just absorbed: the second half of `update`.

        Use it if you need the prediction before the symbol is absorbed, or the `Step`.

        Parameters
        ----------
        step : Step
            Return value of ``reader.update(symbol)``.
        missing : bool, default False
            Whether the symbol was missing.
        symbol : int, optional
            The symbol or observation; needed with a background or `false_incidents`, unless it is
            missing.
        key : label, optional
            Its key.
        probabilities : ndarray, optional
            Return value of ``reader.predict_proba(key)`` before the symbol was absorbed. With
            `false_incidents` the surprise is compared with its entropy.
        predictive : Predictive, optional
            The same for observations that are numbers: what ``reader.predictive(key)`` returned.

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
        if self.learn != "all" and not self._belief.reading:
            raise ValueError(
                f"step={step!r}: expected the return value of reader.update(symbol), but reader "
                "has not been used in this block"
            )
        if symbol is None and not missing and (self._watch or self._background):
            raise TypeError("symbol=None: expected the symbol, or missing=True")
        key = read_key("key", key)
        code = MISSING if missing else self.predictor._code(symbol)
        numbers = self._numbers(None if missing else symbol)
        if numbers is not None and symbol is not None and code == MISSING:  # NaN, for instance
            missing = True
        expected = UNKNOWN
        if probabilities is not None and self._watch is not None:
            n_seen = len(probabilities) - self.predictor.is_open
            (expected,) = self._summaries(probabilities[np.newaxis], ONE, n_seen)
        elif predictive is not None and self.wants_predictive:
            expected = summarize_numbers(predictive)
        return self._observe(
            code, key, -step.log_predictive, expected, missing=missing, numbers=numbers
        )

    def tell_time(self, time: Time) -> None:
        """Set the time of the next symbol.

        Parameters
        ----------
        time : float, datetime or datetime64
            As for `Predictor.tell_time`.

        Examples
        --------
        >>> import mdvpf
        >>> detector = mdvpf.SurpriseDetector(
        ...     mdvpf.Markov(2, order=1), false_incidents=1.0, per="day"
        ... )
        >>> detector.tell_time(1700000000.0)
        """
        self._tell_time(read_time("time", time))

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

        All input is validated first. After Ctrl-C, the predictor may have absorbed more symbols
        than the detector has judged.

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
        stream = predictor._read(symbols, lengths, keys, times, trial)
        show = validate.flag("progress", progress)
        if keys is not None:
            self._check_keys()
        if self.learn == "all" and predictor._may_reject:
            # Raise errors of the predictor now, not in the middle of the stream.
            predictor._plan(predictor._numbered(stream, predictor._table.copy()))
        try:
            with progress_bar(show, len(stream), type(self).__name__) as advance:
                return DetectionResult.of(self._run(stream, advance))
        finally:
            if trial is not None:
                self.predictor._learn_labels(trial)

    def _run(self, stream: Stream, advance: Callable[[int], None]) -> list[Detection]:
        """Absorb and judge a stream that has been validated."""
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
            rows = None if stream.observations is None else stream.observations[first:stop]
            detections += self._absorb(stream.symbols[first:stop], keys, times, rows)
            advance(stop - first)
            first = stop
        return detections

    def new_sequence(self, key: Label | None = None) -> None:
        """End the sequence of a key: its next symbol starts a new one. The current block continues.

        Examples
        --------
        >>> import mdvpf
        >>> detector = mdvpf.SurpriseDetector(mdvpf.Markov(2, order=1))
        >>> detector.new_sequence()
        """
        if read_key("key", key) is not None:
            self._check_keys()
        self._belief.new_sequence(key)
        self._end(key)

    def _expire(self, key: Label | None) -> None:
        """End the sequence of a key if there is one."""
        self._belief.expire(key)
        self._end(key)

    def feedback(self, detection: Detection, strange: bool) -> None:
        """Tell the detector whether a judgement was right.

        By default the detector treats every level as normal. Feedback that an alarm was right
        undoes its rise of the threshold. Feedback on a miss lowers the threshold by as much as a
        false alarm raises it, which allows about one more false alarm. With ``learn="unflagged"``,
        and if no symbol has been absorbed since, the predictor also forgets a block that was
        strange, or learns one that was not.

        Parameters
        ----------
        detection : Detection
            The judgement returned by `update`. Give feedback on each at most once.
        strange : bool
            Whether the symbol or block was strange.

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
        judged = math.isfinite(detection.threshold) or not math.isnan(detection.p_value)
        if math.isnan(detection.level) or not judged:
            raise ValueError(f"detection={detection!r}: expected one that was judged")
        if self._watch is None:
            self._threshold.correct(detection.alarm, strange)
        elif strange and (detection.incident is None or detection.incident.n_alarms == 1):
            # Only the first alarm of an incident has lowered the limit.
            self._watch.rule.rate.correct()
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
        return self._copied(None if self.background is None else self.background.copy())

    def _copied(self, background: Background | None) -> Self:
        """Return a copy that uses the given copy of the background."""
        belief = self._belief.copy()
        reader: Any = None
        if self._background is not None and background is not None:
            reader = BackgroundReader(background, self._background.number)
        twin = type(self)(belief.predictor, background=reader, **self.settings)
        twin._restore(self._running(), belief.other)
        twin._belief = belief
        twin._watch = None if self._watch is None else self._watch.copy()
        return twin

    def __copy__(self) -> Self:
        return self.copy()

    def explain(self, incident: Incident, n: int = 5) -> Explanation | NumberExplanation:
        """Explain an incident from its symbols, or from its numbers.

        Parameters
        ----------
        incident : Incident
            One of `incidents`, or of a `Detection`. Its symbols must still be in the trace.
        n : int, default 5
            Largest number of symbols and of transitions, or of observations, to report.

        Examples
        --------
        >>> import mdvpf
        >>> import numpy as np
        >>> detector = mdvpf.SurpriseDetector(mdvpf.Markov(8, order=1), false_incidents=1.0)
        >>> _ = detector.run(np.random.default_rng(0).integers(8, size=2000))
        >>> _ = detector.run([3] * 40)
        >>> detector.explain(detector.incidents[-1]).symbols[0].what
        3
        """
        if self._watch is None:
            raise ValueError("false_incidents=None: expected a rate; without it, there are none")
        return self._watch.explain(incident, self.predictor.vocabulary, n)

    @classmethod
    def _from_checkpoint(cls, state: checkpoint.State, given: dict[str, Any]) -> Self:
        if not {"predictor"} <= set(state.parts) <= {"predictor", "other", "background"}:
            raise checkpoint.CheckpointError(
                f"file: a detector with unexpected parts {sorted(state.parts)}"
            )
        predictor, other = state.parts["predictor"], state.parts.get("other")
        values = state.values
        background: Any = state.parts.get("background")
        if background is not None:
            checkpoint.require(isinstance(background, Background), "not a background")
            last = background.n_readers - 1
            number = validate.integer("reader", values["reader"], low=0, high=last)
            checkpoint.require(
                background._fits(predictor),
                "background and predictor with different alphabets",
            )
            background = BackgroundReader(background, number)
        detector = cls(predictor, background=background, **values["settings"])
        detector._restore(values["running"], other)
        if values.get("reading", False) and other is not None:
            detector._belief.reading = True
        family = predictor._family
        n_dims = 0 if family is None else len(channels_of(family))
        detector._belief.restore_events(values.get("events", []), predictor.n_symbols, n_dims)
        if not detector._belief.fits(detector._level.in_block):
            raise checkpoint.CheckpointError("file: the predictors of the detector do not match")
        if detector._watch is not None:
            time = detector._level.time
            detector._watch.restore(values["watch"], state.arrays, detector.n_symbols, time)
        return detector
