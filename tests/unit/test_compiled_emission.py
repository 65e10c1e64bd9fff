"""Families of users: they agree with those that are built in, and their failures change nothing."""

from __future__ import annotations

import copy
import ctypes
import functools
import io
import math
from typing import Any

import numpy as np
import pytest

import mdvpf
from benchmarks.numbers import in_numba
from tests.algorithms import EVERY_ALGORITHM

Doubles = ctypes.POINTER(ctypes.c_double)
LogPredictive = ctypes.CFUNCTYPE(
    ctypes.c_int, Doubles, Doubles, ctypes.c_int64, Doubles, ctypes.c_void_p
)
Update = ctypes.CFUNCTYPE(ctypes.c_int, Doubles, ctypes.c_double, Doubles, ctypes.c_void_p)


def poisson(shape: float = 2.0, rate: float = 0.5, **options: Any) -> mdvpf.CompiledEmission:
    """The Poisson family as functions of ctypes, which take their prior from the user's data."""

    def log_predictive(y: Any, statistics: Any, n: int, out: Any, data: Any) -> int:
        prior = ctypes.cast(data, Doubles)
        for i in range(n):
            a, b = prior[0] + statistics[2 * i + 1], prior[1] + statistics[2 * i]
            out[i] = (
                math.lgamma(a + y[0]) - math.lgamma(a) - math.lgamma(y[0] + 1.0)
                - a * math.log1p(1.0 / b) - y[0] * math.log1p(b)
            )  # fmt: skip
        return 0

    def update(y: Any, weight: float, statistics: Any, data: Any) -> int:
        statistics[0] += weight
        statistics[1] += weight * y[0]
        return 0

    return mdvpf.CompiledEmission(
        LogPredictive(log_predictive),
        Update(update),
        2,
        user_data=[shape, rate],
        name="poisson",
        **options,
    )


COUNTS = [0.0, 7.0, None, 6.0, 1.0, 0.0, 9.0, 8.0, 1.0]


@pytest.mark.parametrize("model", [{}, {"forget": 2.0}, {"half_life": 3.0, "oracle": "rows"}])
@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
def test_a_family_of_ones_own_agrees_with_the_same_built_in(
    algorithm: str, model: dict[str, Any]
) -> None:
    both = [
        mdvpf.ParticleFilter(
            mdvpf.InfiniteHMM(emission=family, **model), EVERY_ALGORITHM[algorithm], 7, rng=1
        )
        for family in (poisson(), mdvpf.Poisson(2.0, 0.5))
    ]
    for y in COUNTS:
        own, built_in = (pf.update(y) for pf in both)
        assert own == pytest.approx(built_in, rel=0, abs=1e-9)
        both[0]._core.verify()
        found, expected = (pf.predictive().logpdf([0.0, 3.0]) for pf in both)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(both[0].counts().emission, both[1].counts().emission, atol=1e-9)


@functools.cache
def gaussian_in_numba() -> mdvpf.CompiledEmission:
    pytest.importorskip("numba", reason="needs Numba: install mdvpf[numba]")
    return in_numba((0.5, 0.3, 1.5, 0.4))


@pytest.mark.parametrize("model", [{}, {"forget": 2.0}])
@pytest.mark.parametrize("algorithm", [mdvpf.VPA(), mdvpf.MDVPA()])
def test_a_gaussian_in_numba_agrees_with_the_built_in_one(
    algorithm: Any, model: dict[str, Any]
) -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=80) + 5.0 * rng.integers(0, 3, 80)
    found = []
    for family in (gaussian_in_numba(), mdvpf.Gaussian(1, 0.5, 0.3, 1.5, 0.4)):
        pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family, **model), algorithm, 60)
        found.append(pf.run(y).log_predictive)
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-12)


# ---- how functions are given -----------------------------------------------------------------


def test_functions_of_scipy_cffi_and_addresses() -> None:
    own = poisson()
    _, update = own._owners  # type: ignore[attr-defined]
    address, place, data = own.addresses
    scipy = pytest.importorskip("scipy")
    ways: list[Any] = [(address, place)]
    capsule = scipy.LowLevelCallable(ctypes.cast(address, LogPredictive), ctypes.c_void_p(data))
    ways.append((capsule, update))
    with_cffi: Any = pytest.importorskip("cffi")
    ffi = with_cffi.FFI()
    ways.append(tuple(ffi.cast("void *", at) for at in (address, place)))
    for way in ways:
        given = None if way[0] is capsule else [2.0, 0.5]
        family = mdvpf.CompiledEmission(*way, 2, user_data=given)
        assert family.addresses[:2] == (address, place)
        pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family), mdvpf.VPA(), 3)
        expected = mdvpf.ParticleFilter(
            mdvpf.InfiniteHMM(emission=mdvpf.Poisson(2.0, 0.5)), mdvpf.VPA(), 3
        )
        assert pf.update(3.0).log_predictive == pytest.approx(expected.update(3).log_predictive)


