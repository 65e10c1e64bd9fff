"""The methods that a user can name, and the predictors that they denote.

Tables, figures and command lines use these names: the five filters, Markov chains by their order,
context trees and Pitman-Yor trees by their depth, `SoftHMM`, and the mixtures `auto` and
`evidence`. `resolve_method` parses a name, `settings_of` lists the settings of a method, and
`make_predictor` builds it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from mdvpf._support import validate
from mdvpf.baselines import ContextTree, Markov, PitmanYorMixture, PitmanYorTree
from mdvpf.filter import ParticleFilter
from mdvpf.learners import SoftHMM
from mdvpf.mixture.auto import auto
from mdvpf.mixture.base import MixtureBase
from mdvpf.mixture.evidence import by_evidence
from mdvpf.model import Gaussian, InfiniteHMM, NumberFamily, Poisson
from mdvpf.model.algorithms import MDVPA, SMC, VPA, Algorithm, OptimalResampling, ParticleLearning
from mdvpf.predictor import Predictor

BASE = "MD-VPA"  # the method that all others are compared with
ALGORITHMS: dict[str, Algorithm] = {
    "SMC": SMC(),
    "VPA": VPA(),
    BASE: MDVPA(),
    "ParticleLearning": ParticleLearning(),
    "OptimalResampling": OptimalResampling(),
}
MARKOV_ORDERS = (0, 1, 2)
TREE_DEPTHS = (1, 2, 3)
PITMAN_YOR_DEPTHS = (3, 5, 8)
PITMAN_YOR_MIXTURE = "PitmanYorMixture"
PITMAN_YOR_SHARE = 0.001  # docs/decisions.md explains the choice
SOFT_HMM = "SoftHMM"
EVIDENCE = "evidence"
AUTO = "auto"

FILTERS = (AUTO, *ALGORITHMS)
COMPARED = (
    *FILTERS,
    *(f"Markov {order}" for order in MARKOV_ORDERS),
    *(f"ContextTree {depth}" for depth in TREE_DEPTHS),
)
# The tables of the paper's experiments do not include these.
LEARNERS = (
    *(f"PitmanYorTree {depth}" for depth in PITMAN_YOR_DEPTHS),
    PITMAN_YOR_MIXTURE,
    SOFT_HMM,
    EVIDENCE,
)
METHODS = (*COMPARED, *LEARNERS)
PARTICLES = 1000  # of a single filter

EXTENSION_SETTINGS = ("machine", "kappa", "forget", "half_life")
MODEL_SETTINGS = ("alpha", "gamma", "beta", "oracle", "max_states", *EXTENSION_SETTINGS)
ALGORITHM_SETTINGS = ("discount", "normalizer", "carry_weights", "selection")
SETTINGS = (*MODEL_SETTINGS, *ALGORITHM_SETTINGS)


def resolve_method(name: str, names: Collection[str] = METHODS, *, argument: str = "method") -> str:
    """Return the canonical spelling of a method's name, or raise.

    Case, spaces, hyphens and underscores are ignored.

    Parameters
    ----------
    name : str
        The name as the user wrote it.
    names : collection of str, default METHODS
        The names to choose from.
    argument : str, default "method"
        Name of the argument in the error message.

    Examples
    --------
    >>> from mdvpf.streams.methods import resolve_method
    >>> [resolve_method(name) for name in ("MDVPA", "md-vpa", "markov1", "Context Tree 2")]
    ['MD-VPA', 'MD-VPA', 'Markov 1', 'ContextTree 2']
    """
    expected = "one of " + ", ".join(names)
    if not isinstance(name, str):
        raise TypeError(f"{argument}={name!r}: expected {expected}")
    for known in names:
        if _letters(known) == _letters(name):
            return known
    raise ValueError(f"{argument}={name!r}: expected {expected}")


def _letters(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).casefold()


def settings_of(method: str) -> tuple[str, ...]:
    """Return the names of a method's settings, `particles` included.

    Examples
    --------
    >>> from mdvpf.streams.methods import settings_of
    >>> "forget" in settings_of("VPA"), "discount" in settings_of("VPA")
    (True, False)
    >>> settings_of("Markov 1")
    ('beta',)
    """
    if method == AUTO:
        return ("particles", "max_states")
    if method in ALGORITHMS:
        own = {field.name for field in dataclasses.fields(ALGORITHMS[method])}
        shared = (name for name in ALGORITHM_SETTINGS if name in own)
        return ("particles", *MODEL_SETTINGS, *shared)
    return ("beta",) if method in COMPARED else ()


def check_settings(methods: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Raise if none of the methods has one of the settings.

    Parameters
    ----------
    methods : sequence of str
        Names, as in `METHODS`.
    settings : mapping of str to value
        Names from `SETTINGS`, or `particles`, and their values.

    Examples
    --------
    >>> from mdvpf.streams.methods import check_settings
    >>> check_settings(["SMC", "MD-VPA"], {"normalizer": "sum"})
    >>> check_settings(["SMC"], {"normalizer": "sum"})
    Traceback (most recent call last):
    ValueError: normalizer='sum': SMC has none; expected only with MD-VPA
    """
    for setting, value in settings.items():
        if any(setting in settings_of(method) for method in methods):
            continue
        text = repr(str(value) if isinstance(value, timedelta) else value)
        if list(methods) == [AUTO]:
            raise ValueError(
                f"{setting}={text}: auto chooses the settings of its filters; expected only "
                "with the name of a single filter, such as MD-VPA"
            )
        owners = [name for name in ALGORITHMS if setting in settings_of(name)]
        expected = "a filter" if len(owners) == len(ALGORITHMS) else " or ".join(owners)
        verb = "has" if len(methods) == 1 else "have"
        raise ValueError(
            f"{setting}={text}: {' and '.join(methods)} {verb} none; expected only with {expected}"
        )


