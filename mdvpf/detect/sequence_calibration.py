"""P-values of the mean and of the worst window of a sequence, given its length.

`expected_p_value` computes them from the predictions themselves, `UsualSequences` from a reference
of normal sequences. Both convert the two statistics to tail probabilities given the length, and
combine these in the same way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TILTS = 0.01 * 1.4 ** np.arange(18)  # arguments of the cumulant generating functions

_SMALLEST = 1e-300  # the smallest p-value
_FEWEST = 20  # fewest reference sequences for p-values by rank
_SHORTEST_PIECE = 10  # symbols
_MOST_PIECES = 256  # most pieces of one length from a sequence
_ROUNDS = 4  # rounds of reweighted least squares
_NORMAL = NormalDist()


def normal_tail(z: float) -> float:
    """Return the probability that a normal variable is at least z.

    Examples
    --------
    >>> from mdvpf.detect.sequence_calibration import normal_tail
    >>> normal_tail(0.0)
    0.5
    """
    return max(_SMALLEST, 0.5 * math.erfc(z / math.sqrt(2.0)))


def maximum_tail(tail: float, length: int, window: int, clumping: float = 1.0) -> float:
    """Return the tail probability of the worst of all windows, given that of a single window.

    Overlapping windows exceed a level together, in clumps. The number of clumps is nearly Poisson.
    Its rate is that for moving sums of normal variables (Siegmund 1985), times `clumping`.

    Examples
    --------
    >>> from mdvpf.detect.sequence_calibration import maximum_tail
    >>> maximum_tail(0.001, 20, 20), round(maximum_tail(0.001, 1020, 20), 3)
    (0.001, 0.256)
    """
    rate = clumping * max(0, length - window) * _clump_rate(tail, window)
    tail = min(tail, 1.0 - 1e-15)
    return max(_SMALLEST, -math.expm1(math.log1p(-tail) - rate))


def _clump_rate(tail: float, window: int) -> float:
    # The formula holds for large z; below 1 the rate would decrease again.
    z = max(1.0, -_NORMAL.inv_cdf(min(max(tail, _SMALLEST), 0.5)))
    density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return z * density * math.exp(-0.583 * z * math.sqrt(2.0 / window)) / window


def combined_tail(length: int, window: int, of_mean: float, of_worst: float) -> float:
    """Return the tail probability of the smaller of the p-values of mean and worst window.

    In sequences up to the length of a window both are the same test. In long sequences they are
    nearly independent tests.

    Examples
    --------
    >>> from mdvpf.detect.sequence_calibration import combined_tail
    >>> combined_tail(20, 20, 0.01, 0.5), round(combined_tail(10**6, 20, 0.01, 0.5), 4)
    (0.01, 0.0199)
    """
    if length <= window:
        return of_mean
    n_tests = 2.0 - window / length
    smaller = min(of_mean, of_worst, 1.0 - 1e-15)
    return max(_SMALLEST, -math.expm1(n_tests * math.log1p(-smaller)))


def window_sums(values: NDArray[np.floating], window: int) -> Floats:
    """Return the sums of all windows along the first axis; a shorter array is one window.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.detect.sequence_calibration import window_sums
    >>> window_sums(np.array([1.0, 2.0, 4.0]), 2).tolist()
    [3.0, 6.0]
    """
    total = np.cumsum(values, axis=0, dtype=np.float64)
    width = min(window, len(values))
    sums: Floats = total[width - 1 :].copy()
    sums[1:] -= total[:-width]
    return sums


def worst_mean(values: Floats, window: int) -> tuple[float, int]:
    """Return the largest mean of a window, and the start of that window.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.detect.sequence_calibration import worst_mean
    >>> worst_mean(np.array([1.0, 2.0, 4.0]), 2)
    (3.0, 1)
    """
    means = window_sums(values, window) / min(window, len(values))
    start = int(np.argmax(means))
    return float(means[start]), start


# -- without reference sequences ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Moments of the values of symbols under the predictions.

    Attributes
    ----------
    expected, variance : ndarray
        Mean and variance of each value.
    cumulant : ndarray of shape (n, n_tilts)
        log E exp(tilt * value), for each of `TILTS`.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.detect.sequence_calibration import TILTS, Moments
    >>> Moments(np.zeros(3), np.ones(3), np.tile(TILTS**2 / 2, (3, 1)))[:2].expected.tolist()
    [0.0, 0.0]
    """

    expected: Floats
    variance: Floats
    cumulant: NDArray[np.floating]

    def __getitem__(self, places: slice | NDArray[np.int64]) -> Moments:
        """Return the moments of some of the symbols."""
        return Moments(self.expected[places], self.variance[places], self.cumulant[places])


