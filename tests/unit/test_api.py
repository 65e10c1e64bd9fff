"""The public names: signatures, types, copies, forms of input, random numbers."""

from __future__ import annotations

import copy
import dataclasses
import importlib.metadata
import inspect
from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf import (
    MDVPA,
    SMC,
    VPA,
    Counts,
    FilterResult,
    InfiniteHMM,
    MemoryReport,
    OptimalResampling,
    ParticleFilter,
    ParticleLearning,
    Predictor,
    Step,
)
from tests.algorithms import EVERY_ALGORITHM

MODEL = InfiniteHMM(n_symbols=3)
SYMBOLS = [0, 1, 2, 2, 1, 0, 0, 1, 2, 1]
REQUIRED = inspect.Parameter.empty


def small_filter(algorithm: Any = MDVPA(), **options: Any) -> ParticleFilter:
    return ParticleFilter(MODEL, algorithm, n_particles=8, **{"rng": 1, **options})


def log_predictives(symbols: Any, algorithm: Any = MDVPA(), **options: Any) -> list[float]:
    return small_filter(algorithm).run(symbols, **options).log_predictive.tolist()


@pytest.fixture(params=EVERY_ALGORITHM.values(), ids=repr)
def pf(request: pytest.FixtureRequest) -> ParticleFilter:
    """A filter of every kind, in the middle of a stream."""
    pf = small_filter(request.param, history="full")
    pf.run(SYMBOLS)
    return pf


# ---- names, signatures, documentation --------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (
            InfiniteHMM,
            {
                "n_symbols": None,
                "alpha": 1.0,
                "gamma": 1.0,
                "beta": None,
                "oracle": "unvisited",
                "max_states": None,
                "emission": None,
                "machine": "moore",
                "kappa": 0.0,
                "forget": 0.0,
                "half_life": None,
            },
        ),
        (
            MDVPA,
            {
                "discount": "1/n",
                "normalizer": "geometric",
                "carry_weights": True,
                "selection": "top",
            },
        ),
        (VPA, {"carry_weights": True}),
        (SMC, {"resampling": "multinomial", "ess_threshold": None}),
        (ParticleLearning, {}),
        (OptimalResampling, {}),
        (
            ParticleFilter,
            {
                "model": REQUIRED,
                "algorithm": MDVPA(),
                "n_particles": 1000,
                "rng": None,
                "n_threads": 1,
                "history": None,
                "max_keys": None,
            },
        ),
        (ParticleFilter.update, {"self": REQUIRED, "symbol": REQUIRED, "key": None}),
        (ParticleFilter.predict_proba, {"self": REQUIRED, "key": None}),
        (ParticleFilter.new_sequence, {"self": REQUIRED, "key": None}),
        (ParticleFilter.tell_time, {"self": REQUIRED, "time": REQUIRED}),
        (
            ParticleFilter.run,
            {
                "self": REQUIRED,
                "symbols": REQUIRED,
                "lengths": None,
                "keys": None,
                "progress": False,
                "times": None,
            },
        ),
        (
            ParticleFilter.score,
            {
                "self": REQUIRED,
                "symbols": REQUIRED,
                "lengths": None,
                "keys": None,
                "times": None,
            },
        ),
        (ParticleFilter.copy, {"self": REQUIRED}),
        (ParticleFilter.path, {"self": REQUIRED, "k": None}),
        (ParticleFilter.counts, {"self": REQUIRED, "k": None}),
        (ParticleFilter.memory, {"self": REQUIRED}),
        (InfiniteHMM.paper, {"n_symbols": REQUIRED}),
        (
            ParticleFilter.sample,
            {"self": REQUIRED, "length": REQUIRED, "size": 1, "key": None, "rng": None},
        ),
        (
            ParticleFilter.forecast,
            {"self": REQUIRED, "horizon": REQUIRED, "size": 1000, "key": None, "rng": None},
        ),
        (ParticleFilter.top, {"self": REQUIRED, "n": 3, "key": None}),
    ],
    ids=lambda case: getattr(case, "__qualname__", ""),
)
def test_public_signatures_stay(function: Callable[..., Any], expected: dict[str, Any]) -> None:
    parameters = inspect.signature(function).parameters
    assert {name: parameter.default for name, parameter in parameters.items()} == expected
    assert list(parameters) == list(expected)