def configured_algorithm(name: str, settings: Mapping[str, Any]) -> Algorithm:
    """Return the algorithm of a name with the settings that apply to it.

    Examples
    --------
    >>> from mdvpf.streams.methods import configured_algorithm
    >>> configured_algorithm("VPA", {"carry_weights": False, "discount": 0.5})
    VPA(carry_weights=False)
    """
    has = set(settings_of(name)) & set(ALGORITHM_SETTINGS)
    own = {setting: value for setting, value in settings.items() if setting in has}
    return dataclasses.replace(ALGORITHMS[name], **own)


def make_predictor(
    name: str,
    n_symbols: int,
    particles: int | None = None,
    seed: int | np.random.SeedSequence | None = None,
    **settings: Any,
) -> Predictor:
    """Build the predictor of a name.

    Parameters
    ----------
    name : str
        One of `METHODS`, in any spelling that `resolve_method` accepts.
    n_symbols : int
        Size of the alphabet.
    particles : int, optional
        Number of particles; for `auto` the total of all its filters.
    seed : int or SeedSequence, optional
        Seed of the random numbers.
    **settings
        Names from `SETTINGS` and their values. The method must have them (see `settings_of`).

    Examples
    --------
    >>> from mdvpf.streams.methods import make_predictor
    >>> make_predictor("Markov 2", 4, beta=0.1)
    Markov(4, order=2, beta=0.1, decay=1.0)
    >>> make_predictor("MDVPA", 4, discount=0.5, oracle="any").algorithm.discount
    0.5
    """
    name = resolve_method(name)
    if not settings.keys() <= set(SETTINGS):
        raise TypeError(f"unknown settings: {sorted(settings.keys() - set(SETTINGS))}")
    budget = {} if particles is None else {"particles": particles}
    check_settings([name], settings | budget)
    if name == AUTO:
        size = () if particles is None else (particles,)
        return auto(n_symbols, *size, rng=seed, **settings)
    if name in ALGORITHMS:
        model = InfiniteHMM(n_symbols, **_model_settings(settings))
        algorithm = configured_algorithm(name, settings)
        return ParticleFilter(
            model, algorithm, PARTICLES if particles is None else particles, rng=seed
        )
    if name == PITMAN_YOR_MIXTURE:
        return PitmanYorMixture(n_symbols, share=PITMAN_YOR_SHARE)
    if name == SOFT_HMM:
        return SoftHMM(n_symbols, rng=seed, n_seeds=8)
    if name == EVIDENCE:
        return by_evidence(n_symbols, rng=seed)
    kind, size_text = name.split()
    if kind == "PitmanYorTree":
        return PitmanYorTree(n_symbols, depth=int(size_text))
    if kind == "Markov":
        return Markov(n_symbols, order=int(size_text), **settings)
    return ContextTree(n_symbols, depth=int(size_text), **settings)


NUMBER_FAMILY_NAMES: dict[str, type[Gaussian] | type[Poisson]] = {
    "gaussian": Gaussian,
    "poisson": Poisson,
}


