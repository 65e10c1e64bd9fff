"""Mixtures of predictors: fixed share, restarts, geometric mixing, and `auto`, the default mixture.

`base` is what mixtures have in common and `members` the predictors inside. `mixture` averages them
by fixed share (`weights`), with copies that start afresh (`restart`), and `frozen` is such a
mixture that no longer learns. `geometric` multiplies powers of their distributions, in compiled
code (`_mixing`). `auto` and `evidence` build mixtures of ready-made members.
"""

from mdvpf.mixture.geometric import GeometricMixture
from mdvpf.mixture.mixture import Mixture
from mdvpf.mixture.recall import Recall
from mdvpf.mixture.restart import Restart

__all__ = ["GeometricMixture", "Mixture", "Recall", "Restart"]
