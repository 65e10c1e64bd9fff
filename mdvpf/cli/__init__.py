"""The command line: `mdvpf` and its commands, one file each.

`entry_point` has `main`. `app` registers the commands. `live` is the loop of `mdvpf filter`.
`shared`, `reading` and `experiment_commands` define options that several commands use, and
`option_groups` gives a command all options of a group.
"""

from mdvpf.cli.entry_point import main

__all__ = ["main"]
