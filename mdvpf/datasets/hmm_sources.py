"""Finite hidden Markov models as sources: given and random HMMs, and streams that switch.

A stream is a list of segments, each from its own HMM. A segment starts from the start distribution
of its HMM, independently of the segment before it. All draws use the inverse CDF and uniforms of
one generator, so a seed gives the same stream on every platform.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf._support import validate
from mdvpf._support.shown import shown_fields

_SUM_TOLERANCE = 1e-9  # allows for the rounding of a sum of probabilities only


@dataclass(frozen=True, slots=True, eq=False)
class HMM:
    """Hidden Markov model with a finite number of states.

    Parameters
    ----------
    start : array_like of shape (n_states,)
        Distribution of the first state.
    transition : array_like of shape (n_states, n_states)
        Row j is the distribution of the state after state j.
    emission : array_like of shape (n_states, n_symbols)
        Row j is the distribution of the symbol in state j.

    Attributes
    ----------
    start, transition, emission : ndarray of float64
        As passed, with rows normalised to sum to one; read-only.

    Examples
    --------
    >>> from mdvpf.datasets import HMM
    >>> hmm = HMM([1, 0], [[0.9, 0.1], [0.2, 0.8]], [[1, 0, 0], [0, 0.5, 0.5]])
    >>> hmm.n_states, hmm.n_symbols
    (2, 3)
    """

    start: NDArray[np.float64]
    transition: NDArray[np.float64]
    emission: NDArray[np.float64]

    def __repr__(self) -> str:
        return shown_fields(self)

    def __post_init__(self) -> None:
        start = _distributions("start", self.start, 1)
        n = len(start)
        transition = _distributions("transition", self.transition, 2)
        if transition.shape != (n, n):
            raise ValueError(f"transition of shape {transition.shape}: expected {(n, n)}, as start")
        emission = _distributions("emission", self.emission, 2)
        if len(emission) != n:
            raise ValueError(f"emission of shape {emission.shape}: expected {n} rows, as start")
        for name, value in (("start", start), ("transition", transition), ("emission", emission)):
            object.__setattr__(self, name, value)

    def __setstate__(self, state: list[NDArray[np.float64]]) -> None:
        # Unpickled and copied arrays are writable.
        for field, array in zip(fields(self), state, strict=True):
            array.setflags(write=False)
            object.__setattr__(self, field.name, array)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.start)

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet."""
        return int(self.emission.shape[1])

    def to_hmmlearn(self) -> dict[str, NDArray[np.float64]]:
        """Return the matrices under the names of hmmlearn's `CategoricalHMM`.

        Returns
        -------
        dict of str to ndarray
            Copies of the arrays as ``startprob_``, ``transmat_`` and ``emissionprob_``. Set them as
            attributes of a ``CategoricalHMM(n_components=hmm.n_states)``. This method does not need
            hmmlearn.

        Examples
        --------
        >>> from mdvpf.datasets import HMM
        >>> hmm = HMM([1, 0], [[0.9, 0.1], [0.2, 0.8]], [[1, 0, 0], [0, 0.5, 0.5]])
        >>> {name: array.shape for name, array in hmm.to_hmmlearn().items()}
        {'startprob_': (2,), 'transmat_': (2, 2), 'emissionprob_': (2, 3)}
        """
        return {
            "startprob_": self.start.copy(),
            "transmat_": self.transition.copy(),
            "emissionprob_": self.emission.copy(),
        }


def _distributions(name: str, values: Any, n_dimensions: int) -> NDArray[np.float64]:
    """Return a read-only copy of an array whose rows are distributions, or raise."""
    expected = f"{'rows' if n_dimensions > 1 else 'a list'} of probabilities that sum to one"
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name}={values!r}: expected {expected}") from None
    if array.ndim != n_dimensions or array.size == 0:
        raise ValueError(f"{name} of shape {array.shape}: expected {expected}")
    if not np.all(array >= 0):
        raise ValueError(f"{name} with entries that are negative or NaN: expected {expected}")
    sums = array.sum(axis=-1)
    if not np.all(np.abs(sums - 1) <= _SUM_TOLERANCE):
        raise ValueError(f"{name} with sums {sums.tolist()}: expected {expected}")
    array /= sums[..., None]
    array.setflags(write=False)
    return array


