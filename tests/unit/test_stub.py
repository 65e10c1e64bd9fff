"""The typed stubs agree with the compiled modules."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mdvpf import _core
from mdvpf._core import ParticleSystem
from mdvpf.baselines import _tree
from mdvpf.filter import _densities

STUB = ast.parse((Path(_core.__file__).parent / "_core.pyi").read_text())
(CLASS,) = [node for node in STUB.body if isinstance(node, ast.ClassDef)]
METHODS = {node.name: node for node in CLASS.body if isinstance(node, ast.FunctionDef)}
PROPERTIES = {
    name
    for name, node in METHODS.items()
    if any(isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list)
}


OF_NUMBERS = {"channels": None, "fading": None, "functions": None}  # a model over symbols


def declared(names: Any) -> set[str]:
    """Return the names from the source: Python and Cython add names with underscores."""
    return {name for name in names if not name.startswith("__")}


def parameters(node: ast.FunctionDef) -> list[str]:
    arguments = node.args
    return [a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]


def test_the_module_has_one_class() -> None:
    assert CLASS.name == "ParticleSystem"
    assert declared(vars(_core)) == {"ParticleSystem"}


def test_the_stub_has_all_names_of_the_class_and_no_others() -> None:
    assert declared(METHODS) == declared(vars(ParticleSystem))


def test_the_stub_has_nothing_but_methods() -> None:
    assert len(METHODS) == len(CLASS.body)


def test_properties_are_properties() -> None:
    compiled = {
        name
        for name in declared(vars(ParticleSystem))
        if inspect.isgetsetdescriptor(vars(ParticleSystem)[name])
    }
    assert compiled == PROPERTIES


@pytest.mark.parametrize("name", sorted(set(METHODS) - PROPERTIES - {"__init__"}))
def test_methods_have_the_parameters_and_defaults_of_the_stub(name: str) -> None:
    compiled = inspect.signature(getattr(ParticleSystem, name))
    assert list(compiled.parameters) == parameters(METHODS[name])
    defaults = [p.default for p in compiled.parameters.values() if p.default is not p.empty]
    assert defaults == [ast.literal_eval(value) for value in METHODS[name].args.defaults]


def test_init_takes_the_parameters_of_the_stub_and_needs_each() -> None:
    """A type's ``__init__`` has no signature to inspect: call it with the names in the stub."""
    arguments = METHODS["__init__"].args
    assert parameters(METHODS["__init__"])[0] == "self"
    assert len(arguments.args) == 1
    assert not any(arguments.kw_defaults)
    given = {argument.arg: 1 for argument in arguments.kwonlyargs} | OF_NUMBERS
    ParticleSystem(**given)
    for name in given:
        with pytest.raises(TypeError, match=name):
            ParticleSystem(**{other: given[other] for other in given if other != name})


def test_returned_values_have_the_types_of_the_stub() -> None:
    given = {a.arg: 1 for a in METHODS["__init__"].args.kwonlyargs}
    core = ParticleSystem(**given | OF_NUMBERS)
    returned = {
        "n_particles": core.n_particles,
        "n_steps": core.n_steps,
        "log_evidence": core.log_evidence,
        "pending": core.pending,
        "absorb": core.absorb(0, 0.0, np.empty(0)),
        "new_sequence": core.new_sequence(np.empty(0)),
        "copy": core.copy(),
        "snapshot": core.snapshot(),
        "path_length": core.path_length(),
        "memory": core.memory(),
        "verify": core.verify(),
        "state_text": core.state_text(),
        "__sizeof__": core.__sizeof__(),
    }
    for name, value in returned.items():
        annotation = METHODS[name].returns
        assert annotation is not None
        kind = ast.unparse(annotation).split("[")[0]
        assert kind == ("None" if value is None else type(value).__name__), name
        if isinstance(annotation, ast.Subscript):
            parts = [ast.unparse(part).split("[")[0] for part in annotation.slice.elts]
            assert len(value) == len(parts), name
            for part, expected in zip(value, parts, strict=True):
                assert ("None" if part is None else type(part).__name__) in expected.split(" | "), (
                    name
                )


# ---- the trees of contexts -------------------------------------------------------------------

TREE_STUB = ast.parse((Path(_tree.__file__).parent / "_tree.pyi").read_text())
TREE_CLASSES = {node.name: node for node in TREE_STUB.body if isinstance(node, ast.ClassDef)}


def test_the_stub_of_the_trees_has_its_classes() -> None:
    assert declared(vars(_tree)) == set(TREE_CLASSES)


@pytest.mark.parametrize("name", ["Context", "CountTree"])
def test_the_stub_of_the_trees_has_all_names_and_parameters(name: str) -> None:
    compiled = getattr(_tree, name)
    methods = {node.name: node for node in TREE_CLASSES[name].body}  # type: ignore[union-attr]
    assert declared(methods) == declared(vars(compiled))
    for method in declared(methods):
        if not inspect.isgetsetdescriptor(vars(compiled)[method]):
            found = inspect.signature(getattr(compiled, method))
            assert list(found.parameters) == parameters(methods[method]), method


def test_parameters_of_a_new_tree() -> None:
    (init,) = (n for n in TREE_CLASSES["CountTree"].body if getattr(n, "name", "") == "__init__")
    assert isinstance(init, ast.FunctionDef)
    given: dict[str, Any] = {argument.arg: 1 for argument in init.args.kwonlyargs}
    given |= {"pairs": np.ones((1, 2)), "depths": np.ones(1, dtype=np.int64)}
    _tree.CountTree(**given)
    for name in given:
        with pytest.raises(TypeError, match=name):
            _tree.CountTree(**{other: given[other] for other in given if other != name})


# ---- the calls of the functions of a user ----------------------------------------------------

CALLS = ast.parse((Path(_densities.__file__).parent / "_densities.pyi").read_text())


def test_the_stub_of_the_calls_has_all_functions_and_their_parameters() -> None:
    stubs = {node.name: node for node in CALLS.body if isinstance(node, ast.FunctionDef)}
    assert declared(vars(_densities)) - {"np"} == set(stubs)
    for name, stub in stubs.items():
        found = inspect.signature(getattr(_densities, name))
        assert list(found.parameters) == parameters(stub), name
