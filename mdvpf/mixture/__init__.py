"""Mixtures of predictors: fixed share, restarts, geometric mixing, and `auto`, the default mixture.

`base` is the common base class, and `members` holds the predictors of a mixture. `mixture` averages
them by fixed share (`weights`), with copies that restart (`restart`); `frozen` is such a mixture
that no longer learns. `geometric` multiplies powers of their distributions, in compiled code
(`_mixing`); `influence` decides how many particles their filters keep. `recall` keeps a copy of one
predictor for each regime. `auto` and `evidence` build mixtures of predefined members.
"""

from mdvpf.mixture.geometric import GeometricMixture
from mdvpf.mixture.mixture import Mixture
from mdvpf.mixture.recall import Recall
from mdvpf.mixture.restart import Restart

__all__ = ["GeometricMixture", "Mixture", "Recall", "Restart"]
