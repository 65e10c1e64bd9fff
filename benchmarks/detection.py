"""Detection: injected anomalies, calibration by length, crash loops, sensors, false incidents.

``python -m benchmarks.detection [anomalies|lengths|loops|short|rates|numbers]`` prints the named
tables, or all of them. Seeds are 1 to 3. No setting was chosen by its results: methods have their
defaults, and every window of STIDE that was tried is shown. A peer that is not installed is shown
as such.
Masquerades have a command of their own, ``mdvpf reproduce masquerade``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

import mdvpf
from mdvpf import datasets
from mdvpf.datasets.log_anomalies import KINDS, SpoiledLog, spoil
from mdvpf.detect import DetectionResult
from mdvpf.detect.roc import Curve
from mdvpf.detect.sequences import SequenceScores, score_sequences
from mdvpf.detect.stide import Stide
from mdvpf.streams.methods import make_predictor

SEEDS = (1, 2, 3)
N_CASES = 1000  # of each of the three logs: to learn, as a reference, and to score
N_USUAL, N_LOOP = 2400, 100  # lines before a crash loop, and lines of the loop
PROMISED = 20  # lines of a loop within which it should be an incident
BINS = (10, 20, 50, 200, 1000, 4001)

Floats = NDArray[np.float64]
Groups = tuple[NDArray[np.int64], NDArray[np.int64]]


def predictors(n: int) -> dict[str, mdvpf.Predictor]:
    """Return new predictors of an alphabet of n symbols."""
    model = mdvpf.InfiniteHMM(n, gamma=10.0, oracle="rows", machine="mealy")
    return {
        "Markov 1": mdvpf.Markov(n, order=1),
        "PitmanYorTree 3": mdvpf.PitmanYorTree(n, depth=3),
        "ParticleFilter": mdvpf.ParticleFilter(model, mdvpf.OptimalResampling(), 100, rng=0),
    }


def strangeness(found: SequenceScores) -> Floats:
    """Return ranks by p-value, ties broken by score: a larger rank is stranger."""
    ranks = np.empty(len(found))
    ranks[np.lexsort((found.score, -found.p_value))] = np.arange(len(found))
    return ranks


def histograms(symbols: NDArray[np.int64], lengths: NDArray[np.int64], n: int) -> Floats:
    """Return the share of each symbol in each sequence."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    counts = np.zeros((len(lengths), n))
    np.add.at(counts, (rows, symbols), 1.0)
    return counts / lengths[:, None]


def half_space_trees(train: Groups, test: Groups, n: int) -> Floats | None:
    """Return the scores of river's HalfSpaceTrees on histograms; None if it is not installed."""
    try:
        from river import anomaly
    except ImportError:
        return None
    trees = anomaly.HalfSpaceTrees(n_trees=25, height=6, window_size=100, seed=0)
    for row in histograms(*train, n):
        trees.learn_one(dict(enumerate(row.tolist())))
    rows = histograms(*test, n)
    return np.array([trees.score_one(dict(enumerate(row.tolist()))) for row in rows])


def x_stream(train: Groups, test: Groups, n: int) -> Floats | None:
    """Return the scores of PySAD's xStream on histograms; None if it is not installed."""
    try:
        from pysad.models import xStream
    except ImportError:
        return None
    model = xStream(window_size=100, random_state=0)
    for row in histograms(*train, n):
        model.fit_partial(row)
    return np.array([float(model.score_partial(row)) for row in histograms(*test, n)])


def areas(scores: Floats, spoiled: SpoiledLog) -> list[float]:
    """Return the area under the curve of each kind of anomaly against the usual cases."""
    kinds = np.array(list(spoiled.kinds.values()))
    found = []
    for kind in KINDS:
        kept = (kinds == "") | (kinds == kind)
        found.append(Curve.of(scores[kept], kinds[kept] == kind).area)
    return found


