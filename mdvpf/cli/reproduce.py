"""`mdvpf reproduce`: the experiments of the paper, and our own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mdvpf._support import validate
from mdvpf.cli import experiment_commands, shared
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
        help="Weight of each symbol in an emission. \\[default: the experiment's; 0.3 where it has "
        "none of its own]"
    ),
]


def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"{_LIST}; {ALL} of them.")],
    particles: experiment_commands.Particles = None,
    seeds: Annotated[
        int | None, typer.Option(help="Number of streams: data seeds, windows, blocks or users.")
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(
            help="Symbols: of a segment (artificial), of a book, of a block of clicks (webclick, "
            "efficiency), of the longest stream (adversarial), learnt of a user (masquerade), of a "
            "stream of numbers (regimes). The most training strings of a problem (pautomac)."
        ),
    ] = None,
    most_particles: Annotated[
        int | None,
        typer.Option(help="The largest K: of the reference (artificial) or the grid (efficiency)."),
    ] = None,
    method: experiment_commands.Methods = None,
    methods: experiment_commands.OldMethods = None,
    literal: Annotated[
        bool,
        typer.Option(
            "--literal",
            help="Add the literal readings of the paper's Algorithm 1 (artificial; they are in "
            "plain Python, and take some 20 seconds a stream).",
        ),
    ] = False,
    alpha: shared.Alpha = None,
    gamma: shared.Gamma = None,
    beta: Beta = None,
    oracle: shared.Oracle = None,
    max_states: shared.MaxStates = None,
    machine: shared.Machine = None,
    kappa: shared.Kappa = None,
    forget: shared.Forget = None,
    half_life: shared.HalfLife = None,
    discount: shared.Discount = None,
    normalizer: shared.Normalizer = None,
    carry_weights: shared.CarryWeights = None,
    selection: shared.Selection = None,
    seed: shared.Seed = None,
    jobs: experiment_commands.Jobs = 1,
    out: experiment_commands.Out = Path("results"),
    backend: experiment_commands.Backend = "processes",
    scheduler: experiment_commands.Scheduler = None,
    resume: experiment_commands.Resume = False,
) -> int:
    """Redo an experiment: table, figures, arrays and configuration in one folder.

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
            alpha=alpha,
            gamma=gamma,
            beta=beta,
            oracle=oracle,
            max_states=max_states,
            machine=machine,
            kappa=kappa,
            forget=forget,
            half_life=half_life,
            discount=discount,
            normalizer=normalizer,
            carry_weights=carry_weights,
            selection=selection,
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
