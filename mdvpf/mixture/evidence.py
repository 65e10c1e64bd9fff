"""`by_evidence`: trees, a learner of automata and filters, weighted by their evidence.

Streams from automata are long and stationary. The best member remains the best, so fixed share
would only add regret. Without a share, the weights are posterior probabilities.
"""

from __future__ import annotations

from typing import Any

from mdvpf._support import validate
from mdvpf.baselines import ContextTree, PitmanYorMixture
from mdvpf.filter import ParticleFilter
from mdvpf.learners import SoftHMM
from mdvpf.mixture.mixture import Mixture
from mdvpf.model import InfiniteHMM
from mdvpf.model.algorithms import VPA, OptimalResampling


def by_evidence(
    n_symbols: int,
    *,
    n_seeds: int = 8,
    n_particles: int = 100,
    rng: Any = None,
    n_threads: int = 1,
) -> Mixture:
    """Return a mixture for long, steady streams, such as strings of an automaton.

    Its members are a grid of Pitman-Yor trees on one tree (`PitmanYorMixture`), a context tree of
    depth 4, `SoftHMM` with several seeds, and two filters (`OptimalResampling` and `VPA`, gamma 10,
    beta 0.1), without a share. On any stream its regret against the best of the five is at most
    log 5 nats.

    Parameters
    ----------
    n_symbols : int
        Size of the alphabet. It cannot be open.
    n_seeds : int, default 8
        Seeds of `SoftHMM`.
    n_particles : int, default 100
        Particles of each filter.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed or generator of the random numbers, as for `ParticleFilter`.
    n_threads : int, default 1
        Threads that run the members. Results do not depend on it.

    Examples
    --------
    >>> import mdvpf
    >>> mixture = mdvpf.by_evidence(3, n_seeds=2, n_particles=10, rng=0)
    >>> _ = mixture.run([0, 1, 2] * 100)
    >>> int(mixture.predict_proba().argmax())
    0
    """
    if n_symbols is None:
        raise ValueError(
            "n_symbols=None: expected an integer, as some members need a closed alphabet; "
            "for an open one, build a Mixture of members that accept it"
        )
    generator = validate.generator("rng", rng)
    soft, drawn = (int(seed) for seed in generator.integers(2**63, size=2))
    model = InfiniteHMM(n_symbols, gamma=10.0, beta=0.1)
    members = [
        PitmanYorMixture(n_symbols),
        ContextTree(n_symbols, depth=4),
        SoftHMM(n_symbols, rng=soft, n_seeds=n_seeds),
        ParticleFilter(model, OptimalResampling(), n_particles, rng=drawn),
        ParticleFilter(model, VPA(), n_particles),
    ]
    mixture = Mixture(members, share=0.0, n_threads=n_threads)
    mixture.recipe = {"name": "evidence", "n_seeds": n_seeds, "n_particles": n_particles}
    return mixture