def test_options_of_the_filter_go_by_name_only() -> None:
    parameters = inspect.signature(ParticleFilter).parameters.values()
    by_name = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert by_name == {"rng", "n_threads", "history", "max_keys"}


@pytest.mark.parametrize("name", ["log_evidence", "weights", "states", "n_states", "n_symbols"])
def test_what_is_inside_cannot_be_assigned(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(small_filter(), name, 0)


def test_all_names_are_there_once() -> None:
    assert len(set(mdvpf.__all__)) == len(mdvpf.__all__)
    for name in mdvpf.__all__:
        assert hasattr(mdvpf, name)


def test_the_version_is_that_of_the_installed_package() -> None:
    assert mdvpf.__version__ == importlib.metadata.version("mdvpf")


def public_names(module: ModuleType) -> dict[str, Any]:
    """Return the names and modules of a module, without constants, which have no docstring."""
    found: dict[str, Any] = {}
    for name in module.__all__:
        value = getattr(module, name)
        if isinstance(value, ModuleType):
            found |= {f"{name}.{key}": each for key, each in public_names(value).items()}
        elif callable(value):
            found[name] = value
    return found


PUBLIC = public_names(mdvpf)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_is_documented_with_an_example(name: str) -> None:
    documentation = inspect.getdoc(PUBLIC[name]) or ""
    assert "Examples\n--------\n>>>" in documentation


def public_members(kind: type) -> dict[str, Any]:
    return {
        name: member
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_") and (inspect.isroutine(member) or isinstance(member, property))
    }


@pytest.mark.parametrize("name", public_members(ParticleFilter))
def test_member_of_the_filter_is_documented(name: str) -> None:
    member = public_members(ParticleFilter)[name]
    documentation = inspect.getdoc(member) or ""
    assert documentation
    if not isinstance(member, property):
        assert "Examples\n--------\n>>>" in documentation


def test_a_filter_is_a_predictor() -> None:
    protocol = ["n_symbols", "predict_proba", "update", "new_sequence", "run", "score", "copy"]
    protocol += ["freeze", "save", "load", "vocabulary", "is_open"]
    protocol += ["n_keys", "max_keys", "tell_time"]
    assert sorted(public_members(Predictor)) == sorted(protocol)
    assert isinstance(small_filter(), Predictor)
    assert small_filter().n_symbols == 3


# ---- configuration ---------------------------------------------------------------------------

CONFIGURATION = [
    MODEL,
    InfiniteHMM(5, 2, 3, 4, "any", 6),
    *EVERY_ALGORITHM.values(),
    MDVPA([0.5, 0.25]),
]


@pytest.mark.parametrize("value", CONFIGURATION, ids=repr)
class TestConfiguration:
    def test_is_frozen(self, value: Any) -> None:
        for field in dataclasses.fields(value):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(value, field.name, getattr(value, field.name))
        assert not hasattr(value, "__dict__")

    def test_equals_its_like_and_hashes_alike(self, value: Any) -> None:
        twin = type(value)(**{f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
        assert value == twin
        assert hash(value) == hash(twin)
        assert sum(value == other for other in CONFIGURATION) == 1
        assert len({*CONFIGURATION, twin}) == len(CONFIGURATION)

    def test_repr_makes_it_again(self, value: Any) -> None:
        assert eval(repr(value), vars(mdvpf)) == value

    def test_equals_its_copies(self, value: Any) -> None:
        assert copy.copy(value) == value
        assert copy.deepcopy(value) == value


def test_numbers_of_any_kind_become_plain_ones() -> None:
    model = InfiniteHMM(np.int16(3), np.float32(0.5), 2, np.int64(4), max_states=np.uint8(9))
    assert model == InfiniteHMM(3, 0.5, 2.0, 4.0, max_states=9)
    types = [type(value) for value in dataclasses.astuple(model)]
    assert types[:6] == [int, float, float, float, str, int]
    model = InfiniteHMM(3, kappa=np.int8(2), forget=np.float32(0), half_life=5)
    assert model == InfiniteHMM(3, kappa=2.0, forget=0.0, half_life=5.0)
    types = [type(value) for value in dataclasses.astuple(model)]
    assert types[6:] == [type(None), str, float, float, float]
    assert type(SMC(ess_threshold=1).ess_threshold) is float
    assert VPA(np.False_).carry_weights is False
    assert type(MDVPA(1).discount) is float


def test_attributes_of_a_filter_are_as_passed() -> None:
    algorithm = SMC()
    pf = ParticleFilter(MODEL, algorithm, np.int32(7), n_threads=2, history=np.int64(5))
    assert pf.model is MODEL
    assert pf.algorithm is algorithm
    assert (pf.n_particles, pf.n_threads, pf.history) == (7, 2, 5)
    assert "n_particles=7" in repr(pf)
    assert repr(MODEL) in repr(pf)
    assert repr(algorithm) in repr(pf)
    assert ParticleFilter(MODEL, history="full").history == "full"
    assert ParticleFilter(MODEL).algorithm == MDVPA()


# ---- results ---------------------------------------------------------------------------------


def test_update_returns_a_step(pf: ParticleFilter) -> None:
    expected = float(np.log(pf.predict_proba()[2]))
    step = pf.update(2)
    assert isinstance(step, Step)
    assert step._fields == ("log_predictive", "mean_states", "ess", "n_particles", "discarded")
    assert [type(value) for value in step] == [float, float, float, int, float]
    np.testing.assert_allclose(step.log_predictive, expected, rtol=1e-12)
    np.testing.assert_allclose(step.mean_states, pf.weights @ pf.n_states, rtol=1e-12)
    assert step.n_particles == len(pf.weights)
    assert 0.0 <= step.discarded < 1.0
    assert 1.0 <= step.ess <= step.n_particles * (1 + 1e-12)
    assert pf.update(None).log_predictive == 0.0


def test_a_run_is_its_updates(pf: ParticleFilter) -> None:
    twin = pf.copy()
    before = pf.log_evidence
    result = pf.run([2, None, 1, 0])
    steps = [twin.update(symbol) for symbol in [2, None, 1, 0]]
    for field, values in zip(Step._fields, zip(*steps, strict=True), strict=True):
        np.testing.assert_array_equal(getattr(result, field), values)
    np.testing.assert_allclose(result.log_evidence, pf.log_evidence - before, rtol=1e-12)
    assert pf.log_evidence == twin.log_evidence
    assert pf.rng.bit_generator.state == twin.rng.bit_generator.state


def test_a_result_has_its_shapes_and_types_and_is_frozen(pf: ParticleFilter) -> None:
    result = pf.run([2, 1, 0])
    assert isinstance(result, FilterResult)
    assert len(result) == 3
    for name in Step._fields:
        array = getattr(result, name)
        assert array.shape == (3,)
        assert array.dtype == (np.int64 if name == "n_particles" else np.float64)
        assert array.flags.owndata or array.base.flags.owndata
        assert array.flags.writeable
    assert type(result.log_evidence) is float
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.log_evidence = 0.0  # type: ignore[misc]


def test_arrays_have_their_shapes_and_types(pf: ParticleFilter) -> None:
    n = len(pf.weights)
    probabilities = pf.predict_proba()
    assert (probabilities.shape, probabilities.dtype) == ((3,), np.float64)
    np.testing.assert_allclose(probabilities.sum(), 1.0, rtol=1e-12)
    assert (pf.weights.shape, pf.weights.dtype) == ((n,), np.float64)
    np.testing.assert_allclose(pf.weights.sum(), 1.0, rtol=1e-12)
    assert (pf.states.shape, pf.states.dtype) == ((n,), np.int64)
    assert (pf.n_states.shape, pf.n_states.dtype) == ((n,), np.int64)
    assert type(pf.log_evidence) is float
    scores = pf.score([0, 1])
    assert (scores.shape, scores.dtype) == ((2,), np.float64)
    for k in range(n):
        m = pf.n_states[k]
        counts = pf.counts(k)
        assert isinstance(counts, Counts)
        assert [table.shape for table in counts] == [(m,), (m, m), (m, 3)]
        assert {table.dtype for table in counts} == {np.dtype(np.int64)}
        path = pf.path(k)
        assert (path.shape, path.dtype) == ((len(SYMBOLS),), np.int64)
        assert path[-1] == pf.states[k]
        assert path.max() == m - 1
        np.testing.assert_array_equal(counts.emission.sum(axis=0), np.bincount(SYMBOLS))
        assert counts.start.sum() + counts.transition.sum() == len(SYMBOLS)


def test_the_heaviest_particle_is_the_default(pf: ParticleFilter) -> None:
    heaviest = int(pf.weights.argmax())
    np.testing.assert_array_equal(pf.path(), pf.path(heaviest))
    np.testing.assert_array_equal(pf.counts().transition, pf.counts(np.int8(heaviest)).transition)


def arrays_of(pf: ParticleFilter) -> list[np.ndarray]:
    return [pf.predict_proba(), pf.weights, pf.states, pf.n_states, pf.path(), *pf.counts()]


def test_arrays_are_copies(pf: ParticleFilter) -> None:
    before = [array.copy() for array in arrays_of(pf)]
    for array in arrays_of(pf):
        array[...] = 77
    for array, expected in zip(arrays_of(pf), before, strict=True):
        np.testing.assert_array_equal(array, expected)
    pf._core.verify()


def test_arrays_stay_as_they_were(pf: ParticleFilter) -> None:
    shown = arrays_of(pf)
    before = [array.copy() for array in shown]
    pf.run([2, 0, 1, 1])
    for array, expected in zip(shown, before, strict=True):
        np.testing.assert_array_equal(array, expected)


def test_a_memory_report_has_its_fields_and_adds_up(pf: ParticleFilter) -> None:
    report = pf.memory()
    assert isinstance(report, MemoryReport)
    assert all(type(value) is int for value in dataclasses.astuple(report))
    fields = " ".join(field.name for field in dataclasses.fields(report))
    assert fields == "live allocated dense_equivalent rows shared_rows history_nodes"
    assert 0 < report.live <= report.allocated
    assert 0 <= report.shared_rows <= report.rows
    assert report.history_nodes > 0
    assert report == pf.memory()
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.live = 0  # type: ignore[misc]


def test_size_is_at_least_what_is_allocated(pf: ParticleFilter) -> None:
    assert pf.__sizeof__() >= pf.memory().allocated
    before = pf.__sizeof__()
    pf.run(np.random.default_rng(1).integers(0, 3, 1000))
    assert pf.__sizeof__() > before


# ---- forms of input --------------------------------------------------------------------------

INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, ">i4"]


def spread(array: np.ndarray) -> np.ndarray:
    """Return a view of the same values that is not contiguous."""
    return np.repeat(array, 2)[::2]


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


class ArrayLike:
    """The array protocols of other libraries."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(SYMBOLS, dtype=dtype)


@pytest.mark.parametrize(
    "symbols",
    [
        tuple(SYMBOLS),
        deque(SYMBOLS),
        [np.int64(symbol) for symbol in SYMBOLS],
        [np.uint8(symbol) for symbol in SYMBOLS],
        np.array(SYMBOLS, dtype=object),
        np.array(SYMBOLS[::-1])[::-1],
        spread(np.array(SYMBOLS)),
        read_only(np.array(SYMBOLS)),
        read_only(np.array(SYMBOLS, dtype=np.int32)),
        np.array([SYMBOLS, SYMBOLS]).T[:, 0],
        np.ma.array(SYMBOLS),
        np.ma.array(SYMBOLS, mask=False),
        ArrayLike(),
        *(np.array(SYMBOLS, dtype=dtype) for dtype in INTEGERS),
        *(spread(np.array(SYMBOLS, dtype=dtype)) for dtype in INTEGERS),
    ],
    ids=lambda symbols: f"{type(symbols).__name__}-{getattr(symbols, 'dtype', '')}",
)
def test_symbols_in_any_form(symbols: Any) -> None:
    assert log_predictives(symbols) == log_predictives(SYMBOLS)


def test_iterators_and_ranges_of_symbols() -> None:
    assert log_predictives(iter(SYMBOLS)) == log_predictives(SYMBOLS)
    assert log_predictives(symbol for symbol in SYMBOLS) == log_predictives(SYMBOLS)
    assert log_predictives(range(3)) == log_predictives([0, 1, 2])


def test_symbols_are_not_changed() -> None:
    symbols = np.ma.array(SYMBOLS, mask=[False, True] * 5)
    data, mask = symbols.data.copy(), symbols.mask.copy()
    small_filter().run(symbols)
    np.testing.assert_array_equal(symbols.data, data)
    np.testing.assert_array_equal(symbols.mask, mask)


WITH_MISSING = [0, None, 2, 2, None, None, 0, 1, 2, None]


@pytest.mark.parametrize("dtype", [*INTEGERS, object])
@pytest.mark.parametrize("under_the_mask", [0, 2, 99, 127])
def test_masked_symbols_are_missing(dtype: Any, under_the_mask: int) -> None:
    """Arbitrary values under the mask, in every type: -1 does not exist in the unsigned ones."""
    symbols = np.ma.array(
        [under_the_mask if symbol is None else symbol for symbol in WITH_MISSING],
        mask=[symbol is None for symbol in WITH_MISSING],
        dtype=dtype,
    )
    expected = log_predictives(WITH_MISSING)
    assert log_predictives(symbols) == expected
    assert log_predictives(symbols[::-1][::-1]) == expected
    assert [value for value, s in zip(expected, WITH_MISSING, strict=True) if s is None] == [
        0.0
    ] * 4


@pytest.mark.parametrize("algorithm", EVERY_ALGORITHM.values(), ids=repr)
def test_none_is_missing_in_every_form(algorithm: Any) -> None:
    pf = small_filter(algorithm)
    expected = [pf.update(symbol).log_predictive for symbol in WITH_MISSING]
    assert log_predictives(WITH_MISSING, algorithm) == expected
    assert log_predictives(iter(WITH_MISSING), algorithm) == expected
    assert log_predictives(np.array(WITH_MISSING, dtype=object), algorithm) == expected


@pytest.mark.parametrize("kind", [int, np.int8, np.uint8, np.int64, np.uint64])
def test_update_takes_integers_of_any_kind(kind: Callable[[int], Any]) -> None:
    pf = small_filter()
    assert [pf.update(kind(y)).log_predictive for y in SYMBOLS] == log_predictives(SYMBOLS)


@pytest.mark.parametrize(
    "lengths",
    [
        (3, 1, 6),
        deque([3, 1, 6]),
        np.array([3, 1, 6], dtype=np.uint8),
        np.array([3, 1, 6], dtype=object),
        spread(np.array([3, 1, 6])),
        np.ma.array([3, 1, 6]),
    ],
    ids=lambda lengths: f"{type(lengths).__name__}-{getattr(lengths, 'dtype', '')}",
)
def test_lengths_in_any_form(lengths: Any) -> None:
    pf = small_filter()
    expected = []
    for i, symbol in enumerate(SYMBOLS):
        if i in (0, 3, 4):
            pf.new_sequence()
        expected.append(pf.update(symbol).log_predictive)
    assert log_predictives(SYMBOLS, lengths=lengths) == expected
    assert log_predictives(SYMBOLS, lengths=iter(lengths)) == expected


def test_without_lengths_the_sequence_continues() -> None:
    pf = small_filter()
    parts = [pf.run(SYMBOLS[:4]).log_predictive, pf.run(SYMBOLS[4:]).log_predictive]
    assert np.concatenate(parts).tolist() == log_predictives(SYMBOLS)
    assert log_predictives(SYMBOLS, lengths=[4, 6]) != log_predictives(SYMBOLS)


# ---- discounts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "others"),
    [
        (
            "1/n",
            [
                lambda n: 1 / n,
                [1 / n for n in range(1, 11)],
                tuple(1 / n for n in range(1, 11)),
                1 / np.arange(1, 11),
                spread(1 / np.arange(1, 11)),
                np.array([1 / n for n in range(1, 11)], dtype=object),
            ],
        ),
        ("1/sqrt(n)", [lambda n: 1 / np.sqrt(n), 1 / np.sqrt(np.arange(1, 11))]),
        (0.25, [lambda n: np.float32(0.25), [0.25] * 10, np.full(12, 0.25), np.float16(0.25)]),
        (1, [1.0, lambda n: np.int8(1), [1] * 10, np.ones(10)]),
        (0, [0.0, lambda n: 0, np.zeros(10, dtype=int)]),
    ],
    ids=["1/n", "1/sqrt(n)", "float", "one", "zero"],
)
def test_discount_in_any_form(one: Any, others: list[Any]) -> None:
    steps = range(1, 11)
    values = MDVPA(one).discounts(steps)
    assert (values.shape, values.dtype) == ((10,), np.float64)
    for other in others:
        np.testing.assert_array_equal(MDVPA(other).discounts(np.array(steps)), values)
        assert log_predictives(SYMBOLS, MDVPA(other)) == log_predictives(SYMBOLS, MDVPA(one))


def test_a_callable_takes_plain_ints_once_a_step() -> None:
    seen: list[int] = []

    def discount(n: int) -> float:
        seen.append(n)
        return 0.5

    small_filter(MDVPA(discount)).run(SYMBOLS)
    assert seen == list(range(1, len(SYMBOLS)))
    assert {type(n) for n in seen} == {int}


def test_discounts_of_no_steps() -> None:
    for discount in ("1/n", 0.5, [], lambda n: 0.5):
        assert MDVPA(discount).discounts([]).shape == (0,)


def test_a_discount_is_kept_as_it_was() -> None:
    values = np.full(20, 0.5)
    algorithm = MDVPA(values)
    values[:] = 99.0
    assert algorithm == MDVPA([0.5] * 20)


# ---- copies ----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [ParticleFilter.copy, copy.copy, copy.deepcopy])
def test_a_copy_continues_alike_and_alone(
    pf: ParticleFilter, make: Callable[[ParticleFilter], ParticleFilter]
) -> None:
    twin = make(pf)
    assert type(twin) is ParticleFilter
    assert (twin.model, twin.algorithm, twin.history) == (pf.model, pf.algorithm, pf.history)
    assert twin.rng is not pf.rng
    before = pf.predict_proba(), pf.log_evidence, pf.rng.bit_generator.state
    result = twin.run([2, 1, 0, 2])
    np.testing.assert_array_equal(pf.predict_proba(), before[0])
    assert (pf.log_evidence, pf.rng.bit_generator.state) == before[1:]
    np.testing.assert_array_equal(pf.run([2, 1, 0, 2]).log_predictive, result.log_predictive)
    np.testing.assert_array_equal(pf.path(), twin.path())
    pf._core.verify()
    twin._core.verify()


def test_a_score_leaves_the_filter_alone(pf: ParticleFilter) -> None:
    before = pf.predict_proba(), pf.log_evidence, pf.rng.bit_generator.state
    scores = pf.score([2, 1, None, 0], lengths=[2, 2])
    np.testing.assert_array_equal(pf.predict_proba(), before[0])
    assert (pf.log_evidence, pf.rng.bit_generator.state) == before[1:]
    np.testing.assert_array_equal(scores, pf.run([2, 1, None, 0], lengths=[2, 2]).log_predictive)


# ---- random numbers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: 7,
        lambda: np.int64(7),
        lambda: np.random.SeedSequence(7),
        lambda: np.random.PCG64(7),
        lambda: np.random.default_rng(7),
    ],
    ids=["int", "int64", "SeedSequence", "BitGenerator", "Generator"],
)
def test_seeds_of_every_form(make: Callable[[], Any]) -> None:
    expected = small_filter(SMC(), rng=7).run(SYMBOLS)
    result = small_filter(SMC(), rng=make()).run(SYMBOLS)
    np.testing.assert_array_equal(result.log_predictive, expected.log_predictive)


def test_without_a_seed_filters_differ() -> None:
    one, other = (small_filter(SMC(), rng=None) for _ in range(2))
    assert one.rng.bit_generator.state != other.rng.bit_generator.state


def test_a_generator_is_used_as_it_is_and_shared() -> None:
    rng = np.random.default_rng(7)
    one, other = small_filter(SMC(), rng=rng), small_filter(SMC(), rng=rng)
    assert one.rng is rng
    assert other.rng is rng
    one.update(0)
    after_one = rng.bit_generator.state
    other.update(0)
    assert rng.bit_generator.state != after_one
    # 2 K uniforms a step: the states, and the resampling
    expected = np.random.default_rng(7)
    expected.random(4 * 8)
    assert rng.bit_generator.state == expected.bit_generator.state


def test_a_bit_generator_is_shared() -> None:
    bits = np.random.Philox(7)
    assert small_filter(SMC(), rng=bits).rng.bit_generator is bits


@pytest.mark.parametrize("algorithm", [MDVPA(), VPA(), VPA(carry_weights=False)], ids=repr)
def test_deterministic_filters_draw_nothing(algorithm: Any) -> None:
    rng = np.random.default_rng(7)
    pf = small_filter(algorithm, rng=rng)
    pf.run(SYMBOLS, lengths=[4, 6])
    assert rng.bit_generator.state == np.random.default_rng(7).bit_generator.state


@pytest.mark.parametrize("name", ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"])
def test_uniforms_not_used_are_put_back(name: str) -> None:
    """A run in one call and symbol by symbol leave every kind of generator in the same state."""
    bits = getattr(np.random, name)
    for algorithm in (OptimalResampling(), SMC("residual"), SMC("stratified", ess_threshold=0.5)):
        one = small_filter(algorithm, rng=bits(3))
        other = small_filter(algorithm, rng=bits(3))
        one.run(SYMBOLS)
        for symbol in SYMBOLS:
            other.update(symbol)
        np.testing.assert_array_equal(one.rng.random(3), other.rng.random(3))


@pytest.mark.parametrize(
    "kind",
    [
        np.random.PCG64,
        np.random.PCG64DXSM,
        np.random.MT19937,
        np.random.Philox,
        np.random.SFC64,
    ],
)
def test_a_uniform_that_a_step_did_not_use_is_put_back(kind: type[np.random.BitGenerator]) -> None:
    rng, twin = (np.random.Generator(kind(5)) for _ in range(2))
    for generator in (rng, twin):
        generator.integers(9, dtype=np.uint32)  # half of a number is stored for the next call
    model = mdvpf.InfiniteHMM(3)
    pf = mdvpf.ParticleFilter(model, mdvpf.OptimalResampling(), n_particles=1000, rng=rng)
    for symbol in (0, 1, 2):  # few candidates: all are kept, and nothing is drawn
        pf.update(symbol)
    assert rng.integers(9, size=3, dtype=np.uint32).tolist() == (
        twin.integers(9, size=3, dtype=np.uint32).tolist()
    )
    assert rng.random(5).tolist() == twin.random(5).tolist()


# ---- progress --------------------------------------------------------------------------------


def test_no_progress_bar_where_there_is_no_terminal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    with_bar = small_filter().run(SYMBOLS, progress=True)
    assert capfd.readouterr() == ("", "")
    assert with_bar.log_predictive.tolist() == log_predictives(SYMBOLS)
