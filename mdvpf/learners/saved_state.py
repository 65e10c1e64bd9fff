"""Checkpoints of a `SoftHMM`: its configuration as values, its tables as arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf.checkpoint import State, narrow, read_array, require, widen
from mdvpf.learners._soft_hmm import SoftTables
from mdvpf.predictor import NO_KEY
from mdvpf.predictor.saved_numbers import numbers_to_arrays, read_key_numbers

_LARGEST_STEP = 2**62
_LARGEST_COUNT = 1e200  # sums and products of such counts are finite
_TOLERANCE = 1e-6  # relative rounding error of sums over a long stream
_SPARE_BITS = 200  # bits by which the unit may run ahead of the shift

# The arrays that `SoftTables.export` fills, in its order, with their types.
ARRAYS = {
    "row_names": "<i4",
    "rows": "<f8",
    "row_totals": "<f8",
    "symbols": "<i4",
    "emission": "<f8",
    "emission_totals": "<f8",
    "base": "<f8",
    "log_weights": "<f8",
    "held": "<i4",
    "posterior": "<f8",
}


def export_tables(tables: SoftTables, n_states: int, n_seeds: int) -> dict[str, NDArray[Any]]:
    """Return the content of the tables, by name."""
    n_rows, n_columns, n_held = tables.sizes
    shapes = _shapes(n_rows, n_columns, n_held, n_states, n_seeds)
    arrays = {name: np.empty(shapes[name], dtype=kind) for name, kind in ARRAYS.items()}
    tables.export(*arrays.values())
    return arrays


def _shapes(
    n_rows: int, n_columns: int, n_held: int, n_states: int, n_seeds: int
) -> dict[str, tuple[int, ...]]:
    return {
        "row_names": (n_rows, 3),
        "rows": (n_rows, n_states),
        "row_totals": (n_rows,),
        "symbols": (n_columns,),
        "emission": (n_columns * n_seeds, n_states),
        "emission_totals": (n_seeds, n_states),
        "base": (n_seeds, n_states),
        "log_weights": (2, n_seeds),
        "held": (n_held,),
        "posterior": (n_held * n_seeds, n_states),
    }


def read_keys(state: State) -> NDArray[np.uint64]:
    """Return the keys of the random numbers, one for each seed, or raise."""
    keys = read_array(state, "keys", "<u8", (None,))
    n_states = validate.integer("n_states", state.values["options"]["n_states"], low=1)
    # Checked before tables of this size are allocated.
    require(state.arrays["base"].shape == (len(keys), n_states), "base of another shape")
    return keys


def restore_tables(fresh: SoftTables, state: State, n_states: int, n_seeds: int) -> SoftTables:
    """Return tables with the configuration of the fresh ones and the saved content, or raise."""
    values, found = state.values, state.arrays
    n_steps = validate.integer("n_steps", values["n_steps"], low=0, high=_LARGEST_STEP)
    shift = validate.integer("shift", values["shift"], low=0, high=_LARGEST_STEP)
    frozen = validate.flag("frozen", values["frozen"])
    forget = values["options"]["forget"]
    bits = forget * math.log2(max(n_steps, 1))
    require(shift <= bits <= shift + _SPARE_BITS, "a shift that does not fit the time")
    sizes = (len(found["rows"]), len(found["symbols"]), len(found["held"]))
    shapes = _shapes(*sizes, n_states, n_seeds)
    arrays = {name: read_array(state, name, kind, shapes[name]) for name, kind in ARRAYS.items()}
    _check_counts(arrays, values["options"]["n_symbols"])
    _check_distributions(arrays, n_seeds)
    pending = len(arrays["held"]) - 1
    require(pending <= n_steps, "more positions than symbols")
    tables = fresh.restored(n_steps, shift, frozen, *arrays.values())
    _restore_positions(tables, state, arrays, n_states, n_seeds)
    return tables


# For each key: its number of pending positions, their symbols, steps and posteriors, and in a
# frozen learner its weights. A file has these arrays only if keys were used. It has the steps of
# key=None only if steps of other keys lie between them.


def export_positions(tables: SoftTables, n_states: int, n_seeds: int) -> dict[str, NDArray[Any]]:
    """Return the positions of keys, and the steps of key=None if they are not consecutive."""
    numbers = tables.numbers
    found = [_exported_position(tables, number, n_states, n_seeds) for number in numbers]
    arrays = numbers_to_arrays(numbers)
    if numbers:
        lengths = np.array([len(held) for held, _, _, _ in found], dtype=np.uint64)
        arrays["key_lengths"] = narrow(lengths)
        for i, name in enumerate(("key_held", "key_steps", "key_posterior")):
            arrays[name] = np.concatenate([position[i] for position in found])
        if tables.frozen:
            arrays["key_log_weights"] = np.stack([weights for _, _, _, weights in found])
    _, steps, _, _ = _exported_position(tables, NO_KEY, n_states, n_seeds)
    if np.any(steps[1:] != tables.n_steps - np.arange(len(steps) - 2, -1, -1)):
        arrays["steps"] = steps
    return arrays


def _exported_position(
    tables: SoftTables, number: int, n_states: int, n_seeds: int
) -> tuple[NDArray[Any], ...]:
    n = tables.n_held(number)
    arrays = (
        np.empty(n, dtype=np.int32),
        np.empty(n, dtype=np.int64),
        np.empty((n * n_seeds, n_states)),
        np.zeros(n_seeds),
    )
    tables.export_position(number, *arrays)
    return arrays


def _restore_positions(
    tables: SoftTables,
    state: State,
    arrays: dict[str, NDArray[Any]],
    n_states: int,
    n_seeds: int,
) -> None:
    if "steps" in state.arrays:
        require(not tables.frozen, "steps of a frozen learner")
        steps = read_array(state, "steps", "<i8", arrays["held"].shape)
        _check_steps(steps)
        weights = arrays["log_weights"][0]
        tables.restore_position(NO_KEY, arrays["held"], steps, arrays["posterior"], weights)
    numbers = read_key_numbers(state)
    if not numbers:
        return
    lengths = widen(state.arrays.pop("key_lengths"), "<u8")
    require(len(lengths) == len(numbers), "a key without a position")
    held = read_array(state, "key_held", "<i4", (None,))
    n = len(held)
    require(
        np.all((lengths >= 1) & (lengths <= n)) and lengths.sum() == n,
        "positions that do not fit their lengths",
    )
    steps = read_array(state, "key_steps", "<i8", (n,))
    posterior = read_array(state, "key_posterior", "<f8", (n * n_seeds, n_states))
    _check_posterior(posterior, held, n_seeds)
    log_weights = np.zeros((len(numbers), n_seeds))
    if tables.frozen:
        log_weights = read_array(state, "key_log_weights", "<f8", (len(numbers), n_seeds))
        _check_weights(log_weights)
    stops = np.cumsum(lengths).tolist()
    for i, (number, size, stop) in enumerate(zip(numbers, lengths.tolist(), stops, strict=True)):
        part = slice(stop - size, stop)
        _check_steps(steps[part])
        rows = slice(part.start * n_seeds, part.stop * n_seeds)
        tables.restore_position(number, held[part], steps[part], posterior[rows], log_weights[i])


def _check_steps(steps: NDArray[np.int64]) -> None:
    require(steps[0] == 0, "a step that was counted")


def _check_counts(arrays: dict[str, NDArray[Any]], n_symbols: int) -> None:
    for name in ("rows", "row_totals", "emission", "emission_totals"):
        fine = (arrays[name] >= 0.0) & (arrays[name] <= _LARGEST_COUNT)
        require(np.all(fine), f"{name} with a count that is out of range")
    sums = arrays["rows"].sum(axis=1)
    require(_close(sums, arrays["row_totals"]), "transitions do not sum to their totals")
    shape = (len(arrays["symbols"]), *arrays["emission_totals"].shape)
    emission = arrays["emission"].reshape(shape)
    require(not np.any(emission[arrays["symbols"] == n_symbols]), "emissions of a missing symbol")
    require(
        _close(emission.sum(axis=0), arrays["emission_totals"]),
        "emissions do not sum to their totals",
    )


def _close(sums: NDArray[np.float64], totals: NDArray[np.float64]) -> bool:
    least = 1e-90  # smaller counts are negligible and decay to zero
    return bool(np.all(np.abs(sums - totals) <= _TOLERANCE * np.maximum(sums, totals) + least))


def _check_distributions(arrays: dict[str, NDArray[Any]], n_seeds: int) -> None:
    _check_weights(arrays["log_weights"])
    require(np.all(arrays["base"] > 0.0), "a base without a state")
    _check_sums(arrays["base"])
    _check_posterior(arrays["posterior"], arrays["held"], n_seeds)


def _check_weights(log_weights: NDArray[np.float64]) -> None:
    require(np.all(np.isfinite(log_weights)), "a weight is not a number")
    require(np.all(log_weights.max(axis=1) == 0.0), "weights without a largest one of 1")


def _check_posterior(posterior: NDArray[np.float64], held: NDArray[np.int32], n_seeds: int) -> None:
    require(np.all(posterior >= 0.0), "a negative probability")
    starts = np.repeat(held == -2, n_seeds)  # the posterior of a start is not used
    _check_sums(posterior[~starts])


def _check_sums(rows: NDArray[np.float64]) -> None:
    require(np.all(np.abs(rows.sum(axis=1) - 1.0) <= _TOLERANCE), "probabilities do not sum to one")
