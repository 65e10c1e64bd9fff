"""Every later version reads checkpoints of version 1, and continues them exactly.

The files in ``tests/data`` are never written again. Their expected continuation is not stored: the
reference filter runs over the same stream from its beginning. ``python -m
tests.unit.test_checkpoint_versions`` has written them, and writes only missing ones.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf import reference
from mdvpf.datasets import HMM
from mdvpf.model.algorithms import Algorithm
from mdvpf.reference import ReferenceFilter
from tests.kernel.inspecting import BREAK, Event, feed, generator_state

DATA = Path(__file__).resolve().parents[1] / "data"
K = 7
N_BEFORE = 60  # events before the checkpoint
N_AFTER = 40

# Algorithm, number of symbols, history: together they cover everything that a file can hold.
CASES: dict[str, tuple[Algorithm, int, int | str | None]] = {
    "mdvpa": (mdvpf.MDVPA(discount=(0.5,) * 30 + (0.25,) * 170), 5, 4),
    "mdvpa-optimal": (mdvpf.MDVPA(discount=3.0, normalizer="sum", selection="optimal"), 4, None),
    "vpa": (mdvpf.VPA(), 300, "full"),
    "smc": (mdvpf.SMC(resampling="residual", ess_threshold=0.5), 5, "full"),
    "learning": (mdvpf.ParticleLearning(), 260, 1),
    "optimal": (mdvpf.OptimalResampling(), 3, 9),
}


def events(name: str) -> list[Event]:
    """A stream with jumps, missing symbols and ends of sequences."""
    n_symbols = CASES[name][1]
    rng = np.random.default_rng(len(name))
    found: list[Event] = []
    symbol = 0
    for _ in range(N_BEFORE + N_AFTER):
        kind = rng.random()
        symbol = int(rng.integers(n_symbols)) if kind < 0.3 else (symbol + 1) % n_symbols
        found.append(BREAK if kind > 0.95 else None if kind > 0.9 else symbol)
    return found


def arguments(name: str) -> dict[str, Any]:
    algorithm, n_symbols, _ = CASES[name]
    model = mdvpf.InfiniteHMM(n_symbols, alpha=1.5, gamma=2.0, beta=0.2)
    return {"model": model, "algorithm": algorithm, "n_particles": K}


def written(name: str) -> mdvpf.ParticleFilter:
    """The filter that was saved."""
    pf = mdvpf.ParticleFilter(**arguments(name), rng=17, history=CASES[name][2])
    if pf.n_symbols == 5:
        pf.vocabulary = mdvpf.Vocabulary(["a", -1, b"\x00\xff", ("b", (2, b""))], unknown="?")
    feed(pf, events(name)[:N_BEFORE])
    return pf


@pytest.mark.parametrize("name", CASES)
def test_a_file_of_version_1_continues_as_if_never_interrupted(name: str) -> None:
    pf = mdvpf.ParticleFilter.load(DATA / f"version-1-{name}.mdvpf")
    generator = np.random.default_rng(17)
    slow = ReferenceFilter(**arguments(name), rng=generator)
    before, after = events(name)[:N_BEFORE], events(name)[N_BEFORE:]
    feed(slow, before)
    assert (pf.model, pf.algorithm, pf.n_particles) == tuple(arguments(name).values())
    assert pf.history == CASES[name][2]
    np.testing.assert_allclose(pf.log_evidence, slow.log_evidence, rtol=1e-12)
    for event in after:
        pf._core.verify()
        if isinstance(event, str):
            pf.new_sequence()
            slow.new_sequence()
        else:
            found, expected = pf.update(event), slow.update(event)
            np.testing.assert_allclose(
                found.log_predictive, expected.log_predictive, rtol=0.0, atol=1e-10
            )
            np.testing.assert_allclose(found.discarded, expected.discarded, rtol=0.0, atol=1e-9)
        particles = slow.particles
        assert pf.states.tolist() == [particle.state for particle in particles]
        np.testing.assert_allclose(
            pf.weights, [particle.weight for particle in particles], rtol=1e-9
        )
        assert generator_state(pf.rng) == generator_state(generator)
        for k, particle in enumerate(particles):
            if pf.history == "full":
                assert pf.path(k).tolist() == particle.path
            elif pf.history is not None:
                assert pf.path(k).tolist() == particle.path[-pf.history :]
    for k, particle in enumerate(slow.particles):
        for table, counted in zip(pf.counts(k), particle.counts(pf.n_symbols), strict=True):
            assert np.array_equal(table, counted)
    predicted = [reference.log_predictive(pf.model, slow.particles, y) for y in range(3)]
    np.testing.assert_allclose(np.log(pf.predict_proba()[:3]), predicted, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("name", ["mdvpa", "smc"])
def test_a_file_of_version_1_has_its_vocabulary(name: str) -> None:
    pf = mdvpf.ParticleFilter.load(DATA / f"version-1-{name}.mdvpf")
    assert pf.vocabulary is not None
    assert list(pf.vocabulary) == ["a", -1, b"\x00\xff", ("b", (2, b"")), "?"]
    assert pf.vocabulary.encode(["never seen", b"\x00\xff"]).tolist() == [4, 2]


# The comparators: a new one that runs from the beginning gives the expected continuation.
BASELINES: dict[str, Callable[[], mdvpf.Predictor]] = {
    "markov": lambda: mdvpf.Markov(5, order=2, beta=0.1, decay=0.9),
    "context-tree": lambda: mdvpf.ContextTree(5, depth=3),
    "pitman-yor-tree": lambda: mdvpf.PitmanYorTree(5, depth=4, discount=0.5),
    "pitman-yor-bounded": lambda: mdvpf.PitmanYorTree(5, depth=3, max_nodes=15),
    "pitman-yor-mixture": lambda: mdvpf.PitmanYorMixture(5, [0, 3], [0.2, 0.8], share=0.01),
    "known-hmm": lambda: mdvpf.KnownHMM(
        [
            HMM([1, 0], [[0.9, 0.1], [0.3, 0.7]], [[0.2] * 5, [0.6, 0.1, 0.1, 0.1, 0.1]]),
            HMM([0.5, 0.5], [[0.2, 0.8], [1 / 3, 2 / 3]], [[0.5, 0.5, 0, 0, 0], [0.2] * 5]),
        ],
        [20],
    ),
}


@pytest.mark.parametrize("name", BASELINES)
def test_a_comparator_of_version_1_continues_as_if_never_interrupted(name: str) -> None:
    predictor = mdvpf.Predictor.load(DATA / f"version-1-{name}.mdvpf")
    expected = BASELINES[name]()
    stream = events("mdvpa")
    feed(expected, stream[:N_BEFORE])
    assert repr(predictor) == repr(expected)
    for event in stream[N_BEFORE:]:
        feed(predictor, [event])
        feed(expected, [event])
        np.testing.assert_allclose(
            predictor.predict_proba(), expected.predict_proba(), rtol=1e-12, atol=0.0
        )


# Detectors: one in the middle of a block, with two predictors, and one that judges every symbol.
DETECTORS: dict[str, Callable[[], mdvpf.SurpriseDetector]] = {
    "detector-blocks": lambda: mdvpf.SurpriseDetector(
        mdvpf.Markov(5, order=1), block=4, warm_up=5, false_alarms=0.2, learn="unflagged"
    ),
    "detector-smoothed": lambda: mdvpf.SurpriseDetector(
        mdvpf.ContextTree(5, depth=2), smoothing=2.5, warm_up=5, gain=0.3, change_limit=2.0
    ),
}


def judgements(detector: mdvpf.SurpriseDetector, stream: list[Event]) -> list[tuple[float, ...]]:
    found = []
    for event in stream:
        if isinstance(event, str):
            detector.new_sequence()
        else:
            each = detector.update(event)
            found.append((each.surprise, each.level, each.threshold, each.alarm, each.change or -1))
    return found


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_of_version_1_continues_as_if_never_interrupted(name: str) -> None:
    detector = mdvpf.SurpriseDetector.load(DATA / f"version-1-{name}.mdvpf")
    expected = DETECTORS[name]()
    stream = events("mdvpa")
    judgements(expected, stream[:N_BEFORE])
    assert repr(detector) == repr(expected)
    if name == "detector-blocks":
        assert detector._level.in_block
    after = judgements(expected, stream[N_BEFORE:])
    assert any(alarm for _, _, _, alarm, _ in after)
    np.testing.assert_allclose(judgements(detector, stream[N_BEFORE:]), after, rtol=1e-12)


def begun_monitor() -> mdvpf.Monitor:
    predictor = mdvpf.Markov(5, order=1)
    predictor.vocabulary = mdvpf.Vocabulary(["ls", 7, ("cd", b"x"), "make"], unknown="OTHER")
    return mdvpf.Monitor(mdvpf.SurpriseDetector(predictor, warm_up=5), missing="NA")


MONITOR = "version-1-monitor.mdvpf"
LINES = ["ls", "7", '["cd", {"bytes": "78"}]', "rm", "NA", "make", "", "7", "ls"] * 4


def test_a_monitor_of_version_1_continues_as_if_never_interrupted() -> None:
    monitor, expected = mdvpf.Monitor.load(DATA / MONITOR), begun_monitor()
    for line in LINES:
        expected.read(line)
    assert repr(monitor) == repr(expected)
    assert monitor.n_lines == len(LINES)
    assert [monitor.read(line) for line in LINES] == [expected.read(line) for line in LINES]


def test_the_files_have_what_a_file_can_hold() -> None:
    """Look-ahead, trees, histories, missing symbols: without them the tests would prove little."""
    files = {name: mdvpf.ParticleFilter.load(DATA / f"version-1-{name}.mdvpf") for name in CASES}
    assert files["mdvpa"]._core.pending
    assert files["mdvpa-optimal"]._core.pending
    for name, pf in files.items():
        sections = pf._core.snapshot()[-1]
        assert bool(sections[9]) == (pf.n_symbols >= 256), "levels of trees"
        assert bool(sections[14]) == (pf.history is not None), "generations of histories"
        before = events(name)[:N_BEFORE]
        assert None in before
        assert BREAK in before


if __name__ == "__main__":
    for missing in CASES:
        path = DATA / f"version-1-{missing}.mdvpf"
        if not path.exists():
            written(missing).save(path)
    for missing, make in BASELINES.items():
        path = DATA / f"version-1-{missing}.mdvpf"
        if not path.exists():
            comparator = make()
            feed(comparator, events("mdvpa")[:N_BEFORE])
            comparator.save(path)
    for missing, make_detector in DETECTORS.items():
        path = DATA / f"version-1-{missing}.mdvpf"
        if not path.exists():
            detector = make_detector()
            judgements(detector, events("mdvpa")[:N_BEFORE])
            detector.save(path)
    if not (DATA / MONITOR).exists():
        monitor = begun_monitor()
        for line in LINES:
            monitor.read(line)
        monitor.save(DATA / MONITOR)
