"""The results of a predictor: of a step, of a run, a particle's counts, the memory in use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mdvpf._support.extras import needed
from mdvpf._support.shown import shown_fields

if TYPE_CHECKING:
    import pandas
    import xarray

N_FIELDS = 6  # columns of a report: log predictive, log evidence, the other fields of `Step`


class Step(NamedTuple):
    """The report on one step.

    Attributes
    ----------
    log_predictive : float
        Log probability of the symbol, fixed before it was used; 0 for a missing one.
    mean_states : float
        Weighted mean number of states of the particles after the step.
    ess : float
        Effective sample size of their weights (for SMC, before resampling).
    n_particles : int
        Number of particles.
    discarded : float
        Share of the candidates' weight that was lost in the selection.

    Examples
    --------
    >>> import mdvpf
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=4), n_particles=10)
    >>> pf.update(2).n_particles
    1
    """

    log_predictive: float
    mean_states: float
    ess: float
    n_particles: int
    discarded: float


@dataclass(frozen=True, slots=True, eq=False)
class FilterResult:
    """The steps of a run, field by field.

    Attributes
    ----------
    log_predictive, mean_states, ess, n_particles, discarded : ndarray
        The fields of `Step`, one entry a symbol.
    log_evidence : float
        Log evidence of the symbols of this run.

    Examples
    --------
    >>> import mdvpf
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
    >>> result = pf.run([0, 1, 0, 1])
    >>> len(result), result.log_predictive.shape
    (4, (4,))
    """

    log_predictive: NDArray[np.float64]
    mean_states: NDArray[np.float64]
    ess: NDArray[np.float64]
    n_particles: NDArray[np.int64]
    discarded: NDArray[np.float64]
    log_evidence: float

    def __repr__(self) -> str:
        return shown_fields(self)

    def __len__(self) -> int:
        return len(self.log_predictive)

    def _columns(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in Step._fields}

    def to_pandas(self, index: Any = None) -> pandas.DataFrame:
        """Return the steps as a frame: one row a symbol, one column a field of `Step`.

        The log evidence is in the frame's `attrs`.

        Parameters
        ----------
        index : pandas.Index or sequence, optional
            The index of the rows; 0, 1, ... by default. Pass the index of the symbols to align the
            frame with them.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
        >>> pf.run([0, 1, 0]).to_pandas(index=["a", "b", "c"]).loc["b", "n_particles"]
        np.int64(2)
        """
        with needed("to_pandas", "pandas", "pandas"):
            import pandas
        frame = pandas.DataFrame(self._columns(), index=index)
        frame.attrs["log_evidence"] = self.log_evidence
        return frame

    def to_xarray(self, dim: str = "step", coord: Any = None) -> xarray.Dataset:
        """Return the steps as a dataset: one variable a field of `Step`, along one dimension.

        The log evidence is in the dataset's `attrs`.

        Parameters
        ----------
        dim : str, default "step"
            Name of the dimension.
        coord : sequence, optional
            Coordinate of the dimension; 0, 1, ... by default.

        Examples
        --------
        >>> import mdvpf
        >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
        >>> dict(pf.run([0, 1, 0]).to_xarray(dim="click").sizes)
        {'click': 3}
        """
        with needed("to_xarray", "xarray", "xarray"):
            import xarray
        values = np.arange(len(self)) if coord is None else coord
        return xarray.Dataset(
            {name: (dim, column) for name, column in self._columns().items()},
            coords={dim: values},
            attrs={"log_evidence": self.log_evidence},
        )


def read_reports(reports: NDArray[np.float64]) -> dict[str, Any]:
    """Return the fields of a `FilterResult`, from reports of one row a symbol."""
    columns = reports[:, :N_FIELDS].T.copy()
    log_predictive, log_evidence, mean_states, ess, n_particles, discarded = columns
    return {
        "log_predictive": log_predictive,
        "mean_states": mean_states,
        "ess": ess,
        "n_particles": n_particles.astype(np.int64),
        "discarded": discarded,
        "log_evidence": math.fsum(log_evidence),
    }


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MixtureResult(FilterResult):
    """The steps of a run of a mixture, field by field.

    Attributes
    ----------
    log_predictive, mean_states, ess, n_particles, discarded, log_evidence
        As in `FilterResult`, over the particles of all members, weighted by member.
    weights : ndarray of shape (n, n_members)
        Weight of each member in the prediction of each symbol.
    member_log_predictive : ndarray of shape (n, n_members)
        Log predictive of each symbol by each member; with restarts, by the mixture of all copies
        of the member.

    Examples
    --------
    >>> import mdvpf
    >>> mixture = mdvpf.Mixture([mdvpf.Markov(2, order=0), mdvpf.Markov(2, order=1)])
    >>> result = mixture.run([0, 1] * 20)
    >>> result.weights.shape, int(result.weights[-1].argmax())
    ((40, 2), 1)
    >>> scores = result.member_log_predictive.sum(axis=0)
    >>> bool(scores[0] < -20 < -5 < scores[1])
    True
    """

    weights: NDArray[np.float64]
    member_log_predictive: NDArray[np.float64]


class Counts(NamedTuple):
    """Dense count tables of one particle with M states.

    Attributes
    ----------
    start : ndarray of shape (M,)
        How many sequences began in each state.
    transition : ndarray of shape (M, M)
        Transitions from the state of the row to that of the column.
    emission : ndarray of shape (M, V)
        How often each state emitted each symbol; for numbers, the statistics of each state.

    Examples
    --------
    >>> import mdvpf
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=2), n_particles=10)
    >>> _ = pf.update(1)
    >>> pf.counts().emission.tolist()
    [[0, 1]]
    """

    start: NDArray[np.int64]
    transition: NDArray[np.int64]
    emission: NDArray[Any]


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Where the memory of a filter goes; a row shared by many particles is counted once.

    Attributes
    ----------
    live : int
        Bytes of particles, count rows and history in use.
    allocated : int
        Bytes of memory that the filter occupies: live bytes, free space between them and work
        space. Memory that was reserved but never written is not included. A `run` of 256 symbols
        or more frees its work space and most of the free space at its end. Single calls of
        `update` keep both for the next call.
    dense_equivalent : int
        Bytes that plain int32 tables of the same states and symbols would take.
    rows : int
        Distinct non-empty rows and columns of counts.
    shared_rows : int
        Rows and columns that more than one particle uses.
    history_nodes : int
        Ancestor records.

    Examples
    --------
    >>> import mdvpf
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(n_symbols=1000), n_particles=50)
    >>> result = pf.run([1, 2, 3] * 20)
    >>> report = pf.memory()
    >>> report.live < report.dense_equivalent
    True
    """

    live: int
    allocated: int
    dense_equivalent: int
    rows: int
    shared_rows: int
    history_nodes: int
