"""Groups of options that several commands have.

A command declares one parameter for each group, and the decorator replaces it with the options:

    @with_options(settings={"alpha": Option(Annotated[float | None, typer.Option()])})
    def command(file: File, settings: Given = EXPANDED, seed: Seed = None) -> int: ...

has the options --alpha and --seed, in this order. It receives the dict ``{"alpha": ...}``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Given = Mapping[str, Any]
EXPANDED: Given = {}  # default of a parameter that the decorator replaces


class Option(NamedTuple):
    """An option of a group.

    Attributes
    ----------
    annotation : object
        The type, annotated by `typer.Option`.
    default : object
    """

    annotation: Any
    default: Any = None


def with_options(**groups: Mapping[str, Option]) -> Callable[[Callable[..., int]], Any]:
    """Replace parameters of a command with groups of options.

    Parameters
    ----------
    **groups : mapping of str to Option
        The options by the name of the parameter that they replace.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            if parameter.name not in groups:
                parameters.append(parameter)
                continue
            parameters += [
                parameter.replace(name=name, annotation=option.annotation, default=option.default)
                for name, option in groups[parameter.name].items()
            ]

        def run(**values: Any) -> int:
            found = {
                group: {name: values.pop(name) for name in options}
                for group, options in groups.items()
            }
            return command(**values, **found)

        run.__doc__ = command.__doc__
        run.__name__ = command.__name__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate
