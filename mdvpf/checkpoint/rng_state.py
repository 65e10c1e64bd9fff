"""Convert a generator of random numbers to JSON values and back.

Only the bit generators of NumPy are supported. Their states are validated before NumPy gets them,
because NumPy does not check positions in a buffer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import (
    MT19937,
    PCG64,
    PCG64DXSM,
    SFC64,
    BitGenerator,
    Generator,
    Philox,
    SeedSequence,
)

from mdvpf._support import validate

_KINDS: dict[str, type[BitGenerator]] = {
    kind.__name__: kind for kind in (PCG64, PCG64DXSM, MT19937, Philox, SFC64)
}
_POSITIONS = {"pos": 624, "buffer_pos": 4, "has_uint32": 1}  # largest valid values
_LARGEST = 2**128 - 1


def to_values(generator: Generator) -> dict[str, Any]:
    """Return the state and the seed of a generator as JSON values."""
    bits = generator.bit_generator
    if _KINDS.get(type(bits).__name__) is not type(bits):
        raise ValueError(
            f"rng={generator!r}: only the bit generators of NumPy can be saved; expected one of "
            + ", ".join(_KINDS)
        )
    seed = bits.seed_seq
    return {
        "state": _listed(bits.state),
        "seed": _listed(seed.state) if type(seed) is SeedSequence else None,
    }


def from_values(values: dict[str, Any]) -> Generator:
    """Return the generator of the values that `to_values` returned, or raise."""
    state, seed = values["state"], values["seed"]
    kind = _KINDS[state["bit_generator"]]
    bits = kind(0 if seed is None else _seed(**seed))
    bits.state = _shaped(state, bits.state, "rng")
    return Generator(bits)


def _seed(
    entropy: Any, spawn_key: list[int], pool_size: int, n_children_spawned: int
) -> SeedSequence:
    return SeedSequence(
        entropy,
        spawn_key=spawn_key,
        pool_size=validate.integer("pool_size", pool_size, low=4, high=64),
        n_children_spawned=validate.integer("n_children_spawned", n_children_spawned, low=0),
    )


def _listed(value: Any) -> Any:
    """Convert nested dicts of numbers and arrays to JSON values."""
    if isinstance(value, dict):
        return {name: _listed(entry) for name, entry in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, (tuple, list)):
        return [_listed(entry) for entry in value]
    return value


def _shaped(value: Any, like: Any, name: str) -> Any:
    """Convert `value` to the structure and types of the state `like`, or raise."""
    if isinstance(like, dict):
        if set(value) != set(like):
            raise ValueError(f"{name}: expected {sorted(like)}")
        return {key: _shaped(value[key], like[key], key) for key in like}
    if isinstance(like, np.ndarray):
        array = np.array(value, dtype=like.dtype)
        if array.shape != like.shape:
            raise ValueError(f"{name}: expected {like.shape} numbers")
        return array
    if isinstance(like, str):
        return validate.choice(name, value, [like])
    return validate.integer(name, value, low=0, high=_POSITIONS.get(name, _LARGEST))
