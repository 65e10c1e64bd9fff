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
from mdvpf.filter.calibration import integral_transforms
from mdvpf.model import read_observation
from tests.algorithms import EVERY_ALGORITHM
from tests.compiled_families import (
    OWN_PAIR,
    OWN_POISSON,
    LogPredictive,
    Update,
    poisson,
    with_twins,
)
from tests.number_families import STREAMS

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


# ---- in a product ----------------------------------------------------------------------------


@pytest.mark.parametrize("model", [{}, {"forget": 2.0}, {"half_life": 3.0, "oracle": "rows"}])
@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM)
def test_a_product_agrees_with_the_same_of_built_in_families(
    algorithm: str, model: dict[str, Any]
) -> None:
    family, observations = STREAMS["product of users"]
    both = [
        mdvpf.ParticleFilter(
            mdvpf.InfiniteHMM(emission=each, **model), EVERY_ALGORITHM[algorithm], 7, rng=1
        )
        for each in (family, with_twins(family))
    ]
    for i, observation in enumerate(observations * 2):
        key = "b" if i % 4 == 3 else None
        own, built_in = (pf.update(observation, key) for pf in both)
        assert own == pytest.approx(built_in, rel=0, abs=1e-9)
        both[0]._core.verify()
        row = read_observation(family, observation)
        found, expected = (pf.predictive(key).logpdf(row) for pf in both)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(both[0].counts().emission, both[1].counts().emission, atol=1e-9)
    columns = (np.array([[0.5, 4.0]] * 3), [0, None, 2], [3, 1, None], [None] * 3, [None] * 3)
    np.testing.assert_allclose(both[0].score(columns), both[1].score(columns), rtol=0, atol=1e-9)


@pytest.mark.parametrize("algorithm", [mdvpf.VPA(), mdvpf.MDVPA()])
def test_a_product_takes_functions_of_numba_and_cffi(algorithm: Any) -> None:
    """The Gaussian in Numba, the Poisson of ctypes by its addresses in cffi."""
    ffi = pytest.importorskip("cffi").FFI()
    addresses = OWN_POISSON.addresses[:2]
    counts = mdvpf.CompiledEmission(
        *(ffi.cast("void *", at) for at in addresses), 2, user_data=[2.0, 0.5]
    )
    prior = mdvpf.Gaussian(1, 0.5, 0.3, 1.5, 0.4)
    rng = np.random.default_rng(0)
    y = rng.normal(size=60) + 5.0 * rng.integers(0, 3, 60)
    y[::7] = np.nan
    n = np.ma.masked_array(rng.poisson(4.0, 60), rng.random(60) < 0.2)
    found = []
    for parts in ((gaussian_in_numba(), counts), (prior, mdvpf.Poisson(2.0, 0.5))):
        model = mdvpf.InfiniteHMM(emission=mdvpf.Product(*parts), forget=1.0)
        found.append(mdvpf.ParticleFilter(model, algorithm, 40).run((y, n)).log_predictive)
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-10)


def test_a_part_whose_numbers_are_missing_is_not_called() -> None:
    fails = Fails()
    family = mdvpf.Product(fails.family, mdvpf.Poisson(), fails.family)
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family), mdvpf.VPA(), n_particles=5)
    pf.run(([1.0, 2.0], [3, 4], [1.0, None]))
    fails.status = {"log_predictive": 7, "update": 7}
    assert math.isfinite(pf.update((None, 2, None)).log_predictive)
    pf._core.verify()
    with pytest.raises(ValueError, match="status 7"):
        pf.update((None, 2, 1.0))


def test_a_product_predicts_as_the_same_of_built_in_families() -> None:
    counts = poisson(support="counts")
    family = mdvpf.Product(counts, mdvpf.Gaussian(mean=3.0, shape=2.0), OWN_PAIR)
    twin = mdvpf.Product(mdvpf.Poisson(2.0, 0.5), *with_twins(family).families[1:])
    columns = ([0, 7, None, 6], [2.9, None, 3.3, 0.1], [[0.1, 3.0], [4.0, 2.0], None, [0.3, 2.8]])
    own, built_in = (
        mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=each), mdvpf.VPA(), n_particles=6)
        for each in (family, twin)
    )
    for pf in (own, built_in):
        pf.run(columns)
    found, expected = own.predictive(), built_in.predictive()
    for i in range(4):
        one, other = found.marginal(i), expected.marginal(i)
        assert one.is_discrete == other.is_discrete == (i == 0)
        np.testing.assert_allclose(one.cdf([0.0, 2.0, 5.0]), other.cdf([0.0, 2.0, 5.0]), atol=1e-8)
        np.testing.assert_allclose(one.ppf([0.1, 0.5, 0.9]), other.ppf([0.1, 0.5, 0.9]), rtol=1e-6)
    np.testing.assert_allclose(found.mean(), expected.mean(), rtol=0, atol=1e-6)
    assert found.rvs(5, random_state=0).shape == (5, 4)
    assert own.sample(3, size=2, rng=0).shape == (2, 3, 4)
    assert np.isfinite(own.forecast(2, size=5, rng=0)[1].logpdf([1.0, 3.0, math.nan, 0.2]))
    transforms = integral_transforms(own, ([1], [1.0], [[1.0, 2.0]]), rng=0)
    expected_transforms = integral_transforms(built_in, ([1], [1.0], [[1.0, 2.0]]), rng=0)
    np.testing.assert_allclose(transforms, expected_transforms, rtol=0, atol=1e-8)


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
    [
        ("n_statistics", 0),
        ("n_dims", 0),
        ("fades", [True]),
        ("name", ""),
        ("fades", [1, 2]),
        ("fades", 5),
        ("user_data", "a"),
        ("user_data", object()),
    ],
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


