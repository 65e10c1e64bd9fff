"""`Fields`: map the fields of a record to the symbol, the key and the time of an event.

All readers of records (JSON lines, CSV, data frames, event logs) build events here, so a value has
the same meaning in all of them:

- text is a label as it is; a whole number is an integer, any other number its text; true and false
  are the texts "true" and "false";
- None, null, NaN, pd.NA and NaT are a missing symbol; as a key or a time they are an error;
- an absent field is an error, unless it is only passed through to reports.
"""

from __future__ import annotations

import datetime
import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mdvpf._support import validate
from mdvpf.predictor import Label, label_text
from mdvpf.streams.events import Event
from mdvpf.streams.excerpts import shown
from mdvpf.streams.times import ISO, TIME_UNITS, seconds

FIELD_OPTIONS = ("symbol", "key", "time", "time_unit", "pass_fields", "missing", "end")

_DEEPEST = 50  # nesting levels of a field that is passed through


class Fields:
    """Checked options of a reader of records; `event` applies them to a record.

    Parameters
    ----------
    options : mapping
        Values of `FIELD_OPTIONS`, as for `make_format`. None is the same as an absent option.

    Attributes
    ----------
    symbol : str or None
    key : tuple of str
    time : str or None
    time_unit : str
    pass_fields : tuple of str
    missing : str or None
    end : frozenset of str
        As passed.
    given : dict
        The options that are not None, ready for JSON.

    Examples
    --------
    >>> from mdvpf.streams.records import Fields
    >>> fields = Fields({"symbol": "page", "key": ["user", "tab"], "end": "bye"})
    >>> event = fields.event({"page": "bye", "user": "ann", "tab": 2.0}.__getitem__)
    >>> event.symbol, event.key, event.ends
    ('bye', ('ann', 2), True)
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.given: dict[str, Any] = {}
        self.symbol = self._name(options, "symbol")
        self.key = self._names(options, "key")
        self.time = self._name(options, "time")
        self.pass_fields = self._names(options, "pass_fields")
        self.missing = self._text(options, "missing")
        self.end = frozenset(self._names(options, "end"))
        unit = options.get("time_unit")
        self.time_unit = ISO if unit is None else validate.choice("time_unit", unit, TIME_UNITS)
        if unit is not None:
            if self.time is None:
                raise ValueError(f"time_unit={unit!r}: expected only with time, the field of times")
            self.given["time_unit"] = self.time_unit
        if self.missing is not None and self.missing in self.end:
            raise ValueError(f"end={self.missing!r}: expected a text that differs from missing")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all fields in use, without repetition."""
        found = [self.symbol, *self.key, self.time, *self.pass_fields]
        return tuple(dict.fromkeys(name for name in found if name is not None))

    def without_time(self) -> Fields:
        """Return the same fields without the time."""
        given = {name: value for name, value in self.given.items() if name != "time_unit"}
        return Fields({**given, "time": None})

    def event(
        self,
        get: Callable[[str], Any],
        *,
        symbol_of: Callable[[str], str] | None = None,
    ) -> Event:
        """Return the event of a record, or raise.

        Parameters
        ----------
        get : callable
            Returns the value of a field by its name, or raises KeyError or IndexError.
        symbol_of : callable, optional
            Turns the text of the symbol's field into the symbol. It is called last, after all
            other checks, because it may change the state of a format.
        """
        assert self.symbol is not None
        symbol = label_of(self._value(get, self.symbol, "symbol"), self.symbol)
        if symbol is not None and self.missing is not None and label_text(symbol) == self.missing:
            symbol = None
        if symbol == "":
            raise ValueError(
                f"nothing in the field {self.symbol!r}; expected a symbol (missing='' would make "
                "it a missing one)"
            )
        key: Label | None = None
        if len(self.key) == 1:
            key = self._key(get, self.key[0])
        elif self.key:
            key = tuple(self._key(get, name) for name in self.key)
        time = None
        if self.time is not None:
            value = self._value(get, self.time, "time")
            if is_missing(value):
                raise ValueError(f"nothing in the field {self.time!r}; expected a time")
            try:
                time = seconds(value, self.time_unit)
            except ValueError as error:
                raise ValueError(f"field {self.time!r}: {error}") from None
        passed = {name: _passed(get, name) for name in self.pass_fields}
        if symbol is not None and symbol_of is not None:
            symbol = symbol_of(label_text(symbol))
        return Event(symbol, key, time, passed, ends=self.is_end(symbol))

    def is_end(self, symbol: Label | None) -> bool:
        """Tell whether this symbol ends its sequence."""
        return bool(self.end) and symbol is not None and label_text(symbol) in self.end

    def _value(self, get: Callable[[str], Any], name: str, what: str) -> Any:
        try:
            return get(name)
        except (LookupError, TypeError):
            raise ValueError(f"no field {name!r}; expected one, for the {what}") from None

    def _key(self, get: Callable[[str], Any], name: str) -> Label:
        label = label_of(self._value(get, name, "key"), name)
        if label is None or label == "":
            raise ValueError(f"nothing in the field {name!r}; expected a key")
        return label

    # -- options ---------------------------------------------------------------------------

    def _text(self, options: Mapping[str, Any], option: str) -> str | None:
        value = options.get(option)
        if value is None:
            return None
        if not isinstance(value, str):
            raise TypeError(f"{option}={value!r}: expected a str")
        self.given[option] = value
        return value

    def _name(self, options: Mapping[str, Any], option: str) -> str | None:
        name = self._text(options, option)
        if name == "":
            raise ValueError(f"{option}={name!r}: expected the name of a field")
        return name

    def _names(self, options: Mapping[str, Any], option: str) -> tuple[str, ...]:
        value = options.get(option)
        if value is None:
            return ()
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
            raise TypeError(f"{option}={reprlib.repr(value)}: expected a str, or several")
        if not all(texts) or len(set(texts)) < len(texts):
            raise ValueError(f"{option}={reprlib.repr(value)}: expected different texts, not empty")
        if texts:
            self.given[option] = list(texts)
        return tuple(texts)


