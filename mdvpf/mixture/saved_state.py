"""The checkpoint of a `Mixture`: its members as parts, its weights as an array."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from mdvpf._support import validate
from mdvpf.checkpoint import State, read_array, require
from mdvpf.mixture.members import Members
from mdvpf.mixture.restart import Restart
from mdvpf.mixture.weights import Weights
from mdvpf.predictor import Predictor

_LARGEST_TIME = 2**62


def mixture_state(options: dict[str, Any], members: Members, weights: Weights) -> State:
    """Return the state of a mixture for a checkpoint."""
    restart, rows, templates = members.restart, members.rows, members.templates
    values = {
        **options,
        "restart": None if restart is None else asdict(restart),
        "shape": [len(rows), len(rows[0])],
        "time": members.time,
        "n_shared": weights.n_shared,
    }
    parts = {f"member {i} {j}": m for i, row in enumerate(rows) for j, m in enumerate(row)}
    parts |= {f"template {j}": template for j, template in enumerate(templates)}
    return State(values, {"log_weights": weights.log}, parts)


def read_saved_members(state: State) -> Members:
    """Return the members of a state and their templates, or raise."""
    given = state.values["restart"]
    restart = None if given is None else Restart(**given)
    parts = dict(state.parts)
    n_rows, n_members = (
        validate.integer("shape", n, low=1, high=len(parts)) for n in state.values["shape"]
    )
    time = validate.integer("time", state.values["time"], low=0, high=_LARGEST_TIME)
    levels = 0 if restart is None else restart.n_levels(time)
    require(n_rows == 1 + levels, "members that do not fit the time")
    rows = [[parts.pop(f"member {i} {j}") for j in range(n_members)] for i in range(n_rows)]
    templates = []
    if restart is not None:
        templates = [parts.pop(f"template {j}") for j in range(n_members)]
    require(not parts, "unexpected parts in a mixture")
    everyone = [*templates, *(member for row in rows for member in row)]
    require(all(isinstance(each, Predictor) for each in everyone), "a member is not a predictor")
    sizes = {(each.n_symbols, each.is_open, each._n_seen) for each in everyone}
    require(len(sizes) == 1, "members with different alphabets")
    return Members(rows, restart, templates, time)


def read_weights(state: State, weights: Weights) -> None:
    """Set weights to those of a state, or raise."""
    n_rows, n_members = state.values["shape"]
    log = read_array(state, "log_weights", "<f8", (n_rows, n_members))
    require(not np.isnan(log).any(), "a weight is not a number")
    total = math.fsum(np.exp(np.minimum(log, 1.0)).flat)
    require(abs(total - 1.0) < 1e-6, "weights do not sum to one")
    weights.log = log
    weights.n_shared = validate.integer(
        "n_shared", state.values["n_shared"], low=0, high=state.values["time"]
    )


def read_recipe(recipe: Any) -> dict[str, Any] | None:
    """Return how a mixture was made, a name and arguments that JSON can hold, or raise."""
    if recipe is None:
        return None
    kinds = (str, int, float, bool, type(None))
    if (
        not isinstance(recipe, dict)
        or not isinstance(recipe.get("name"), str)
        or not all(isinstance(key, str) and type(recipe[key]) in kinds for key in recipe)
    ):
        raise TypeError(f"recipe={recipe!r}: expected None, or a dict of a name and plain values")
    return dict(recipe)
