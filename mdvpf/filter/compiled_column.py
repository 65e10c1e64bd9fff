"""A number of a `CompiledEmission` in a product: the family has a joint density, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mdvpf.model import CompiledEmission

Floats = NDArray[np.float64]


class CompiledColumn:
    """A number of an observation that belongs to a family of the user.

    The first number of the family stands for all of them in densities.

    Parameters
    ----------
    family : CompiledEmission
        The family.
    statistics : ndarray of float64, shape (components, n_statistics)
        The statistics of the family in each component; for its other numbers, of no columns.
    """

    def __init__(self, family: CompiledEmission, statistics: Floats) -> None:
        self._parts = [(family, statistics)]  # of each member of a mixture
        self.width = family.n_dims if statistics.shape[1] else 1

    def joined(self, columns: Sequence[CompiledColumn]) -> CompiledColumn:
        """Concatenate the components of this column in several predictives, for a mixture."""
        if any(column.width != self.width for column in columns):
            self.refuse()
        found = object.__new__(CompiledColumn)
        found._parts = [part for column in columns for part in column._parts]
        found.width = self.width
        return found

    def logpdf(self, x: Floats) -> Floats:
        """Return log densities, shape (n, components); 0 where all numbers are missing."""
        found = [
            family.log_predictive(x, statistics)
            if statistics.shape[1]
            else np.zeros((len(x), len(statistics)))
            for family, statistics in self._parts
        ]
        return np.concatenate(found, axis=1)

    def refuse(self, *_: Any) -> NoReturn:
        """Raise: the functions of the family define nothing but a density."""
        raise TypeError(
            f"not available for {self._parts[0][0]!r} in a product: a CompiledEmission defines "
            "logpdf only; marginal(i) has the distributions of the other numbers"
        )

    cdf = moments = draw = refuse
    is_discrete = property(refuse)
