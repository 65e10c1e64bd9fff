"""The reference with real counts, Mealy rows, the oracle of rows and stickiness.

Cases in which the filter can hold all paths are compared with the enumeration of all histories,
which computes every count from its definition. Longer streams are compared particle by particle.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict, replace

import numpy as np
import pytest

import mdvpf
from mdvpf.reference import (
    START,
    Memory,
    Particle,
    ReferenceFilter,
    emission_probability,
    expand,
    lookahead_terms,
    move,
    transition_probabilities,
)
from tests import enumeration
from tests.algorithms import EVERY_ALGORITHM
from tests.enumeration import (
    Rule,
    Sequences,
    Symbol,
    evidence,
    histories,
    predictive,
    prefixes,
    tally,
)

ORACLES = ("unvisited", "any", "rows")
MACHINES = ("moore", "mealy")

# forget=4: the first step is gone at the sixth. forget=10: (1/2)**10 is just not gone.
# half_life=0.3: three steps are a state's life. forget=12 and half_life=0.09: hardly one.
FORGETTING: dict[str, dict[str, float]] = {
    "for ever": {},
    "forget 1": {"forget": 1.0},
    "forget 4": {"forget": 4.0},
    "forget 10": {"forget": 10.0},
    "forget 12": {"forget": 12.0},
    "half-life 2.5": {"half_life": 2.5},
    "half-life 0.3": {"half_life": 0.3},
    "half-life 0.09": {"half_life": 0.09},
}


def random_stream(seed: int, n: int, n_symbols: int) -> Sequences:
    """A stream with missing symbols and ends of sequences."""
    rng = np.random.default_rng(seed)
    sequences: list[list[Symbol]] = [[]]
    for _ in range(n):
        if sequences[-1] and rng.random() < 0.2:
            sequences.append([])
        sequences[-1].append(None if rng.random() < 0.2 else int(rng.integers(n_symbols)))
    return sequences


def filter_for(
    rule: Rule, algorithm: mdvpf.model.algorithms.Algorithm, n_particles: int, seed: int = 0
) -> ReferenceFilter:
    return ReferenceFilter(mdvpf.InfiniteHMM(**asdict(rule)), algorithm, n_particles, rng=seed)


def feed(pf: ReferenceFilter, sequences: Sequences) -> list[float]:
    """The log predictives of a stream."""
    found = []
    for sequence in sequences:
        pf.new_sequence()
        found += [pf.update(symbol).log_predictive for symbol in sequence]
    return found


def settings() -> list[tuple[str, str, str, float, int | None]]:
    """All pairs of forgetting, oracle and machine; kappa and max_states take turns."""
    grid = itertools.product(FORGETTING, ORACLES, MACHINES)
    turns = itertools.cycle(itertools.product([0.0, 0.7], [None, 1, 2, 3, None]))
    return [(*each, *turn) for each, turn in zip(grid, turns, strict=False)]


def rule_of(
    forgetting: str, oracle: str, machine: str, kappa: float, max_states: int | None, seed: int
) -> Rule:
    """Return the rule of a setting; with seed 1 it has no bound on states, and the other kappa."""
    return Rule(
        2,
        alpha=0.7,
        gamma=1.3,
        beta=0.2,
        oracle=oracle,
        max_states=max_states if seed == 0 else None,
        machine=machine,
        kappa=kappa if seed == 0 else 0.7 - kappa,
        **FORGETTING[forgetting],
    )


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("forgetting", "oracle", "machine", "kappa", "max_states"), settings())
@pytest.mark.parametrize("seed", range(2))
def test_vpa_that_drops_nothing_is_exact(
    forgetting: str, oracle: str, machine: str, kappa: float, max_states: int | None, seed: int
) -> None:
    rule = rule_of(forgetting, oracle, machine, kappa, max_states, seed)
    # The same stream for every setting would reach few of the corner cases.
    stream = random_stream(hash_of(forgetting, oracle, machine) + seed, 6, rule.n_symbols)
    exact = histories(rule, stream)
    pf = filter_for(rule, mdvpf.VPA(), len(exact))
    log_predictives = feed(pf, stream)
    seen = math.fsum(exact.values())
    assert math.fsum(log_predictives) == pytest.approx(math.log(seen), rel=0, abs=1e-9)
    assert pf.log_evidence == pytest.approx(math.log(seen), rel=0, abs=1e-9)
    weights = {tuple(particle.path): particle.weight for particle in pf.particles}
    assert weights == pytest.approx(
        {path: probability / seen for path, probability in exact.items()}, rel=1e-9, abs=0
    )
    predicted = pf.predict_proba()
    assert predicted.sum() == pytest.approx(1.0, rel=0, abs=1e-12)
    assert predicted == pytest.approx(np.array(predictive(rule, stream)), rel=0, abs=1e-9)


def hash_of(*words: str) -> int:
    """A hash that is the same in every run, unlike `hash`."""
    return sum(1000**i % 9973 * sum(word.encode()) for i, word in enumerate(words))


SEVEN: Sequences = [[0, 1, None, 0], [1, 1, 0]]


@pytest.mark.parametrize(
    "rule",
    [
        Rule(2, oracle="rows", machine="mealy", kappa=0.5, forget=4.0),
        Rule(2, oracle="rows", half_life=0.3, max_states=2),
        Rule(2, oracle="unvisited", kappa=0.5, half_life=1.0),
    ],
    ids=str,
)
def test_seven_symbols_before_every_one(rule: Rule) -> None:
    pf = filter_for(rule, mdvpf.VPA(), 877)
    evidences = [1.0]
    for known, symbol in zip(prefixes(SEVEN), [0, 1, None, 0, 1, 1, 0], strict=True):
        if not known[-1]:
            pf.new_sequence()
        evidences.append(evidence(rule, [*known[:-1], [*known[-1], symbol]]))
        step = pf.update(symbol)
        expected = math.log(evidences[-1] / evidences[-2])
        assert step.log_predictive == pytest.approx(expected, rel=0, abs=1e-9)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("forgetting", FORGETTING)
def test_probabilities_of_all_strings_sum_to_one(
    forgetting: str, oracle: str, machine: str
) -> None:
    rule = Rule(2, oracle=oracle, machine=machine, kappa=0.3, **FORGETTING[forgetting])
    strings = itertools.product(range(2), repeat=4)
    found = math.fsum(evidence(rule, [string[:3], string[3:]]) for string in strings)
    assert found == pytest.approx(1.0, rel=0, abs=1e-12)


# Long streams: rows recounted, states released, particles compared one by one


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "algorithm", ["MD-VPA", "MD-VPA optimal", "VPA", "SMC", "ParticleLearning", "OptimalResampling"]
)
@pytest.mark.parametrize(
    "rule",
    [
        Rule(3, oracle="rows", forget=4.0),
        Rule(3, oracle="rows", machine="mealy", half_life=1.5, kappa=0.2),
        Rule(3, oracle="rows", half_life=4.0, max_states=4, gamma=3.0),
        Rule(3, oracle="unvisited", machine="mealy", half_life=1.0, gamma=4.0),
        Rule(3, oracle="any", forget=20.0, kappa=1.0, max_states=3),
    ],
    ids=str,
)
def test_particles_of_a_long_stream_have_the_probabilities_of_their_paths(
    rule: Rule, algorithm: str
) -> None:
    pf = filter_for(rule, EVERY_ALGORITHM[algorithm], 3, seed=5)
    model = pf.model
    known: list[list[Symbol]] = []
    n = 0
    for sequence in random_stream(3, 135, 3):
        pf.new_sequence()
        known.append([])
        for symbol in sequence:
            pf.update(symbol)
            known[-1].append(symbol)
            n += 1
            assert pf.predict_proba().sum() == pytest.approx(1.0, rel=0, abs=1e-12)
            if n % 64 not in (62, 63, 0, 1) and n % 15:
                continue
            for particle in pf.particles[:2]:
                counts = tally(tuple(particle.path), known, rule)
                assert particle.state == counts.current
                assert particle.into == pytest.approx(counts.into, rel=1e-9)
                assert particle.transition == pytest.approx(
                    {key: count for key, count in counts.transitions.items() if count}, rel=1e-9
                )
                found = transition_probabilities(model, particle)
                expected = enumeration.transition_probabilities(rule, counts)
                assert found == pytest.approx(expected, rel=1e-9, abs=1e-15)
                for state in counts.into:
                    assert emission_probability(model, particle, state, 1) == pytest.approx(
                        enumeration.emission_probability(rule, counts, state, 1), rel=1e-9
                    )


def test_the_long_streams_meet_what_they_are_for() -> None:
    """States are released, entries fade and are made again, and rows are recounted."""
    rule = Rule(3, oracle="rows", half_life=1.5)
    pf = filter_for(rule, mdvpf.SMC(), 3, seed=5)
    feed(pf, random_stream(3, 135, 3))
    particle = pf.particles[0]
    assert len(particle.into) < particle.n_states
    offered = [len(expand(pf.model, [each], None)) for each in pf.particles]
    assert offered == [len(each.into) + 1 for each in pf.particles]


def walk(memory: Memory, path: list[int], symbols: list[Symbol]) -> Particle:
    particle = Particle(memory=memory)
    for state, symbol in zip(path, symbols, strict=True):
        particle = move(particle, state, symbol, parent=0, log_weight=0.0)
    return particle


# By hand


def test_counts_fade_by_hand() -> None:
    # Steps 1, 2, 3 as of step 4 with forget=1: 1/4, 2/4, 3/4.
    particle = walk(Memory(forget=1.0), [0, 1, 1], [0, 1, None])
    counts = particle.counts(2)
    assert counts.start == pytest.approx([0.25, 0])
    assert counts.transition == pytest.approx(np.array([[0, 0.5], [0, 0.75]]))
    assert counts.emission == pytest.approx(np.array([[0.25, 0], [0, 0.5]]))
    assert particle.into == pytest.approx({0: 0.25, 1: 1.25})
    model = mdvpf.InfiniteHMM(2, forget=1.0)
    # From 1: t = 0.75 to itself; U = into[0] = 0.25; alpha = gamma = 1.
    assert transition_probabilities(model, particle) == pytest.approx(
        [1 / 1.75 * 0.25 / 1.25, 0.75 / 1.75, 1 / 1.75 / 1.25]
    )


def test_a_count_of_exactly_one_in_1024_is_not_gone() -> None:
    memory = Memory(half_life=1.0)
    particle = walk(memory, [0] + [1] * 9, [0] * 10)  # S -> 0 ten steps ago
    assert particle.transition[START, 0] == 1 / 1024
    assert particle.into[0] == 1 / 1024
    older = move(particle, 1, 0, parent=0, log_weight=0.0)
    assert (START, 0) not in older.transition
    assert sorted(older.into) == [1]
    assert older.n_states == 2  # the label of the next new state
    assert transition_probabilities(mdvpf.InfiniteHMM(2, half_life=1.0), older)[0] == 0.0


def test_a_faded_transition_restarts_and_opens_its_row_again() -> None:
    # 0 -> 1 at step 2, then from 1 only; state 1 stays alive. At step 13, 0 -> 1 is gone.
    particle = walk(Memory(half_life=1.0), [0, 1] + [1] * 9 + [0, 1], [0] * 13)
    assert particle.transition[0, 1] == pytest.approx(0.5)
    assert particle.rows_into[1] == 3  # 0 -> 1 twice, 1 -> 1 once
    # `into` has all moves: of steps 2, 3 to 11 and 13, as of step 14.
    assert particle.into[1] == pytest.approx(sum(2.0**-age for age in (12, *range(3, 12), 1)))


def test_rows_are_recounted_before_step_64() -> None:
    path = [0, 1] + [1] * 9 + [0, 1] + [1] * 49
    memory = Memory(half_life=1.0)
    before = walk(memory, path, [0] * 62)
    assert before.rows_into == {1: 3}
    after = move(before, 1, 0, parent=0, log_weight=0.0)  # step 63: the next is 64
    assert after.rows_into == {1: 1}


def test_a_state_that_no_row_reaches_is_not_offered_and_not_in_the_norm() -> None:
    # Just before 64 many faded moves into 1 from different rows keep it alive, but no entry does.
    particle = Particle(
        state=0,
        n_states=2,
        path=[0] * 63,
        transition={(0, 0): 1.0},
        into={0: 1.0, 1: 0.002},
        rows_into={0: 1},
        memory=Memory(half_life=9.0),
    )
    other = replace(particle, rows_into={0: 1, 1: 1})
    model = mdvpf.InfiniteHMM(2, oracle="rows", half_life=9.0)
    assert transition_probabilities(model, particle) == pytest.approx([0.75, 0.0, 0.25])
    candidates = expand(model, [particle, other], 0)
    assert [(c.parent, c.state) for c in candidates] == [(0, 0), (0, 2), (1, 0), (1, 1), (1, 2)]
    terms = lookahead_terms(model, [particle, other], 1, "geometric", 2)
    assert len(terms) == len(candidates)
    assert terms[3] == 0.0  # alone with its label
    full = mdvpf.InfiniteHMM(2, oracle="rows", half_life=9.0, max_states=2)
    assert transition_probabilities(full, particle) == [1.0, 0.0]


def test_mealy_rows_by_hand() -> None:
    # From (0, 1) went 0 -> 0; from (0, missing) 0 -> 1; (1, 0) has no row yet.
    particle = walk(Memory(machine="mealy"), [0, 0, 1], [1, None, 0])
    assert particle.transition == {(START, 0): 1, ((0, 1), 0): 1, ((0, None), 1): 1}
    assert particle.row == (1, 0)
    assert (particle.into, particle.rows_into) == ({0: 2, 1: 1}, {0: 2, 1: 1})
    counts = particle.counts(2)
    assert counts.transition.shape == (2, 3, 2)
    assert counts.transition[0].tolist() == [[0, 0], [1, 0], [0, 1]]
    model = mdvpf.InfiniteHMM(2, oracle="rows", machine="mealy", kappa=0.5)
    # kappa to t[(1, 0), 1]; m = 2, 1: (0 + 2/4)/1.5, (0.5 + 1/4)/1.5, (1/4)/1.5.
    assert transition_probabilities(model, particle) == pytest.approx([1 / 3, 1 / 2, 1 / 6])
    started = replace(particle, state=START)
    assert started.row == START
    # From S: t[S, 0] = 1, and nothing is added: (1 + 2/4)/2, (1/4)/2, (1/4)/2.
    assert transition_probabilities(model, started) == pytest.approx([0.75, 0.125, 0.125])


def test_stickiness_counts_as_a_visit() -> None:
    # Path 0, 1: from 1 nothing was seen. kappa = 1 makes 1 -> 1 visited: U = into[0] = 1.
    particle = walk(Memory(), [0, 1], [0, 0])
    model = mdvpf.InfiniteHMM(2, kappa=1.0)
    assert transition_probabilities(model, particle) == pytest.approx([1 / 4, 1 / 2, 1 / 4])
    bounded = mdvpf.InfiniteHMM(2, kappa=1.0, max_states=2)
    assert transition_probabilities(bounded, particle) == pytest.approx([1 / 3, 2 / 3])


def test_a_released_state_makes_room_under_max_states() -> None:
    model = mdvpf.InfiniteHMM(2, half_life=0.09, max_states=1)
    pf = ReferenceFilter(model, mdvpf.VPA(), 5)
    for _ in range(3):
        step = pf.update(0)
        assert step.log_predictive == pytest.approx(-math.log(2))
        assert step.mean_states == 0.0
    assert [(p.path, p.state) for p in pf.particles] == [([0, 1, 2], START)]


def test_a_particle_must_remember_as_its_model_says() -> None:
    with pytest.raises(ValueError, match="expected that of"):
        transition_probabilities(mdvpf.InfiniteHMM(2, forget=1.0), Particle())


# The other algorithms

FADING = Rule(
    2, alpha=0.8, gamma=1.5, beta=0.2, oracle="rows", machine="mealy", kappa=0.3, forget=4.0
)


@pytest.mark.parametrize("normalizer", ["geometric", "sum", "none"])
@pytest.mark.parametrize("rule", [FADING, replace(FADING, forget=0.0, half_life=0.5, max_states=2)])
def test_mdvpa_without_a_discount_is_vpa(rule: Rule, normalizer: str) -> None:
    stream = random_stream(11, 40, 2)
    vpa = filter_for(rule, mdvpf.VPA(), 6)
    mdvpa = filter_for(rule, mdvpf.MDVPA(discount=0.0, normalizer=normalizer), 6)
    assert feed(mdvpa, stream) == feed(vpa, stream)
    assert mdvpa.particles == vpa.particles


@pytest.mark.parametrize(
    "algorithm",
    [
        mdvpf.SMC(),
        mdvpf.SMC(resampling="systematic", ess_threshold=0.5),
        mdvpf.ParticleLearning(),
        mdvpf.OptimalResampling(),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    "rule", [FADING, replace(FADING, machine="moore", forget=0.0, half_life=0.4)], ids=["a", "b"]
)
def test_mean_evidence_over_seeds_is_the_marginal_likelihood(
    rule: Rule, algorithm: mdvpf.model.algorithms.Algorithm
) -> None:
    stream: Sequences = [[0, 1, None, 0], [0, 1, 0]]
    n_seeds = 600
    estimates = np.empty(n_seeds)
    for seed in range(n_seeds):
        pf = filter_for(rule, algorithm, 4, seed)
        feed(pf, stream)
        estimates[seed] = math.exp(pf.log_evidence)
    standard_error = estimates.std(ddof=1) / math.sqrt(n_seeds)
    exact = evidence(rule, stream)
    assert 0.0 < standard_error < 0.05 * exact
    assert estimates.mean() == pytest.approx(exact, rel=0, abs=4.0 * standard_error)
