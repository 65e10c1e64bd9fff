"""Time to live of keys: find those that were not used for too long."""

from __future__ import annotations

from typing import Any, Self

from mdvpf._support import validate
from mdvpf.predictor import Label
from mdvpf.predictor.vocabulary import label_from_json, label_to_json


class KeyAges:
    """The keys in use with the time and the line of their last use, least recently used first.

    An age is in seconds if both events have times, else in lines. Time does not go back: an event
    that is out of order gets the latest time so far.

    Parameters
    ----------
    time_to_live : float
        Age beyond which a key expires.

    Examples
    --------
    >>> from mdvpf.streams.key_ages import KeyAges
    >>> ages = KeyAges(10.0)
    >>> ages.use("a", 100.0, 1)
    >>> ages.expired(111.0, 2)
    ['a']
    """

    def __init__(self, time_to_live: float) -> None:
        self.time_to_live = time_to_live
        self._latest: float | None = None
        self._last_use: dict[Label | None, tuple[float | None, int]] = {}

    def __len__(self) -> int:
        return len(self._last_use)

    def use(
        self, key: Label | None, time: float | None, line: int, max_keys: int | None = None
    ) -> None:
        """Note that a key was used; beyond `max_keys`, forget the least recently used keys."""
        self._last_use.pop(key, None)
        self._last_use[key] = self._forward(time), line
        self._latest = self._last_use[key][0] if time is not None else self._latest
        while max_keys is not None and len(self._last_use) > max_keys:
            del self._last_use[next(iter(self._last_use))]

    def end(self, key: Label | None) -> None:
        """Forget a key."""
        self._last_use.pop(key, None)

    def expired(self, time: float | None, line: int) -> list[Label | None]:
        """Return the keys that are expired at this time and line."""
        now = self._forward(time)
        found = []
        for key, (last_time, last_line) in self._last_use.items():
            age = line - last_line if now is None or last_time is None else now - last_time
            if age <= self.time_to_live:
                break  # the keys that follow were used later
            found.append(key)
        return found

    def _forward(self, time: float | None) -> float | None:
        if time is None or self._latest is None:
            return time
        return max(time, self._latest)

    def copy(self) -> Self:
        """Return an independent copy."""
        twin = type(self)(self.time_to_live)
        twin._latest = self._latest
        twin._last_use = self._last_use.copy()
        return twin

    def to_values(self) -> dict[str, Any]:
        """Return the ages as JSON."""
        return {
            "latest": self._latest,
            "keys": [
                [None if key is None else label_to_json(key), time, line]
                for key, (time, line) in self._last_use.items()
            ],
        }

    def restore(self, values: dict[str, Any]) -> None:
        """Restore what `to_values` returned, or raise."""
        latest = _read_time(values["latest"])
        last_use: dict[Label | None, tuple[float | None, int]] = {}
        for key, time, line in values["keys"]:
            label = None if key is None else label_from_json(key)
            last_use[label] = (
                _read_time(time),
                validate.integer("line", line, low=0, high=2**62),
            )
        if len(last_use) != len(values["keys"]) or set(values) != {"latest", "keys"}:
            raise ValueError("keys: expected each key once, and nothing but `latest` and `keys`")
        self._latest, self._last_use = latest, last_use


def _read_time(time: Any) -> float | None:
    return None if time is None else validate.real("time", time, low=-1e300, high=1e300)
