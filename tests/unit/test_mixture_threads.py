"""A mixture that two threads use at once: refused, and the mixture goes on as if alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pytest
from numpy.typing import NDArray

import mdvpf


class Slow(mdvpf.Predictor):
    """A fair coin that waits in the middle of a symbol until it may go on."""

    reached = threading.Event()
    go_on = threading.Event()

    n_symbols = 2

    def predict_proba(self) -> NDArray[np.float64]:
        return np.full(2, 0.5)

    def update(self, symbol: int | None) -> mdvpf.Step:
        type(self).reached.set()
        assert type(self).go_on.wait(60)
        return mdvpf.Step(float(np.log(0.5)), 1.0, 1.0, 1, 0.0)

    def new_sequence(self) -> None:
        pass

    def copy(self) -> Self:
        return type(self)()


CALLS: dict[str, Callable[[mdvpf.Mixture], Any]] = {
    "update": lambda mixture: mixture.update(1),
    "run": lambda mixture: mixture.run([1, 0]),
    "predict_proba": lambda mixture: mixture.predict_proba(),
    "new_sequence": lambda mixture: mixture.new_sequence(),
    "copy": lambda mixture: mixture.copy(),
    "score": lambda mixture: mixture.score([1]),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("first", ["update", "run"])
def test_a_second_thread_is_refused_and_changes_nothing(first: str, call: str) -> None:
    Slow.reached.clear()
    Slow.go_on.clear()
    mixture = mdvpf.Mixture([mdvpf.Markov(2), Slow()])
    worker = threading.Thread(target=CALLS[first], args=(mixture,))
    worker.start()
    try:
        assert Slow.reached.wait(60)
        with pytest.raises(RuntimeError, match="this mixture is in use by another thread"):
            CALLS[call](mixture)
    finally:
        Slow.go_on.set()
        worker.join()
    twin = mdvpf.Mixture([mdvpf.Markov(2), Slow()])
    CALLS[first](twin)
    np.testing.assert_array_equal(mixture.predict_proba(), twin.predict_proba())
    assert mixture.update(0) == twin.update(0)


def test_a_mixture_is_free_again_after_a_failure() -> None:
    mixture = mdvpf.Mixture([mdvpf.Markov(2)])
    with pytest.raises(ValueError, match="symbol=2"):
        mixture.update(2)
    mixture.update(1)
