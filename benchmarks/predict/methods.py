"""The predictors that are compared. A method makes a new predictor for an alphabet.

PPMd is a compressor: it has a code length for a stream and no predictions. Where a method has a
grid, the table shows the setting that is best on the very streams of the table, in hindsight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import mdvpf
from mdvpf.model.algorithms import Algorithm

Make = Callable[[int], mdvpf.Predictor]

TREE_DEPTHS = range(9)
TREE_DISCOUNTS = (0.35, 0.5, 0.65, 0.8, 0.9)
PPMD_ORDERS = range(2, 9)
N_PARTICLES = 1000  # of the filters of the paper
BUDGETS = ("fast", "default", "best")


@dataclass(frozen=True)
class Method:
    """A predictor, or a grid of them of which the best in hindsight counts.

    Attributes
    ----------
    makes : dict of str to callable
        By setting, what makes a predictor; one entry named "" if there is no grid.
    is_peer : bool
        Whether `auto` is to be ahead of it.
    is_auto : bool
        Whether it is `auto` as it is now: kept runs of older code are not valid.
    """

    label: str
    makes: dict[str, Make]
    is_peer: bool = False
    is_auto: bool = False


def markov_mixture(n_symbols: int) -> mdvpf.Mixture:
    """Return the mixture of 60 chains of the first comparison."""
    return mdvpf.Mixture(
        [
            mdvpf.Markov(n_symbols, order=order, beta=beta, decay=decay)
            for order, beta, decay in product(
                (0, 1, 2), (1, 0.3, 0.1, 0.03, 0.01), (1, 0.999, 0.99, 0.95)
            )
        ],
        share=0.01,
    )


def _filter(algorithm: Algorithm) -> Make:
    def make(n_symbols: int) -> mdvpf.Predictor:
        model = mdvpf.InfiniteHMM(n_symbols)
        return mdvpf.ParticleFilter(model, algorithm, N_PARTICLES, rng=0)

    return make


def _trees() -> dict[str, Make]:
    return {
        f"{depth}, {discount}": lambda n, depth=depth, discount=discount: mdvpf.PitmanYorTree(
            n, depth=depth, discount=discount
        )
        for depth, discount in product(TREE_DEPTHS, TREE_DISCOUNTS)
    }


def first_auto(n_symbols: int) -> mdvpf.Predictor:
    """Return `auto` of version 0.1."""
    return mdvpf.auto(n_symbols, version=1, rng=0)


def _autos() -> list[Method]:
    return [
        Method(
            f"auto, {budget}",
            {"": lambda n, budget=budget: mdvpf.auto(n, budget=budget, rng=0)},
            is_auto=True,
        )
        for budget in BUDGETS
    ]


def _one(label: str, make: Make, *, is_peer: bool = False) -> Method:
    return Method(label, {"": make}, is_peer)


PPMD = "PPMd"
METHODS = {
    each.label: each
    for each in (
        _one("Markov mixture", markov_mixture, is_peer=True),
        *(
            _one(
                f"ContextTree {depth}",
                lambda n, depth=depth: mdvpf.ContextTree(n, depth=depth),
                is_peer=True,
            )
            for depth in (1, 2, 3, 4)
        ),
        Method("PitmanYorTree", _trees(), is_peer=True),
        _one("PitmanYorMixture", mdvpf.PitmanYorMixture),
        _one("PitmanYorMixture, share", lambda n: mdvpf.PitmanYorMixture(n, share=0.001)),
        _one("by_evidence", lambda n: mdvpf.by_evidence(n, rng=0)),
        _one("SMC", _filter(mdvpf.SMC())),
        _one("VPA", _filter(mdvpf.VPA())),
        _one("MD-VPA", _filter(mdvpf.MDVPA())),
        _one("auto 0.1", first_auto, is_peer=True),
        *_autos(),
    )
}
NAMES = (*METHODS, PPMD)


def ppmd_bits(content: bytes) -> dict[int, int] | None:
    """Return the bits of the compressed content by order; None if pyppmd is not installed."""
    try:
        import pyppmd
    except ImportError:
        return None
    return {order: 8 * len(pyppmd.compress(content, max_order=order)) for order in PPMD_ORDERS}
