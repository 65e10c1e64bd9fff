"""Detectors agree: one by one and many at once, copied, saved, and one for each key."""

from __future__ import annotations

import io
import random
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.predictor import Predictor
from tests.kernel.sealing import saved

N, N_SYMBOLS = 150, 5
FIELDS = mdvpf.Detection.__slots__  # type: ignore[attr-defined]


def predictor(kind: int) -> Predictor:
    if kind == 0:
        return mdvpf.Markov(N_SYMBOLS, order=1)
    if kind == 1:
        return mdvpf.PitmanYorTree(N_SYMBOLS, depth=2)
    model = mdvpf.InfiniteHMM(N_SYMBOLS, half_life=timedelta(minutes=20))
    return mdvpf.ParticleFilter(model, n_particles=5, rng=0)


def settings(chance: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if chance.random() < 0.7:
        found = {"block": chance.choice([1, 3, 6])}
        found["learn"] = chance.choice(["all", "unflagged", "none", "own"])
    if chance.random() < 0.5:
        found |= {
            "false_incidents": chance.choice([50.0, 500.0]),
            "warm_up": chance.choice([2, 8]),
            "memory": chance.choice([5, 30]),
            "trace": chance.choice([1, 7, 70]),
            "cooldown": chance.choice([0, 5, 50]),
            "per": chance.choice(["symbols", "day"]),
        }
    elif "block" not in found:
        found["smoothing"] = chance.choice([1.0, 5.0])
    return found


@pytest.mark.parametrize("seed", range(16))
def test_updates_and_runs_agree_whatever_happens_between_them(seed: int) -> None:
    """Over all settings, with keys, times, missing symbols, feedback, copies and checkpoints."""
    chance, rng = random.Random(seed), np.random.default_rng(seed)
    options, kinds = settings(chance), (chance.randrange(3), chance.randrange(3))
    has_background = options.get("learn") == "own" or chance.random() < 0.4
    learns, joined = chance.random() < 0.5, chance.random() < 0.3

    def made() -> mdvpf.SurpriseDetector:
        background = None
        if has_background:
            everybody = predictor(kinds[1])
            everybody.run(np.arange(100) % N_SYMBOLS)
            background = mdvpf.Background(everybody, learn=learns)
            if joined:
                background.join()
        return mdvpf.SurpriseDetector(predictor(kinds[0]), background=background, **options)

    keyed, timed = chance.random() < 0.5, chance.random() < 0.5
    symbols = [None if chance.random() < 0.1 else int(y) for y in rng.integers(N_SYMBOLS, size=N)]
    symbols[80:110] = [2] * 30
    keys = [chance.choice(["a", "b", None, 3]) if keyed else None for _ in range(N)]
    times = np.cumsum(rng.exponential(size=N) * 50)
    one, many = made(), made()
    first = 0
    while first < N:
        stop = min(N, first + chance.choice([1, 2, 5, 17, 60]))
        if chance.random() < 0.3:
            key = chance.choice(keys)
            for each in (one, many):
                each.new_sequence(key)
        one = one.copy() if chance.random() < 0.2 else one
        if chance.random() < 0.3:
            many = mdvpf.SurpriseDetector.load(io.BytesIO(saved(many)))
        given: dict[str, Any] = {"keys": keys[first:stop]} if keyed else {}
        if timed:
            given["times"] = times[first:stop]
        result = many.run(symbols[first:stop], **given)
        for i in range(first, stop):
            if timed:
                one.tell_time(times[i])
            found, expected = one.update(symbols[i], keys[i]), result[i - first]
            for name in FIELDS:
                is_number = isinstance(getattr(found, name), float)
                # Frozen filters advance many keys by one product of matrices.
                tolerance = {"rel": 1e-9, "abs": 1e-12, "nan_ok": True}
                wanted = getattr(expected, name)
                if name == "incident":
                    assert (found.incident is None) == (wanted is None)
                elif is_number:
                    assert getattr(found, name) == pytest.approx(wanted, **tolerance), (i, name)
                else:
                    assert getattr(found, name) == wanted, (i, name)
        judged = np.isfinite(found.threshold) or not np.isnan(found.p_value)
        if judged and not np.isnan(found.level) and chance.random() < 0.3:
            strange = chance.random() < 0.5
            one.feedback(found, strange)
            many.feedback(expected, strange)
        first = stop


def test_a_copy_inside_of_a_block_learns_the_whole_block() -> None:
    everybody = mdvpf.Markov(4, order=0)
    own = mdvpf.Markov(4, order=0)
    own.run([0, 0, 0, 1])
    detector = mdvpf.SurpriseDetector(own, block=4, learn="own", background=everybody)
    detector.run([0, 0, 0])
    twin = detector.copy()
    for each in (detector, twin):
        each.update(0)
    np.testing.assert_array_equal(twin.predictor.predict_proba(), own.predict_proba())


def test_what_is_learnt_at_the_end_of_a_block_fades_by_the_times_of_its_symbols() -> None:
    def faded(learn: str) -> Any:
        model = mdvpf.InfiniteHMM(2, half_life=timedelta(hours=1))
        pf = mdvpf.ParticleFilter(model, n_particles=5, rng=0)
        pf.run([1] * 20, times=np.zeros(20))
        detector = mdvpf.SurpriseDetector(pf, block=2, learn=learn, background=mdvpf.Markov(2))
        assert np.all(detector.run([1, 1], times=[36000.0, 72000.0]).ratio < 0.0)
        return detector.predictor.predict_proba()

    np.testing.assert_allclose(faded("own"), faded("all"), rtol=1e-12)


@pytest.mark.parametrize("learn", ["all", "own"])
def test_a_sequence_that_expires_inside_of_a_block_ends_where_it_expires(learn: str) -> None:
    chain = mdvpf.Markov(3, order=1)
    chain.run([0] * 20 + [1] * 20)
    plain = chain.copy()
    detector = mdvpf.SurpriseDetector(chain, block=4, learn=learn, background=mdvpf.Markov(3))
    detector.run([0, 0], keys=["a", "a"])
    detector._expire("a")
    detector.run([1, 1], keys=["a", "a"])
    plain.run([0, 0], keys=["a", "a"])
    plain.new_sequence("a")
    plain.run([1, 1], keys=["a", "a"])
    for key in ("a", "b"):
        np.testing.assert_allclose(
            detector.predictor.predict_proba(key), plain.predict_proba(key), rtol=1e-12
        )


class Keyless(Predictor):
    """A user's own predictor that takes no keys."""

    @property
    def n_symbols(self) -> int:
        return 2

    def predict_proba(self) -> Any:  # type: ignore[override]
        return np.array([0.5, 0.5])

    def update(self, symbol: int | None) -> Any:  # type: ignore[override]
        return mdvpf.Step._make([np.log(0.5), 1.0, 1.0, 1, 0.0])

    def new_sequence(self) -> None:  # type: ignore[override]
        pass

    def copy(self) -> Keyless:
        return self

    def freeze(self) -> Keyless:
        return self


def test_a_key_that_the_background_does_not_take_changes_nothing() -> None:
    chain = mdvpf.Markov(2, order=0)
    detector = mdvpf.SurpriseDetector(chain, block=4, background=Keyless())
    before = chain.predict_proba()
    for refused in (
        lambda: detector.update(1, "a"),
        lambda: detector.run([1, 1], keys=["a", "b"]),
        lambda: detector.new_sequence("a"),
    ):
        with pytest.raises(TypeError, match="Keyless takes none"):
            refused()
    np.testing.assert_array_equal(chain.predict_proba(), before)


def test_a_refused_key_leaves_the_last_block_open_to_feedback() -> None:
    def after(wrong: bool) -> Any:
        detector = mdvpf.SurpriseDetector(mdvpf.Markov(2), block=4, learn="unflagged", warm_up=2)
        detector.run([0, 1] * 20)
        last = [detector.update(y) for y in [1, 1, 1, 1]][-1]
        if wrong:
            with pytest.raises(TypeError):
                detector.update(1, key=0.5)  # type: ignore[arg-type]
        detector.feedback(last, strange=not last.alarm)
        return detector.predictor.predict_proba()

    np.testing.assert_array_equal(after(True), after(False))


def test_a_detector_for_each_key_is_a_detector_of_its_own() -> None:
    rng = np.random.default_rng(4)
    symbols = rng.integers(4, size=400)
    keys = [str(k) for k in rng.integers(3, size=400)]
    everybody = mdvpf.Markov(4, order=1)
    everybody.run(rng.integers(4, size=200))
    options: dict[str, Any] = {"false_incidents": 300.0, "warm_up": 5, "learn": "own"}
    template = mdvpf.SurpriseDetector(mdvpf.Markov(4), background=everybody, **options)
    users = mdvpf.KeyedDetector(template)
    users.run(symbols[:250], keys[:250])
    twin = users.copy()
    result = users.run(symbols[250:], keys[250:])
    again = twin.run(symbols[250:], keys[250:])
    for key in sorted(set(keys)):
        mine = np.array([each == key for each in keys])
        alone = mdvpf.SurpriseDetector(mdvpf.Markov(4), background=everybody, **options)
        expected = alone.run(symbols[mine]).p_value[mine[:250].sum() :]
        for found in (result, again):
            np.testing.assert_allclose(found.p_value[mine[250:]], expected, rtol=1e-9)
        assert twin.of(key).background is twin.background
        assert twin.background is not users.background


def test_a_detector_for_each_key_needs_a_closed_alphabet() -> None:
    with pytest.raises(ValueError, match="closed alphabet"):
        mdvpf.KeyedDetector(mdvpf.SurpriseDetector(mdvpf.Markov(None)))
