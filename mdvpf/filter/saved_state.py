"""The checkpoint of a `ParticleFilter`: its configuration as values, its core as arrays.

There are two formats. Models of the paper have integer counts and files of version 1. Models with
real counts (forgetting, stickiness, Mealy machines, the oracle "rows") have files of version 2 and
``"counts": "real"`` among the values of the core. In the tables below, an *entry* is a block that
one or more particles share, and a *record* is a node or a leaf of the block's trees. Both formats
have these sections:

======================================== =========================================================
weight, log_weight, ancestor             per particle; no log weights unless one underflows
copies                                   per entry: number of particles that share it
n_states, current                        per entry; current is 1 + the state, 0 for the start state
rows, columns                            per entry: records of transition rows, then of columns
children                                 per node: 16 records, 0 for none
leaf, generations, parent, state         histories by generation, the newest first
======================================== =========================================================

Version 2 has these sections instead of ``spread``, ``levels``, ``shape`` and ``items``:

======================================== =========================================================
kind                                     per record: levels of records below it, 0 for a group of
                                         four rows, 255 for a record of labels
row_pairs, behind                        per group: number of pairs in each of its four rows; number
                                         of binades by which its scale trails the next step's clock
pair_state, pair_sum                     per pair: state; sum as a 32-bit float
labels                                   per entry: record of labels, 0 if each state is its label
n_labels, next_label, label              per record of labels: number of states that it lists; label
                                         of the next state; then the labels of all records
block_behind, into, reached              per entry: its scale, as for groups; per state: entries as
                                         a 32-bit float, and number of rows that reach it
last_symbol                              symbol of the last completed step; V if it was missing
======================================== =========================================================

A filter in which several keys were used has version 2, ``"keys": "positions"`` among the values of
the core, and these sections in addition:

======================================== =========================================================
key_address, key_symbol                  per key number: 1 + address, 0 in the start state; last
                                         symbol, for a Mealy machine
key_state                                active key, open stretch, end of the round
stretch_live                             per stretch of 16 addresses: number of keys in use
open_labels                              per entry: 1 + labels of the open stretch
positions                                per entry: tree of all other stretches
position_level, position_below           per record of these trees: levels below it; 16 records, or
                                         for a stretch 1 + each of 16 labels
======================================== =========================================================

A filter with an open alphabet has version 2, with either kind of counts, and two more sections. In
its other sections a missing symbol has column 0 and symbol y has column y + 1.

======================================== =========================================================
seen                                     per symbol: how often it was seen, not counting the pending
                                         symbol of MD-VPA
tree                                     levels of the trees of columns, including the root; records
                                         in a root; levels of the trees of rows of a Mealy machine
======================================== =========================================================

A filter over numbers has version 3 and real counts. It has no columns. Its last symbol is 0, or 1
if that was missing. `mdvpf/_kernel/families.pxd` describes a row of statistics. Four more sections:

======================================== =========================================================
statistic                                per state of each entry, as in ``into``: its row of
                                         statistics, from 1; 0 if it has observed nothing
statistics, statistics_behind            per row: its numbers; its scale, as for groups
observation                              the pending observation of MD-VPA; missing parts are NaN
======================================== =========================================================

With an `OpenVocabulary` in a product there are two more. A row has a count for each symbol seen.

======================================== =========================================================
channel_symbols                          per open channel: number of symbols seen
channel_seen                             per symbol of each open channel: how often it was seen;
                                         neither counts the pending observation of MD-VPA
======================================== =========================================================

The values of the core have ``kept`` and ``pending_kept``, how many particles the next steps and the
pending one keep, only if these are not K.

Records are numbered from 1 in the order of ``kind``; a node follows all its children. The number of
``rows`` of an entry is that of the largest particle. A Mealy machine has one for the start state
and for each state, the root of a tree of rows. Other models have one for every four rows.
"""

from __future__ import annotations

