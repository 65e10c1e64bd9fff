"""The detector that the package recommends for blocks of symbols.

A better predictor is not always a better detector. What gives an intruder away is which commands
are typed, hardly their order. On the masquerade data plain counts detected more than every
predictor that also learns the order (`docs/detection.md` has the figures).
"""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from mdvpf.baselines import PitmanYorTree
from mdvpf.detect.background import Background
from mdvpf.detect.detector import SurpriseDetector
from mdvpf.predictor import Predictor

BLOCK = 100


def block_detector(
    symbols: ArrayLike,
    n_symbols: int,
    lengths: ArrayLike | None = None,
    *,
    block: int = BLOCK,
    background: Background | Predictor | None = None,
    **settings: Any,
) -> SurpriseDetector:
    """Return a detector for blocks that predicts a symbol from its count, whatever came before it.

    Without a background the counts are fixed. With one, they learn the blocks that they explain
    better than the background does, unless `learn` is passed. The background should be of the same
    kind: a `PitmanYorTree` of depth 0 trained on the symbols of the others.

    Parameters
    ----------
    symbols : array_like of int
        Normal symbols, which the counts learn.
    n_symbols : int
        Size of the alphabet.
    lengths : array_like of int, optional
        Lengths of the sequences that `symbols` joins.
    block : int, default 100
        Number of symbols in a block.
    background : Background or Predictor, optional
        Predictor of the whole population.
    **settings
        Other arguments of `SurpriseDetector`.

    Examples
    --------
    >>> import mdvpf
    >>> usual = [0, 1, 0, 2] * 500
    >>> detector = mdvpf.block_detector(usual, 4, block=20, warm_up=2)
    >>> _ = detector.run(usual[:200])
    >>> bool(detector.run([3, 0, 3, 1] * 5).alarm.any())
    True
    """
    counts = PitmanYorTree(n_symbols, depth=0)
    counts.run(symbols, lengths=lengths)
    counts.new_sequence()
    settings = {"learn": "none" if background is None else "own", **settings}
    # Counts that learn within a block would adapt to it before it is judged.
    predictor = counts.freeze() if settings["learn"] == "none" else counts
    return SurpriseDetector(predictor, block=block, background=background, **settings)
