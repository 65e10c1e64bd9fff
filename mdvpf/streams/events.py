"""Events: what one line, row or record of a stream says, whatever its format.

Readers turn their input into events, and everything behind them knows nothing else of it.
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
        What happened; None if it is missing.
    key : label or None
        Which of the interleaved sequences the symbol belongs to; None if there is only one.
    time : float or None
        When, in seconds since 1970 (UTC).
    fields : mapping of str to value
        Further fields of the record, as they were read, for reports.
    ends : bool
        Whether the sequence of this key ends after this event.
    no_symbol : bool
        There is no symbol, not even a missing one: the sequence of this key ends, and no more.

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