def score_log(seed: int) -> dict[str, list[float] | None]:
    """Return the areas of all methods on one log, by kind of anomaly."""
    # The parts are cut from one log, so that they have the same labels.
    whole = datasets.help_desk(3 * N_CASES, rng=seed)
    number = np.array([int(key.split()[1]) // N_CASES for key in whole.keys])
    parts = [
        datasets.EventLog(
            whole.symbols[number == i],
            [key for key, j in zip(whole.keys, number.tolist(), strict=True) if j == i],
            whole.times[number == i],
            whole.labels,
        )
        for i in range(3)
    ]
    train, reference = parts[0].grouped(), parts[1].grouped()
    spoiled = spoil(parts[2], 0.15, rng=seed)
    test, n = spoiled.log.grouped(), whole.n_symbols
    found: dict[str, list[float] | None] = {}
    for name, predictor in predictors(n).items():
        predictor.run(*train)
        scores = score_sequences(predictor, *test, reference=reference)
        found[name] = areas(strangeness(scores), spoiled)
        found[f"{name}, mean surprise"] = areas(scores.mean, spoiled)
    for window in (2, 3, 6):
        stide = Stide(window).learn(*train).score(*test)
        found[f"STIDE {window}"] = areas(stide.mismatch_share, spoiled)
    for name, peer in (("HalfSpaceTrees (river)", half_space_trees), ("xStream (PySAD)", x_stream)):
        values = peer(train, test, n)
        found[name] = None if values is None else areas(values, spoiled)
    return found


def anomalies() -> None:
    """Print the areas under the curve, by method and kind of anomaly."""
    rows = [score_log(seed) for seed in SEEDS]
    print(f"help desk, {N_CASES} cases, 15% spoiled: AUC, mean and standard error of", end=" ")
    print(f"{len(SEEDS)} logs\n  {'':32}" + "".join(f"{kind:>18}" for kind in KINDS))
    for name in rows[0]:
        values = [row[name] for row in rows]
        if values[0] is None:
            print(f"  {name:32}{'not installed':>18}")
            continue
        table = np.array(values)
        errors = table.std(axis=0, ddof=1) / np.sqrt(len(table))
        pairs = zip(table.mean(axis=0), errors, strict=True)
        print(f"  {name:32}" + "".join(f"{mean:9.3f} +- {error:.3f}" for mean, error in pairs))


def draw_sequences(
    hmm: datasets.HMM, n: int, rng: np.random.Generator, length: int | None = None
) -> Groups:
    """Draw sequences of an HMM, of one length or log-uniform in 10..4,000."""
    lengths = np.exp(rng.uniform(np.log(10), np.log(4001), n)).astype(np.int64)
    if length is not None:
        lengths = np.full(n, length)
    parts = []
    for size in lengths.tolist():
        state = int(rng.choice(hmm.n_states, p=hmm.start))
        moves, emits = rng.random(size), rng.random(size)
        transition, emission = np.cumsum(hmm.transition, axis=1), np.cumsum(hmm.emission, axis=1)
        for move, emit in zip(moves, emits, strict=True):
            parts.append(min(int(np.searchsorted(emission[state], emit)), hmm.n_symbols - 1))
            state = min(int(np.searchsorted(transition[state], move)), hmm.n_states - 1)
    return np.array(parts), lengths


def lengths_table(n: int = 200) -> None:
    """Print by length the share of usual sequences with p-values below 0.05."""
    from scipy.stats import spearmanr

    ways: dict[str, list[SequenceScores]] = {"reference": [], "no reference": []}
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        hmm = datasets.random_hmm(4, 8, rng=rng)
        chain = mdvpf.PitmanYorTree(8, depth=3)
        chain.run(*draw_sequences(hmm, 50, rng))
        reference, test = draw_sequences(hmm, n, rng), draw_sequences(hmm, n, rng)
        ways["reference"].append(score_sequences(chain, *test, reference=reference))
        ways["no reference"].append(score_sequences(mdvpf.KnownHMM(hmm), *test))
    print(f"one HMM a seed, {n} usual sequences each of {len(SEEDS)} seeds: share with p < 0.05")
    for name, found in ways.items():
        length, p_value, score = (
            np.concatenate([getattr(each, field) for each in found])
            for field in ("length", "p_value", "score")
        )
        print(f"  {name}")
        for low, high in pairwise(BINS):
            mine = p_value[(length >= low) & (length < high)]
            error = np.sqrt(0.05 * 0.95 / len(mine))
            print(f"    {low:5}..{high - 1:<5} {np.mean(mine <= 0.05):.3f} +- {error:.3f}", end="")
            print(f"  of {len(mine)}")
        rank = spearmanr(score, length).statistic
        print(f"    Spearman correlation of score and length {rank:+.3f}", end=", ")
        print(f"of p-value and length {spearmanr(p_value, length).statistic:+.3f}")


Lines = tuple[NDArray[np.int64], list[str] | None]


def crash_loop(seed: int, n_processes: int, n_usual: int = N_USUAL) -> tuple[Lines, int]:
    """Return a log that ends in a loop of one line, as symbols and keys, and its alphabet size.

    The looping line is drawn from the log, with its process. The offset of the loop in its block is
    drawn too.
    """
    rng = np.random.default_rng(1000 + seed)
    log = datasets.processes(n_usual, n_processes=n_processes, rng=seed)
    place, stop = int(rng.integers(n_usual)), n_usual - int(rng.integers(8))
    symbols = np.append(log.symbols[:stop], np.full(N_LOOP, log.symbols[place]))
    keys = [*log.keys[:stop], *[log.keys[place]] * N_LOOP]
    return (symbols, keys if n_processes > 1 else None), log.n_symbols


def judge(method: str, particles: int | None, lines: Lines, n: int) -> DetectionResult:
    """Return what our detector finds at 1 false incident per 10,000 lines."""
    predictor = make_predictor(method, n, particles, seed=0)
    detector = mdvpf.SurpriseDetector(predictor, false_incidents=1.0)
    return detector.run(lines[0], keys=lines[1])


def own_alarms(method: str, particles: int | None, lines: Lines, n: int) -> list[int]:
    """Return the first alarm of each incident of our detector."""
    result = judge(method, particles, lines, n)
    first: dict[int, int] = {}
    for i in np.flatnonzero(result.alarm).tolist():
        first.setdefault(result.incident[i].number, i)
    return list(first.values())


def drift_alarms(name: str, lines: Lines, n: int) -> list[int] | None:
    """Return the alarms of one of river's drift detectors on the surprise of a tree."""
    try:
        from river import drift
    except ImportError:
        return None
    detector = getattr(drift, name)(**({"seed": 0} if name == "KSWIN" else {}))
    tree = mdvpf.PitmanYorTree(n, depth=3)
    alarms = []
    for i, value in enumerate(-tree.run(lines[0], keys=lines[1]).log_predictive):
        detector.update(float(value))
        if detector.drift_detected:
            alarms.append(i)
    return alarms


def tree_alarms(lines: Lines, n: int) -> list[int] | None:
    """Return the alarms of river's HalfSpaceTrees on the counts of the last 8 lines.

    A QuantileFilter passes 1 of 10,000 lines.
    """
    try:
        from river import anomaly
    except ImportError:
        return None
    trees = anomaly.HalfSpaceTrees(n_trees=10, height=6, window_size=250, seed=0)
    model = anomaly.QuantileFilter(trees, q=1 - 1 / 10_000)
    alarms, counts = [], dict.fromkeys(range(n), 0.0)
    for i, symbol in enumerate(lines[0].tolist()):
        counts[symbol] += 1 / 8
        if i >= 8:
            counts[int(lines[0][i - 8])] -= 1 / 8
        if i >= 400 and model.classify(model.score_one(counts)):
            alarms.append(i)
        model.learn_one(counts)
    return alarms


def crash_loops() -> None:
    """Print after how many lines a crash loop is noticed, and how many false alarms came before."""
    singles = ("VPA", "MD-VPA", "SMC", "ParticleLearning", "OptimalResampling")
    methods: dict[str, Callable[[Lines, int], list[int] | None]] = {
        name: lambda lines, n, name=name: own_alarms(name, 100, lines, n) for name in singles
    }
    for name in ("Markov 1", "ContextTree 2", "PitmanYorTree 3"):
        methods[name] = lambda lines, n, name=name: own_alarms(name, None, lines, n)
    methods["auto"] = lambda lines, n: own_alarms("auto", None, lines, n)
    for name in ("ADWIN", "PageHinkley", "KSWIN"):
        methods[f"{name} (river)"] = lambda lines, n, name=name: drift_alarms(name, lines, n)
    methods["HalfSpaceTrees (river)"] = tree_alarms
    print(f"{N_USUAL} lines, then {N_LOOP} equal ones: noticed after so many of them, by seed;")
    print("in brackets the false alarms before. 1 process, and 8 with keys.")
    logs = {(n, seed): crash_loop(seed, n) for n in (1, 8) for seed in SEEDS}
    for name, alarms_of in methods.items():
        print(f"  {name:24}", end="")
        for lines, n in logs.values():
            alarms = alarms_of(lines, n)
            if alarms is None:
                print("  not installed", end="")
                break
            start = len(lines[0]) - N_LOOP
            late = [i - start + 1 for i in alarms if i >= start]
            n_false = sum(i < start for i in alarms)
            print(f"{str(late[0]) if late else 'never':>7} ({n_false})", end="", flush=True)
        print()


def short_logs() -> None:
    """Print how many crash loops are noticed within 20 lines, by the length of the log before."""
    sizes, seeds = (450, 500, 550, 600, 800, 1000), range(6)
    print(f"crash loops noticed within {PROMISED} lines, of {len(seeds)} each with 1 process and")
    print("with 8, by how many lines came before:\n" + " " * 26, end="")
    print("".join(f"{size:7}" for size in sizes))
    for name, particles in (("auto", None), ("MD-VPA", 100), ("PitmanYorTree 3", None)):
        print(f"  {name:24}", end="")
        for size in sizes:
            n_found = 0
            for n_processes, seed in product((1, 8), seeds):
                lines, n = crash_loop(seed, n_processes, size)
                start = len(lines[0]) - N_LOOP
                alarm = judge(name, particles, lines, n).alarm
                n_found += bool(alarm[start : start + PROMISED].any())
            print(f"{n_found:7}", end="", flush=True)
        print(f"  of {2 * len(seeds)}")


def false_incidents(n: int = 40_000, rate: float = 25.0) -> None:
    """Print the number of false incidents on streams of one HMM, where 100 are expected."""
    print(f"{n:,} symbols of one HMM, {rate * n / 10_000:.0f} false incidents expected, by seed:")
    for name, particles in (("Markov 1", None), ("PitmanYorTree 3", None), ("VPA", 20)):
        print(f"  {name:24}", end="")
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            hmm = datasets.random_hmm(8, 20, rng=rng)
            symbols, _ = draw_sequences(hmm, 1, rng, length=n)
            predictor = make_predictor(name, 20, particles, seed=0)
            detector = mdvpf.SurpriseDetector(predictor, false_incidents=rate)
            print(f"{len(detector.run(symbols).incidents):7}", end="", flush=True)
        print()


def regimes(n: int, seed: int) -> Floats:
    """Return numbers of three regimes of 25 observations each, of which one is noisy."""
    rng = np.random.default_rng(seed)
    state = np.repeat(rng.integers(0, 3, n // 25 + 1), 25)[:n]
    means, scales = np.array([0.0, 3.0, 6.0]), np.array([0.3, 1.0, 0.3])
    numbers: Floats = means[state] + scales[state] * rng.normal(size=n)
    return numbers


def faults(last: float, seed: int, n: int = PROMISED) -> dict[str, Floats]:
    """Return what a sensor with mean 0 and standard deviation 1 sends when it is broken."""
    noise = np.random.default_rng(1000 + seed).normal(size=n)
    return {
        "stuck": np.full(n, last),
        "jump of 4": 4.0 + noise,
        "jump of 8": 8.0 + noise,
        "4 times the noise": 4.0 * noise,
        "6 times the noise": 6.0 * noise,
    }


def faults_of_sensors(n: int = 20_000, rate: float = 50.0) -> None:
    """Print false incidents and found faults of filters over numbers."""
    family = mdvpf.Gaussian(mean_strength=0.01, shape=2.0, scale=0.2)
    model = mdvpf.InfiniteHMM(emission=family, kappa=10.0)
    rules = (mdvpf.VPA(), mdvpf.MDVPA(), mdvpf.OptimalResampling())
    print(f"{n:,} numbers of three regimes, {rate * n / 10_000:.0f} false incidents expected:")
    for rule in rules:
        print(f"  {type(rule).__name__:24}", end="")
        for seed in SEEDS:
            pf = mdvpf.ParticleFilter(model, rule, 20, rng=0)
            detector = mdvpf.SurpriseDetector(pf, false_incidents=rate)
            print(f"{len(detector.run(regimes(n, seed)).incidents):7}", end="", flush=True)
        print()
    n_seeds = 16
    print(f"faults found within {PROMISED} numbers, of {n_seeds}, and how many are named rightly:")
    for rule, before in product(rules, (1500, 4000)):
        found: dict[str, list[str | None]] = {}
        for seed in range(n_seeds):
            usual = np.random.default_rng(seed).normal(size=before + seed % 8)
            pf = mdvpf.ParticleFilter(model, rule, 20, rng=0)
            detector = mdvpf.SurpriseDetector(pf, false_incidents=1.0)
            detector.run(usual)
            for name, numbers in faults(usual[-1], seed).items():
                incidents = detector.copy().run(numbers).incidents
                found.setdefault(name, []).append(incidents[-1].side if incidents else None)
        print(f"  {type(rule).__name__:20} after {before:,}:", end="")
        for name, sides in found.items():
            right = ("repetitive", "predictable") if name == "stuck" else ("surprising",)
            named = sum(side in right for side in sides)
            print(f"  {name} {n_seeds - sides.count(None)} ({named})", end="", flush=True)
        print()


def main() -> None:
    """Print the tables that are asked for."""
    tables = {
        "anomalies": anomalies,
        "lengths": lengths_table,
        "loops": crash_loops,
        "short": short_logs,
        "rates": false_incidents,
        "numbers": faults_of_sensors,
    }
    for name in sys.argv[1:] or tables:
        tables[name]()


if __name__ == "__main__":
    main()
