"""Bad input raises an error that names it, and leaves the filter and its generator unchanged.

Each case is a row of a table: the argument, a bad value and the exception. A message begins with
the name of the argument, shows the value (or its shape or type) and states what was expected.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf import MDVPA, SMC, VPA, InfiniteHMM, OptimalResampling, ParticleFilter

MODEL = InfiniteHMM(n_symbols=3)
PAST = [0, 1, 2, 2, 1, None, 0, 1]
FUTURE = [1, 0, None, 2, 2, 0]
NAN, INF = math.nan, math.inf
FILTERS = [MDVPA(), SMC(), OptimalResampling()]


@contextmanager
def refused(error: type[Exception], name: str, shown: str = "") -> Iterator[None]:
    """Expect an error about the argument `name` that shows the value as `shown`."""
    with pytest.raises(error) as caught:
        yield
    message = str(caught.value)
    assert type(caught.value) is error
    assert re.match(rf"{re.escape(name)}(?!\w)", message), message
    assert shown in message
    assert "expected" in message
    assert len(message) < 500


def live_filter(algorithm: mdvpf.algorithms.Algorithm) -> ParticleFilter:
    """Return a filter in the middle of a stream; with MD-VPA a symbol is pending."""
    pf = ParticleFilter(MODEL, algorithm, n_particles=7, rng=5, history="full")
    pf.run(PAST)
    return pf


def all_that_shows(pf: ParticleFilter) -> dict[str, Any]:
    """Return everything that can be seen of a filter, as plain values."""
    counts = pf.counts()
    return {
        "probabilities": pf.predict_proba().tolist(),
        "log_evidence": pf.log_evidence,
        "weights": pf.weights.tolist(),
        "states": pf.states.tolist(),
        "n_states": pf.n_states.tolist(),
        "path": pf.path().tolist(),
        "counts": [table.tolist() for table in counts],
        "n_steps": pf._core.n_steps,
        "pending": pf._core.pending,
        "generator": pf.rng.bit_generator.state,
    }


@contextmanager
def unchanged(pf: ParticleFilter) -> Iterator[None]:
    """Expect the filter and its future to be unaffected."""
    before, twin = all_that_shows(pf), pf.copy()
    yield
    assert all_that_shows(pf) == before
    pf._core.verify()
    result, expected = pf.run(FUTURE), twin.run(FUTURE)
    np.testing.assert_array_equal(result.log_predictive, expected.log_predictive)
    np.testing.assert_array_equal(result.ess, expected.ess)
    assert all_that_shows(pf) == all_that_shows(twin)
    pf._core.verify()


@pytest.fixture(params=FILTERS, ids=lambda algorithm: type(algorithm).__name__)
def pf(request: pytest.FixtureRequest) -> ParticleFilter:
    return live_filter(request.param)


def names(case: Any) -> str | None:
    """Label a value of a table in the name of a test."""
    if isinstance(case, type):
        return case.__name__
    # Without addresses: tests must have the same names in every process.
    return case if isinstance(case, str) else re.sub(r" at 0x\w+|\s+", "", repr(case))[:40]


def test_the_deterministic_filter_has_a_pending_symbol() -> None:
    assert live_filter(MDVPA())._core.pending


# ---- the model, the algorithms and the filter ------------------------------------------------

BAD_MODELS = [
    ("n_symbols", 0, ValueError),
    ("n_symbols", -1, ValueError),
    ("n_symbols", 2**31, ValueError),
    ("n_symbols", 2.0, TypeError),
    ("n_symbols", True, TypeError),
    ("n_symbols", "3", TypeError),
    ("n_symbols", None, TypeError),
    ("n_symbols", np.array(3), TypeError),
    *(
        (name, value, error)
        for name in ("alpha", "gamma", "beta")
        for value, error in [
            (0, ValueError),
            (0.0, ValueError),
            (-1.0, ValueError),
            (NAN, ValueError),
            (INF, ValueError),
            (-INF, ValueError),
            (1e300, ValueError),
            (1e-300, ValueError),
            (10**400, ValueError),
            ("1", TypeError),
            (True, TypeError),
            (np.True_, TypeError),
            (1j, TypeError),
            (Fraction(1, 2), TypeError),
            (np.array(1.0), TypeError),
            ([1.0], TypeError),
        ]
    ),
    ("alpha", None, TypeError),
    ("gamma", None, TypeError),
    ("oracle", "all", ValueError),
    ("oracle", "Any", ValueError),
    ("oracle", None, TypeError),
    ("oracle", True, TypeError),
    ("oracle", ["any"], TypeError),
    ("max_states", 0, ValueError),
    ("max_states", -1, ValueError),
    ("max_states", 1.5, TypeError),
    ("max_states", True, TypeError),
    ("max_states", "3", TypeError),
    ("max_states", np.ma.masked, TypeError),
]


@pytest.mark.parametrize(("name", "value", "error"), BAD_MODELS, ids=names)
def test_a_bad_argument_of_a_model_is_named(name: str, value: Any, error: type[Exception]) -> None:
    with refused(error, name, repr(value)):
        InfiniteHMM(**{"n_symbols": 3, name: value})


BAD_ALGORITHMS = [
    (MDVPA, "discount", "1/n^2", ValueError),
    (MDVPA, "discount", "", ValueError),
    (MDVPA, "discount", -0.5, ValueError),
    (MDVPA, "discount", NAN, ValueError),
    (MDVPA, "discount", INF, ValueError),
    (MDVPA, "discount", 1.7e308, ValueError),
    (MDVPA, "discount", 10**400, ValueError),
    (MDVPA, "discount", None, TypeError),
    (MDVPA, "discount", True, TypeError),
    (MDVPA, "discount", b"1/n", TypeError),
    (MDVPA, "discount", {1: 0.5}, TypeError),
    (MDVPA, "discount", {0.5, 0.25}, TypeError),
    (MDVPA, "discount", np.array(0.5), TypeError),
    (MDVPA, "normalizer", "mean", ValueError),
    (MDVPA, "normalizer", None, TypeError),
    (MDVPA, "normalizer", 0, TypeError),
    (MDVPA, "carry_weights", 1, TypeError),
    (MDVPA, "carry_weights", None, TypeError),
    (MDVPA, "carry_weights", "yes", TypeError),
    (MDVPA, "selection", "best", ValueError),
    (MDVPA, "selection", 5, TypeError),
    (VPA, "carry_weights", 0, TypeError),
    (VPA, "carry_weights", np.array(True), TypeError),
    (SMC, "resampling", "bootstrap", ValueError),
    (SMC, "resampling", None, TypeError),
    (SMC, "resampling", True, TypeError),
    (SMC, "ess_threshold", -0.1, ValueError),
    (SMC, "ess_threshold", 1.1, ValueError),
    (SMC, "ess_threshold", NAN, ValueError),
    (SMC, "ess_threshold", INF, ValueError),
    (SMC, "ess_threshold", True, TypeError),
    (SMC, "ess_threshold", "0.5", TypeError),
]


@pytest.mark.parametrize(("kind", "name", "value", "error"), BAD_ALGORITHMS, ids=names)
def test_a_bad_argument_of_an_algorithm_is_named(
    kind: type, name: str, value: Any, error: type[Exception]
) -> None:
    with refused(error, name, repr(value)):
        kind(**{name: value})


@pytest.mark.parametrize(
    ("discount", "at", "error"),
    [
        ([0.5, -1.0], "discount[1]=-1.0", ValueError),
        ((0.5, 0.5, NAN), "discount[2]=nan", ValueError),
        ([INF], "discount[0]=inf", ValueError),
        ([0.5, None], "discount[1]=None", TypeError),
        ([0.5, True], "discount[1]=True", TypeError),
        (["0.5"], "discount[0]='0.5'", TypeError),
        ([[0.5], [0.25]], "discount[0]=[0.5]", TypeError),
        ([0.5, [0.25, 0.1]], "discount[1]=[0.25, 0.1]", TypeError),
        (np.full((2, 2), 0.5), "discount[0]=array([0.5, 0.5])", TypeError),
        (np.array([0.5, NAN]), "discount[1]=np.float64(nan)", ValueError),
        (np.array([True, False]), "discount[0]=np.True_", TypeError),
        (np.array([0.5, None]), "discount[1]=None", TypeError),
        (np.ma.array([0.5, 0.5], mask=[False, True]), "discount[1]=masked", TypeError),
    ],
    ids=names,
)
def test_a_bad_item_of_a_discount_is_named(discount: Any, at: str, error: type[Exception]) -> None:
    with refused(error, "discount", at):
        MDVPA(discount=discount)


@pytest.mark.parametrize("discount", ["1/n", 0.5, (0.5, 0.25), lambda n: 0.5], ids=names)
@pytest.mark.parametrize(
    ("steps", "shown", "error"),
    [
        ([1, 0], "steps[1]=0", ValueError),
        (np.array([-1]), "steps[0]=-1", ValueError),
        ([1.5], "steps[0]=1.5", TypeError),
        (np.array([1.5]), "float64", TypeError),
        (3, "steps=3", TypeError),
    ],
    ids=names,
)
def test_bad_steps_of_discounts_are_named(
    discount: Any, steps: Any, shown: str, error: type[Exception]
) -> None:
    with refused(error, "steps", shown):
        MDVPA(discount).discounts(steps)


@pytest.mark.parametrize("discount", ["1/n", 0.5, (0.5, 0.25), lambda n: 0.5], ids=names)
@pytest.mark.parametrize(
    ("step", "error"), [(0, ValueError), (-1, ValueError), (1.0, TypeError), (True, TypeError)]
)
def test_a_bad_step_of_a_discount_is_named(
    discount: Any, step: Any, error: type[Exception]
) -> None:
    with refused(error, "step", f"step={step!r}"):
        MDVPA(discount).discount_at(step)


BAD_FILTERS = [
    ("model", 3, TypeError),
    ("model", None, TypeError),
    ("model", InfiniteHMM, TypeError),
    ("model", VPA(), TypeError),
    ("algorithm", VPA, TypeError),
    ("algorithm", MDVPA, TypeError),
    ("algorithm", "VPA", TypeError),
    ("algorithm", None, TypeError),
    ("algorithm", MODEL, TypeError),
    ("n_particles", 0, ValueError),
    ("n_particles", -5, ValueError),
    ("n_particles", 2**31, ValueError),
    ("n_particles", 10.0, TypeError),
    ("n_particles", True, TypeError),
    ("n_particles", "10", TypeError),
    ("n_particles", None, TypeError),
    ("rng", "seed", TypeError),
    ("rng", 1.5, TypeError),
    ("rng", True, TypeError),
    ("rng", np.False_, TypeError),
    ("rng", -1, ValueError),
    ("rng", [1, -1], ValueError),
    ("rng", ["seed"], ValueError),
    ("rng", [1.5], TypeError),
    ("rng", {1: 2}, TypeError),
    ("rng", np.array(3), TypeError),
    ("rng", np.random, TypeError),
    ("rng", np.random.PCG64, TypeError),
    ("n_threads", 0, ValueError),
    ("n_threads", -1, ValueError),
    ("n_threads", 1.0, TypeError),
    ("n_threads", True, TypeError),
    ("n_threads", None, TypeError),
    ("history", 0, ValueError),
    ("history", -1, ValueError),
    ("history", "all", ValueError),
    ("history", "", ValueError),
    ("history", 1.5, TypeError),
    ("history", True, TypeError),
    ("history", False, TypeError),
    ("history", b"full", TypeError),
    ("history", ["full"], TypeError),
]


@pytest.mark.parametrize(("name", "value", "error"), BAD_FILTERS, ids=names)
def test_a_bad_argument_of_a_filter_is_named(name: str, value: Any, error: type[Exception]) -> None:
    with refused(error, name, repr(value)):
        ParticleFilter(**{"model": MODEL, name: value})


def test_an_unknown_name_is_told_the_values_that_are_not_names() -> None:
    with refused(ValueError, "history", "'all': expected one of 'full', an integer >= 1, or None"):
        ParticleFilter(MODEL, history="all")
    expected = "one of '1/n', '1/sqrt(n)', a number, a callable or a sequence"
    with refused(ValueError, "discount", f"'1/2': expected {expected}"):
        mdvpf.MDVPA(discount="1/2")


def test_a_generator_is_not_used_by_a_filter_that_is_refused() -> None:
    rng = np.random.default_rng(3)
    before = rng.bit_generator.state
    with refused(ValueError, "history"):
        ParticleFilter(MODEL, SMC(), rng=rng, history="all")
    assert rng.bit_generator.state == before


# ---- calls on a filter in use ----------------------------------------------------------------

BAD_SYMBOLS = [
    (3, ValueError),
    (-1, ValueError),
    (-4, ValueError),
    (2**31, ValueError),
    (2**32 + 1, ValueError),
    (10**30, ValueError),
    (np.int8(-1), ValueError),
    (np.uint64(2**64 - 1), ValueError),
    (1.0, TypeError),
    (NAN, TypeError),
    (INF, TypeError),
    (np.float64(1.0), TypeError),
    (1j, TypeError),
    (True, TypeError),
    (False, TypeError),
    (np.True_, TypeError),
    ("1", TypeError),
    (b"\x01", TypeError),
    ([1], TypeError),
    ((), TypeError),
    ({1}, TypeError),
    (np.array([1]), TypeError),
    (np.array(1), TypeError),
    (np.ma.array(1, mask=True), TypeError),
    (np.ma.masked, TypeError),
    (Fraction(1), TypeError),
    (object(), TypeError),
]


@pytest.mark.parametrize(("symbol", "error"), BAD_SYMBOLS, ids=names)
def test_a_bad_symbol_is_named_and_changes_nothing(
    pf: ParticleFilter, symbol: Any, error: type[Exception]
) -> None:
    with unchanged(pf), refused(error, "symbol", repr(symbol)):
        pf.update(symbol)


@pytest.mark.parametrize(("symbol", "error"), BAD_SYMBOLS, ids=names)
@pytest.mark.parametrize("form", [list, tuple, iter])
def test_a_bad_item_of_symbols_is_named_and_changes_nothing(
    symbol: Any, error: type[Exception], form: Callable[[list[Any]], Any]
) -> None:
    pf = live_filter(SMC())
    with unchanged(pf), refused(error, "symbols[3]", repr(symbol)):
        pf.run(form([0, 1, None, symbol, 2]))


def raising() -> Iterator[int]:
    yield 0
    raise LookupError("no more")


BAD_RUNS: list[tuple[Any, str, type[Exception]]] = [
    ([], "none", ValueError),
    ((), "none", ValueError),
    (iter([]), "none", ValueError),
    (np.array([]), "none", ValueError),
    (np.array([], dtype=int), "none", ValueError),
    (None, "None", TypeError),
    (1, "1", TypeError),
    (1.5, "1.5", TypeError),
    (True, "True", TypeError),
    (object, "object", TypeError),
    ("012", "'012'", TypeError),
    ("0" * 10_000, "...", TypeError),
    (b"\x00\x01", "x01", TypeError),
    (bytearray(b"\x00\x01"), "x01", TypeError),
    ({0, 1}, "{0, 1}", TypeError),
    (frozenset([0, 1]), "frozenset", TypeError),
    ({0: 1}, "{0: 1}", TypeError),
    ({0: 1}.keys(), "dict_keys", TypeError),
    (np.array(1), "shape ()", ValueError),
    (np.int64(1), "shape ()", ValueError),
    (np.ma.masked, "shape ()", ValueError),
    (np.ma.array(1, mask=True), "shape ()", ValueError),
    (np.array([[0, 1], [1, 0]]), "shape (2, 2)", ValueError),
    (np.zeros((0, 3), dtype=int), "shape (0, 3)", ValueError),
    (np.array([[0], [1]], dtype=object), "shape (2, 1)", ValueError),
    ([[0, 1], [1, 0]], "symbols[0]=[0, 1]", TypeError),
    ([0, [1, 0]], "symbols[1]=[1, 0]", TypeError),
    (np.array([0.0, 1.0]), "float64", TypeError),
    (np.array([0, NAN]), "float64", TypeError),
    (np.array([0, 1], dtype=np.float16), "float16", TypeError),
    (np.array([0j]), "complex128", TypeError),
    (np.array([True, False]), "bool", TypeError),
    (np.array(["0", "1"]), "<U1", TypeError),
    (np.array([b"0"]), "S1", TypeError),
    (np.array([0, 1], dtype="M8[s]"), "datetime64", TypeError),
    (np.array([0, 1], dtype="m8[s]"), "timedelta64", TypeError),
    (np.zeros(2, dtype=[("a", int)]), "'a'", TypeError),
    (np.ma.array([0.0, 1.0], mask=[True, False]), "float64", TypeError),
    (np.ma.array([0.0, 1.0], mask=True), "float64", TypeError),
    (np.ma.array([True, False], mask=[True, False]), "bool", TypeError),
    (np.ma.array([0, 5, 3], mask=[False, True, False]), "symbols[2]=3", ValueError),
    (np.ma.array([0, -1]), "symbols[1]=-1", ValueError),
    (np.ma.array([0, 1.5], mask=[True, False], dtype=object), "symbols[1]=1.5", TypeError),
    (list(np.ma.array([0, 1], mask=[False, True])), "symbols[1]=masked", TypeError),
    (np.array([0, 1, 3, 4]), "symbols[2]=3", ValueError),
    (np.array([0, -1]), "symbols[1]=-1", ValueError),
    (np.array([0, 255], dtype=np.uint8), "symbols[1]=255", ValueError),
    (np.array([2**63], dtype=np.uint64), f"symbols[0]={2**63}", ValueError),
    (np.array([2**32], dtype=np.int64), f"symbols[0]={2**32}", ValueError),
    (np.array([0, True], dtype=object), "symbols[1]=True", TypeError),
    (np.array([0, "1"], dtype=object), "symbols[1]='1'", TypeError),
    (np.array([0, NAN], dtype=object), "symbols[1]=nan", TypeError),
    (np.array([10**30, 0]), f"symbols[0]={10**30}", ValueError),
    (np.ndarray, "shape ()", ValueError),
]


@pytest.mark.parametrize(("symbols", "shown", "error"), BAD_RUNS, ids=names)
def test_bad_symbols_are_named_and_change_nothing(
    pf: ParticleFilter, symbols: Any, shown: str, error: type[Exception]
) -> None:
    with unchanged(pf):
        with refused(error, "symbols", shown):
            pf.run(symbols)
        with refused(error, "symbols", shown):
            pf.score(symbols)


BAD_LENGTHS: list[tuple[Any, str, type[Exception]]] = [
    ([], "sum to 0", ValueError),
    ([3], "sum to 3", ValueError),
    ([2, 3], "sum to 5", ValueError),
    (np.array([1, 1]), "sum to 2", ValueError),
    ([2**31 - 2, 2**31 - 2], f"sum to {2**32 - 4}", ValueError),
    ([4, 0], "lengths[1]=0", ValueError),
    ([5, -1], "lengths[1]=-1", ValueError),
    (np.array([5, -1]), "lengths[1]=-1", ValueError),
    ([2.0, 2.0], "lengths[0]=2.0", TypeError),
    (np.array([2.0, 2.0]), "float64", TypeError),
    ([3, True], "lengths[1]=True", TypeError),
    (np.array([True] * 4), "bool", TypeError),
    ([4, None], "lengths[1]=None", TypeError),
    ([NAN, 4], "lengths[0]=nan", TypeError),
    (["2", "2"], "lengths[0]='2'", TypeError),
    ([[2, 2]], "lengths[0]=[2, 2]", TypeError),
    (np.array([[2, 2]]), "shape (1, 2)", ValueError),
    (np.array(4), "shape ()", ValueError),
    (np.ma.masked, "shape ()", ValueError),
    (np.ma.array([2, 2], mask=[False, True]), "lengths[1]=None", TypeError),
    (4, "lengths=4", TypeError),
    (4.0, "lengths=4.0", TypeError),
    (True, "lengths=True", TypeError),
    ("22", "lengths='22'", TypeError),
    (b"\x04", "lengths=b", TypeError),
    ({4}, "lengths={4}", TypeError),
    ({4: 0}, "lengths={4: 0}", TypeError),
]


@pytest.mark.parametrize(("lengths", "shown", "error"), BAD_LENGTHS, ids=names)
def test_bad_lengths_are_named_and_change_nothing(
    pf: ParticleFilter, lengths: Any, shown: str, error: type[Exception]
) -> None:
    with unchanged(pf):
        with refused(error, "lengths", shown):
            pf.run([0, 1, 2, 0], lengths)
        with refused(error, "lengths", shown):
            pf.score([0, 1, 2, 0], lengths=lengths)


@pytest.mark.parametrize("progress", [1, 0, "yes", None, 0.5, [True]], ids=names)
def test_a_bad_progress_is_named_and_changes_nothing(pf: ParticleFilter, progress: Any) -> None:
    with unchanged(pf), refused(TypeError, "progress", repr(progress)):
        pf.run([0, 1], progress=progress)


@pytest.mark.parametrize(
    ("k", "error"),
    [
        (7, ValueError),
        (-1, ValueError),
        (10**30, ValueError),
        (0.0, TypeError),
        (NAN, TypeError),
        (True, TypeError),
        (np.False_, TypeError),
        ("0", TypeError),
        ([0], TypeError),
        (np.array(0), TypeError),
        (np.ma.masked, TypeError),
        (slice(None), TypeError),
    ],
    ids=names,
)
def test_a_bad_index_of_a_particle_is_named_and_changes_nothing(
    pf: ParticleFilter, k: Any, error: type[Exception]
) -> None:
    with unchanged(pf):
        with refused(error, "k", repr(k)):
            pf.path(k)
        with refused(error, "k", repr(k)):
            pf.counts(k)


def test_path_without_a_history_names_the_fix() -> None:
    pf = ParticleFilter(MODEL, n_particles=5)
    pf.run([0, 1, 2])
    with refused(ValueError, "history", 'history="full"'):
        pf.path()


def test_symbols_that_raise_when_they_are_read_change_nothing(pf: ParticleFilter) -> None:
    with unchanged(pf), pytest.raises(LookupError, match="no more"):
        pf.run(raising())


# ---- discounts that fail in the middle of a run ----------------------------------------------


def filter_with_discount(discount: Any) -> ParticleFilter:
    """Return a filter whose next steps are 8 (pending), 9, ...; FUTURE looks ahead in most."""
    pf = ParticleFilter(MODEL, MDVPA(discount), n_particles=7, rng=5, history="full")
    pf.run(PAST)
    return pf


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (NAN, ValueError),
        (INF, ValueError),
        (-1e-9, ValueError),
        (1.7e308, ValueError),
        ("0.5", TypeError),
        (None, TypeError),
        (True, TypeError),
        (1j, TypeError),
        ([0.5], TypeError),
        (np.array([0.5]), TypeError),
    ],
    ids=names,
)
def test_a_bad_value_of_a_callable_discount_undoes_the_run(
    value: Any, error: type[Exception]
) -> None:
    """The third step of the run fails: the first two must be undone."""
    broken = True
    pf = filter_with_discount(lambda n: value if broken and n == 10 else 0.5)
    with unchanged(pf):
        with refused(error, "discount", f"discount(10)={value!r}"):
            pf.run([0, 1, 2, 0, 1])
        broken = False


def test_a_callable_that_raises_in_the_middle_of_a_run_undoes_it() -> None:
    broken = True

    def discount(n: int) -> float:
        if broken and n == 10:
            raise ZeroDivisionError("no discount today")
        return 1.0 / n

    pf = filter_with_discount(discount)
    with unchanged(pf):
        with pytest.raises(ZeroDivisionError, match="no discount today"):
            pf.run([0, 1, 2, 0, 1])
        broken = False


@pytest.mark.parametrize("form", [list, tuple, np.array])
def test_a_discount_that_runs_out_is_named_and_changes_nothing(
    form: Callable[[list[float]], Any],
) -> None:
    """PAST leaves step 8 pending: a run of three symbols completes steps 8 to 10."""
    pf = filter_with_discount(form([0.5] * 9))
    before = all_that_shows(pf)
    with refused(ValueError, "discount", "step 10"):
        pf.run([0, 1, 2])
    assert all_that_shows(pf) == before
    pf.run([0, 1])
    with refused(ValueError, "discount", "has 9 values"):
        pf.update(0)
    pf.update(None)  # completes step 10 without a discount
    pf._core.verify()


def test_an_empty_discount_fails_at_the_first_step_that_looks_ahead() -> None:
    pf = ParticleFilter(MODEL, MDVPA(discount=[]), n_particles=5)
    pf.update(0)
    before = pf.predict_proba()
    with refused(ValueError, "discount", "has 0 values"):
        pf.update(1)
    np.testing.assert_array_equal(pf.predict_proba(), before)


def test_the_largest_numbers_allowed_are_no_error() -> None:
    """At the limits nothing overflows: no other errors than those above are needed."""
    for value in (1e-60, 1e60):
        for name in ("alpha", "gamma", "beta"):
            model = InfiniteHMM(3, **{name: value})
            pf = ParticleFilter(model, MDVPA(discount=1e290), n_particles=10)
            result = pf.run([0, 1, 2, 2, 1, 0] * 5)
            assert np.isfinite(result.log_predictive).all()
            np.testing.assert_allclose(pf.predict_proba().sum(), 1.0, rtol=1e-12)
            pf._core.verify()


def test_a_model_without_symbols_is_told_of_emissions() -> None:
    with pytest.raises(TypeError, match=re.escape("n_symbols=None: expected an integer >= 1, or")):
        mdvpf.InfiniteHMM()
