"""`Event`: one line, row or record of a stream, independent of its format.

Readers turn their input into events; all other code depends on events only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mdvpf.predictor import Label


@dataclass(frozen=True, slots=True)
class Event:
    """One symbol of a stream, with the sequence that it belongs to and its time.

    Attributes
    ----------
    symbol : label or None
        The label of the symbol; None if it is missing.
    key : label or None
        The key of the symbol's sequence; None if sequences are not interleaved.
    time : float or None
        Time of the event in seconds since 1970 (UTC).
    fields : mapping of str to value
        Further fields of the record, unchanged, for reports.
    ends : bool
        Whether the sequence of this key ends after this event.
    no_symbol : bool
        Whether the event has no symbol, not even a missing one, and only ends a sequence.

    Examples
    --------
    >>> from mdvpf.streams.events import Event
    >>> Event("login", key="user 7", time=1700000000.0).ends
    False
    """

    symbol: Label | None
    key: Label | None = None
    time: float | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    ends: bool = False
    no_symbol: bool = False