def expected_p_value(values: Floats, moments: Moments, window: int) -> tuple[float, float]:
    """Return score and p-value of a sequence from the predicted moments.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.detect.sequence_calibration import TILTS, Moments, expected_p_value
    >>> normal = Moments(np.zeros(16), np.ones(16), np.tile(TILTS**2 / 2, (16, 1)))
    >>> score, p_value = expected_p_value(np.full(16, 0.5), normal, window=20)
    >>> score, round(p_value, 2)
    (2.0, 0.02)
    """
    n = len(values)
    scores, roots = _signed_roots(values, moments, n)
    _, by_window = _signed_roots(values, moments, window)
    of_worst = maximum_tail(normal_tail(float(by_window.max())), n, window)
    return float(scores[0]), combined_tail(n, window, normal_tail(float(roots[0])), of_worst)


def _signed_roots(values: Floats, moments: Moments, window: int) -> tuple[Floats, Floats]:
    """Return the excess of each window in standard deviations, and its signed root statistic.

    The signed root statistic is the square root of twice the rate function, which is the supremum
    of tilt * sum - cumulant over all tilts. It is nearly normal, and for normal values it equals
    the excess. The excess itself is used below the expected sum, and where the best tilt is the
    smallest of `TILTS`.
    """
    excess = window_sums(values - moments.expected, window)
    deviation = np.sqrt(window_sums(moments.variance, window))
    nothing = deviation < 1e-9  # the predictor was certain
    scores = np.where(nothing, 0.0, excess / np.where(nothing, 1.0, deviation))
    centred = window_sums(moments.cumulant - moments.expected[:, None] * TILTS, window)
    rates = excess[:, None] * TILTS - centred
    best = rates.argmax(axis=1)
    roots = np.sqrt(np.maximum(2.0 * rates.max(axis=1), 0.0))
    normal = (excess <= 0.0) | (best == 0)
    return scores, np.where(normal, scores, roots)


# -- with reference sequences ------------------------------------------------------------------