@pytest.mark.parametrize("place", ["alone", "in a product"])
@pytest.mark.parametrize("what", ["status", "nan", "inf"])
@pytest.mark.parametrize("function", ["log_predictive", "update"])
@pytest.mark.parametrize("algorithm", ["MD-VPA", "VPA", "SMC", "ParticleLearning"])
def test_a_failure_is_a_clear_error_and_changes_nothing(
    algorithm: str, function: str, what: str, place: str
) -> None:
    fails = Fails()
    family: Any = fails.family
    stream: Any = [1.0, 2.0, 3.0]
    last: Any = 4.0
    label = "'own'"
    if place == "in a product":
        family = mdvpf.Product(OWN_POISSON, mdvpf.Gaussian(), fails.family)
        stream, last = ([3, None, 4], stream, stream), (1, 0.5, 4.0)
        label = r"'own' \(families\[2\]\)"
    model = mdvpf.InfiniteHMM(emission=family)
    pf = mdvpf.ParticleFilter(model, EVERY_ALGORITHM[algorithm], 5, rng=1)
    pf.run(stream)
    before, generator = pf._core.snapshot(), copy.deepcopy(pf.rng)
    match what:
        case "status":
            fails.status[function] = 7
        case _:
            fails.value[function] = float(what)
    with pytest.raises(ValueError, match=f"{function}.*{label}.*(status 7|finite).*as it was"):
        pf.update(last)
    pf._core.verify()
    assert pf._core.snapshot() == before
    assert pf.rng.bit_generator.state == generator.bit_generator.state
    fails.status[function], fails.value[function] = 0, -1.0 if function != "update" else 1.0
    assert math.isfinite(pf.update(last).log_predictive)


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


def test_a_product_is_given_as_a_whole_and_every_part_is_compared() -> None:
    family, observations = STREAMS["product of users"]
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family), n_particles=6)
    for observation in observations:
        pf.update(observation)
    file = io.BytesIO()
    pf.save(file)

    def load(*parts: Any) -> Any:
        file.seek(0)
        return mdvpf.ParticleFilter.load(file, emission=mdvpf.Product(*parts))

    twin = load(*family.families)
    twin._core.verify()
    assert twin.update(observations[0]) == pf.update(observations[0])
    pair, symbols, counts, real, last = family.families
    with pytest.raises(mdvpf.CheckpointError, match=r"emission=\.\.\."):
        file.seek(0)
        mdvpf.ParticleFilter.load(file)
    with pytest.raises(mdvpf.CheckpointError, match="Product of 5"):
        file.seek(0)
        mdvpf.ParticleFilter.load(file, emission=pair)
    with pytest.raises(mdvpf.CheckpointError, match="Product of 5"):
        load(pair, symbols, counts, real)
    with pytest.raises(mdvpf.CheckpointError, match=r"families\[2\].*prior predictive"):
        load(pair, symbols, poisson(shape=3.0), real, last)
    with pytest.raises(mdvpf.CheckpointError, match=r"families\[2\].*fades"):
        load(pair, symbols, poisson(fades=[True, False]), real, last)
    with pytest.raises(mdvpf.CheckpointError, match=r"families\[2\].*label"):
        load(pair, symbols, poisson(name="other"), real, last)
    with pytest.raises(mdvpf.CheckpointError, match=r"families\[2\].*CompiledEmission"):
        load(pair, symbols, mdvpf.Poisson(2.0, 0.5), real, last)
    with pytest.raises(mdvpf.CheckpointError, match=r"families\[1\].*Categorical"):
        load(pair, mdvpf.Categorical(4, 0.4), counts, real, last)


@pytest.mark.parametrize("family", [OWN_POISSON, mdvpf.Product(OWN_POISSON)], ids=str)
def test_a_filter_can_be_copied_with_its_family(family: Any) -> None:
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(emission=family), n_particles=6)
    is_product = isinstance(family, mdvpf.Product)
    pf.run((COUNTS,) if is_product else COUNTS)
    y: Any = (2.0,) if is_product else 2.0
    for twin in (pf.copy(), copy.deepcopy(pf)):
        assert twin.update(y) == pf.copy().update(y)
