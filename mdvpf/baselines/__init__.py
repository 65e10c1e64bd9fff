"""What a filter has to beat: the generator itself, Markov chains, context trees.

They have the protocol of the filters, so that experiments and mixtures take any of them, and they
are exact: each follows one hypothesis, or an average that can be computed in closed form, and
nothing is drawn or discarded. A `Step` of theirs therefore has one particle, an effective sample
size of 1 and nothing discarded; `mean_states` is the number of states of the HMM, of contexts of
the chain, of nodes of the tree.

Contexts are what came just before, in the same sequence. A missing symbol in a context is a value
like any other, and so is the start of the sequence; neither is ever predicted. Only contexts that
occurred take memory.
"""

from mdvpf.baselines.context_tree import ContextTree
from mdvpf.baselines.known_hmm import KnownHMM
from mdvpf.baselines.markov import Markov

__all__ = ["KnownHMM", "Markov", "ContextTree"]
