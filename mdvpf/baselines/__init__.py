"""What a filter has to beat: the generator itself, Markov chains, context trees, Pitman-Yor trees.

They have the protocol of the filters, so that experiments and mixtures take any of them, and they
are exact: each follows one hypothesis, or an average that can be computed in closed form, and
nothing is drawn or discarded. A `Step` of theirs therefore has one particle, an effective sample
size of 1 and nothing discarded; `mean_states` is the number of states of the HMM, of contexts of
the chain, of nodes of the tree.

Contexts are what came just before, in the same sequence. For chains and context trees a missing
symbol in a context is a value like any other, and so is the start of the sequence; neither is ever
predicted. For Pitman-Yor trees a context ends there. Only contexts that occurred take memory, which
is that of a compiled tree (`_tree.pyx`): `_tables.pxd` has its structs and hash tables,
`_storage.pxd` adds and forgets, `_rules.pxd` and `_pitman_yor.pxd` predict and count.
"""

from mdvpf.baselines.context_tree import ContextTree
from mdvpf.baselines.known_hmm import KnownHMM
from mdvpf.baselines.markov import Markov
from mdvpf.baselines.pitman_yor_mixture import PitmanYorMixture
from mdvpf.baselines.pitman_yor_tree import PitmanYorTree

__all__ = ["KnownHMM", "Markov", "ContextTree", "PitmanYorTree", "PitmanYorMixture"]