class UsualSequences:
    """Mean and worst window of normal reference sequences, as functions of the length.

    The mean of n symbols has the expectation ``mu + c / n``, the variance ``a + b / n`` and the
    third central moment ``k / n**2``. These are fitted by least squares to the sequences and to
    their halves, quarters and so on.

    Parameters
    ----------
    sequences : list of ndarray
        The values of the symbols of each sequence. No sequence is empty.
    window : int
        Length of the windows.

    Examples
    --------
    >>> import numpy as np
    >>> from mdvpf.detect.sequence_calibration import UsualSequences
    >>> rng = np.random.default_rng(0)
    >>> usual = UsualSequences([rng.exponential(size=n) for n in range(10, 410)], window=20)
    >>> abs(usual.score(100, 1.2) - 2.0) < 0.3
    True
    >>> usual.p_value(100, 1.0, 1.5) > 0.1, usual.p_value(100, 2.0, 4.0) < 0.01
    (True, True)
    """

    def __init__(self, sequences: list[Floats], window: int) -> None:
        self.window = window
        self._fit(sequences)
        windows = [
            np.sort(window_sums(each, window)) / window for each in sequences if len(each) > window
        ]
        self._windows = np.sort(np.concatenate(windows)) if windows else np.empty(0)
        self._clumping = 1.0
        worst, tails = [], []
        remaining = iter(windows)
        for each in sequences:
            own = next(remaining) if len(each) > window else None
            worst.append(worst_mean(each, window)[0])
            # Leave out its own windows, because the reference has no windows of a new sequence.
            tails.append(self._window_tail(worst[-1], own))
        exposed = sum(
            (len(each) - window) * _clump_rate(tail, window)
            for each, tail in zip(sequences, tails, strict=True)
            if len(each) > window
        )
        if len(windows) >= _FEWEST and exposed > 0.0:
            self._clumping = float(np.clip(len(windows) / exposed, 0.02, 20.0))
        self._ranked = np.sort(
            [
                self._combined(len(each), float(each.mean()), tail)
                for each, tail in zip(sequences, tails, strict=True)
            ]
        )

    def score(self, length: int, mean: float) -> float:
        """Return the excess of a mean over its expectation at this length, in deviations."""
        return float((mean - self._mu - self._start / length) / math.sqrt(self._variance(length)))

    def p_value(self, length: int, mean: float, worst: float) -> float:
        """Return the probability that a normal sequence of this length is at least as strange."""
        combined = self._combined(length, mean, self._window_tail(worst))
        if len(self._ranked) < _FEWEST:
            return combined
        n_stranger = int(np.searchsorted(self._ranked, combined, side="right"))
        return (1 + n_stranger) / (1 + len(self._ranked))

    def _combined(self, length: int, mean: float, window_tail: float) -> float:
        of_mean = normal_tail(self._normal_score(length, self.score(length, mean)))
        of_worst = maximum_tail(window_tail, length, self.window, self._clumping)
        return combined_tail(length, self.window, of_mean, of_worst)

    def _window_tail(self, worst: float, own: Floats | None = None) -> float:
        """Return the share of reference windows whose mean is at least `worst`."""
        if len(self._windows) == 0:
            return normal_tail(self._normal_score(self.window, self.score(self.window, worst)))
        n, n_worse = len(self._windows), _n_at_least(self._windows, worst)
        if own is not None and len(own) < n:
            n, n_worse = n - len(own), n_worse - _n_at_least(own, worst)
        return (1 + n_worse) / (1 + n)

    def _normal_score(self, length: int, score: float) -> float:
        """Return the normal score with the tail probability of a gamma-distributed `score`.

        By Wilson and Hilferty (1931), for a gamma variable of the fitted skewness.
        """
        skewness = self._third / (length**2 * self._variance(length) ** 1.5)
        if skewness < 0.01:
            return score
        half = min(skewness, 2.0) / 2.0  # 1 / root of the shape of the gamma variable
        root = math.cbrt(max(0.0, 1.0 + score * half))
        return float(3.0 / half * (root - 1.0 + half * half / 9.0))

    def _variance(self, length: int) -> float:
        return float(self._between + self._within / length)

    def _fit(self, sequences: list[Floats]) -> None:
        length, mean, first, weight = _pieces(sequences)
        same_length = float(np.ptp(length)) < 0.1 * float(length.mean())
        start = first / length
        has_start = float(np.ptp(start)) > 0.1 * float(start.mean()) and not same_length
        variance = 1.0 / length
        self._start = self._between = 0.0
        for _ in range(_ROUNDS):
            trust = weight / variance
            columns = [np.ones(len(mean)), start] if has_start else [np.ones(len(mean))]
            found = _least_squares(columns, mean, trust)
            self._mu = found[0]
            self._start = found[1] if has_start else 0.0
            rest = mean - self._mu - self._start * start
            trust = weight / variance**2
            if same_length:
                self._within = _least_squares([1.0 / length], rest**2, trust)[0]
            else:
                columns = [np.ones(len(mean)), 1.0 / length]
                self._between, self._within = _least_squares(columns, rest**2, trust)
                if self._between < 0.0:
                    self._between = 0.0
                    self._within = _least_squares(columns[1:], rest**2, trust)[0]
                elif self._within < 0.0:
                    self._within = 0.0
                    self._between = _least_squares(columns[:1], rest**2, trust)[0]
            # The variance is zero if all values are equal.
            self._within = max(self._within, 1e-12)
            variance = self._between + self._within / length
        self._third = float(np.average(rest**3 * length**2, weights=weight / length))


def _n_at_least(ordered: Floats, value: float) -> int:
    return len(ordered) - int(np.searchsorted(ordered, value - 1e-9))  # sums are rounded


def _pieces(sequences: list[Floats]) -> tuple[Floats, Floats, Floats, Floats]:
    """Return lengths, means, starts and weights of the sequences, their halves, quarters and so on.

    `starts` is 1 for the first piece of a sequence, else 0. Pieces of one length of a sequence
    have a total weight of 1.
    """
    rows: list[Floats] = []
    for values in sequences:
        n_pieces = 1
        while n_pieces == 1 or (
            len(values) // n_pieces >= _SHORTEST_PIECE and n_pieces <= _MOST_PIECES
        ):
            size = len(values) // n_pieces
            means = values[: size * n_pieces].reshape(n_pieces, size).mean(axis=1)
            first = np.arange(n_pieces) == 0
            rows.append(
                np.stack(
                    [
                        np.full(n_pieces, float(size)),
                        means,
                        first.astype(np.float64),
                        np.full(n_pieces, 1.0 / n_pieces),
                    ]
                )
            )
            n_pieces *= 2
    length, mean, first_, weight = np.concatenate(rows, axis=1)
    return length, mean, first_, weight


def _least_squares(columns: list[Floats], values: Floats, trust: Floats) -> list[float]:
    """Return the coefficients of a weighted least squares fit."""
    root = np.sqrt(trust / trust.max())
    design = np.stack(columns, axis=1) * root[:, None]
    return [float(c) for c in np.linalg.lstsq(design, values * root, rcond=None)[0]]