def label_of(value: Any, name: str) -> Label | None:
    """Return the label of a value in a record, None for a missing one, or raise.

    Examples
    --------
    >>> from mdvpf.streams.records import label_of
    >>> [label_of(value, "page") for value in ("news", 2.0, 0.5, True, float("nan"))]
    ['news', 2, '0.5', 'true', None]
    """
    if isinstance(value, str):
        return _checked(value, name)
    if is_missing(value):
        return None
    if isinstance(value, bytes):
        return value
    if hasattr(value, "item") and not hasattr(value, "__len__"):
        value = value.item()  # a NumPy scalar
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else repr(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise ValueError(f"field {name!r} is {shown(value)}; expected text or a number")


def is_missing(value: Any) -> bool:
    """Tell whether a value marks a missing one: None, NaN, NaT or pd.NA.

    Examples
    --------
    >>> from mdvpf.streams.records import is_missing
    >>> is_missing(float("nan")), is_missing(0)
    (True, False)
    """
    if value is None:
        return True
    if isinstance(value, (str, int, bytes)):
        return False
    if isinstance(value, float):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType", "MaskedConstant") or _is_nan(value)


def _is_nan(value: Any) -> bool:
    """Tell whether a value differs from itself, as NaN of any type does."""
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return False


def _checked(text: str, name: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"field {name!r} is {shown(text)}; expected text in Unicode") from None
    return text


def _passed(get: Callable[[str], Any], name: str) -> Any:
    try:
        value = get(name)
    except (LookupError, TypeError):
        return None
    try:
        return plain(value)
    except ValueError as error:
        raise ValueError(f"field {name!r}: {error}") from None


def plain(value: Any, *, depth: int = 0) -> Any:
    """Return a value in types that JSON has; other types become text.

    A value that is nested deeper than 50 levels is an error; `depth` counts the levels above it.

    Examples
    --------
    >>> import datetime
    >>> from mdvpf.streams.records import plain
    >>> plain(datetime.date(2024, 5, 17)), plain(float("nan")), plain([1, "a"])
    ('2024-05-17', None, [1, 'a'])
    """
    if isinstance(value, (str, bool, int)):
        return value
    if is_missing(value):
        return None
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if depth > _DEEPEST:
        raise ValueError(f"expected a value that is not nested deeper than {_DEEPEST}")
    if isinstance(value, Mapping):
        return {str(key): plain(part, depth=depth + 1) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part, depth=depth + 1) for part in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist(), depth=depth + 1)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
