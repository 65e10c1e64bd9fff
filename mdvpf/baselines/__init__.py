"""Baselines for filters: the generator itself, Markov chains, context trees, Pitman-Yor trees.

Baselines are `Predictor` objects, so experiments and mixtures use them like filters. They are
exact: a baseline follows a single hypothesis, or an average in closed form, and neither samples nor
discards anything. In their `Step`, the number of particles and the effective sample size are 1, and
nothing is discarded. `mean_states` is the number of states of the HMM, of contexts of the chain, or
of nodes of the tree.

A context is the previous symbols of the same sequence. In chains and context trees, a missing
symbol and the start of the sequence are values like any other in a context; neither is ever
predicted. In Pitman-Yor trees a context ends at them. Memory is allocated only for contexts that
occurred. The compiled tree is in `_tree.pyx`: `_tables.pxd` has its structs and hash tables,
`_storage.pxd` adds and evicts nodes, `_rules.pxd` and `_pitman_yor.pxd` predict and count.
"""

from mdvpf.baselines.context_tree import ContextTree
from mdvpf.baselines.known_hmm import KnownHMM
from mdvpf.baselines.markov import Markov
from mdvpf.baselines.pitman_yor_mixture import PitmanYorMixture
from mdvpf.baselines.pitman_yor_tree import PitmanYorTree

__all__ = ["KnownHMM", "Markov", "ContextTree", "PitmanYorTree", "PitmanYorMixture"]
