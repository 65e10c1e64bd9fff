"""A user's own predictor with a wrong return value raises an error at the first symbol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pytest
from numpy.typing import NDArray

import mdvpf


class Coin(mdvpf.Predictor):
    """A fair coin whose `update` returns a given value."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    @property
    def n_symbols(self) -> int:
        return 2

    def predict_proba(self) -> NDArray[np.float64]:
        return np.full(2, 0.5)

    def update(self, symbol: int | None) -> mdvpf.Step:
        return self.answer  # type: ignore[no-any-return]

    def new_sequence(self) -> None:
        pass

    def copy(self) -> Self:
        return type(self)(self.answer)


USES: dict[str, Callable[[mdvpf.Predictor], Any]] = {
    "run": lambda coin: coin.run([0, 1]),
    "score": lambda coin: coin.score([0]),
    "mixture": lambda coin: mdvpf.Mixture([coin]).run([0]),
    "mixture, one symbol": lambda coin: mdvpf.Mixture([coin, mdvpf.Markov(2)]).update(0),
    "detector": lambda coin: mdvpf.SurpriseDetector(coin).run([0]),
    "detector, one symbol": lambda coin: mdvpf.SurpriseDetector(coin).update(0),
    "detector with blocks": lambda coin: mdvpf.SurpriseDetector(coin, block=2).update(0),
    "monitor": lambda coin: mdvpf.Monitor(coin).read("1"),
    "evaluate": lambda coin: mdvpf.evaluate(coin, None, [0, 1], frozen=False),
    "evaluate, no ranks": lambda coin: mdvpf.evaluate(coin, None, [0], frozen=False, top_k=()),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("answer", [-0.7, np.float64(-0.7), None, (-0.7,), [-0.7, 1, 1, 1, 0]])
def test_an_update_that_returns_no_step_is_an_error_at_the_first_symbol(
    use: str, answer: Any
) -> None:
    with pytest.raises(TypeError, match=r"Coin\.update returned .*: expected a Step"):
        USES[use](Coin(answer))


@pytest.mark.parametrize("use", USES)
def test_a_step_or_a_tuple_of_its_fields_is_accepted(use: str) -> None:
    step = mdvpf.Step(float(np.log(0.5)), 1.0, 1.0, 1, 0.0)
    USES[use](Coin(step))
    USES[use](Coin(tuple(step)))


def test_a_judge_needs_a_step() -> None:
    detector = mdvpf.SurpriseDetector(mdvpf.Markov(2))
    with pytest.raises(TypeError, match=r"step=-0\.7: expected a Step"):
        detector.judge(-0.7)  # type: ignore[arg-type]
