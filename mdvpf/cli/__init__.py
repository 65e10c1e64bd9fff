"""The terminal: `mdvpf` and its commands, one file each.

`entry_point` has `main`, `app` the application with all commands, `live` reads lines as they
arrive, `shared` and `experiment_commands` have the options that several commands take.
"""

from mdvpf.cli.entry_point import main

__all__ = ["main"]