def read_hmms(hmms: Any) -> tuple[HMM, ...]:
    """Return the HMMs of a sequence, at least one, or raise."""
    found = validate.entries("hmms", hmms, of="HMMs")
    for i, hmm in enumerate(found):
        if not isinstance(hmm, HMM):
            raise TypeError(f"hmms[{i}]={hmm!r}: expected an HMM")
    return tuple(found)


# The HMM with 4 states and 8 symbols on which Beal, Ghahramani and Rasmussen (2002) showed the
# infinite HMM: each state emits three symbols, two of them shared with its neighbours.
EXPANSIVE = HMM(
    start=np.array([1.0, 0, 0, 0]),
    transition=np.array([[0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1], [1, 1, 0, 0]]) / 2,
    emission=np.array(
        [
            [1, 0, 0, 0, 0, 0, 1, 1],
            [1, 1, 1, 0, 0, 0, 0, 0],
            [0, 0, 1, 1, 1, 0, 0, 0],
            [0, 0, 0, 0, 1, 1, 1, 0],
        ]
    )
    / 3,
)

# The two HMMs of the paper's first experiment (section 4.1), as printed there. The second has the
# matrices of `EXPANSIVE`. The paper gives no start distribution: uniform here.
PAPER_HMMS = (
    HMM(
        start=np.full(3, 1 / 3),
        transition=np.array([[0, 1 / 2, 1 / 2], [1 / 2, 1 / 2, 0], [1 / 2, 0, 1 / 2]]),
        emission=np.array([[1 / 2, 0, 1 / 2], [1 / 3, 1 / 3, 1 / 3], [0, 1 / 2, 1 / 2]]),
    ),
    HMM(
        start=np.full(4, 1 / 4),
        transition=EXPANSIVE.transition,
        emission=EXPANSIVE.emission,
    ),
)


@dataclass(frozen=True, slots=True, eq=False)
class HMMStream:
    """Symbols of consecutive HMMs, with the hidden states and the HMMs.

    Attributes
    ----------
    symbols : ndarray of int64
        The symbols.
    states : ndarray of int64
        The state that emitted each symbol, in the HMM of its segment.
    change_points : ndarray of int64
        Where the second and later segments start.
    hmms : tuple of HMM
        The HMM of each segment.

    Examples
    --------
    >>> from mdvpf import datasets
    >>> stream = datasets.switching_hmm(rng=0)
    >>> len(stream.symbols), stream.change_points.tolist(), stream.n_symbols
    (300, [150], 8)
    """

    symbols: NDArray[np.int64]
    states: NDArray[np.int64]
    change_points: NDArray[np.int64]
    hmms: tuple[HMM, ...]

    def __repr__(self) -> str:
        return shown_fields(self)

    @property
    def n_symbols(self) -> int:
        """Size of the largest alphabet of a segment."""
        return max(hmm.n_symbols for hmm in self.hmms)


def random_hmm(
    n_states: int,
    n_symbols: int,
    *,
    transition: float = 1.0,
    emission: float = 1.0,
    rng: Any = None,
) -> HMM:
    """Draw an HMM, each row from a symmetric Dirichlet distribution.

    Parameters
    ----------
    n_states, n_symbols : int
        Sizes.
    transition : float, default 1.0
        Concentration of the start distribution and of the rows of the transition matrix: small
        values make the next state nearly certain, large ones make all equally likely.
    emission : float, default 1.0
        Concentration of the rows of the emission matrix.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed or generator of the random numbers, as `numpy.random.default_rng` takes it.

    Examples
    --------
    >>> from mdvpf import datasets
    >>> datasets.random_hmm(3, 8, rng=0).emission.shape
    (3, 8)
    """
    n_states = validate.integer("n_states", n_states, low=1)
    n_symbols = validate.integer("n_symbols", n_symbols, low=1)
    moves = np.full(n_states, validate.hyper_parameter("transition", transition))
    emits = np.full(n_symbols, validate.hyper_parameter("emission", emission))
    generator = validate.generator("rng", rng)
    return HMM(
        generator.dirichlet(moves),
        generator.dirichlet(moves, size=n_states),
        generator.dirichlet(emits, size=n_states),
    )


