"""The extensions of the model in the settings that matter.

Tests of what all extensions promise use these. The core holds the counts of each in 32 bits.
"""

from __future__ import annotations

from typing import Any

EXTENSIONS: dict[str, dict[str, Any]] = {
    "forget 1": {"forget": 1.0},
    "forget 20, any": {"forget": 20.0, "oracle": "any"},
    "half-life 0.5": {"half_life": 0.5},
    "half-life 20, rows": {"half_life": 20.0, "oracle": "rows"},
    "rows": {"oracle": "rows"},
    "mealy": {"machine": "mealy"},
    "sticky": {"kappa": 0.6},
    "mealy, rows, sticky, half-life 4": {
        "machine": "mealy",
        "oracle": "rows",
        "kappa": 0.4,
        "half_life": 4.0,
    },
    "mealy, any, forget 3, four states": {
        "machine": "mealy",
        "oracle": "any",
        "forget": 3.0,
        "max_states": 4,
    },
}