import sys
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdvpf._core import ParticleSystem
from mdvpf._support import validate
from mdvpf.checkpoint import CheckpointError, State, narrow, rng_state, widen
from mdvpf.model import (
    Categorical,
    Clock,
    CompiledEmission,
    Gaussian,
    InfiniteHMM,
    OpenVocabulary,
    Poisson,
    Product,
    read_time,
)
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
# The same for a core with real counts. The bits of 32-bit floats are passed as integers.
REAL_SECTIONS = {
    "weight": np.float64,
    "log_weight": np.float64,
    "ancestor": np.uint32,
    "copies": np.uint32,
    "n_states": np.uint32,
    "current": np.uint32,
    "rows": np.uint32,
    "columns": np.uint32,
    "children": np.uint32,
    "leaf": np.uint32,
    "generations": np.uint32,
    "parent": np.uint32,
    "state": np.uint32,
    "kind": np.uint8,
    "row_pairs": np.uint32,
    "behind": np.uint32,
    "pair_state": np.uint32,
    "pair_sum": np.uint32,
    "labels": np.uint32,
    "n_labels": np.uint32,
    "next_label": np.uint32,
    "label": np.uint32,
    "block_behind": np.uint32,
    "into": np.uint32,
    "reached": np.uint32,
    "last_symbol": np.uint32,
}
# Additional sections of a core with several keys, over numbers, or with an open alphabet.
KEY_SECTIONS = {
    "key_address": np.uint32,
    "key_symbol": np.uint32,
    "key_state": np.uint32,
    "stretch_live": np.uint8,
    "open_labels": np.uint32,
    "positions": np.uint32,
    "position_level": np.uint8,
    "position_below": np.uint32,
}
NUMBER_SECTIONS = {
    "statistic": np.uint32,
    "statistics": np.float64,
    "statistics_behind": np.uint32,
    "observation": np.float64,
}
CHANNEL_SECTIONS = {"channel_symbols": np.uint32, "channel_seen": np.uint64}
OPEN_SECTIONS = {"seen": np.uint64, "tree": np.uint32}
# These arrays hold one number for each state or symbol of a particle. They are stored at full width
# so that the memory of a restored filter is bounded by a multiple of the file's size.
_FULL_WIDTH = ("rows", "columns", "children", "pair_sum", "into")
_KEYS = "positions"
_FAMILIES: dict[str, Any] = {
    kind.__name__: kind for kind in (OpenVocabulary, Gaussian, Poisson, Categorical)
}

_LARGEST_STEP = 2**62
_LARGEST = sys.float_info.max
_LATEST = 2.0**52  # half-lives; beyond, float64 cannot resolve a fraction of one


def _sections(model: InfiniteHMM, *, has_keys: bool) -> dict[str, Any]:
    """Return the sections of the core of a model."""
    sections: dict[str, Any] = REAL_SECTIONS if model.has_real_counts else SECTIONS
    if has_keys:
        sections = sections | KEY_SECTIONS
    if model.numbers is not None:
        has_open = isinstance(model.numbers, Product) and model.numbers.open_channels
        return sections | NUMBER_SECTIONS | (CHANNEL_SECTIONS if has_open else {})
    return sections | OPEN_SECTIONS if model.is_open else sections


def core_state(core: ParticleSystem, model: InfiniteHMM) -> State:
    """Return a snapshot of the core as a checkpoint's values and arrays."""
    n_steps, log_evidence, margin, pending, sections = core.snapshot()
    arrays: dict[str, NDArray[Any]] = {}
    has_keys = len(sections) > len(_sections(model, has_keys=False))
    expected = _sections(model, has_keys=has_keys)
    for (name, kind), content in zip(expected.items(), sections, strict=True):
        array = np.frombuffer(content, kind)
        is_wide = kind is np.float64 or name in _FULL_WIDTH
        arrays[name] = array if is_wide else narrow(array)
    values: dict[str, Any] = {
        "n_steps": n_steps,
        "log_evidence": log_evidence,
        "margin": margin,
        "is_pending": core.pending,
        "pending_symbol": pending if pending is not None and pending >= 0 else None,
    }
    if has_keys:
        values["keys"] = _KEYS
    if model.has_real_counts:
        values["counts"] = "real"
    is_later = has_keys or model.is_open or model.has_real_counts
    version = 3 if model.numbers is not None else 2 if is_later else 1
    return State(values, arrays, version=version)


def kept_values(core: ParticleSystem, n_particles: int) -> dict[str, int]:
    """Return the numbers that the next steps and the pending one keep, if they are not K."""
    kept = zip(("kept", "pending_kept"), core.kept, strict=True)
    return {name: number for name, number in kept if number != n_particles}


