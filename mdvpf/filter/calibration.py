"""Calibration of filters over numbers: probability integral transforms.

The distribution function of a prediction, at the number that then came, is uniform on [0, 1] if the
predictions are calibrated. Counts and symbols have jumps there: a random point of the jump is
taken, which makes the transforms of a calibrated filter uniform too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf.filter.particle_filter import ParticleFilter
from mdvpf.model import read_observations


def integral_transforms(pf: ParticleFilter, symbols: Any, *, rng: Any = None) -> NDArray[Any]:
    """Run a filter over observations; return the integral transform of each before it was used.

    Parameters
    ----------
    pf : ParticleFilter
        A filter over numbers. It absorbs the observations, as in `run`.
    symbols : sequence
        The observations, as `run` takes them.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed or generator of the points within the jumps of counts and symbols.

    Returns
    -------
    ndarray of float64, shape (n,), or (n, n_dims) if an observation has several numbers
        NaN where a number is missing.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.filter.calibration import integral_transforms
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=mdvpf.Gaussian()), n_particles=5)
    >>> integral_transforms(pf, [0.0, None, 1e9]).round(3).tolist()
    [0.5, nan, 1.0]
    """
    if not isinstance(pf, ParticleFilter):
        raise TypeError(f"pf={pf!r}: expected a ParticleFilter")
    family = pf.model.numbers
    if family is None:
        raise TypeError(f"pf={pf!r}: expected a filter over numbers")
    generator = validate.generator("rng", rng)
    rows = read_observations(family, symbols)
    pf.predictive().marginal(0)  # raises for a family that is a density alone
    found = np.full(rows.shape, np.nan)
    for row, out in zip(rows, found, strict=True):
        expected = pf.predictive()
        for i in np.flatnonzero(~np.isnan(row)).tolist():
            part = expected.marginal(i)
            out[i] = part.cdf(row[i])
            if part.is_discrete:
                below = float(part.cdf(row[i] - 1.0))
                out[i] = below + generator.random() * (out[i] - below)
        pf._update_numbers(row, None)
    return found[:, 0] if rows.shape[1] == 1 else found
