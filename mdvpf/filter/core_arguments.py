"""Translate a model and an algorithm into the numeric arguments of the core."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

import numpy as np

from mdvpf.model import (
    CompiledEmission,
    InfiniteHMM,
    NumberFamily,
    OpenVocabulary,
    Product,
    channels_of,
)
from mdvpf.model.algorithms import (
    ALGORITHMS,
    DUPLICATING,
    MDVPA,
    NORMALIZERS,
    RESAMPLINGS,
    SMC,
    VPA,
    Algorithm,
    OptimalResampling,
    ParticleLearning,
)


def uniforms_per_step(algorithm: Algorithm, n_particles: int) -> int:
    """Return the largest number of uniforms that a step can draw."""
    match algorithm:
        case SMC(resampling="systematic"):
            return n_particles + 1
        case SMC() | ParticleLearning():
            return 2 * n_particles
        case OptimalResampling() | MDVPA(selection="optimal"):
            return 1
    return 0


def model_codes(model: InfiniteHMM) -> dict[str, Any]:
    """Return the arguments of the core that describe a model."""
    emits = {"n_symbols": model.n_symbols, "beta": model.beta, **asdict(OpenVocabulary())}
    if model.vocabulary is not None:
        emits = {"n_symbols": 0, "beta": 0.0, **asdict(model.vocabulary)}
    emits |= {"channels": None, "fading": None, "functions": None}
    if model.numbers is not None:  # one symbol, which means "not missing"
        emits |= {"n_symbols": 1, "beta": 1.0, **number_codes(model.numbers)}
    return emits | {
        "is_open": model.is_open,
        "alpha": model.alpha,
        "gamma": model.gamma,
        "any_state": model.oracle == "any",
        "by_rows": model.oracle == "rows",
        "mealy": model.machine == "mealy",
        "kappa": model.kappa,
        "forget": model.forget,
        "rate": _rate(model.half_life),
        "by_time": isinstance(model.half_life, timedelta),
        "max_states": model.max_states or 0,
    }


def number_codes(family: NumberFamily) -> dict[str, Any]:
    """Return the arguments of the core that describe a family over numbers.

    Each channel is a row: kind, number of symbols, number of statistics, up to 4 parameters.
    """
    channels = channels_of(family)
    codes = np.zeros((len(channels), 7))
    for row, channel in zip(codes, channels, strict=True):
        row[:3] = channel.kind, channel.n_symbols, channel.n_statistics
        row[3 : 3 + len(channel.parameters)] = channel.parameters
    return {
        "channels": codes,
        "fading": np.array([fades for channel in channels for fades in channel.fades], np.uint8),
        "functions": _functions(family),
    }


def _functions(family: NumberFamily) -> tuple[tuple[Any, ...], ...]:
    """Return first channel, number of channels, addresses and label of each compiled family."""
    parts = family.families if isinstance(family, Product) else (family,)
    found = []
    first = 0
    for i, part in enumerate(parts):
        n_channels = len(channels_of(part))
        if isinstance(part, CompiledEmission):
            place = f" (families[{i}])" if isinstance(family, Product) else ""
            label = (repr(part.name[:40]) + place).encode("utf-8", "replace")
            found.append((first, n_channels, *part.addresses, label))
        first += n_channels
    return tuple(found)


def _rate(half_life: float | timedelta | None) -> float:
    """Return the half-lives per step, or per unit of the core's clock if counts fade by time."""
    if half_life is None:
        return 0.0
    return 1.0 if isinstance(half_life, timedelta) else 1.0 / half_life


def algorithm_codes(algorithm: Algorithm) -> dict[str, Any]:
    """Return the arguments of the core that describe an algorithm."""
    codes = {
        "algorithm": ALGORITHMS.index(type(algorithm)),
        "duplicating": isinstance(algorithm, DUPLICATING),
        "carry_weights": True,
        "normalizer": 0,
        "select_optimal": False,
        "resampling": 0,
        "ess_threshold": 1.0,
    }
    if isinstance(algorithm, (MDVPA, VPA)):
        codes["carry_weights"] = algorithm.carry_weights
    if isinstance(algorithm, MDVPA):
        codes["normalizer"] = NORMALIZERS.index(algorithm.normalizer)
        codes["select_optimal"] = algorithm.selection == "optimal"
    if isinstance(algorithm, SMC):
        codes["resampling"] = RESAMPLINGS.index(algorithm.resampling)
        if algorithm.ess_threshold is not None:
            codes["ess_threshold"] = algorithm.ess_threshold
    return codes
