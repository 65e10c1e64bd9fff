"""Configuration of the documentation: `make docs` builds it, and any warning is an error."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path
from typing import Any

import numpydoc.xref
from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.util import logging

import mdvpf

project = "mdvpf"
author = "the mdvpf developers"
copyright = author
version = release = mdvpf.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
]
templates_path = ["_templates"]
html_theme = "furo"
html_title = f"mdvpf {release}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]

html_math_renderer = "mathml"  # below; browsers know it, and fetch nothing for it
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

default_role = "py:obj"  # the names between backticks in docstrings
autodoc_typehints = "none"  # numpydoc's sections say what is expected, in words; returns: below
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True  # as they are written in the source, not as they are printed
numpydoc_show_class_members = False  # the template of a class lists them
numpydoc_xref_param_type = True  # links in the types of parameters, to our own classes only
numpydoc_xref_ignore = "all"
numpydoc_xref_aliases = {
    name: f"{module.__name__}.{name}"
    for module in (mdvpf, mdvpf.datasets, mdvpf.regret)
    for name in module.__all__
    if isinstance(getattr(module, name), type)
}
numpydoc.xref.DEFAULT_LINKS.clear()  # to the glossaries of Python and NumPy, which are not at hand
add_module_names = False


def draw_gallery(app: Any) -> None:
    """Run the examples of the gallery and save what they have drawn."""
    folder = Path(__file__).parent / "gallery"
    (folder / "figures").mkdir(exist_ok=True)
    for script in sorted(folder.glob("*.py")):
        drawing = runpy.run_path(str(script))["drawing"]
        drawing.savefig(folder / "figures" / f"{script.stem}.png", dpi=100)


def write_math(writer: Any, node: nodes.math | nodes.math_block) -> None:
    """Write a formula as MathML, with a space after the name of a function."""
    is_block = isinstance(node, nodes.math_block)
    try:
        formula = latex2mathml.tex2mathml(node.astext(), as_block=is_block)
    except MathError as error:
        logging.getLogger(__name__).warning("%s: %s", error, node.astext(), location=node)
        raise nodes.SkipNode from error
    formula = formula.replace("<mo>&ApplyFunction;</mo>", '<mspace width="0.1667em"></mspace>')
    if not is_block:  # braces must not stretch a line of text
        formula = re.sub(r"<mo>([{}])</mo>", r'<mo stretchy="false">\1</mo>', formula)
    writer.body.append(f"<div>{formula}</div>" if is_block else formula)
    raise nodes.SkipNode


def add_returned(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str, returned: str | None
) -> tuple[str, str] | None:
    """Say in the signature what is returned, which leads to the page of that class."""
    if what not in ("function", "method") or not callable(obj):
        return None
    annotation = inspect.signature(obj).return_annotation
    return (signature, annotation) if annotation not in ("None", inspect.Signature.empty) else None


def is_not_ours(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what other packages' classes bring along, and what NamedTuple says of its fields.

    The section Attributes says more of them.
    """
    if type(obj).__name__ in ("_tuplegetter", "member_descriptor"):
        return True
    module = getattr(getattr(obj, "fget", obj), "__module__", None) or "mdvpf"
    return None if module.startswith("mdvpf") else True


def setup(app: Any) -> None:
    app.connect("builder-inited", draw_gallery)
    app.connect("autodoc-process-signature", add_returned)
    app.connect("autodoc-skip-member", is_not_ours)
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))
