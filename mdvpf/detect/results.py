"""Return values of detectors for one symbol and for many."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mdvpf._support.shown import shown_fields
from mdvpf.detect.incidents import Incident


@dataclass(frozen=True, slots=True)
class Detection:
    """The judgement of one symbol.

    Attributes
    ----------
    time : int
        Index of the symbol in the life of the detector, from 0.
    surprise : float
        -log predictive of the symbol, in nats; 0 for a missing one. Over numbers it may be
        negative.
    level : float
        The judged surprise, in nats a symbol: smoothed, or the mean of the block that ends here.
        NaN where nothing is judged: in the middle of a block, and on missing symbols.
    score : float
        Excess of the level over its baseline, in standard deviations; NaN where nothing is judged.
    threshold : float
        An alarm needs a level above this. It is infinite in the warm-up, and with
        `false_incidents`.
    alarm : bool
        Whether there is an alarm.
    change : int or None
        Time at which a sustained rise began, if it was established at this symbol.
    ratio : float
        log p_background(y) - log p(y) of the symbol, in nats; NaN without a background.
    entropy : float
        The entropy of the prediction, in nats; NaN where it was not computed. Over numbers it is
        the mean entropy of the states, which may be negative.
    p_value : float
        With `false_incidents`, at the end of a block: the probability of a block at least as
        strange, if nothing has changed. Else NaN.
    side : str or None
        On which side the block is the strangest: "surprising", "predictable", "repetitive" or
        "looping".
    incident : Incident or None
        For an alarm: its incident, up to this symbol.

    Examples
    --------
    >>> import mdvpf
    >>> detector = mdvpf.SurpriseDetector(mdvpf.Markov(2, order=1))
    >>> detector.update(0).alarm
    False
    """

    time: int
    surprise: float
    level: float
    score: float
    threshold: float
    alarm: bool
    change: int | None
    ratio: float = math.nan
    entropy: float = math.nan
    p_value: float = math.nan
    side: str | None = None
    incident: Incident | None = None


@dataclass(frozen=True, slots=True, eq=False)
class DetectionResult:
    """The judgements of many symbols: the fields of `Detection`, as arrays.

    Attributes
    ----------
    time : ndarray of int64
    surprise, level, score, threshold : ndarray of float64
    alarm : ndarray of bool
    change : ndarray of int64
        -1 where no rise was established.
    ratio, entropy, p_value : ndarray of float64
    side : ndarray of object
    incident : ndarray of object

    Examples
    --------
    >>> import mdvpf
    >>> detector = mdvpf.SurpriseDetector(mdvpf.Markov(2, order=1))
    >>> len(detector.run([0, 1, 0, 1]))
    4
    """

    time: NDArray[np.int64]
    surprise: NDArray[np.float64]
    level: NDArray[np.float64]
    score: NDArray[np.float64]
    threshold: NDArray[np.float64]
    alarm: NDArray[np.bool_]
    change: NDArray[np.int64]
    ratio: NDArray[np.float64]
    entropy: NDArray[np.float64]
    p_value: NDArray[np.float64]
    side: NDArray[np.object_]
    incident: NDArray[np.object_]

    def __repr__(self) -> str:
        return shown_fields(self)

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, i: int) -> Detection:
        """Return the judgement of symbol i, for example to pass it to `feedback`."""
        change = int(self.change[i])
        return Detection(
            int(self.time[i]),
            float(self.surprise[i]),
            float(self.level[i]),
            float(self.score[i]),
            float(self.threshold[i]),
            bool(self.alarm[i]),
            None if change < 0 else change,
            _float(self.ratio[i]),
            _float(self.entropy[i]),
            _float(self.p_value[i]),
            self.side[i],
            self.incident[i],
        )

    @property
    def change_points(self) -> NDArray[np.int64]:
        """Times at which the sustained rises began."""
        return self.change[self.change >= 0]

    @property
    def incidents(self) -> list[Incident]:
        """The incidents of these symbols' alarms, up to the last of these alarms.

        Examples
        --------
        >>> import mdvpf
        >>> detector = mdvpf.SurpriseDetector(mdvpf.Markov(2, order=1), false_incidents=1.0)
        >>> detector.run([0, 1] * 300).incidents
        []
        """
        found = {each.number: each for each in self.incident if each is not None}
        return list(found.values())

    @classmethod
    def of(cls, detections: list[Detection]) -> Self:
        """Return detections as arrays."""
        return cls(
            np.array([each.time for each in detections], dtype=np.int64),
            np.array([each.surprise for each in detections]),
            np.array([each.level for each in detections]),
            np.array([each.score for each in detections]),
            np.array([each.threshold for each in detections]),
            np.array([each.alarm for each in detections], dtype=np.bool_),
            np.array([-1 if each.change is None else each.change for each in detections]),
            np.array([each.ratio for each in detections]),
            np.array([each.entropy for each in detections]),
            np.array([each.p_value for each in detections]),
            _objects([each.side for each in detections]),
            _objects([each.incident for each in detections]),
        )


def _float(number: np.float64) -> float:
    """Return a float; every NaN is the same object, so that tuples with NaN can be equal."""
    return math.nan if np.isnan(number) else float(number)


def _objects(things: list[Any]) -> NDArray[np.object_]:
    found = np.empty(len(things), dtype=np.object_)
    found[:] = things
    return found
