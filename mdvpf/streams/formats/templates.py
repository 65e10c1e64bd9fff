"""Templates of free text: Drain3 finds lines that are the same message with different values.

The label of a template is the text of its first line, with numbers and addresses masked. The label
stays the same when the template becomes more general later.

The state is plain JSON. Drain3's own files are not used: they hold pickled objects, and a
checkpoint may come from an untrusted source.
"""

from __future__ import annotations

import re
import reprlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from mdvpf._support import validate
from mdvpf._support.extras import needed
from mdvpf.streams.formats.base import check_state

LONGEST_LABEL = 200  # characters
TEMPLATE_OPTIONS = ("similarity", "max_templates", "masks")

_SIMILARITY = 0.4
_MAX_TEMPLATES = 10_000
_DEPTH = 4  # of Drain3's tree of tokens
_MAX_CHILDREN = 100
_MASKS = (
    (re.compile(r"(?<![\w.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?!\w)"), "<ip>"),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b0[xX][0-9a-fA-F]+\b"), "<hex>"),
    (re.compile(r"(?<![\w.])[-+]?[0-9]+(?:\.[0-9]+)?(?![\w])"), "<num>"),
)
_STATE = ("options", "clusters", "tree", "n_clusters")


class Templates:
    """Labels of free text by Drain3.

    Parameters
    ----------
    options : mapping
        ``similarity`` (float in 0..1, default 0.4): the share of words that a line must have in
        common with a template. ``max_templates`` (int, default 10000): beyond it the least recently
        used template is dropped. ``masks`` (sequence of str): regular expressions whose matches
        become ``<masked>``, before numbers, IP addresses and identifiers are masked.

    Examples
    --------
    >>> from mdvpf.streams.formats.templates import Templates
    >>> templates = Templates({})
    >>> templates.label("connection from 10.0.0.1 port 22")
    'connection from <ip> port <num>'
    >>> templates.label("connection from 10.0.0.7 port 8022")
    'connection from <ip> port <num>'
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        with needed("free text", "drain3", "logs"):
            from drain3.drain import Drain, LogCluster, Node
        self._cluster_type, self._node_type = LogCluster, Node
        similarity = options.get("similarity")
        most = options.get("max_templates")
        self._similarity = validate.real(
            "similarity", _SIMILARITY if similarity is None else similarity, low=0.0, high=1.0
        )
        self._most = validate.integer(
            "max_templates", _MAX_TEMPLATES if most is None else most, low=1, high=10**7
        )
        self._patterns = _read_masks(options.get("masks"))
        self._drain = Drain(
            depth=_DEPTH, sim_th=self._similarity, max_children=_MAX_CHILDREN, profiler=None
        )
        self._drain.id_to_cluster = self._clusters = _RecentlyUsed(self._most)
        self._labels: dict[int, str] = {}

    @property
    def options(self) -> dict[str, Any]:
        """The options, ready for JSON."""
        return {
            "similarity": self._similarity,
            "max_templates": self._most,
            "masks": [pattern.pattern for pattern in self._patterns],
        }

    def given(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the template options that are not None, ready for JSON."""
        return {
            name: self.options[name] for name in TEMPLATE_OPTIONS if options.get(name) is not None
        }

    def label(self, text: str) -> str:
        """Return the label of the template of a text, which may be new."""
        for pattern in self._patterns:
            text = pattern.sub("<masked>", text)
        for pattern, name in _MASKS:
            text = pattern.sub(name, text)
        cluster, change = self._drain.add_log_message(text)
        number: int = cluster.cluster_id
        if change == "cluster_created":
            self._labels[number] = _label(" ".join(cluster.log_template_tokens), number)
            if len(self._labels) > 2 * len(self._clusters) + 100:
                self._labels = {number: self._labels[number] for number in self._clusters}
        return self._labels[number]

    # -- state -----------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the templates and the tree that finds them, as JSON."""
        return {
            "options": self.options,
            # Least recently used first: the order of eviction is part of the state.
            "clusters": [
                [number, self._labels[number], list(cluster.log_template_tokens)]
                for number, cluster in self._clusters.items()
            ],
            "tree": self._tree_state(self._drain.root_node),
            "n_clusters": self._drain.clusters_counter,
        }

    def _tree_state(self, node: Any) -> list[Any]:
        children = {token: self._tree_state(each) for token, each in node.key_to_child_node.items()}
        return [children, [number for number in node.cluster_ids if number in self._clusters]]

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned; raise without a change if it is invalid."""
        check_state("text", state, _STATE)
        if state["options"] != self.options:
            raise ValueError(
                f"the templates were found with {reprlib.repr(state['options'])}; expected the "
                f"same options, not {reprlib.repr(self.options)}"
            )
        count = validate.integer("n_clusters", state["n_clusters"], low=0, high=2**62)
        clusters = _RecentlyUsed(self._most)
        labels: dict[int, str] = {}
        for entry in _list("clusters", state["clusters"], self._most):
            if not isinstance(entry, list) or len(entry) != 3:
                raise ValueError(f"clusters: {reprlib.repr(entry)}: expected three entries")
            number = validate.integer("cluster", entry[0], low=1, high=count)
            if number in labels or not isinstance(entry[1], str):
                raise ValueError(f"clusters: {reprlib.repr(entry)}: expected a new number, a label")
            tokens = _list("tokens", entry[2])
            if not all(isinstance(token, str) for token in tokens):
                raise ValueError(f"clusters: {reprlib.repr(entry)}: expected a template of words")
            labels[number] = entry[1]
            clusters[number] = self._cluster_type(tokens, number)
        lengths = {number: len(cluster.log_template_tokens) for number, cluster in clusters.items()}
        root = self._read_tree(state["tree"], lengths)
        if lengths:
            raise ValueError(f"tree: cluster {min(lengths)} is missing; expected every cluster")
        self._drain.root_node = root
        self._drain.clusters_counter = count
        self._drain.id_to_cluster = self._clusters = clusters
        self._labels = labels

    def _read_tree(
        self, state: Any, lengths: dict[int, int], level: int = 0, length: int = -1
    ) -> Any:
        """Return a node of the tree, and remove its clusters from `lengths`.

        The children of the root are numbers of words; those of other nodes are words. `length` is
        the number of words that all clusters below the node must have.
        """
        if (
            not isinstance(state, list)
            or len(state) != 2
            or not isinstance(state[0], dict)
            or (level > 0 and not _has_room(state[0]))
            or (level >= _DEPTH - 2 and state[0])
        ):
            raise ValueError(f"tree: {reprlib.repr(state)}: expected the children and the clusters")
        node = self._node_type()
        for token, child in state[0].items():
            if not isinstance(token, str) or (level == 0 and not re.fullmatch("[0-9]{1,9}", token)):
                raise ValueError(f"tree: {reprlib.repr(token)}: expected a word")
            inner = int(token) if level == 0 else length
            node.key_to_child_node[token] = self._read_tree(child, lengths, level + 1, inner)
        for number in _list("tree", state[1]):
            if not isinstance(number, int) or lengths.pop(number, None) != length:
                raise ValueError(f"tree: {reprlib.repr(number)}: expected a cluster of that length")
            node.cluster_ids.append(number)
        return node


class _RecentlyUsed(OrderedDict[int, Any]):
    """A cache that evicts the least recently used cluster; `[]` counts as a use, `get` does not."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __getitem__(self, number: int) -> Any:
        self.move_to_end(number)
        return super().__getitem__(number)

    def __setitem__(self, number: int, cluster: Any) -> None:
        super().__setitem__(number, cluster)
        if len(self) > self._most:
            del self[next(iter(self))]

    def get(self, number: int, default: Any = None) -> Any:
        return dict.get(self, number, default)


def _has_room(children: Mapping[Any, Any]) -> bool:
    """Tell whether Drain3 can add a word to a node; a full node needs a wildcard child."""
    return len(children) < _MAX_CHILDREN or (len(children) == _MAX_CHILDREN and "<*>" in children)


def _label(text: str, number: int) -> str:
    return text if len(text) <= LONGEST_LABEL else f"{text[:LONGEST_LABEL]}... [{number}]"


def _read_masks(masks: Any) -> tuple[re.Pattern[str], ...]:
    if masks is None:
        return ()
    texts = [masks] if isinstance(masks, str) else masks
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"masks={reprlib.repr(masks)}: expected regular expressions")
    return tuple(_compiled("masks", text) for text in texts)


def _compiled(name: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"{name}={text!r}: expected a regular expression ({error})") from None


def _list(name: str, value: Any, most: int | None = None) -> list[Any]:
    if not isinstance(value, list) or (most is not None and len(value) > most):
        raise ValueError(f"{name}: {reprlib.repr(value)}: expected a list, of at most {most}")
    return value
