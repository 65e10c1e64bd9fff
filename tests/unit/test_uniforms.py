"""Uniforms drawn ahead and not used return to the generator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mdvpf.filter.uniforms import drawn_uniforms


class Interrupted:
    """A generator that is interrupted once, just after it has drawn."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator
        self.bit_generator = generator.bit_generator
        self.n_interrupts = 1

    def random(self, n: int) -> NDArray[np.float64]:
        uniforms = self.generator.random(n)
        if self.n_interrupts:
            self.n_interrupts -= 1
            raise KeyboardInterrupt
        return uniforms


def test_an_interrupt_while_drawing_leaves_the_generator_as_it_was() -> None:
    generator: Any = Interrupted(np.random.default_rng(4))
    with pytest.raises(KeyboardInterrupt), drawn_uniforms(generator, 100):
        raise AssertionError("nothing was drawn")
    assert generator.generator.random() == np.random.default_rng(4).random()


@pytest.mark.parametrize("used", [0, 3, 100])
def test_unused_uniforms_are_returned(used: int) -> None:
    generator = np.random.default_rng(4)
    with drawn_uniforms(generator, 100) as (uniforms, progress):
        assert len(uniforms) == 100
        progress[1] = used
    assert generator.random() == np.random.default_rng(4).random(used + 1)[used]
