"""Families of users, compiled by Numba: those of the documentation, and shapes of every kind."""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest

import mdvpf

SHAPES = ["gamma", "beta", "uniform", "lognormal", "two normals", "t", "pareto", "laplace"]


def _compiled() -> tuple[Any, Any, Any]:
    """Return the decorators of both functions, and Numba's type of a pointer to doubles."""
    numba: Any = pytest.importorskip("numba", reason="needs Numba: install mdvpf[numba]")
    doubles = numba.types.CPointer(numba.types.double)
    densities = numba.types.intc(doubles, doubles, numba.types.int64, doubles, doubles)
    updates = numba.types.intc(doubles, numba.types.double, doubles, doubles)
    return numba.cfunc(densities), numba.cfunc(updates), doubles


@functools.cache
def _adds() -> Any:
    _, compiled_update, _ = _compiled()

    @compiled_update
    def update(y, weight, statistics, prior):  # type: ignore[no-untyped-def]
        statistics[0] += weight
        statistics[1] += weight * y[0]
        return 0

    return update


@functools.cache
def known_variance(m0: float = 0.0, k0: float = 0.1, v: float = 1.0) -> mdvpf.CompiledEmission:
    """Normal with a known variance."""
    compiled, _, _ = _compiled()

    @compiled
    def log_predictive(y, statistics, n_states, out, prior):  # type: ignore[no-untyped-def]
        m0, k0, v = prior[0], prior[1], prior[2]
        for i in range(n_states):
            k = k0 + statistics[2 * i]
            mean = (k0 * m0 + statistics[2 * i + 1]) / k
            variance = v + v / k
            out[i] = -0.5 * (math.log(2 * math.pi * variance) + (y[0] - mean) ** 2 / variance)
        return 0

    return mdvpf.CompiledEmission(
        log_predictive, _adds(), 2, user_data=[m0, k0, v], name="known variance"
    )


@functools.cache
def beta_negative_binomial(a: float, b: float, r: float) -> mdvpf.CompiledEmission:
    """Negative binomial with a known dispersion."""
    compiled, _, _ = _compiled()

    @compiled
    def log_predictive(y, statistics, n_states, out, prior):  # type: ignore[no-untyped-def]
        r = prior[2]
        constant = math.lgamma(y[0] + r) - math.lgamma(r) - math.lgamma(y[0] + 1.0)
        for i in range(n_states):
            a = prior[0] + r * statistics[2 * i]
            b = prior[1] + statistics[2 * i + 1]
            after = math.lgamma(a + r) + math.lgamma(b + y[0]) - math.lgamma(a + r + b + y[0])
            before = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
            out[i] = constant + after - before
        return 0

    return mdvpf.CompiledEmission(
        log_predictive, _adds(), 2, user_data=[a, b, r], name="negative binomial", support="counts"
    )


@functools.cache
def poisson(shape: float, rate: float) -> mdvpf.CompiledEmission:
    """The Poisson family again."""
    compiled, _, _ = _compiled()

    @compiled
    def log_predictive(y, statistics, n_states, out, prior):  # type: ignore[no-untyped-def]
        for i in range(n_states):
            a, b = prior[0] + statistics[2 * i + 1], prior[1] + statistics[2 * i]
            out[i] = math.lgamma(a + y[0]) - math.lgamma(a) - math.lgamma(y[0] + 1.0)
            out[i] -= a * math.log1p(1.0 / b) + y[0] * math.log1p(b)
        return 0

    return mdvpf.CompiledEmission(
        log_predictive, _adds(), 2, user_data=[shape, rate], name="poisson", support="counts"
    )


@functools.cache
def shaped() -> mdvpf.CompiledEmission:
    """A family whose statistics choose the distribution: its index in SHAPES, two parameters."""
    compiled, compiled_update, _ = _compiled()

    @compiled
    def log_predictive(y, statistics, n_states, out, prior):  # type: ignore[no-untyped-def]
        x, never = y[0], -1e300
        for i in range(n_states):
            kind, a, b = statistics[3 * i], statistics[3 * i + 1], statistics[3 * i + 2]
            if kind == 0:
                found = never
                if x > 0:
                    found = (a - 1) * math.log(x) - x / b - math.lgamma(a) - a * math.log(b)
            elif kind == 1:
                found = -math.inf
                if 0 < x < 1:
                    found = (a - 1) * math.log(x) + (b - 1) * math.log1p(-x)
                    found += math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
            elif kind == 2:
                found = -math.log(b - a) if a <= x <= b else never
            elif kind == 3:
                found = never
                if x > 0:
                    found = -math.log(x * b) - 0.5 * math.log(2 * math.pi)
                    found -= ((math.log(x) - a) / b) ** 2 / 2
            elif kind == 4:
                first, second = -0.5 * (x - a) ** 2, -0.5 * (x - b) ** 2
                least, most = min(first, second), max(first, second)
                found = most + math.log1p(math.exp(least - most)) - 0.5 * math.log(8 * math.pi)
            elif kind == 5:
                found = math.lgamma(a / 2 + 0.5) - math.lgamma(a / 2)
                found -= 0.5 * math.log(math.pi * a) + math.log(b)
                found -= (a + 1) / 2 * math.log1p((x / b) ** 2 / a)
            elif kind == 6:
                found = math.log(a) + a * math.log(b) - (a + 1) * math.log(x) if x >= b else -1e4
            else:
                found = -abs(x - a) / b - math.log(2 * b)
            out[i] = found
        return 0

    @compiled_update
    def update(y, weight, statistics, prior):  # type: ignore[no-untyped-def]
        return 0

    return mdvpf.CompiledEmission(log_predictive, update, 3, name="shaped")


@functools.cache
def sums_of_normals() -> mdvpf.CompiledEmission:
    """Three numbers, each around the one before it: y0 ~ N(m, 1), y1 ~ N(y0, 1), y2 ~ N(y1, 1).

    Any of them may be missing. The only statistic is the number of observations, and m is 1e3.
    """
    compiled, compiled_update, _ = _compiled()

    @compiled
    def log_predictive(y, statistics, n_states, out, prior):  # type: ignore[no-untyped-def]
        mean, variance, found = 1e3, 0.0, 0.0
        for i in range(3):
            variance += 1.0
            if not math.isnan(y[i]):
                found -= 0.5 * (math.log(2 * math.pi * variance) + (y[i] - mean) ** 2 / variance)
                mean, variance = y[i], 0.0
        for i in range(n_states):
            out[i] = found
        return 0

    @compiled_update
    def update(y, weight, statistics, prior):  # type: ignore[no-untyped-def]
        statistics[0] += weight
        return 0

    return mdvpf.CompiledEmission(log_predictive, update, 1, n_dims=3, name="sums of normals")
