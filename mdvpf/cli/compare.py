"""`mdvpf compare`: compare methods on a file of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from mdvpf.cli import experiment_commands, reading, shared
from mdvpf.cli.option_groups import EXPANDED, Given, Option, with_options
from mdvpf.experiments import compare as experiments
from mdvpf.experiments.data import Data
from mdvpf.experiments.experiment import carry_out
from mdvpf.streams.readers import read_file

Beta = Annotated[
    float | None,
    typer.Option(
        help="Filters: pseudocount of each symbol in the emissions. "
        "\\[default: 1 / number of symbols]"
    ),
]


@with_options(
    file_options=reading.SEQUENCE_OPTIONS, settings={**shared.SETTINGS, "beta": Option(Beta)}
)
def compare(
    file: shared.File,
    file_options: Given = EXPANDED,
    text: Annotated[bool, typer.Option("--text", help="The symbols are characters.")] = False,
    particles: experiment_commands.Particles = None,
    method: experiment_commands.Methods = None,
    methods: experiment_commands.OldMethods = None,
    settings: Given = EXPANDED,
    seed: shared.Seed = None,
    jobs: experiment_commands.Jobs = 1,
    out: experiment_commands.Out = Path("results/compare"),
    backend: experiment_commands.Backend = "processes",
    scheduler: experiment_commands.Scheduler = None,
    resume: experiment_commands.Resume = False,
) -> int:
    """Compare auto, the filters, chains, trees and other learners on a file of your own.

    The file has one symbol a line and blank lines between sequences. --format, --column and --text
    read other files. With --key the symbols of each key form one sequence.

    For example:

    mdvpf compare commands.txt

    mdvpf compare clicks.csv --column page --breaks user --beta 0.03

    mdvpf compare alice.txt --text --particles 200

    mdvpf compare clicks.txt --method MD-VPA,VPA --method "Markov 1" --discount 1/sqrt(n)
    """
    with shared.usage():
        where = experiment_commands.executor(jobs, backend, scheduler)
        given = shared.given(
            particles=particles,
            methods=experiment_commands.read_methods(method, methods),
            **settings,
            seed=seed,
        )
        options = experiments.DEFAULTS.changed(**given)
    with reading.show_warnings():
        stream = read_file(file, text=text, **file_options).grouped()
    if np.ma.is_masked(stream.symbols):
        raise ValueError(f"{file}: some symbols are missing; compare expects none")
    data = Data(stream.name, stream.symbols, stream.n_symbols, stream.lengths)
    options = experiments.completed(options, data)
    experiment = experiments.compare(data)
    finished = carry_out(experiment, options, out, where, resume=resume, progress=True)
    return experiment_commands.show(finished)
