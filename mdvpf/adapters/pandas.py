"""State paths as pandas columns.

``FilterResult.to_pandas()`` returns the fields of a run. The path of states is not part of a run,
because the next symbol may change it; `state_column` reads it from the filter.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, Any

import numpy as np

from mdvpf._support.extras import needed
from mdvpf.filter import ParticleFilter

if TYPE_CHECKING:
    import pandas


def state_column(
    pf: ParticleFilter, index: Any, *, k: int | None = None, name: str = "state"
) -> pandas.Series[Any]:
    """Return the states on the path of a particle as a column for the last rows of a stream.

    Parameters
    ----------
    pf : ParticleFilter
        The filter, created with `history`.
    index : pandas.Index or sized
        The index of the rows whose symbols the filter absorbed last, one symbol a row.
    k : int, optional
        The particle; the heaviest by default.
    name : str, default "state"
        Name of the column.

    Returns
    -------
    pandas.Series of Int64
        The states; NA for symbols before the kept part of the path.

    Examples
    --------
    >>> import mdvpf
    >>> import pandas as pd
    >>> from mdvpf.adapters.pandas import state_column
    >>> frame = pd.DataFrame({"page": [0, 1, 0, 1, 0]}, index=list("abcde"))
    >>> pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(2, beta=0.01), n_particles=10, history=3)
    >>> _ = pf.run(frame["page"])
    >>> frame["state"] = state_column(pf, frame.index)
    >>> frame["state"].tolist()
    [<NA>, <NA>, 0, 1, 0]
    """
    with needed("state_column", "pandas", "pandas"):
        import pandas as pd
    if not isinstance(pf, ParticleFilter):
        raise TypeError(f"pf={pf!r}: expected a ParticleFilter")
    if not isinstance(index, Sized):
        raise TypeError(f"index={index!r}: expected the index of a frame")
    n = len(index)
    path = pf.path(k)
    if n > len(path) and len(path) != pf.history:  # the path covers all symbols absorbed
        raise ValueError(f"index of {n} rows: expected at most {len(path)}, the symbols absorbed")
    known = path[len(path) - min(n, len(path)) :]
    states = np.zeros(n, dtype=np.int64)
    states[n - len(known) :] = known
    unknown = np.arange(n) < n - len(known)
    return pd.Series(pd.array(states, dtype="Int64"), index=index, name=name).mask(unknown)
