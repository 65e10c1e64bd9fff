"""Calibration of filters over numbers: probability integral transforms.

The transform of an observation is the distribution function of its prediction at the observation.
If predictions are calibrated, transforms are uniform on [0, 1]. The distribution function of counts
and symbols has jumps; a uniform draw within the jump keeps the transforms uniform.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf.filter.particle_filter import ParticleFilter
from mdvpf.filter.uniforms import restored_on_error
from mdvpf.model import read_observations


def integral_transforms(pf: ParticleFilter, symbols: Any, *, rng: Any = None) -> NDArray[Any]:
    """Run a filter over observations and return their probability integral transforms.

    Parameters
    ----------
    pf : ParticleFilter
        A filter over numbers. It absorbs the observations, as in `run`; each transform uses the
        prediction before the observation is absorbed.
    symbols : sequence
        The observations, in the form that `run` accepts.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed or generator of the draws within the jumps of counts and symbols.

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
    found = np.full(rows.shape, np.nan)
    ahead = pf.copy()  # if a distribution cannot be computed, the filter stays as it was
    with restored_on_error(generator):
        for row, out in zip(rows, found, strict=True):
            expected = ahead.predictive()
            for i in np.flatnonzero(~np.isnan(row)).tolist():
                part = expected.marginal(i)
                out[i] = part.cdf(row[i])
                if part.is_discrete:
                    below = float(part.cdf(row[i] - 1.0))
                    out[i] = below + generator.random() * (out[i] - below)
            ahead._update_numbers(row, None)
    pf.run(symbols)
    return found[:, 0] if rows.shape[1] == 1 else found
