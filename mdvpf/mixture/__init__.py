"""Mixtures of predictors: fixed share, restarts, and `auto`, the default mixture.

`mixture` is the class and its protocol, `members` the predictors inside and their restarts,
`weights` how they are weighed. `frozen` is a mixture that no longer learns. `restart` says when
copies start afresh; `auto` and `evidence` build mixtures of ready-made members.
"""

from mdvpf.mixture.mixture import Mixture
from mdvpf.mixture.restart import Restart

__all__ = ["Mixture", "Restart"]
