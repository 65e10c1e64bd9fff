"""The configuration of the five filters.

All filters keep at most K particles. All but SMC extend each particle by every possible next state
and differ in which of these candidates survive: MDVPA and VPA keep the best, OptimalResampling
keeps the best and draws among the rest, ParticleLearning draws among all. SMC draws a state for
each particle before it uses the symbol.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf._support.shown import shown_fields

Normalizer = Literal["geometric", "sum", "none"]
Selection = Literal["top", "optimal"]
Resampling = Literal["multinomial", "stratified", "systematic", "residual"]
Discount = str | float | Sequence[float] | Callable[[int], float]

NORMALIZERS: tuple[Normalizer, ...] = ("geometric", "sum", "none")
SELECTIONS: tuple[Selection, ...] = ("top", "optimal")
RESAMPLINGS: tuple[Resampling, ...] = ("multinomial", "stratified", "systematic", "residual")

NAMED_DISCOUNTS = ("1/n", "1/sqrt(n)")

_LARGEST_DISCOUNT = 1e290  # keeps scores and their selection keys finite
_LARGEST_STEP = 2**62


def _discount_value(name: str, value: Any, also: str = "") -> float:
    return validate.real(name, value, low=0.0, high=_LARGEST_DISCOUNT, also=also)


@dataclass(frozen=True, slots=True)
class MDVPA:
    """Mirror-descent variational particle filtering (MD-VPA): the paper's filter.

    The score of a candidate has two terms. The first is how well it explains the present symbol.
    The second, multiplied by the discount, is how well it explains the next symbol, relative to
    the other candidates with the same state. A step is therefore completed only when the next
    symbol arrives. Until then the filter shows the particles that VPA would keep, and predicts
    from them.

    Parameters
    ----------
    discount : {"1/n", "1/sqrt(n)"}, float, callable or sequence, default "1/n"
        The weight of the look-ahead in step n = 1, 2, ... over the life of the filter. A
        callable takes n; a sequence holds the values for n = 1, 2, ... and needs one for each
        step.
    normalizer : {"geometric", "sum", "none"}, default "geometric"
        What is subtracted from the log look-ahead of a candidate. "geometric": the mean of the logs
        over all candidates with the same state. "sum": 1/K times the log of their sum (Algorithm 1
        as printed). "none": nothing.
    carry_weights : bool, default True
        Whether scores include the weight of the parent. False ignores how well a particle
        predicted before; it does far worse, and exists for comparison.
    selection : {"top", "optimal"}, default "top"
        How the survivors of a completed step are chosen: the K best, or by the rule of
        `OptimalResampling`.

    Examples
    --------
    >>> import mdvpf
    >>> mdvpf.MDVPA(discount=[0.5, 0.25], normalizer="none")
    MDVPA(discount=(0.5, 0.25), normalizer='none', carry_weights=True, selection='top')
    """

    discount: Discount = "1/n"
    normalizer: Normalizer = "geometric"
    carry_weights: bool = True
    selection: Selection = "top"

    def __repr__(self) -> str:
        return shown_fields(self)

    def __post_init__(self) -> None:
        object.__setattr__(self, "discount", _checked_discount(self.discount))
        validate.choice("normalizer", self.normalizer, NORMALIZERS)
        object.__setattr__(
            self, "carry_weights", validate.flag("carry_weights", self.carry_weights)
        )
        validate.choice("selection", self.selection, SELECTIONS)

    def discounts(self, steps: Iterable[int]) -> NDArray[np.float64]:
        """Return the discount of each of the given steps, counted from 1.

        Examples
        --------
        >>> import mdvpf
        >>> mdvpf.MDVPA(discount="1/n").discounts([1, 2, 4]).tolist()
        [1.0, 0.5, 0.25]
        """
        n = validate.integers("steps", steps, low=1, high=_LARGEST_STEP)
        if self.discount == "1/n":
            return 1.0 / n
        if self.discount == "1/sqrt(n)":
            return 1.0 / np.sqrt(n)
        return np.array([self.discount_at(i) for i in n.tolist()], dtype=np.float64)

    def discount_at(self, step: int) -> float:
        """Return the discount of one step, counted from 1.

        Examples
        --------
        >>> import mdvpf
        >>> mdvpf.MDVPA(discount="1/sqrt(n)").discount_at(4)
        0.5
        """
        if type(step) is not int or step < 1:  # fast path: this runs for every symbol
            step = validate.integer("step", step, low=1, high=_LARGEST_STEP)
        discount = self.discount
        if isinstance(discount, str):
            return 1.0 / step if discount == "1/n" else 1.0 / math.sqrt(step)
        if isinstance(discount, float):
            return discount
        if callable(discount):
            return _discount_value(f"discount({step})", discount(step))
        if step > len(discount):
            raise ValueError(
                f"discount has {len(discount)} values: expected one for every step, "
                f"and this is step {step}"
            )
        return discount[step - 1]


def _checked_discount(discount: Any) -> Discount:
    if isinstance(discount, str):
        return validate.choice(
            "discount", discount, NAMED_DISCOUNTS, also=", a number, a callable or a sequence"
        )
    if callable(discount):
        checked: Callable[[int], float] = discount
        return checked
    is_array = isinstance(discount, np.ndarray) and discount.ndim > 0
    if is_array or (isinstance(discount, Sequence) and not isinstance(discount, bytes)):
        return tuple(_discount_value(f"discount[{i}]", value) for i, value in enumerate(discount))
    return _discount_value("discount", discount, ", a name, a callable or a sequence")


@dataclass(frozen=True, slots=True)
class VPA:
    """Variational particle approximation: keep the K candidates with the largest weight.

    Parameters
    ----------
    carry_weights : bool, default True
        Whether scores include the weight of the parent.

    Examples
    --------
    >>> import mdvpf
    >>> mdvpf.VPA()
    VPA(carry_weights=True)
    """

    carry_weights: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "carry_weights", validate.flag("carry_weights", self.carry_weights)
        )


@dataclass(frozen=True, slots=True)
class SMC:
    """Bootstrap filter: draw a state from the transition, weight it by the emission, resample.

    Parameters
    ----------
    resampling : {"multinomial", "stratified", "systematic", "residual"}, default "multinomial"
        How particles are drawn in proportion to their weights.
    ess_threshold : float, optional
        Resample only if the effective sample size is below this share of K. None, the default,
        and 1 resample at every step.

    Examples
    --------
    >>> import mdvpf
    >>> mdvpf.SMC(resampling="systematic", ess_threshold=0.5)
    SMC(resampling='systematic', ess_threshold=0.5)
    """

    resampling: Resampling = "multinomial"
    ess_threshold: float | None = None

    def __post_init__(self) -> None:
        validate.choice("resampling", self.resampling, RESAMPLINGS)
        if self.ess_threshold is not None:
            threshold = validate.real(
                "ess_threshold", self.ess_threshold, low=0.0, high=1.0, also=", or None"
            )
            object.__setattr__(self, "ess_threshold", threshold)


@dataclass(frozen=True, slots=True)
class ParticleLearning:
    """Fully adapted filter: draw parents by how well they predicted the symbol, then states.

    Examples
    --------
    >>> import mdvpf
    >>> mdvpf.ParticleLearning()
    ParticleLearning()
    """


@dataclass(frozen=True, slots=True)
class OptimalResampling:
    """Keep the heavy candidates with their weights, and draw among the light ones without bias.

    The rule of Fearnhead and Clifford (2003). Among all unbiased rules that reduce a weighted set
    of distinct candidates to K, it has the least expected squared error of the weights.

    Examples
    --------
    >>> import mdvpf
    >>> mdvpf.OptimalResampling()
    OptimalResampling()
    """


Algorithm = MDVPA | VPA | SMC | ParticleLearning | OptimalResampling

# In the order of `AlgorithmKind` in `_kernel/constants.pxd`.
ALGORITHMS = (MDVPA, VPA, SMC, ParticleLearning, OptimalResampling)

# The page of the documentation about user-defined rules.
OWN_RULE_PAGE = "docs/howto/own-rule.md"

# Filters that may hold a path more than once. They start from K copies and always have K particles.
DUPLICATING = (SMC, ParticleLearning)
