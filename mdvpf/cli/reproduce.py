"""`mdvpf reproduce`: run the experiments of the paper and of this project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mdvpf._support import validate
from mdvpf.cli import experiment_commands, shared
from mdvpf.cli.option_groups import EXPANDED, Given, Option, with_options
from mdvpf.experiments.adversarial import ADVERSARIAL
from mdvpf.experiments.artificial import ARTIFICIAL
from mdvpf.experiments.books import BOOKS
from mdvpf.experiments.efficiency import EFFICIENCY
from mdvpf.experiments.experiment import carry_out
from mdvpf.experiments.masquerade import MASQUERADE
from mdvpf.experiments.pautomac import PAUTOMAC
from mdvpf.experiments.regimes import REGIMES
from mdvpf.experiments.webclick import WEBCLICK

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        ARTIFICIAL,
        BOOKS,
        WEBCLICK,
        EFFICIENCY,
        ADVERSARIAL,
        MASQUERADE,
        PAUTOMAC,
        REGIMES,
    )
}
ALL = "all"
_LIST = "; ".join(f"{name}: {experiment.summary}" for name, experiment in EXPERIMENTS.items())

Beta = Annotated[
    float | None,
    typer.Option(
        help="Pseudocount of each symbol in the emissions. \\[default: the experiment's, else 0.3]"
    ),
]


@with_options(settings={**shared.SETTINGS, "beta": Option(Beta)})
def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"{_LIST}; {ALL}: every experiment.")],
    particles: experiment_commands.Particles = None,
    seeds: Annotated[
        int | None, typer.Option(help="Number of streams: data seeds, windows, blocks or users.")
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(
            help="Number of symbols: of a segment (artificial), a book (books), a block of clicks "
            "(webclick, efficiency), the longest stream (adversarial), a user's training data "
            "(masquerade), a stream of numbers (regimes). For pautomac: the largest number of "
            "training strings of a problem."
        ),
    ] = None,
    most_particles: Annotated[
        int | None,
        typer.Option(
            help="Number of particles of the reference filter (artificial), or the largest one of "
            "the grid (efficiency)."
        ),
    ] = None,
    method: experiment_commands.Methods = None,
    methods: experiment_commands.OldMethods = None,
    literal: Annotated[
        bool,
        typer.Option(
            "--literal",
            help="For artificial: add the literal readings of the paper's Algorithm 1. They are in "
            "plain Python and take about 20 seconds a stream.",
        ),
    ] = False,
    settings: Given = EXPANDED,
    seed: shared.Seed = None,
    jobs: experiment_commands.Jobs = 1,
    out: experiment_commands.Out = Path("results"),
    backend: experiment_commands.Backend = "processes",
    scheduler: experiment_commands.Scheduler = None,
    resume: experiment_commands.Resume = False,
) -> int:
    """Run an experiment; write its tables, figures, arrays and configuration to a folder.

    An experiment may have other defaults than those shown below; its configuration.json has all
    options.

    For example:

    mdvpf reproduce artificial --seeds 20 --jobs 2

    mdvpf reproduce books --method MD-VPA,VPA --method "Markov 1" --beta 0.1

    mdvpf reproduce artificial --normalizer none --discount 1/sqrt(n)

    mdvpf reproduce all --seeds 5 --jobs 2 --out results --resume

    mdvpf reproduce pautomac --length 1000 --seeds 1 --jobs 2

    mdvpf reproduce webclick --backend dask --scheduler tcp://localhost:8786
    """
    with shared.usage():
        validate.choice("NAME", name, [*EXPERIMENTS, ALL])
        chosen = EXPERIMENTS if name == ALL else {name: EXPERIMENTS[name]}
        if literal and ARTIFICIAL.name not in chosen:
            raise ValueError(f"--literal with {name}: expected only with {ARTIFICIAL.name}")
        where = experiment_commands.executor(jobs, backend, scheduler)
        given = shared.given(
            particles=particles,
            seeds=seeds,
            length=length,
            most_particles=most_particles,
            methods=experiment_commands.read_methods(method, methods),
            **settings,
            seed=seed,
            literal=literal or None,
        )
        all_options = {
            key: experiment.defaults.changed(**given) for key, experiment in chosen.items()
        }
    code = 0
    for key, experiment in chosen.items():
        options = all_options[key]
        folder = out / experiment.name
        finished = carry_out(experiment, options, folder, where, resume=resume, progress=True)
        code = max(code, experiment_commands.show(finished))
    return code
