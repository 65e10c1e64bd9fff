"""`check_predictor`: all predictors of the package pass, and every broken promise is named."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pytest
from numpy.typing import NDArray

import mdvpf
from mdvpf.predictor import Predictor
from tests.algorithms import EVERY_ALGORITHM
from tests.keyed_predictors import (
    N_SYMBOLS,
    Counted,
    NumberedChain,
    OwnChain,
    OwnOpenCounts,
    SavedChain,
)

HMM = mdvpf.datasets.EXPANSIVE


def a_filter(algorithm: Any = None, **options: Any) -> mdvpf.ParticleFilter:
    model = mdvpf.InfiniteHMM(3, **options)
    return mdvpf.ParticleFilter(model, algorithm or mdvpf.MDVPA(), 10, rng=1)


def learnt(predictor: Predictor) -> Predictor:
    predictor.run([0, 1, 2, 0, None, 1, 2, 2] * 5, [20, 20])
    return predictor


PASSING: dict[str, Callable[[], Predictor]] = {
    **{name: lambda rule=rule: a_filter(rule) for name, rule in EVERY_ALGORITHM.items()},
    "mealy": lambda: a_filter(machine="mealy"),
    "forgetting": lambda: a_filter(half_life=20.0),
    "max_states": lambda: a_filter(mdvpf.VPA(), max_states=2),
    "a callable discount": lambda: a_filter(mdvpf.MDVPA(discount=lambda n: 1.0 / (n + 1))),
    "a learnt filter": lambda: learnt(a_filter()),
    "FrozenFilter": lambda: learnt(a_filter()).freeze(),
    "Markov": lambda: mdvpf.Markov(3),
    "Markov of order 0": lambda: mdvpf.Markov(3, order=0),
    "fading Markov": lambda: mdvpf.Markov(3, order=2, decay=0.9),
    "frozen Markov": lambda: learnt(mdvpf.Markov(3)).freeze(),
    "ContextTree": lambda: mdvpf.ContextTree(3),
    "PitmanYorTree": lambda: mdvpf.PitmanYorTree(3),
    "PitmanYorMixture": lambda: mdvpf.PitmanYorMixture(3),
    "KnownHMM": lambda: mdvpf.KnownHMM([HMM, HMM], [10]),
    "SoftHMM": lambda: mdvpf.SoftHMM(3, n_states=4, rng=0, n_seeds=2),
    "frozen SoftHMM": lambda: learnt(mdvpf.SoftHMM(3, n_states=4, rng=0)).freeze(),
    "one symbol": lambda: mdvpf.Markov(1),
    "Mixture": lambda: mdvpf.Mixture([mdvpf.Markov(3), mdvpf.ContextTree(3)], restart=8),
    "a learnt Mixture": lambda: learnt(mdvpf.Mixture([mdvpf.Markov(3), a_filter()])),
    "FrozenMixture": lambda: learnt(mdvpf.Mixture([mdvpf.Markov(3), a_filter()])).freeze(),
    "by_evidence": lambda: mdvpf.by_evidence(3, n_seeds=2, n_particles=5, rng=0),
    "auto": lambda: mdvpf.auto(3, n_particles=84, rng=0),
    "own, with keys": OwnChain,
    "own, with keys, frozen": lambda: learnt(OwnChain()).freeze(),
    "by number": NumberedChain,
    "by number, saved": SavedChain,
    "own, open": OwnOpenCounts,
    "Mixture, with keys": lambda: mdvpf.Mixture([OwnChain(), NumberedChain(0.1)], restart=8),
    "FrozenMixture, with keys": lambda: learnt(mdvpf.Mixture([OwnChain(), OwnChain(0.1)])).freeze(),
    "Mixture, with keys, saved": lambda: mdvpf.Mixture([SavedChain(), SavedChain(0.1)], restart=8),
    "FrozenMixture, with keys, saved": lambda: learnt(
        mdvpf.Mixture([SavedChain(), SavedChain(0.1)], restart=8)
    ).freeze(),
    "Mixture, open": lambda: mdvpf.Mixture([OwnOpenCounts(), OwnOpenCounts(0.1)]),
    "nested Mixture, with keys": lambda: mdvpf.Mixture(
        [mdvpf.Mixture([OwnChain()]), OwnChain(9.0)]
    ),
}


@pytest.mark.parametrize("name", PASSING)
def test_predictors_that_keep_all_promises(name: str) -> None:
    predictor = PASSING[name]()
    before = predictor.predict_proba()
    mdvpf.check_predictor(predictor)
    np.testing.assert_array_equal(predictor.predict_proba(), before)


def test_keys_in_use_and_a_limit_are_no_obstacle() -> None:
    chain = OwnChain()
    chain.run([0, 1, 2, 1], keys=["a", "b", "a", None])
    chain.max_keys = 3
    mdvpf.check_predictor(chain)
    assert (chain.n_keys, chain.max_keys) == (3, 3)


def test_what_makes_a_predictor_is_taken_too() -> None:
    mdvpf.check_predictor(OwnChain)
    mdvpf.check_predictor(lambda: OwnChain(0.1))
    with pytest.raises(
        TypeError, match="predictor=3: expected a Predictor, or a callable that returns one"
    ):
        mdvpf.check_predictor(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"predictor\(\) returned 0: expected a Predictor"):
        mdvpf.check_predictor(int)  # type: ignore[arg-type]


# -- broken ones ---------------------------------------------------------------------------------

BROKEN: list[tuple[type[Predictor], str]] = []


def broken(message: str) -> Callable[[type[Predictor]], type[Predictor]]:
    """Register a predictor, and the expected message of `check_predictor`."""

    def note(cls: type[Predictor]) -> type[Predictor]:
        BROKEN.append((cls, message))
        return cls

    return note


@broken("copy is independent: copy returned the predictor itself")
class CopiesNothing(OwnChain):
    def copy(self) -> Self:
        return self


@broken("copy is independent: the copy of a CopiesToItsParent is a OwnChain")
class CopiesToItsParent(OwnChain):
    def copy(self) -> Any:
        return OwnChain(self.inside.beta)


@broken("copy is independent: the prediction after updates of a copy")
class SharesItsCounts(OwnChain):
    def copy(self) -> Self:
        other = super().copy()
        other.inside.counts, other.inside.last = self.inside.counts, self.inside.last
        return other


@broken("n_symbols and is_open describe the alphabet: n_symbols is 3.0, not an integer")
class RealAlphabet(OwnChain):
    n_symbols = 3.0  # type: ignore[assignment]


@broken("predict_proba is a distribution: at first its sum is 1.5, not 1")
class TooLikely(OwnChain):
    def predict_proba(self, key: Any = None) -> NDArray[np.float64]:
        return super().predict_proba(key) * 1.5


@broken("predict_proba is a distribution: at first its shape is (4,), not (3,): n_symbols")
class OneTooMany(OwnChain):
    def predict_proba(self, key: Any = None) -> NDArray[np.float64]:
        return np.append(super().predict_proba(key), 0.0)


@broken("predict_proba is a distribution: at first it is [0.33")
class ListOfNumbers(OwnChain):
    def predict_proba(self, key: Any = None) -> Any:
        return super().predict_proba(key).tolist()


@broken("predict_proba is a distribution: after 3 symbols an entry is negative: -0.5")
class Negative(OwnChain):
    def predict_proba(self, key: Any = None) -> NDArray[np.float64]:
        return (
            super().predict_proba(key) if self.inside.counts.sum() < 3 else np.array([1, 0.5, -0.5])
        )


@broken("predict_proba is a distribution: at first an entry is not finite: [nan nan nan]")
class NoNumber(OwnChain):
    def predict_proba(self, key: Any = None) -> NDArray[np.float64]:
        return np.full(3, np.nan)


@broken("update returns a Step: update(0) returned -1.09861228")
class ReturnsANumber(OwnChain):
    def update(self, symbol: int | None, key: Any = None) -> Any:
        return super().update(symbol, key).log_predictive


@broken("update returns a Step: update(0) has log_predictive=nan")
class ReportsNoNumber(OwnChain):
    def update(self, symbol: int | None, key: Any = None) -> mdvpf.Step:
        return super().update(symbol, key)._replace(log_predictive=math.nan)


@broken("update scores a symbol by the prediction before it: log_predictive of update(0): -0.69")
class ScoresAfterwards(OwnChain):
    def update(self, symbol: int | None, key: Any = None) -> mdvpf.Step:
        before = self.inside.last.get(key)
        step = super().update(symbol, key)
        if symbol is None:
            return step
        after = self.inside.counts[N_SYMBOLS if before is None else before] + self.inside.beta
        return step._replace(log_predictive=math.log(after[symbol] / after.sum()))


@broken("a missing symbol has log predictive 0: update(None) has log_predictive=-1.0")
class FearsTheMissing(OwnChain):
    def update(self, symbol: int | None, key: Any = None) -> mdvpf.Step:
        step = super().update(symbol, key)
        return step._replace(log_predictive=-1.0) if symbol is None else step


@broken("update returns a Step: it raised TypeError: no missing symbols")
class RaisesOnMissing(OwnChain):
    def __init__(self, beta: float = 1.0) -> None:
        super().__init__(beta)
        self.n_missing = 0

    def update(self, symbol: int | None, key: Any = None) -> mdvpf.Step:
        if symbol is None and _stands_in("check_step"):
            raise TypeError("no missing symbols")
        return super().update(symbol, key)


def _stands_in(name: str) -> bool:
    """Return whether a function of that name is on the stack."""
    import sys

    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == name:
            return True
        frame = frame.f_back
    return False


@broken("copies behave alike: the steps of two copies")
class DrawsItsOwn(OwnChain):
    rng = np.random.default_rng(5)  # of all copies

    def update(self, symbol: int | None, key: Any = None) -> mdvpf.Step:
        return super().update(symbol, key)._replace(ess=1.0 + float(self.rng.random()))


@broken("new_sequence ends a sequence: new_sequence returned 3, not None")
class TellsItsLength(OwnChain):
    def new_sequence(self, key: Any = None) -> Any:
        super().new_sequence(key)
        return 3


@broken("new_sequence ends a sequence: the prediction after it was called twice")
class LearnsFromEnds(OwnChain):
    def new_sequence(self, key: Any = None) -> None:
        super().new_sequence(key)
        self.inside.counts[N_SYMBOLS, 0] += 1.0


@broken("run is update of each symbol: log_predictive of run")
class RunsAhead(OwnChain):
    def run(self, *args: Any, **others: Any) -> Any:
        self.update(0)
        return super().run(*args, **others)


@broken("score is the run of a copy: the prediction after score, which changes nothing")
class LearnsFromScores(OwnChain):
    def score(self, symbols: Any, *args: Any, **others: Any) -> Any:
        return self.run(symbols, *args, **others).log_predictive


@broken(
    "a bad symbol is refused and changes nothing: update(3) raised IndexError, not a ValueError"
)
class RaisesAnIndexError(OwnChain):
    def update(self, symbol: int | None, key: Any = None) -> mdvpf.Step:
        return mdvpf.Step(self.inside.absorb(symbol, key), 1.0, 1.0, 1, 0.0)


@broken("a bad symbol is refused and changes nothing: update(-1) returned Step(")
class CountsFromTheEnd(OwnChain):
    def update(self, symbol: int | None, key: Any = None) -> mdvpf.Step:
        return super().update(symbol if symbol != -1 else 2, key)


@broken("the prediction after update(3), which changes nothing: 0.5, not 0.27")
class ForgetsBeforeItRaises(OwnChain):
    def update(self, symbol: int | None, key: Any = None) -> mdvpf.Step:
        if symbol == 3:
            self.inside.last.clear()
        return super().update(symbol, key)


@broken("an open alphabet grows with each new symbol: n_symbols is 1 after update(1)")
class NeverGrows(OwnOpenCounts):
    def update(self, symbol: int | None, key: Any = None) -> mdvpf.Step:
        step = super().update(symbol, key)
        if _stands_in("check_open"):
            self.counts = self.counts[:1]
        return step


@broken("predict_proba is a distribution: at first its shape is (0,), not (1,): n_symbols, and one")
class HidesTheNew(OwnOpenCounts):
    def predict_proba(self, key: Any = None) -> NDArray[np.float64]:
        found = super().predict_proba(key)
        return found if _stands_in("update") else found[:-1]


@broken("predict_proba and new_sequence take a key, as update does: predict_proba has no argument")
class PredictsWithoutKey(OwnChain):
    def predict_proba(self) -> NDArray[np.float64]:
        return super().predict_proba()


@broken("a key is a sequence like any other: log_predictive with one key, and with none")
class LearnsOnlyWithoutKeys(OwnChain):
    def update(self, symbol: int | None, key: Any = None) -> mdvpf.Step:
        counts = self.inside.counts.copy()
        step = super().update(symbol, key)
        if key is not None:
            self.inside.counts = counts
        return step


@broken("run with keys is update of each symbol with its key: log_predictive of run, symbol")
class RunsWithoutKeys(OwnChain):
    def run(
        self,
        symbols: Any,
        lengths: Any = None,
        keys: Any = None,
        progress: bool = False,
        *,
        times: Any = None,
    ) -> Any:
        one = keys is not None and len(set(keys)) == 1
        return super().run(symbols, lengths, keys if one else None, progress, times=times)


@broken("a key whose sequence ends is back at the start: the prediction after new_sequence(")
class NeverEndsKeys(OwnChain):
    def new_sequence(self, key: Any = None) -> None:
        if key is None or _stands_in("_keyless"):
            super().new_sequence(key)


class OnePosition(OwnChain):
    """Keys are accepted and make no difference."""

    def predict_proba(self, key: Any = None) -> NDArray[np.float64]:
        return super().predict_proba()

    def update(self, symbol: int | None, key: Any = None) -> mdvpf.Step:
        return mdvpf.Step(super().update(symbol)[0], 1.0, 1.0, 1, 0.0)

    def new_sequence(self, key: Any = None) -> None:
        super().new_sequence()


@broken("keys have positions of their own: after symbols of one key, the prediction for another")
class OnePositionWhileItLearns(OnePosition):
    freeze = Predictor.freeze  # type: ignore[assignment]


@broken("keys have positions of their own: when frozen, log_predictive of key=")
class OnePositionWhenFrozen(OwnChain):
    def freeze(self) -> Any:
        other = _FrozenAtOne(self.inside.beta)
        other.inside = self.inside.copy()
        return other


@broken("keys have positions of their own: what freeze returns takes no keys")
class FreezesWithoutKeys(OwnChain):
    def freeze(self) -> Any:
        return _Even()


class _Even(Predictor):
    n_symbols = N_SYMBOLS

    def predict_proba(self) -> NDArray[np.float64]:
        return np.full(N_SYMBOLS, 1 / N_SYMBOLS)

    def update(self, symbol: int | None) -> mdvpf.Step:
        return mdvpf.Step(0.0 if symbol is None else -math.log(N_SYMBOLS), 1.0, 1.0, 1, 0.0)

    def new_sequence(self) -> None:
        pass

    def copy(self) -> Self:
        return type(self)()


class _FrozenAtOne(OnePosition):
    def update(self, symbol: int | None, key: Any = None) -> mdvpf.Step:
        counts = self.inside.counts.copy()
        step = super().update(symbol, key)
        self.inside.counts = counts
        return step


@broken("n_keys counts the keys in use: n_keys is 7 when all sequences have ended")
class CountsWrongly(OwnChain):
    n_keys = 7  # type: ignore[assignment]


@broken("max_keys ends the key used longest ago: n_keys is 4 with max_keys=2")
class WithoutLimit(OwnChain):
    max_keys = None


@broken("a bad key is refused and changes nothing: update(0, 0.5) returned Step(")
class TakesAnyKey(NumberedChain):
    def update(self, symbol: int | None, key: Any = None) -> mdvpf.Step:
        return super().update(symbol, str(key) if isinstance(key, float) else key)


@broken("freeze returns a predictor that does not learn: the scores of a sequence before and after")
class GoesOnLearning(OwnChain):
    def freeze(self) -> Any:
        return self.copy()


@broken(
    "freeze returns a predictor that does not learn: freeze returned None, which is not a Predictor"
)
class FreezesToNothing(mdvpf.Markov):
    def freeze(self) -> Any:
        return None


@pytest.mark.parametrize(
    ("cls", "message"), BROKEN, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_broken_promise_is_named(cls: type[Predictor], message: str) -> None:
    make = cls if cls is not FreezesToNothing else lambda: FreezesToNothing(3)
    with pytest.raises(AssertionError, match=re.escape(message)) as caught:
        mdvpf.check_predictor(make)
    assert str(caught.value).startswith(f"{cls.__name__}: ")


def test_a_checkpoint_that_lacks_something_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    mdvpf.check_predictor(mdvpf.Markov(3))
    make_state = mdvpf.Markov._to_state

    def without_context(self: mdvpf.Markov) -> Any:
        other = self.copy()
        other.new_sequence()
        return make_state(other)

    monkeypatch.setattr(mdvpf.Markov, "_to_state", without_context)
    message = "Markov: load continues where save left off: the prediction after load"
    with pytest.raises(AssertionError, match=message):
        mdvpf.check_predictor(mdvpf.Markov(3))


def test_the_twin_follows_its_definition() -> None:
    counted = Counted(1.0)
    assert counted.distribution("a").tolist() == [1 / 3] * 3
    counted.absorb(2, "a")
    assert counted.distribution("b").tolist() == [0.25, 0.25, 0.5]
