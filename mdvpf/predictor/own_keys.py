"""Maintain the table of keys of predictors that users define.

A user's predictor stores its positions by key in any way. When its class is created, `update`,
`new_sequence` and `copy` are wrapped. The wrappers maintain the `KeyTable`, and end the key used
longest ago if there would be more than `max_keys`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from inspect import signature
from typing import Any

from mdvpf.predictor.keys import read_key
from mdvpf.predictor.vocabulary import Label


@cache
def has_key(method: Callable[..., Any]) -> bool:
    """Return whether a method has an argument `key`."""
    return "key" in signature(method).parameters


def keep_table(cls: type) -> None:
    """Wrap the methods of a user's class that take keys, and its `copy`."""
    for name, wrapped in (("update", _update), ("new_sequence", _new_sequence)):
        method = vars(cls).get(name)
        if callable(method) and has_key(method):
            setattr(cls, name, wrapped(method))
    if callable(vars(cls).get("copy")):
        setattr(cls, "copy", _copy(vars(cls)["copy"]))  # noqa: B010


def _update(update: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(update)
    def wrapped(self: Any, symbol: Any, key: Label | None = None, **others: Any) -> Any:
        key = read_key("key", key)
        surplus = self._table.surplus(key)
        found = update(self, symbol, key=key, **others)
        self._table.use(key)
        if surplus and surplus.key in self._table:  # else `update` of a base class has ended it
            self.new_sequence(key=surplus.key)
        return found

    return wrapped


def _new_sequence(new_sequence: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(new_sequence)
    def wrapped(self: Any, key: Label | None = None, **others: Any) -> Any:
        key = read_key("key", key)
        found = new_sequence(self, key=key, **others)
        self._table.end(key)
        return found

    return wrapped


def _copy(copy: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(copy)
    def wrapped(self: Any, *args: Any, **others: Any) -> Any:
        other = copy(self, *args, **others)
        other._key_table = self._table.copy()
        return other

    return wrapped
