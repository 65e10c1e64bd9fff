"""`read_rate`: the target rate of false incidents, as users write it."""

from __future__ import annotations

from typing import Any


def read_rate(text: str) -> dict[str, Any]:
    """Parse a rate of false incidents into settings of a detector, or raise.

    Examples
    --------
    >>> from mdvpf.streams.rates import read_rate
    >>> read_rate("0.5"), read_rate("2/day")
    ({'false_incidents': 0.5, 'per': 'symbols'}, {'false_incidents': 2.0, 'per': 'day'})
    """
    number, slash, unit = text.partition("/")
    wrong = ValueError(
        f"false_incidents={text!r}: expected a number per 10,000 symbols, or one per day such as "
        "2/day"
    )
    if slash and unit.strip() != "day":
        raise wrong
    try:
        return {"false_incidents": float(number), "per": "day" if slash else "symbols"}
    except ValueError:
        raise wrong from None
