"""`auto`: a default predictor without hyper-parameters.

Hyper-parameters matter more than the kind of predictor, and the best ones depend on the stream.
`auto` therefore mixes trees of many depths, learners of automata, chains that forget and a few
filters in a `GeometricMixture`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mdvpf._support import validate
from mdvpf.baselines import Markov, PitmanYorMixture
from mdvpf.filter import ParticleFilter
from mdvpf.learners import SoftHMM
from mdvpf.mixture.auto_of_0_1 import DEFAULT_PARTICLES, auto_of_0_1
from mdvpf.mixture.base import MixtureBase
from mdvpf.mixture.geometric import GeometricMixture
from mdvpf.mixture.recall import Recall
from mdvpf.model import InfiniteHMM, OpenVocabulary
from mdvpf.model.algorithms import MDVPA, Algorithm, OptimalResampling
from mdvpf.predictor import Predictor

BUDGETS = ("fast", "default", "best")
MAX_BYTES = 200_000_000
MAX_STATES = 50  # of a filter

_LEAST_BYTES = 10_000_000  # smallest `max_bytes`
# Shares of `max_bytes`. The rest is for filters and learners, whose memory does not grow.
_TREE_PART = 0.5
_RECALL_PART = 0.15
_SHALLOW_PART = 0.03  # for the shallow tree in the second `Recall`
_KEYS_PART = 0.25
_MARGIN = 2.0  # nats, of `Recall`
_N_COPIES = 15  # copies of the tree in `Recall`: six slots twice, a newcomer and two backups
_BYTES_OF_NODE = 200  # bytes of a full tree, with its entries, divided by the number of nodes
_ENTRIES_OF_NODE = 2
# Measured bytes of the position of a key.
_BYTES_OF_KEY = 3_000  # in trees, chains and filters
_BYTES_OF_KEY_IN_SEED = 1_400  # of `SoftHMM`
_BYTES_OF_KEY_IN_RECALL = 3_000  # in all copies of a tree
_BYTES_OF_KEY_IN_RECALL_SEED = 11_500  # in all copies of a `SoftHMM`
_LARGE_ALPHABET = 200  # for tables over pairs of symbols, or of states and symbols
_HUGE_ALPHABET = 5_000  # for more than a few distributions


class _Filter(NamedTuple):
    """A filter among the members.

    Attributes
    ----------
    n_particles : int
        Its largest number of particles in the default budget.
    concentration : float
        Total prior count of all symbols in a state; beta is this divided by their number.
    """

    algorithm: Algorithm
    n_particles: int
    concentration: float
    options: dict[str, Any]
    has_pairs: bool = False  # whether it has tables over pairs of states and symbols


_FILTERS = (
    _Filter(OptimalResampling(), 80, 1.0, {"half_life": 100.0}),
    _Filter(MDVPA(), 200, 2.5, {}),
    _Filter(OptimalResampling(), 80, 1.0, {"forget": 4.0}),
    _Filter(
        OptimalResampling(),
        80,
        1.0,
        {"forget": 4.0, "machine": "mealy", "oracle": "rows"},
        has_pairs=True,
    ),
)


class _Budget(NamedTuple):
    """Numbers and sizes of the members of a budget.

    Attributes
    ----------
    n_filters : int
        Number of filters.
    particles : float
        Factor by which `_Filter.n_particles` is multiplied.
    n_seeds : int
        Seeds of each `SoftHMM`.
    n_recall_seeds : int
        Seeds of the `SoftHMM` in the first `Recall`; 0 if there is only the `Recall` of shallow
        trees.
    """

    n_filters: int
    particles: float
    n_seeds: int
    n_recall_seeds: int


_BUDGETS = {
    "fast": _Budget(1, 0.4, 1, 0),
    "default": _Budget(4, 1.0, 8, 4),
    "best": _Budget(4, 4.0, 16, 4),
}


def auto(
    n_symbols: int | None = None,
    n_particles: int | None = None,
    *,
    budget: str = "default",
    max_bytes: int = MAX_BYTES,
    version: int = 2,
    baselines: bool = True,
    rng: Any = None,
    max_states: int | None = None,
    n_threads: int = 1,
) -> MixtureBase:
    """Return a predictor that needs no hyper-parameters: a mixture of trees, learners and filters.

    It is a `GeometricMixture` of

    - Pitman-Yor trees of depths 0 to 7, discounts 0.5 and 0.8, strengths 0.3 and 2, on one tree
      of counts;
    - Markov chains of order 0, with and without decay, and one of order 1 with decay;
    - `SoftHMM`, a Mealy and a Moore machine with eight seeds each;
    - `Recall`, which keeps a copy of a predictor for each regime: one of a tree mixed with a
      `SoftHMM`, one of a tree of depth 2;
    - filters: OptimalResampling with a half-life of 100 symbols, MD-VPA, OptimalResampling with
      ``forget=4`` as a Moore and as a Mealy machine. They have all their particles at first;
      those with little influence soon keep one in eight (`GeometricMixture.adapt_particles`).

    Larger alphabets have fewer members: from 201 symbols on, no `Recall` and no Mealy machines;
    from 5,001 on, no `SoftHMM`. Open alphabets have neither `Recall` nor `SoftHMM`.

    Memory is bounded. The tree drops the least recently used contexts, filters have at most
    `max_states` states, and beyond `max_keys` keys the sequence of the least recently used key
    ends. With an open alphabet, memory still grows with the number of different symbols.

    Parameters
    ----------
    n_symbols : int, optional
        Size of the alphabet; None if it is open: symbols are numbered by first appearance.
    n_particles : int, optional
        Largest total number of particles of all filters; by default it depends on the budget.
    budget : {"fast", "default", "best"}, default "default"
        Time for a symbol: "fast" has one small filter, one seed of each `SoftHMM` and only the
        `Recall` of trees; "best" has four times the particles and twice the seeds.
    max_bytes : int, default 200,000,000
        Approximate limit of the memory, at least 10 million. It also sets `max_keys`: 645 with the
        defaults, 5,681 with the budget "fast". You can set `max_keys` of the predictor to another
        number, or to None for no limit.
    version : {2, 1}, default 2
        1 is the mixture of version 0.1, for comparison: 84 filters, chains and context trees. It
        has no budget, no bound on its memory and no open alphabets.
    baselines : bool, default True
        Whether chains and trees are members.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed or generator of the random numbers, as for `ParticleFilter`.
    max_states : int, optional
        Largest number of states of a particle, as for `InfiniteHMM`; by default 50, and in
        version 1 unlimited.
    n_threads : int, default 1
        Threads that run the members. Results do not depend on it.

    Returns
    -------
    GeometricMixture
        In version 1 a `Mixture`.

    Examples
    --------
    >>> import mdvpf
    >>> predictor = mdvpf.auto(n_symbols=3, rng=0)
    >>> _ = predictor.run([0, 0, 1, 2] * 20)
    >>> int(predictor.predict_proba().argmax())
    0
    """
    budget = validate.choice("budget", budget, list(BUDGETS))
    max_bytes = validate.integer("max_bytes", max_bytes, low=_LEAST_BYTES)
    baselines = validate.flag("baselines", baselines)
    if validate.integer("version", version, low=1, high=2) == 1:
        return auto_of_0_1(
            n_symbols,
            DEFAULT_PARTICLES if n_particles is None else n_particles,
            baselines=baselines,
            rng=rng,
            max_states=max_states,
            n_threads=n_threads,
        )
    if n_symbols is not None:
        n_symbols = validate.integer("n_symbols", n_symbols, low=1, also=", or None if it is open")
    generator = validate.generator("rng", rng)
    members: list[Predictor] = []
    if baselines:
        members += _trees(n_symbols, max_bytes)
    members += _learners(n_symbols, budget, generator)
    if baselines:
        members += _recalls(n_symbols, budget, max_bytes, generator)
    members += _filters(n_symbols, budget, n_particles, max_states, generator)
    mixture = GeometricMixture(members, n_threads=n_threads, adapt_particles=True)
    mixture.max_keys = _max_keys(members, _BUDGETS[budget], max_bytes)
    mixture.recipe = {
        "name": "auto",
        "version": 2,
        "budget": budget,
        "n_particles": n_particles,
        "max_bytes": max_bytes,
        "baselines": baselines,
        "max_states": max_states,
    }
    return mixture


def _max_keys(members: Sequence[Predictor], budget: _Budget, max_bytes: int) -> int:
    """Return the number of keys that fit into their share of `max_bytes`."""
    n_seeds = sum(each.n_seeds for each in members if isinstance(each, SoftHMM))
    bytes_of_key = _BYTES_OF_KEY + _BYTES_OF_KEY_IN_SEED * n_seeds
    n_recalls = sum(isinstance(each, Recall) for each in members)
    bytes_of_key += _BYTES_OF_KEY_IN_RECALL * n_recalls
    if n_recalls:
        bytes_of_key += _BYTES_OF_KEY_IN_RECALL_SEED * budget.n_recall_seeds
    return int(_KEYS_PART * max_bytes) // bytes_of_key


def _trees(n_symbols: int | None, max_bytes: int) -> list[Predictor]:
    """Return the trees, which share their counts, and the chains."""
    depths: tuple[int, ...] = tuple(range(8))
    strengths: tuple[float, ...] = (0.3, 2.0)
    if n_symbols is None or n_symbols > _LARGE_ALPHABET:
        strengths = (0.3,)
    if n_symbols is not None and n_symbols > _HUGE_ALPHABET:
        depths = (0, 1, 2, 4)
    found: list[Predictor] = [
        _tree(n_symbols, depths, (0.5, 0.8), strengths, _TREE_PART * max_bytes)
    ]
    if n_symbols is None:
        return [*found, Markov(None, order=0), Markov(None, order=0, decay=0.95)]
    found.append(Markov(n_symbols, order=0, beta=0.5 / n_symbols))
    found.append(Markov(n_symbols, order=0, beta=1.0 / n_symbols, decay=0.95))
    if n_symbols <= _LARGE_ALPHABET:
        found.append(Markov(n_symbols, order=1, beta=8.0 / n_symbols, decay=0.9))
    return found


def _tree(
    n_symbols: int | None,
    depths: Sequence[int],
    discounts: Sequence[float],
    strengths: Sequence[float],
    n_bytes: float,
) -> PitmanYorMixture:
    """Return trees on one tree of counts that takes about `n_bytes`."""
    max_nodes = int(n_bytes) // _BYTES_OF_NODE
    return PitmanYorMixture(
        n_symbols,
        depths,
        discounts,
        strengths,
        max_nodes=max_nodes,
        max_entries=_ENTRIES_OF_NODE * max_nodes,
    )


def _learners(n_symbols: int | None, budget: str, generator: Any) -> list[Predictor]:
    """Return the learners of automata."""
    if n_symbols is None or n_symbols > _HUGE_ALPHABET:
        return []
    machines = ["moore"] if n_symbols > _LARGE_ALPHABET else ["mealy", "moore"]
    n_seeds = _BUDGETS[budget].n_seeds
    return [
        SoftHMM(n_symbols, machine=machine, rng=int(generator.integers(2**63)), n_seeds=n_seeds)
        for machine in machines
    ]


def _recalls(n_symbols: int | None, budget: str, max_bytes: int, generator: Any) -> list[Predictor]:
    """Return the learners of returning regimes, unless the alphabet is open or large."""
    if n_symbols is None or n_symbols > _LARGE_ALPHABET:
        return []
    n_seeds = _BUDGETS[budget].n_recall_seeds
    templates: list[Predictor] = []
    if n_seeds:
        n_bytes = _RECALL_PART * max_bytes / _N_COPIES
        tree = _tree(n_symbols, range(6), (0.5, 0.8), (0.3, 2.0), n_bytes)
        seed = int(generator.integers(2**63))
        learner = SoftHMM(n_symbols, n_states=20, lag=4, rng=seed, n_seeds=n_seeds)
        templates.append(GeometricMixture([tree, learner]))
    n_bytes = _SHALLOW_PART * max_bytes / _N_COPIES
    templates.append(_tree(n_symbols, [2], [0.5], [2.0], n_bytes))
    return [Recall(each, margin=_MARGIN) for each in templates]


def _filters(
    n_symbols: int | None,
    budget: str,
    n_particles: int | None,
    max_states: int | None,
    generator: Any,
) -> list[Predictor]:
    """Return the filters, among which the particles are divided."""
    is_large = n_symbols is None or n_symbols > _LARGE_ALPHABET
    chosen = [each for each in _FILTERS if not (is_large and each.has_pairs)]
    chosen = chosen[: _BUDGETS[budget].n_filters]
    factor = _BUDGETS[budget].particles
    if n_particles is not None:
        n_particles = validate.integer("n_particles", n_particles, low=len(chosen))
        factor = n_particles / sum(each.n_particles for each in chosen)
    return [
        ParticleFilter(
            InfiniteHMM(
                n_symbols,
                gamma=10.0,
                beta=None if n_symbols is None else each.concentration / n_symbols,
                emission=OpenVocabulary() if n_symbols is None else None,
                max_states=MAX_STATES if max_states is None else max_states,
                **each.options,
            ),
            each.algorithm,
            max(1, int(factor * each.n_particles)),
            rng=int(generator.integers(2**63)),
        )
        for each in chosen
    ]