def restored_core(fresh: ParticleSystem, state: State, model: InfiniteHMM) -> ParticleSystem:
    """Return a core configured like `fresh` in the given state, or raise if it is invalid."""
    values = state.values["core"]
    if values.get("counts") != ("real" if model.has_real_counts else None):
        raise CheckpointError("file: its kind of counts does not fit its model")
    if values.get("keys") not in (None, _KEYS):
        raise CheckpointError(f"file: its keys are {values['keys']!r}; expected {_KEYS!r} or none")
    pending = None
    if validate.flag("is_pending", values["is_pending"]):
        pending = -1
        if values["pending_symbol"] is not None:
            most = validate.LARGEST_INT if model.is_open else fresh.n_symbols - 1
            pending = validate.integer("pending_symbol", values["pending_symbol"], low=0, high=most)
    most = fresh.kept[0]  # of a new core: K
    kept, pending_kept = (
        validate.integer(name, values.get(name, most), low=1, high=most)
        for name in ("kept", "pending_kept")
    )
    if pending_kept != most:
        fresh.keep(pending_kept)  # for the step on the pending symbol
    restored = fresh.restored(
        validate.integer("n_steps", values["n_steps"], low=0, high=_LARGEST_STEP),
        validate.real("log_evidence", values["log_evidence"], low=-_LARGEST, high=_LARGEST),
        validate.real("margin", values["margin"], low=0.0, high=_LARGEST),
        pending,
        tuple(
            _content(state.arrays.pop(name), kind)
            for name, kind in _sections(model, has_keys="keys" in values).items()
        ),
    )
    if kept != pending_kept:
        restored.keep(kept)
    return restored


def _content(array: NDArray[Any], kind: type) -> bytes:
    if kind is np.float64:
        if array.ndim != 1 or array.dtype != np.float64:
            raise CheckpointError(f"file: a section of type {array.dtype}, shape {array.shape}")
        return array.astype(kind).tobytes()
    return widen(array, np.dtype(kind).str).tobytes()


# --- Configuration


def _fields(configuration: Any) -> dict[str, Any]:
    """Return the fields of a dataclass; unlike `asdict`, do not copy callables."""
    return {field.name: getattr(configuration, field.name) for field in fields(configuration)}


def _model_values(model: InfiniteHMM) -> dict[str, Any]:
    """Return the fields of a model, leaving out extensions of version 2 at their defaults.

    A model that version 1 supports is therefore saved in a file that version 1 can read.
    """
    later = {field.name: field.default for field in fields(model) if field.kw_only}
    values = {
        name: value
        for name, value in _fields(model).items()
        if name not in later or value != later[name]
    }
    if model.emission is not None:
        del values["n_symbols"], values["beta"]
        values["emission"] = family_values(model.emission)
    if isinstance(model.half_life, timedelta):
        values["half_life"] = {"seconds": model.half_life.total_seconds()}
    return values


def family_values(family: Any) -> dict[str, Any]:
    """Return the name of an emission family and its parameters.

    A file holds no code, so a `CompiledEmission` is saved as values that identify it, also as a
    part of a product.
    """
    if isinstance(family, CompiledEmission):
        values = {
            "name": "CompiledEmission",
            "label": family.name,
            "n_dims": family.n_dims,
            "n_statistics": family.n_statistics,
            "fades": list(family.fades),
            "probed": family.fingerprint(),
        }
        return values if family.support == "real" else values | {"support": family.support}
    found = {"name": type(family).__name__, **_fields(family)}
    if isinstance(family, Product):
        found["families"] = [family_values(part) for part in family.families]
    return found


def read_family(values: dict[str, Any], given: dict[str, Any]) -> Any:
    """Return the family that the values describe, or raise.

    The caller gives a compiled family, or the whole product with compiled parts.
    """
    parameters = dict(values)
    name = parameters.pop("name")
    if name == "Product":
        parts = parameters["families"]
        if any(part["name"] == "CompiledEmission" for part in parts):
            return _checked_product(given["emission"], parts)
        return Product(*(read_family(part, given) for part in parts))
    if name == "CompiledEmission":
        return _checked_family("emission", given["emission"], values)
    if name not in _FAMILIES:
        raise CheckpointError(f"file: unknown emission {values!r}")
    return _FAMILIES[name](**parameters)


