"""The comparison of core and reference excuses what a last bit decides, and nothing else."""

from __future__ import annotations

import math

import pytest

import mdvpf
from tests.kernel.comparing import Pair
from tests.kernel.edges import DRAWS_OR_NOT, edge_of_optimal

SYMBOLS = [0, 1, 2, 0, 1, 1, 2, 0, 0, 1]


@pytest.mark.parametrize(
    ("shares", "uniform", "edge"),
    [
        # Of three survivors; a share is heavy if it reaches the mean that is left for the others.
        ([0.5, 0.25, 0.25, 1e-30], 0.1, DRAWS_OR_NOT),  # .5/2 and .25/1: two are light, or none
        ([0.5, 0.25, 0.125, 0.125], 0.1, "heavy or light"),  # .5/2, but .125 is light
        ([0.4, 0.25, 0.2, 0.15], 0.1, None),  # .6/2: points at .03 and .33 of .25 .45 .6
        ([0.4, 0.25, 0.2, 0.15], 0.25 / 0.3, "uniform"),  # the first point is at .25
    ],
)
def test_edges_of_the_optimal_rule_by_hand(
    shares: list[float], uniform: float, edge: str | None
) -> None:
    assert edge_of_optimal([math.log(q) for q in shares], 3, lambda: uniform) == edge


def compared(algorithm: mdvpf.model.Algorithm) -> Pair:
    pair = Pair(mdvpf.InfiniteHMM(3, beta=0.3), algorithm, n_particles=5, seed=1)
    assert pair.follow(SYMBOLS) is None
    assert pair.n_synchronised == 0
    return pair


@pytest.mark.parametrize("selection", ["top", "optimal"])
@pytest.mark.parametrize("drawn_by", [0, 1], ids=["core", "reference"])
def test_a_uniform_too_many_fails(selection: str, drawn_by: int) -> None:
    pair = compared(mdvpf.MDVPA(selection=selection))
    pair.generators[drawn_by].random()
    with pytest.raises(AssertionError, match="no last bit explains it"):
        pair.update(0)


@pytest.mark.parametrize(
    "algorithm", [mdvpf.VPA(), mdvpf.MDVPA(), mdvpf.OptimalResampling()], ids=repr
)
def test_another_set_of_survivors_fails(algorithm: mdvpf.model.Algorithm) -> None:
    pair = compared(algorithm)
    pair.slow._keep(4)
    with pytest.raises(AssertionError, match="no last bit explains it"):
        pair.update(0)


def test_terms_of_the_lookahead_keep_the_rounding_of_their_logs() -> None:
    """Two scores tie at step 3, but for 1e-14 of logs of 115, times a discount of 1,000."""
    model = mdvpf.InfiniteHMM(255, alpha=1e-50, gamma=1e-50, beta=1e-50)
    algorithm = mdvpf.MDVPA(discount=1000.0, carry_weights=False)
    pair = Pair(model, algorithm, n_particles=2)
    assert pair.follow([133, 226, 253, 142]) == ("grid", "MDVPA")
