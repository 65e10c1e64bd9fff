"""Imports the package before pytest opens one of its files.

A file that is named alone (`pytest mdvpf/regret.py`) would otherwise be run twice: by the package,
and by pytest.
"""

import mdvpf  # noqa: F401
