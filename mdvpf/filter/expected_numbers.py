"""What a predictive over numbers expects: its surprise, and a value for each number.

The entropy of a mixture has no closed form. `expected_numbers` returns the mean entropy of the
components, that is, the surprise that is left once the state is known. It is the entropy less the
part that comes from not knowing the state. It is exact for Student's t and for categorical numbers.
For counts it is a formula in their variance that is at most 0.1 nats off for a Poisson distribution
and up to 0.4 nats too large for a state of few observations.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mdvpf.filter.number_column import Column
from mdvpf.filter.predictive import Predictive
from mdvpf.model.number_families import CATEGORICAL, GAUSSIAN

Floats = NDArray[np.float64]

_SHIFT = 8  # the series below are exact to about 1e-11 from this number on


class ExpectedNumbers(NamedTuple):
    """What a predictive distribution expects.

    Attributes
    ----------
    entropy : float
        The expected surprise once the state is known, in nats; a differential entropy if some
        number is real, so it may be negative.
    values : tuple of float
        For each number, the mean of the locations of the components (of a count: the mean). For a
        categorical number its likeliest symbol.
    """

    entropy: float
    values: tuple[float, ...]


def expected_numbers(predictive: Predictive) -> ExpectedNumbers:
    """Return what a predictive over numbers expects; only built-in families have this summary.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.filter.expected_numbers import expected_numbers
    >>> family = mdvpf.Product(mdvpf.Gaussian(mean=3.0), mdvpf.Categorical(2))
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family), n_particles=5)
    >>> found = expected_numbers(pf.predictive())
    >>> found.values, round(found.entropy, 3)
    ((3.0, 0.0), 3.0)
    """
    weights = predictive._raw
    columns = [column for column in predictive._columns if isinstance(column, Column)]
    if len(columns) < len(predictive._columns):
        raise TypeError(f"predictive={predictive!r}: expected one of built-in families")
    # Sums that are rounded once do not depend on the order of the components.
    total = math.fsum(weights.tolist())
    real = [column for column in columns if column.channel.kind == GAUSSIAN]
    each = np.zeros(len(weights))  # the entropy of each component
    if real:  # all at once, as there may be many
        df, scale = (np.concatenate([getattr(c, name) for c in real]) for name in ("df", "scale"))
        each += _student_entropy(df, scale).reshape(len(real), -1).sum(axis=0)
    values = []
    for column in columns:
        if column.channel.kind == CATEGORICAL:
            logs = np.log(np.where(column.table > 0.0, column.table, 1.0))
            each -= (column.table * logs).sum(axis=1)
            masses = (weights[:, np.newaxis] * column.table).T.tolist()
            values.append(float(np.argmax([math.fsum(mass) for mass in masses])))
            continue
        centre = column.loc if column.channel.kind == GAUSSIAN else column.moments()[0]
        if column.channel.kind != GAUSSIAN:
            each += _count_entropy(column.moments()[1])
        values.append(math.fsum((weights * centre).tolist()) / total)
    return ExpectedNumbers(math.fsum((weights * each).tolist()) / total, tuple(values))


def _count_entropy(variance: Floats) -> Floats:
    """Return approximate entropies of counts; at large variances, those of normal distributions.

    The factor was fitted to Poisson distributions; 1 makes the entropy of a count of 0 zero.
    """
    factor = (variance + 0.275) / (variance + 0.5)
    found: Floats = 0.5 * np.log1p(2.0 * math.pi * math.e * variance * factor)
    return found


def _student_entropy(df: Floats, scale: Floats) -> Floats:
    """Return the differential entropies of Student's t distributions."""
    half = df / 2.0
    log_ratio, slope = _gamma_ratio(half)
    found: Floats = (half + 0.5) * slope - log_ratio
    return found + 0.5 * np.log(math.pi * df) + np.log(scale)


def _gamma_ratio(x: Floats) -> tuple[Floats, Floats]:
    """Return log(Gamma(x + 1/2) / Gamma(x)) and its derivative, from their asymptotic series."""
    steps = x[:, np.newaxis] + np.arange(_SHIFT)
    far = x + _SHIFT
    inverse = 1.0 / far
    square = inverse * inverse
    log_ratio = 0.5 * np.log(far) - inverse * (
        1 / 8 - square * (1 / 192 - square * (1 / 640 - square * (17 / 14336)))
    )
    slope = 0.5 * inverse + square * (
        1 / 8 - square * (1 / 64 - square * (1 / 128 - square * (17 / 2048)))
    )
    log_ratio = log_ratio - np.log1p(0.5 / steps).sum(axis=1)
    slope = slope + (0.5 / (steps * (steps + 0.5))).sum(axis=1)
    return log_ratio, slope
