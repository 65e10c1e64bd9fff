"""Jobs on the growth of cost with particles, the stream, states and symbols.

Each job returns points for a plot (`benchmarks.plots`): time a candidate and bytes a particle.
"""

from __future__ import annotations

import numpy as np

import mdvpf
from benchmarks.common import BETA, N_SYMBOLS, TEXT_MODEL, load_text, load_words
from benchmarks.figures import Point, Result
from benchmarks.timing import Contender, race, windows

ALGORITHMS = {
    "VPA": mdvpf.VPA(),
    "MD-VPA": mdvpf.MDVPA(),
    "SMC": mdvpf.SMC(),
    "ParticleLearning": mdvpf.ParticleLearning(),
    "OptimalResampling": mdvpf.OptimalResampling(),
}
NANOSECONDS = "ns a candidate"
BYTES = "bytes a particle"


def _measure(
    pf: mdvpf.ParticleFilter, symbols: np.ndarray, warm_up: int, length: int, rounds: int
) -> tuple[float, float]:
    """Advance over symbols; return nanoseconds a candidate and live bytes a particle at the end."""
    pf.run(symbols[:warm_up])
    times = race({"it": Contender.of(pf)}, windows(symbols, warm_up, length, rounds))
    return times.nanoseconds("it"), pf.memory().live / pf.n_particles


def particles(budgets: tuple[int, ...] = (100, 1000, 10_000, 100_000)) -> Result:
    """K from 10^2 to 10^5 on text."""
    result: Result = []
    for k in budgets:
        length, rounds = (100, 10) if k <= 10_000 else (10, 6)
        warm_up = 1000 if k <= 10_000 else 500
        text = load_text(warm_up + length * rounds)
        for name, algorithm in ALGORITHMS.items():
            pf = mdvpf.ParticleFilter(TEXT_MODEL, algorithm, n_particles=k, rng=0)
            time, live = _measure(pf, text, warm_up, length, rounds)
            result += [Point(f"{NANOSECONDS}: {name}", k, time), Point(f"{BYTES}: {name}", k, live)]
    return result


def stream(times: tuple[int, ...] = (100, 1000, 10_000, 100_000, 1_000_000)) -> Result:
    """The stream from 10^2 to 10^6 characters, with unbounded and with bounded states."""
    result: Result = []
    rounds = 10
    text = load_text(times[-1] + 100 * rounds)
    for name, most in {"any number of states": None, "12 states at most": 12}.items():
        model = mdvpf.InfiniteHMM(N_SYMBOLS, beta=BETA, max_states=most)
        pf = mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles=1000)
        done = 0
        for n in times:
            for start in range(done, n, 50_000):
                pf.run(text[start : min(start + 50_000, n)])
            length = min(100, n // 20)  # the windows hardly change n
            result_of_race = race({"it": Contender.of(pf)}, windows(text, n, length, rounds))
            done = n + length * rounds
            result += [
                Point(f"{NANOSECONDS}: {name}", n, result_of_race.nanoseconds("it")),
                Point(f"{BYTES}: {name}", n, pf.memory().live / pf.n_particles),
                Point(f"states: {name}", n, float(pf.n_states.mean())),
            ]
    return result


def states() -> Result:
    """From 5 states to 160: a large gamma makes many states, and `max_states` bounds them."""
    result: Result = []
    length, rounds, warm_up = 100, 10, 5000
    text = load_text(warm_up + length * rounds)
    for most in (5, 10, 20, 40, 80, 160):
        model = mdvpf.InfiniteHMM(N_SYMBOLS, alpha=5, gamma=500.0, beta=BETA, max_states=most)
        for name in ("VPA", "MD-VPA"):
            pf = mdvpf.ParticleFilter(model, ALGORITHMS[name], n_particles=1000)
            time, live = _measure(pf, text, warm_up, length, rounds)
            reached = float(pf.n_states.mean())
            result += [
                Point(f"{NANOSECONDS}: {name}", reached, time),
                Point(f"{BYTES}: {name}", reached, live),
            ]
    return result


def symbols() -> Result:
    """Alphabets of 10 to 10^4 words."""
    result: Result = []
    length, rounds, warm_up = 100, 10, 5000
    for v in (10, 100, 1000, 10_000):
        stream = load_words(v, warm_up + length * rounds)
        for name in ("VPA", "MD-VPA"):
            model = mdvpf.InfiniteHMM(v, beta=BETA)
            pf = mdvpf.ParticleFilter(model, ALGORITHMS[name], n_particles=1000)
            time, live = _measure(pf, stream, warm_up, length, rounds)
            result += [Point(f"{NANOSECONDS}: {name}", v, time), Point(f"{BYTES}: {name}", v, live)]
    return result
