"""Families of users in ctypes that equal built-in ones, to compare them with."""

from __future__ import annotations

import ctypes
import functools
import math
from typing import Any

import mdvpf

Doubles = ctypes.POINTER(ctypes.c_double)
LogPredictive = ctypes.CFUNCTYPE(
    ctypes.c_int, Doubles, Doubles, ctypes.c_int64, Doubles, ctypes.c_void_p
)
Update = ctypes.CFUNCTYPE(ctypes.c_int, Doubles, ctypes.c_double, Doubles, ctypes.c_void_p)


def failing(function: Any) -> Any:
    """The function, with a status where statistics are impossible, as those of a bad file."""

    @functools.wraps(function)
    def guarded(*arguments: Any) -> int:
        try:
            function(*arguments)
        except (ArithmeticError, ValueError):
            return 1
        return 0

    return guarded


def poisson(shape: float = 2.0, rate: float = 0.5, **options: Any) -> mdvpf.CompiledEmission:
    """The Poisson family as functions of ctypes, which take their prior from the user's data."""

    def log_predictive(y: Any, statistics: Any, n: int, out: Any, data: Any) -> None:
        prior = ctypes.cast(data, Doubles)
        for i in range(n):
            a, b = prior[0] + statistics[2 * i + 1], prior[1] + statistics[2 * i]
            out[i] = (
                math.lgamma(a + y[0]) - math.lgamma(a) - math.lgamma(y[0] + 1.0)
                - a * math.log1p(1.0 / b) - y[0] * math.log1p(b)
            )  # fmt: skip

    def update(y: Any, weight: float, statistics: Any, data: Any) -> None:
        statistics[0] += weight
        statistics[1] += weight * y[0]

    return mdvpf.CompiledEmission(
        LogPredictive(failing(log_predictive)),
        Update(failing(update)),
        2,
        user_data=[shape, rate],
        **{"name": "poisson", **options},
    )


def gaussian_pair(
    mean: float, mean_strength: float, shape: float, scale: float
) -> mdvpf.CompiledEmission:
    """The Gaussian family of two dimensions, of which either can be missing."""

    def log_student(statistics: Any, prior: Any, y: float) -> float:
        n, kappa = statistics[0], prior[1] + statistics[0]
        a, away = prior[2] + n / 2.0, statistics[1] - prior[0]
        b = prior[3] + statistics[2] / 2.0 + prior[1] * n / kappa * away * away / 2.0
        spread = 2.0 * b * (kappa + 1.0) / kappa
        return (
            math.lgamma(a + 0.5) - math.lgamma(a) - 0.5 * math.log(math.pi * spread)
            - (a + 0.5) * math.log1p((y - prior[0] - away * n / kappa) ** 2 / spread)
        )  # fmt: skip

    def log_predictive(y: Any, statistics: Any, n: int, out: Any, data: Any) -> None:
        prior = ctypes.cast(data, Doubles)
        for i in range(n):
            out[i] = 0.0
            for dim in range(2):
                if not math.isnan(y[dim]):
                    own = statistics[6 * i + 3 * dim : 6 * i + 3 * dim + 3]
                    out[i] += log_student(own, prior, y[dim])

    def update(y: Any, weight: float, statistics: Any, data: Any) -> None:
        for dim in range(2):
            if not math.isnan(y[dim]):
                away = y[dim] - statistics[3 * dim + 1]
                statistics[3 * dim] += weight
                statistics[3 * dim + 1] += away * weight / statistics[3 * dim]
                statistics[3 * dim + 2] += weight * away * (y[dim] - statistics[3 * dim + 1])

    return mdvpf.CompiledEmission(
        LogPredictive(failing(log_predictive)),
        Update(failing(update)),
        6,
        n_dims=2,
        fades=[True, False, True] * 2,
        user_data=[mean, mean_strength, shape, scale],
        name="pair",
    )


OWN_POISSON = poisson()
OWN_PAIR = gaussian_pair(0.0, 1.0, 1.5, 0.7)
# For each of them the built-in family that it equals.
TWINS: dict[Any, Any] = {
    OWN_POISSON: mdvpf.Poisson(2.0, 0.5),
    OWN_PAIR: mdvpf.Gaussian(2, 0.0, 1.0, 1.5, 0.7),
}


def with_twins(family: mdvpf.Product) -> mdvpf.Product:
    """The same product with built-in families."""
    return mdvpf.Product(*(TWINS.get(part, part) for part in family.families))