@pytest.mark.parametrize("bad", [None, len, "text", 0, True, lambda *_: 0])
def test_what_is_no_c_function_is_refused(bad: Any) -> None:
    with pytest.raises(TypeError, match="log_predictive"):
        mdvpf.CompiledEmission(bad, bad, 1)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("n_statistics", 0), ("n_dims", 0), ("fades", [True]), ("name", ""), ("fades", [1, 2])],
)
def test_bad_arguments_are_named(argument: str, value: Any) -> None:
    log_predictive, update = poisson()._owners  # type: ignore[attr-defined]
    given = {"n_statistics": 2, argument: value}
    with pytest.raises((TypeError, ValueError), match=argument):
        mdvpf.CompiledEmission(log_predictive, update, **given)


# ---- failures --------------------------------------------------------------------------------


class Fails:
    """A family that fails as it is told, once it is told."""

    def __init__(self) -> None:
        self.status = {"log_predictive": 0, "update": 0}
        self.value = {"log_predictive": -1.0, "update": 1.0}

        def log_predictive(y: Any, statistics: Any, n: int, out: Any, data: Any) -> int:
            for i in range(n):
                out[i] = self.value["log_predictive"]
            return self.status["log_predictive"]

        def update(y: Any, weight: float, statistics: Any, data: Any) -> int:
            statistics[0] += weight * self.value["update"]
            return self.status["update"]

        self.family = mdvpf.CompiledEmission(LogPredictive(log_predictive), Update(update), 1)


@pytest.mark.parametrize("what", ["status", "nan", "inf"])
@pytest.mark.parametrize("function", ["log_predictive", "update"])
@pytest.mark.parametrize("algorithm", ["MD-VPA", "VPA", "SMC", "ParticleLearning"])
def test_a_failure_is_a_clear_error_and_changes_nothing(
    algorithm: str, function: str, what: str
) -> None:
    fails = Fails()
    model = mdvpf.InfiniteHMM(emission=fails.family)
    pf = mdvpf.ParticleFilter(model, EVERY_ALGORITHM[algorithm], 5, rng=1)
    pf.run([1.0, 2.0, 3.0])
    before, generator = pf._core.snapshot(), copy.deepcopy(pf.rng)
    match what:
        case "status":
            fails.status[function] = 7
        case _:
            fails.value[function] = float(what)
    with pytest.raises(ValueError, match=f"{function}.*(status 7|finite).*as it was"):
        pf.update(4.0)
    pf._core.verify()
    assert pf._core.snapshot() == before
    assert pf.rng.bit_generator.state == generator.bit_generator.state
    fails.status[function], fails.value[function] = 0, -1.0 if function != "update" else 1.0
    assert math.isfinite(pf.update(4.0).log_predictive)


# ---- checkpoints -----------------------------------------------------------------------------


def test_a_checkpoint_asks_for_the_code_and_knows_it_again() -> None:
    family = poisson()
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family), n_particles=6)
    pf.run(COUNTS)
    file = io.BytesIO()
    pf.save(file)

    def load(**given: Any) -> Any:
        file.seek(0)
        return mdvpf.ParticleFilter.load(file, **given)

    with pytest.raises(mdvpf.CheckpointError, match=r"emission=\.\.\."):
        load()
    twin = load(emission=poisson())
    twin._core.verify()
    assert twin.update(3.0) == pf.update(3.0)
    with pytest.raises(mdvpf.CheckpointError, match="prior predictive"):
        load(emission=poisson(shape=3.0))
    with pytest.raises(mdvpf.CheckpointError, match="fades"):
        load(emission=poisson(fades=[True, False]))
    with pytest.raises(mdvpf.CheckpointError, match="CompiledEmission"):
        load(emission=mdvpf.Poisson())


def test_a_checkpoint_has_the_support_unless_it_is_real() -> None:
    def saved(family: mdvpf.CompiledEmission) -> bytes:
        pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family), n_particles=6)
        pf.run(COUNTS)
        file = io.BytesIO()
        pf.save(file)
        return file.getvalue()

    counts = poisson(support="counts")
    file = saved(counts)
    assert b'"support"' in file and b'"support"' not in saved(poisson())
    twin: Any = mdvpf.ParticleFilter.load(io.BytesIO(file), emission=counts)
    assert twin.predictive().is_discrete
    with pytest.raises(mdvpf.CheckpointError, match=r"support 'real'.*'counts'"):
        mdvpf.ParticleFilter.load(io.BytesIO(file), emission=poisson())
    # A file from before there was a support may be of counts.
    old: Any = mdvpf.ParticleFilter.load(io.BytesIO(saved(poisson())), emission=counts)
    assert old.predictive().is_discrete


@pytest.mark.parametrize("wrong", [1.5, -1, 2.0**60])
def test_observations_of_a_family_of_counts_are_counts(wrong: float) -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=poisson(support="counts")))
    before = pf._core.snapshot()
    for absorb in (pf.update, lambda y: pf.run([y]), lambda y: pf.run(np.array([0.0, y]))):
        with pytest.raises((TypeError, ValueError), match=r"symbol.*expected"):
            absorb(wrong)
    assert pf._core.snapshot() == before
    with pytest.raises(ValueError, match="support='natural'"):
        poisson(support="natural")


def test_a_filter_can_be_copied_with_its_family() -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=poisson()), n_particles=6)
    pf.run(COUNTS)
    for twin in (pf.copy(), copy.deepcopy(pf)):
        assert twin.update(2.0) == pf.copy().update(2.0)
