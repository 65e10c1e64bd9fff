"""`InfiniteHMM`: the hyper-parameters of the infinite hidden Markov model.

The model is a path of hidden states, numbered by first appearance, with counts of transitions and
emissions. The next state repeats a transition seen from the present state, or an oracle proposes
one by how often each state was entered. A new state is always possible. Each state emits symbols
from a Dirichlet-multinomial, or numbers from another family. The counts are stored in the compiled
core.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Self

from mdvpf._support import validate
from mdvpf.model.clock import Clock, read_half_life
from mdvpf.model.emissions import Categorical, Emission, OpenVocabulary
from mdvpf.model.number_families import NUMBER_FAMILIES, NumberFamily

Oracle = Literal["unvisited", "any", "rows"]
ORACLES: tuple[Oracle, ...] = ("unvisited", "any", "rows")

Machine = Literal["moore", "mealy"]
MACHINES: tuple[Machine, ...] = ("moore", "mealy")


@dataclass(frozen=True, slots=True)
class InfiniteHMM:
    """Infinite hidden Markov model over symbols of an alphabet, fixed or open, or over numbers.

    Write ``t[j, c]`` for the transitions from state j to c so far, ``t[j]`` for their sum,
    ``into[c]`` for how often c was entered and ``e[c, y]`` for how often it emitted y.

    Parameters
    ----------
    n_symbols : int, optional
        Size V of the alphabet; symbols are 0, 1, ..., V - 1. `n_symbols` and `beta` are short for
        ``emission=Categorical(n_symbols, beta)``. None for an open alphabet and for numbers.
    alpha : float, default 1.0
        Weight of the oracle against the transitions seen: the oracle is used with probability
        ``alpha / (t[j] + alpha)``.
    gamma : float, default 1.0
        Weight of a new state within the oracle.
    beta : float, optional
        Pseudo-count of every symbol in every state: the emission of y in c has probability
        ``(e[c, y] + beta) / (e[c] + V * beta)``. Smaller values make states more specific;
        this is the parameter that matters most. The default is 1 / V (Perks' prior: all symbols
        together count as one observation). The attribute is the value in use; it is None for an
        open alphabet and for numbers.
    oracle : {"unvisited", "any", "rows"}, default "unvisited"
        Which states the oracle offers. "unvisited": those never reached from j (the paper's
        Appendix I as printed), in proportion to how often they were entered. "any": all states,
        with the same proportions. "rows": all states, in proportion to the number of rows that
        reach them.
    max_states : int, optional
        A particle that has this many states is not offered a new one. Unbounded by default.
    emission : Categorical or another family, optional
        The emission family, instead of `n_symbols` and `beta`: a `Categorical`, `OpenVocabulary`,
        `Gaussian`, `Poisson`, `Product` or `CompiledEmission`. A `Categorical` is stored as
        `n_symbols` and `beta`; the attribute is then None.
    machine : {"moore", "mealy"}, default "moore"
        Whether the state alone selects the row of the next transition, or the state and the symbol
        that it emitted; a missing symbol has its own row. Numbers require "moore".
    kappa : float, default 0.0
        Stickiness: added to the transitions of every state to itself.
    forget : float, default 0.0
        Counts fade by a power: at step n, what was counted at step i weighs ``(i / n)**forget``.
    half_life : float or timedelta, optional
        Counts fade at a fixed rate: half of a count is left after this number of symbols or, for a
        timedelta, after this time by the symbols' time stamps. At most one of `forget` and
        `half_life` may be given.

    Examples
    --------
    >>> import mdvpf
    >>> model = mdvpf.InfiniteHMM(n_symbols=27, beta=0.01)
    >>> model.alpha, model.beta, model.oracle
    (1.0, 0.01, 'unvisited')
    >>> mdvpf.InfiniteHMM(n_symbols=4).beta
    0.25

    An open alphabet:

    >>> model = mdvpf.InfiniteHMM(emission=mdvpf.OpenVocabulary(concentration=2.0))
    >>> model.n_symbols is None, model.is_open
    (True, True)
    """

    n_symbols: int = None  # type: ignore[assignment]  # None without a fixed alphabet
    alpha: float = 1.0
    gamma: float = 1.0
    beta: float = None  # type: ignore[assignment]  # set by `__post_init__`
    oracle: Oracle = "unvisited"
    max_states: int | None = None
    _: KW_ONLY
    emission: OpenVocabulary | NumberFamily | None = None
    machine: Machine = "moore"
    kappa: float = 0.0
    forget: float = 0.0
    half_life: float | timedelta | None = None

    if TYPE_CHECKING:  # the generated signature, except that arguments may be None

        def __init__(
            self,
            n_symbols: int | None = None,
            alpha: float = 1.0,
            gamma: float = 1.0,
            beta: float | None = None,
            oracle: Oracle = "unvisited",
            max_states: int | None = None,
            *,
            emission: Emission | NumberFamily | None = None,
            machine: Machine = "moore",
            kappa: float = 0.0,
            forget: float = 0.0,
            half_life: float | timedelta | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        put = object.__setattr__
        self._read_emission()
        put(self, "alpha", validate.hyper_parameter("alpha", self.alpha))
        put(self, "gamma", validate.hyper_parameter("gamma", self.gamma))
        validate.choice("oracle", self.oracle, ORACLES)
        if self.max_states is not None:
            most = validate.integer("max_states", self.max_states, low=1, also=", or None")
            put(self, "max_states", most)
        validate.choice("machine", self.machine, MACHINES)
        if self.numbers is not None and self.machine == "mealy":
            raise ValueError(
                f"machine='mealy': expected 'moore' together with emission={self.emission!r}: "
                "rows of a Mealy machine depend on symbols"
            )
        most_real = validate.LARGEST_PARAMETER
        put(self, "kappa", validate.real("kappa", self.kappa, low=0.0, high=most_real))
        put(self, "forget", validate.real("forget", self.forget, low=0.0, high=most_real))
        if self.half_life is not None:
            half_life = read_half_life(self.half_life)
            put(self, "half_life", half_life)
            if self.forget > 0.0:
                raise ValueError(
                    f"half_life={half_life!r}: expected None together with "
                    f"forget={self.forget!r}: counts fade in one way only"
                )

    def _read_emission(self) -> None:
        """Check what states emit; a `Categorical` becomes `n_symbols` and `beta`."""
        put = object.__setattr__
        family: Emission | NumberFamily | None = self.emission
        if family is not None:
            if not isinstance(family, (Categorical, OpenVocabulary, *NUMBER_FAMILIES)):
                raise TypeError(
                    f"emission={family!r}: expected a Categorical, an OpenVocabulary, a Gaussian, "
                    "a Poisson, a Product, a CompiledEmission, or None"
                )
            for name in ("n_symbols", "beta"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name}={getattr(self, name)!r}: expected None together with "
                        f"emission={family!r}, which defines it"
                    )
        if isinstance(family, (OpenVocabulary, *NUMBER_FAMILIES)):
            return
        if family is None:
            if self.n_symbols is None:
                raise TypeError("n_symbols=None: expected an integer >= 1, or emission=")
            family = Categorical(self.n_symbols, self.beta)
        put(self, "n_symbols", family.n_symbols)
        put(self, "beta", family.beta)
        put(self, "emission", None)

    def __repr__(self) -> str:
        parts = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if field.name not in self._unused_fields
        ]
        return f"{type(self).__name__}({', '.join(parts)})"

    @property
    def _unused_fields(self) -> tuple[str, ...]:
        """The fields that this kind of emission does not use."""
        return ("emission",) if self.emission is None else ("n_symbols", "beta")

    @property
    def is_open(self) -> bool:
        """Whether the alphabet is open: symbols are numbered by first appearance."""
        return isinstance(self.emission, OpenVocabulary)

    @property
    def vocabulary(self) -> OpenVocabulary | None:
        """The family of an open alphabet; None for a fixed one, and for numbers."""
        return self.emission if isinstance(self.emission, OpenVocabulary) else None

    @property
    def numbers(self) -> NumberFamily | None:
        """The family if states emit numbers; None if they emit symbols."""
        return self.emission if isinstance(self.emission, NUMBER_FAMILIES) else None

    @property
    def has_real_counts(self) -> bool:
        """Whether the core stores counts as 32-bit floats; the model of the paper has integers."""
        return self.numbers is not None or bool(extensions(self).keys() - {"emission"})

    @property
    def fades(self) -> bool:
        """Whether counts fade: `forget` or `half_life` is given."""
        return self.forget > 0.0 or self.half_life is not None

    @property
    def clock(self) -> Clock | None:
        """A clock for time stamps, if counts fade by them; None otherwise."""
        return Clock(self.half_life) if isinstance(self.half_life, timedelta) else None

    @classmethod
    def paper(cls, n_symbols: int) -> Self:
        """Return the model of the paper: the defaults, with beta 0.3.

        The paper sets alpha = gamma = 1 and prints the oracle "unvisited". It does not give beta;
        0.3 is the value in the code of VPA's authors, and the default of the experiments here.

        Examples
        --------
        >>> import mdvpf
        >>> model = mdvpf.InfiniteHMM.paper(n_symbols=27)
        >>> model.alpha, model.gamma, model.beta, model.oracle
        (1.0, 1.0, 0.3, 'unvisited')
        """
        return cls(n_symbols, alpha=1.0, gamma=1.0, beta=0.3, oracle="unvisited")


def extensions(model: InfiniteHMM) -> dict[str, Any]:
    """Return the arguments that extend a model beyond the paper's, such as forgetting.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.model import extensions
    >>> extensions(mdvpf.InfiniteHMM(2, oracle="rows", forget=1.0))
    {'oracle': 'rows', 'forget': 1.0}
    """
    found: dict[str, Any] = {"oracle": "rows"} if model.oracle == "rows" else {}
    for field in fields(model):
        value = getattr(model, field.name)
        if field.kw_only and value != field.default:
            found[field.name] = value
    return found
