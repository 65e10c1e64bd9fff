"""Sensitivity to hyper-parameters: the filters at several values of gamma and beta."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mdvpf._support.tables import Cell, Column, Estimate, Table
from mdvpf.experiments.data import Data
from mdvpf.experiments.methods import Entry
from mdvpf.experiments.options import Options
from mdvpf.experiments.results import COSTS, Group, difference, final_states
from mdvpf.experiments.runs import Run, Seed
from mdvpf.streams.methods import BASE

GROUP = "settings"
FILTERS = ("SMC", "VPA", BASE)

Setting = tuple[float, float]  # gamma, beta


def _label(name: str, setting: Setting) -> str:
    return f"{name}, gamma = {setting[0]:g}, beta = {setting[1]:g}"


def setting_runs(
    options: Options, data: Data, seed: Seed, settings: Iterable[Setting], measure_memory: bool
) -> list[Run]:
    """Return the runs of the filters on a stream with each of the settings."""
    runs = []
    for gamma, beta in settings:
        for name in FILTERS:
            if name in options.filters:
                usual = options.filter(options.algorithm(name), options.particles)
                method = replace(usual, gamma=gamma, beta=beta)
                entry = Entry(_label(name, (gamma, beta)), method)
                runs.append(Run(GROUP, entry, data, seed, measure_memory=measure_memory))
    return runs


def setting_table(group: Group, settings: Iterable[Setting], title: str) -> Table:
    """Return the table of the settings, with differences to MD-VPA at the same setting."""
    states = final_states(group)
    rows: list[tuple[Cell, ...]] = []
    for setting in settings:
        base = group.rates(_label(BASE, setting))
        for name in FILTERS:
            label = _label(name, setting)
            if label in group.labels:
                rates = group.rates(label)
                rows.append(
                    (
                        name,
                        setting[0],
                        setting[1],
                        Estimate.of(list(rates.values())),
                        None if name == BASE else difference(rates, base),
                        states[1](label),
                        *group.costs(label),
                    )
                )
    columns = (
        Column("method"),
        Column("gamma", "g"),
        Column("beta", "g"),
        Column("log predictive", show_error=False),
        Column(f"minus {BASE}"),
        states[0],
        *COSTS,
    )
    return Table("settings", title, columns, tuple(rows))
