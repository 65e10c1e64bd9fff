"""The infinite hidden Markov model: its hyper-parameters, and nothing else.

A path of hidden states, numbered by first appearance, is followed by counts of transitions
and emissions. The next state is drawn in proportion to the transitions seen from the present
one, or through an oracle that knows how often each state was entered; a state that was never
seen is always possible. Symbols come from a Dirichlet-multinomial for each state. The counts
live in the compiled core; this module only says how they become probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mdvpf._support import validate

Oracle = Literal["unvisited", "any"]
ORACLES: tuple[Oracle, ...] = ("unvisited", "any")


@dataclass(frozen=True, slots=True)
class InfiniteHMM:
    """Infinite hidden Markov model over a fixed alphabet of symbols.

    Write ``t[j, c]`` for the transitions from state j to c so far, ``t[j]`` for their sum,
    ``into[c]`` for how often c was entered and ``e[c, y]`` for how often it emitted y.

    Parameters
    ----------
    n_symbols : int
        Size V of the alphabet; symbols are 0, 1, ..., V - 1.
    alpha : float, default 1.0
        Weight of the oracle against the transitions seen: it is asked with probability
        ``alpha / (t[j] + alpha)``.
    gamma : float, default 1.0
        Weight of a new state within the oracle.
    beta : float, default 0.3
        Pseudo-count of every symbol in every state: the emission of y in c has probability
        ``(e[c, y] + beta) / (e[c] + V * beta)``. Smaller values make states more specific;
        this is the parameter that matters most.
    oracle : {"unvisited", "any"}, default "unvisited"
        Whether the oracle offers only the states never reached from j (the paper's Appendix I
        as printed), or any state.
    max_states : int, optional
        A particle that has this many states is not offered a new one. Unbounded by default.

    Examples
    --------
    >>> import mdvpf
    >>> mdvpf.InfiniteHMM(n_symbols=27, beta=0.01)
    InfiniteHMM(n_symbols=27, alpha=1.0, gamma=1.0, beta=0.01, oracle='unvisited', max_states=None)
    """

    n_symbols: int
    alpha: float = 1.0
    gamma: float = 1.0
    beta: float = 0.3
    oracle: Oracle = "unvisited"
    max_states: int | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "n_symbols", validate.integer("n_symbols", self.n_symbols, low=1))
        put(self, "alpha", validate.hyper_parameter("alpha", self.alpha))
        put(self, "gamma", validate.hyper_parameter("gamma", self.gamma))
        put(self, "beta", validate.hyper_parameter("beta", self.beta))
        validate.choice("oracle", self.oracle, ORACLES)
        if self.max_states is not None:
            most = validate.integer("max_states", self.max_states, low=1, also=", or None")
            put(self, "max_states", most)