def _checked_product(family: Any, parts: list[dict[str, Any]]) -> Product:
    """Return the given product if it is the one that the file was saved with, or raise."""
    if not isinstance(family, Product) or len(family.families) != len(parts):
        raise TypeError(
            f"emission={family!r}: expected the Product of {len(parts)} families that was saved"
        )
    for i, (part, values) in enumerate(zip(family.families, parts, strict=True)):
        if values["name"] == "CompiledEmission":
            _checked_family(f"emission.families[{i}]", part, values)
        elif part != (saved := read_family(values, {})):
            raise ValueError(
                f"emission.families[{i}]={part!r}: expected {saved!r}, as in the checkpoint"
            )
    return family


def _checked_family(place: str, family: Any, values: dict[str, Any]) -> CompiledEmission:
    """Return the given family if it is the one that the file was saved with, or raise."""
    if not isinstance(family, CompiledEmission):
        raise TypeError(f"{place}={family!r}: expected a CompiledEmission")
    found = family_values(family)
    for name, saved in values.items():
        own = found.get(name, "real")  # files have no support unless it is "counts"
        if name != "probed" and own != saved:
            raise ValueError(
                f"{place}={family!r} with {name} {own!r}: expected {saved!r}, as in the checkpoint"
            )
    here = np.array(found["probed"], dtype=np.float64)
    there = np.array(values["probed"], dtype=np.float64)
    if here.shape != there.shape or not np.allclose(here, there, 1e-9, 1e-9, equal_nan=True):
        raise ValueError(
            f"{place}={family!r}: its prior predictive differs from that in the checkpoint; "
            "expected the same functions and user_data"
        )
    return family


def _read_model(values: dict[str, Any], given: dict[str, Any]) -> InfiniteHMM:
    """Return the model that the values describe, or raise."""
    values = dict(values)
    if "emission" in values:
        values["emission"] = read_family(values["emission"], given)
    half_life = values.get("half_life")
    if isinstance(half_life, dict):
        seconds = validate.real("seconds", half_life["seconds"], low=1e-6, high=8e13)
        values["half_life"] = timedelta(seconds=seconds)
    return InfiniteHMM(**values)


def clock_values(clock: Clock, core: ParticleSystem) -> dict[str, Any]:
    """Return the values of a clock, with its reading at the pending symbol of MD-VPA."""
    return {"time": clock.time, "elapsed": clock.elapsed, "pending": core.elapsed[1]}


def read_clock(clock: Clock, values: dict[str, Any]) -> tuple[Clock, float]:
    """Return the clock with the given values, and its reading at the pending symbol, or raise."""
    time = values["time"]
    if time is not None:
        time = read_time("time", time)
    elapsed = validate.real("elapsed", values["elapsed"], low=0.0, high=_LATEST)
    pending = validate.real("pending", values["pending"], low=0.0, high=elapsed)
    return replace(clock, time=time, elapsed=elapsed), pending


def filter_state(
    model: InfiniteHMM,
    algorithm: Algorithm,
    rng: np.random.Generator,
    options: dict[str, Any],
    core: ParticleSystem,
) -> State:
    """Return the state of a filter.

    A discount that is a sequence becomes an array. A callable discount is not saved.
    """
    state = core_state(core, model)
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
        "core": state.values | kept_values(core, options["n_particles"]),
    }
    return State(values, state.arrays, version=state.version)


def read_configuration(state: State, given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a filter, or raise.

    Algorithms that always hold `n_particles` particles allocate that many, so the file must have as
    many weights: a short file cannot claim a large number.
    """
    values = state.values
    algorithm = _read_algorithm(dict(values["algorithm"]), state, given)
    n_particles = validate.integer("n_particles", values["options"]["n_particles"], low=1)
    if isinstance(algorithm, DUPLICATING) and n_particles != len(state.arrays["weight"]):
        raise CheckpointError("file: this algorithm needs a weight for each of its particles")
    return {
        "model": _read_model(values["model"], given),
        "algorithm": algorithm,
        "rng": rng_state.from_values(values["rng"]),
        **values["options"],
    }


def _read_algorithm(parameters: dict[str, Any], state: State, given: dict[str, Any]) -> Algorithm:
    """Return the algorithm; its discount may be an array of the state or a callable of `given`."""
    kinds = {kind.__name__: kind for kind in ALGORITHMS}
    kind = kinds[parameters.pop("name")]
    match parameters.get("discount"):
        case {"from": "array"}:
            parameters["discount"] = state.arrays.pop("discount")
        case {"from": "caller"}:
            parameters["discount"] = given["discount"]
    return kind(**parameters)