def read_family(name: str, prior: str = "") -> Gaussian | Poisson:
    """Return the emission family of a name, with the parameters that a text gives.

    Parameters
    ----------
    name : str
        "gaussian" or "poisson", in upper or lower case.
    prior : str, optional
        Parameters of the family as ``name=value``, with commas between.

    Examples
    --------
    >>> from mdvpf.streams.methods import read_family
    >>> read_family("poisson", "shape=2,rate=0.5")
    Poisson(shape=2.0, rate=0.5)
    """
    known = list(NUMBER_FAMILY_NAMES)
    family: type[Gaussian] | type[Poisson]
    family = NUMBER_FAMILY_NAMES[validate.choice("emission", name.casefold(), known)]
    names = [field.name for field in dataclasses.fields(family)]
    given: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in prior.split(","))):
        parameter, _, text = (piece.strip() for piece in part.partition("="))
        if parameter not in names:
            raise ValueError(f"prior={prior!r}: expected name=value for {', '.join(names)}")
        try:
            given[parameter] = int(text) if parameter == "n_dims" else float(text)
        except ValueError:
            raise ValueError(f"prior={prior!r}: {parameter}={text!r}: expected a number") from None
    return family(**given)


def make_number_filter(
    family: NumberFamily,
    name: str = BASE,
    particles: int | None = None,
    seed: int | np.random.SeedSequence | None = None,
    **settings: Any,
) -> ParticleFilter:
    """Return the filter of a name over numbers.

    Parameters
    ----------
    family : NumberFamily
        What states emit.
    name : str, default "MD-VPA"
        One of `ALGORITHMS`.
    particles : int, optional
        Number of particles.
    seed : int or SeedSequence, optional
        Seed of the random numbers.
    **settings
        Those of `SETTINGS` that are set.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.streams.methods import make_number_filter
    >>> make_number_filter(mdvpf.Poisson(), "VPA", 50, kappa=2.0).model.kappa
    2.0
    """
    name = resolve_method(name, ALGORITHMS)
    check_settings([name], settings)
    model = InfiniteHMM(emission=family, **_model_settings(settings))
    algorithm = configured_algorithm(name, settings)
    return ParticleFilter(model, algorithm, PARTICLES if particles is None else particles, rng=seed)


def _model_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name in MODEL_SETTINGS}


def method_of(predictor: Predictor) -> str | None:
    """Return the name of a predictor's method, ignoring `SETTINGS`; None if it has no name.

    A predictor without a name differs from `METHODS` in something else, such as an SMC filter with
    another resampling scheme.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.streams.methods import method_of
    >>> method_of(mdvpf.ContextTree(4, depth=2, beta=0.1))
    'ContextTree 2'
    >>> method_of(mdvpf.Markov(4, order=1, decay=0.99)) is None
    True
    """
    match predictor:
        case ParticleFilter(algorithm=algorithm):
            for name, usual in ALGORITHMS.items():
                if type(algorithm) is type(usual):
                    has = set(settings_of(name)) & set(ALGORITHM_SETTINGS)
                    settings = {setting: getattr(algorithm, setting) for setting in has}
                    return name if dataclasses.replace(usual, **settings) == algorithm else None
        case MixtureBase(recipe={"name": ("auto" | "evidence") as name}):
            return str(name)
        case SoftHMM(n_states=40, machine="mealy", forget=4.0, lag=2, n_seeds=8):
            is_usual = (predictor.alpha, predictor.gamma, predictor.beta) == (1.0, 10.0, 0.1)
            return SOFT_HMM if is_usual else None
        case Markov(order=order, decay=1.0):
            name = f"Markov {order}"
            return name if name in METHODS else None
        case ContextTree(depth=depth):
            name = f"ContextTree {depth}"
            return name if name in METHODS else None
        case PitmanYorTree(depth=depth, discount=0.8, strength=0.3, max_nodes=None):
            name = f"PitmanYorTree {depth}"
            return name if name in METHODS else None
        case PitmanYorMixture(share=share, max_nodes=None) if share == PITMAN_YOR_SHARE:
            default = PitmanYorMixture(None)
            return PITMAN_YOR_MIXTURE if predictor.settings == default.settings else None
    return None


def found_settings(predictor: Predictor) -> dict[str, Any]:
    """Return the settings of a predictor, as names and values.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.streams.methods import found_settings
    >>> found_settings(mdvpf.Markov(4, beta=0.1))
    {'beta': 0.1}
    """
    match predictor:
        case ParticleFilter(model=model, algorithm=algorithm, n_particles=n_particles):
            found = {"particles": n_particles}
            found |= {name: getattr(model, name) for name in MODEL_SETTINGS}
            found |= {
                name: getattr(algorithm, name)
                for name in ALGORITHM_SETTINGS
                if hasattr(algorithm, name)
            }
            return found
        case MixtureBase(recipe=dict(recipe)) if recipe["name"] == AUTO:
            return {"particles": recipe.get("n_particles"), "max_states": recipe.get("max_states")}
        case Markov(beta=beta) | ContextTree(beta=beta):
            return {"beta": beta}
    return {}