def sample_hmms(hmms: Sequence[HMM], lengths: ArrayLike, rng: Any = None) -> HMMStream:
    """Draw a stream of consecutive segments, each from an HMM.

    Parameters
    ----------
    hmms : sequence of HMM
        The source of each segment; a source may occur several times.
    lengths : array_like of int
        The number of symbols of each segment.
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        As for `random_hmm`.

    Examples
    --------
    >>> from mdvpf import datasets
    >>> ones = datasets.HMM([1], [[1]], [[0, 1]])
    >>> zeros = datasets.HMM([1], [[1]], [[1, 0]])
    >>> datasets.sample_hmms([ones, zeros, ones], [3, 2, 1]).symbols.tolist()
    [1, 1, 1, 0, 0, 1]
    """
    sources = read_hmms(hmms)
    sizes = validate.integers("lengths", lengths, low=1)
    if len(sizes) != len(sources):
        raise ValueError(f"lengths has {len(sizes)} entries: expected {len(sources)}, as hmms")
    generator = validate.generator("rng", rng)
    states: list[int] = []
    symbols: list[int] = []
    for hmm, size in zip(sources, sizes.tolist(), strict=True):
        uniforms = generator.random((size, 2)).tolist()
        row = _cumulative(hmm.start)
        transition = [_cumulative(p) for p in hmm.transition]
        emission = [_cumulative(p) for p in hmm.emission]
        for u, v in uniforms:
            state = bisect_right(row, u)
            states.append(state)
            symbols.append(bisect_right(emission[state], v))
            row = transition[state]
    return HMMStream(
        np.array(symbols, dtype=np.int64),
        np.array(states, dtype=np.int64),
        sizes.cumsum()[:-1],
        sources,
    )


def switching_hmm(
    sources: Sequence[HMM | tuple[int, int]] = PAPER_HMMS,
    lengths: ArrayLike = 150,
    *,
    concentration: float = 3.0,
    rng: Any = None,
) -> HMMStream:
    """Draw a stream whose source switches; by default as in the paper's first experiment.

    The default is 150 symbols of an HMM with 3 states and the symbols 0, 1 and 2, then 150 symbols
    of one with 4 states and 8 symbols. Their matrices are printed in section 4.1 of the paper
    (`PAPER_HMMS`); their start distributions are uniform. A predictor that knows them scores -1.364
    nats a symbol (mean of 2,000 streams).

    Parameters
    ----------
    sources : sequence of HMM or (n_states, n_symbols), optional
        The source of each segment: an HMM, or the size of a random one. The default is
        `PAPER_HMMS`.
    lengths : int or array_like of int, default 150
        The number of symbols of each segment.
    concentration : float, default 3.0
        Concentration of the Dirichlet distributions of random HMMs (see `random_hmm`).
    rng : None, int, SeedSequence, BitGenerator or Generator, optional
        Seed or generator of the random numbers, as `numpy.random.default_rng` takes it.

    Returns
    -------
    HMMStream
        Symbols, states, change points and the HMMs.

    Examples
    --------
    >>> from mdvpf import datasets
    >>> stream = datasets.switching_hmm(rng=0)
    >>> [hmm.n_states for hmm in stream.hmms], stream.change_points.tolist()
    ([3, 4], [150])
    >>> len(datasets.switching_hmm([(2, 5), (3, 5), (2, 5)], [10, 20, 30], rng=0).symbols)
    60
    """
    generator = validate.generator("rng", rng)
    concentration = validate.hyper_parameter("concentration", concentration)
    hmms = []
    for i, source in enumerate(validate.entries("sources", sources, of="HMMs or sizes")):
        if isinstance(source, HMM):
            hmms.append(source)
            continue
        try:
            n_states, n_symbols = source
        except (TypeError, ValueError):
            message = f"sources[{i}]={source!r}: expected an HMM or a pair (n_states, n_symbols)"
            raise TypeError(message) from None
        hmms.append(
            random_hmm(
                n_states,
                n_symbols,
                transition=concentration,
                emission=concentration,
                rng=generator,
            )
        )
    if np.ndim(lengths) == 0:
        lengths = [validate.integer("lengths", lengths, low=1)] * len(hmms)
    return sample_hmms(hmms, lengths, generator)


def _cumulative(probabilities: NDArray[np.float64]) -> list[float]:
    """Return the cumulative sums before the last outcome of positive probability.

    That outcome gets the rest up to one. Rounding therefore cannot select an outcome of probability
    zero, or none.
    """
    last = int(np.flatnonzero(probabilities)[-1])
    sums: list[float] = np.cumsum(probabilities[:last]).tolist()
    return sums
