"""What a checkpoint holds of a `ParticleFilter`: configuration as values, its core as arrays."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf._core import ParticleSystem
from mdvpf._support import validate
from mdvpf.checkpoint import CheckpointError, State, narrowed, rng_state, widened
from mdvpf.model import InfiniteHMM
from mdvpf.model.algorithms import ALGORITHMS, DUPLICATING, MDVPA, Algorithm

# The arrays of a snapshot of the core, in its order, and the types in which they are passed.
SECTIONS = {
    "weight": np.float64,
    "log_weight": np.float64,
    "ancestor": np.uint32,
    "copies": np.uint32,
    "spread": np.float64,
    "n_states": np.uint32,
    "current": np.uint32,
    "rows": np.uint32,
    "columns": np.uint32,
    "levels": np.uint32,
    "children": np.uint32,
    "shape": np.uint32,
    "items": np.uint8,
    "leaf": np.uint32,
    "generations": np.uint32,
    "parent": np.uint32,
    "state": np.uint32,
}
# One number a state or a symbol of a particle, at full width: the memory that a particle takes
# for each of them stands in a fixed proportion to the file.
_FULL_WIDTH = ("rows", "columns", "children")

_LARGEST_STEP = 2**62
_LARGEST = sys.float_info.max


def core_state(core: ParticleSystem) -> State:
    """Return what the core holds."""
    n_steps, log_evidence, margin, pending, sections = core.snapshot()
    arrays: dict[str, NDArray[Any]] = {}
    for (name, kind), content in zip(SECTIONS.items(), sections, strict=True):
        array = np.frombuffer(content, kind)
        is_wide = kind is np.float64 or name in _FULL_WIDTH
        arrays[name] = array if is_wide else narrowed(array)
    values = {
        "n_steps": n_steps,
        "log_evidence": log_evidence,
        "margin": margin,
        "is_pending": core.pending,
        "pending_symbol": pending if pending is not None and pending >= 0 else None,
    }
    return State(values, arrays)


def restored_core(fresh: ParticleSystem, state: State, n_symbols: int) -> ParticleSystem:
    """Return a core configured like the fresh one, in the given state; raise if it makes none."""
    values = state.values["core"]
    pending = None
    if validate.flag("is_pending", values["is_pending"]):
        pending = -1
        if values["pending_symbol"] is not None:
            pending = validate.integer(
                "pending_symbol", values["pending_symbol"], low=0, high=n_symbols - 1
            )
    return fresh.restored(
        validate.integer("n_steps", values["n_steps"], low=0, high=_LARGEST_STEP),
        validate.real("log_evidence", values["log_evidence"], low=-_LARGEST, high=_LARGEST),
        validate.real("margin", values["margin"], low=0.0, high=_LARGEST),
        pending,
        tuple(_content(state.arrays.pop(name), kind) for name, kind in SECTIONS.items()),
    )


def _content(array: NDArray[Any], kind: type) -> bytes:
    if kind is np.float64:
        if array.ndim != 1 or array.dtype != np.float64:
            raise CheckpointError(f"file: a section of type {array.dtype}, shape {array.shape}")
        return array.astype(kind).tobytes()
    return widened(array, np.dtype(kind).str).tobytes()


# --- Configuration


def _fields(configuration: Any) -> dict[str, Any]:
    """Return the fields of a dataclass: `asdict` would copy callables."""
    return {field.name: getattr(configuration, field.name) for field in fields(configuration)}


def _model_values(model: InfiniteHMM) -> dict[str, Any]:
    """Return the fields of a model; those that version 1 did not have only if they say something.

    So a file that an older version could hold is one that it can read.
    """
    later = {field.name: field.default for field in fields(model) if field.kw_only}
    return {
        name: value
        for name, value in _fields(model).items()
        if name not in later or value != later[name]
    }


def filter_state(
    model: InfiniteHMM,
    algorithm: Algorithm,
    rng: np.random.Generator,
    options: dict[str, Any],
    core: ParticleSystem,
) -> State:
    """Return what a filter is made of. A long discount is an array, a callable one is left out."""
    state = core_state(core)
    how = {"name": type(algorithm).__name__, **_fields(algorithm)}
    if isinstance(algorithm, MDVPA):
        if isinstance(algorithm.discount, tuple):
            how["discount"] = {"from": "array"}
            state.arrays["discount"] = np.array(algorithm.discount, dtype=np.float64)
        elif callable(algorithm.discount):
            how["discount"] = {"from": "caller"}
    values = {
        "model": _model_values(model),
        "algorithm": how,
        "options": options,
        "rng": rng_state.to_values(rng),
        "core": state.values,
    }
    return State(values, state.arrays)


def read_configuration(state: State, given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a filter, whose particles must be worth their memory in arrays."""
    values = state.values
    algorithm = _read_algorithm(dict(values["algorithm"]), state, given)
    n_particles = validate.integer("n_particles", values["options"]["n_particles"], low=1)
    if isinstance(algorithm, DUPLICATING) and n_particles != len(state.arrays["weight"]):
        raise CheckpointError("file: this algorithm always has all its particles")
    return {
        "model": InfiniteHMM(**values["model"]),
        "algorithm": algorithm,
        "rng": rng_state.from_values(values["rng"]),
        **values["options"],
    }


def _read_algorithm(parameters: dict[str, Any], state: State, given: dict[str, Any]) -> Algorithm:
    """Return the algorithm; take the array of its discount away, or ask for the callable."""
    kinds = {kind.__name__: kind for kind in ALGORITHMS}
    kind = kinds[parameters.pop("name")]
    match parameters.get("discount"):
        case {"from": "array"}:
            parameters["discount"] = state.arrays.pop("discount")
        case {"from": "caller"}:
            parameters["discount"] = given["discount"]
    return kind(**parameters)
