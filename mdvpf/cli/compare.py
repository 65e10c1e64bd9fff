"""`mdvpf compare`: the filters and their comparators on a file of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mdvpf.cli import shared
from mdvpf.experiments import compare as experiments
from mdvpf.experiments.experiment import carry_out
from mdvpf.streams.readers import read_file


def compare(
    file: shared.File,
    column: shared.Column = None,
    breaks: shared.Breaks = None,
    text: Annotated[bool, typer.Option("--text", help="The symbols are characters.")] = False,
    particles: shared.Particles = None,
    methods: shared.Methods = None,
    alpha: shared.Alpha = None,
    gamma: shared.Gamma = None,
    beta: shared.Beta = None,
    seed: shared.Seed = None,
    jobs: shared.Jobs = 1,
    out: shared.Out = Path("results/compare"),
    backend: shared.Backend = "processes",
    scheduler: shared.Scheduler = None,
    resume: shared.Resume = False,
) -> int:
    """Compare the filters, Markov chains and context trees on a file of your own.

    It holds one symbol a line and blank lines between sequences, or see --column and --text.

    For example:

    mdvpf compare commands.txt

    mdvpf compare clicks.csv --column page --breaks user --beta 0.03

    mdvpf compare alice.txt --text --particles 200
    """
    with shared.usage():
        where = shared.executor(jobs, backend, scheduler)
        options = experiments.DEFAULTS.changed(
            particles=particles,
            methods=shared.split_names(methods),
            alpha=alpha,
            gamma=gamma,
            beta=beta,
            seed=seed,
        )
    data = read_file(file, column=column, breaks=breaks, text=text)
    experiment = experiments.compare(data)
    finished = carry_out(experiment, options, out, where, resume=resume, progress=True)
    return shared.show(finished)
