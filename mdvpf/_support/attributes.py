"""Descriptors for public attributes: read-only ones, and ones that validate a new value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class ReadOnly(Generic[T]):
    """An attribute that is set once, by the constructor.

    The value is stored in the object's ``__dict__`` under the name of the attribute.

    Examples
    --------
    >>> from mdvpf._support.attributes import ReadOnly
    >>> class Chain:
    ...     order: ReadOnly[int] = ReadOnly()
    ...
    ...     def __init__(self, order):
    ...         self.order = order
    >>> chain = Chain(2)
    >>> chain.order
    2
    >>> chain.order = 3
    Traceback (most recent call last):
    ...
    AttributeError: order of a Chain cannot be set: create another Chain
    """

    name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        try:
            value: T = instance.__dict__[self.name]
        except KeyError:
            raise AttributeError(f"{type(instance).__name__} has no {self.name} yet") from None
        return value

    def __set__(self, instance: object, value: T) -> None:
        if self.name in instance.__dict__:
            self._refuse(instance)
        instance.__dict__[self.name] = value

    def __delete__(self, instance: object) -> None:
        self._refuse(instance)

    def _refuse(self, instance: object) -> None:
        kind = type(instance).__name__
        raise AttributeError(f"{self.name} of a {kind} cannot be set: create another {kind}")


class Checked(ReadOnly[T]):
    """An attribute whose new values are converted by `read`, which raises if one is invalid.

    Examples
    --------
    >>> from mdvpf._support import validate
    >>> from mdvpf._support.attributes import Checked
    >>> class Reader:
    ...     n_lines: Checked[int] = Checked(lambda n: validate.integer("n_lines", n, low=0))
    >>> reader = Reader()
    >>> reader.n_lines = -1
    Traceback (most recent call last):
    ...
    ValueError: n_lines=-1: expected an integer in 0..2147483646
    """

    def __init__(self, read: Callable[[Any], T]) -> None:
        self._read = read

    def __set__(self, instance: object, value: T) -> None:
        instance.__dict__[self.name] = self._read(value)
