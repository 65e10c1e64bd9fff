"""A detector for each key, with one shared background.

`SurpriseDetector` with keys has one predictor and one threshold for all keys: it learns what the
sequences have in common. `KeyedDetector` has a predictor and a threshold for each key: it learns
the behaviour of each user, host or process, and compares it with the whole population. Its memory
is bounded: beyond `max_keys` keys, the least recently used key is dropped.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from mdvpf import checkpoint
from mdvpf._support import validate
from mdvpf._support.attributes import ReadOnly
from mdvpf.detect.background import Background
from mdvpf.detect.detector import SurpriseDetector
from mdvpf.detect.incidents import Incident
from mdvpf.detect.key_state import detector_from_bytes, detector_to_bytes
from mdvpf.detect.results import Detection, DetectionResult
from mdvpf.model import Time
from mdvpf.model.observations import observation_of, row_of
from mdvpf.predictor import MISSING, Label, Stream, read_key
from mdvpf.predictor.vocabulary import label_from_json, label_to_json

MAX_KEYS = 1000


@checkpoint.register("KeyedDetector")
class KeyedDetector(checkpoint.Saveable):
    """A detector for each key, created from a template, with one shared background.

    Parameters
    ----------
    template : SurpriseDetector
        A detector that has not judged any symbol. Each key gets a detector with the same settings
        and a copy of the predictor, which may be trained. All keys share the background.
    max_keys : int, default 1000
        Largest number of keys with a detector. Beyond it, the least recently used key is dropped; a
        dropped key that occurs again starts with a new detector.

    Examples
    --------
    >>> import mdvpf
    >>> everybody = mdvpf.Markov(n_symbols=4, order=0)
    >>> _ = everybody.run([0, 1, 2, 3] * 100)
    >>> template = mdvpf.SurpriseDetector(
    ...     mdvpf.Markov(4, order=0), block=10, warm_up=5, background=everybody
    ... )
    >>> users = mdvpf.KeyedDetector(template)
    >>> _ = users.run([0] * 200 + [1] * 200, keys=["ann"] * 200 + ["bob"] * 200)
    >>> any(users.update(1, "ann").alarm for _ in range(10))  # bob's habit is strange for ann
    True
    >>> any(users.update(1, "bob").alarm for _ in range(10))
    False
    """

    max_keys: ReadOnly[int] = ReadOnly()

    def __init__(self, template: SurpriseDetector, *, max_keys: int = MAX_KEYS) -> None:
        if not isinstance(template, SurpriseDetector):
            raise TypeError(f"template={template!r}: expected a SurpriseDetector")
        if template._level.time:
            raise ValueError(f"template={template!r}: expected one that has not judged any symbol")
        if template.predictor.is_open or template.predictor._n_seen:
            raise ValueError(
                f"template={template!r}: expected a closed alphabet, as each key would number the "
                "symbols of an open one differently"
            )
        self.max_keys = validate.integer("max_keys", max_keys, low=1)
        self._template = template
        self._detectors: OrderedDict[Label | None, SurpriseDetector] = OrderedDict()

    def __repr__(self) -> str:
        return f"KeyedDetector({self._template!r}, max_keys={self.max_keys})"

    @property
    def background(self) -> Background | None:
        """The background that all keys share."""
        return self._template.background

    @property
    def n_symbols(self) -> int:
        """Size of the alphabet."""
        return self._template.n_symbols

    @property
    def keys(self) -> list[Label | None]:
        """The keys that have a detector, least recently used first."""
        return list(self._detectors)

    @property
    def incidents(self) -> list[tuple[Label | None, Incident]]:
        """The last incidents of each key. Their times count the symbols of the key."""
        return [(key, each) for key, own in self._detectors.items() for each in own.incidents]

    def of(self, key: Label | None) -> SurpriseDetector:
        """Return the detector of a key, for inspection or feedback.

        Examples
        --------
        >>> import mdvpf
        >>> template = mdvpf.SurpriseDetector(mdvpf.Markov(2))
        >>> users = mdvpf.KeyedDetector(template)
        >>> _ = users.update(1, "ann")
        >>> users.of("ann").n_symbols
        2
        """
        key = read_key("key", key)
        if key not in self._detectors:
            raise ValueError(f"key={key!r}: expected one of the {len(self._detectors)} in use")
        return self._detectors[key]

    def update(self, symbol: Any, key: Label | None = None) -> Detection:
        """Absorb one symbol or observation of a key, None if it is missing, and judge it.

        Examples
        --------
        >>> import mdvpf
        >>> users = mdvpf.KeyedDetector(mdvpf.SurpriseDetector(mdvpf.Markov(2, order=0)))
        >>> users.update(1, "ann").time, users.update(1, "bob").time, users.update(0, "ann").time
        (0, 0, 1)
        """
        self._template.predictor._code(symbol)  # raises before a key makes room
        return self._absorb(read_key("key", key), symbol, None)

    def run(
        self,
        symbols: ArrayLike,
        keys: Sequence[Label | None] | ArrayLike | None = None,
        *,
        times: Sequence[Time | None] | ArrayLike | None = None,
    ) -> DetectionResult:
        """Absorb and judge many symbols: the same as `update` on each.

        Parameters
        ----------
        symbols : array_like
            Symbols or observations, as for `Predictor.run`.
        keys : sequence of labels, optional
            The key of each symbol.
        times : sequence of times, optional
            The time of each symbol, as for `Predictor.run`. A wanted rate per day applies to each
            key.

        Returns
        -------
        DetectionResult
            In the order of the symbols; `time` counts the symbols of the key.

        Examples
        --------
        >>> import mdvpf
        >>> users = mdvpf.KeyedDetector(mdvpf.SurpriseDetector(mdvpf.Markov(2, order=0)))
        >>> users.run([0, 1, 1], keys=["ann", "bob", "ann"]).time.tolist()
        [0, 0, 1]
        """
        family = self._template.predictor._family
        stream = (
            Stream.read(symbols, None, self.n_symbols, keys, times=times)
            if family is None
            else Stream.of_numbers(family, symbols, None, keys, times)
        )
        observed: list[Any] = [None if y == MISSING else y for y in stream.symbols.tolist()]
        if family is not None and stream.observations is not None:
            observed = [observation_of(family, row_of(row)) for row in stream.observations]
        listed = [None] * len(stream) if stream.keys is None else stream.keys
        clock = np.full(len(stream), np.nan) if stream.times is None else stream.times
        found = []
        for symbol, key, time in zip(observed, listed, clock.tolist(), strict=True):
            found.append(self._absorb(key, symbol, None if math.isnan(time) else time))
        return DetectionResult.of(found)

    def new_sequence(self, key: Label | None = None) -> None:
        """End the sequence of a key; its detector is kept.

        Examples
        --------
        >>> import mdvpf
        >>> users = mdvpf.KeyedDetector(mdvpf.SurpriseDetector(mdvpf.Markov(2)))
        >>> users.new_sequence("ann")
        """
        key = read_key("key", key)
        if key in self._detectors:
            self._detectors[key].new_sequence()

    def snapshot(self, key: Label | None) -> bytes:
        """Return the state of one key as bytes, for systems that store a state for each key.

        Parameters
        ----------
        key : label
            One of `keys`. With a background this is a TypeError, as all keys share it.

        Examples
        --------
        >>> import mdvpf
        >>> users = mdvpf.KeyedDetector(mdvpf.SurpriseDetector(mdvpf.Markov(2)))
        >>> _ = users.run([0, 1, 1], keys=["ann"] * 3)
        >>> elsewhere = mdvpf.KeyedDetector(mdvpf.SurpriseDetector(mdvpf.Markov(2)))
        >>> elsewhere.restore("ann", users.snapshot("ann"))
        >>> elsewhere.update(0, "ann") == users.update(0, "ann")
        True
        """
        return detector_to_bytes(self.of(key))

    def restore(self, key: Label | None, content: bytes) -> None:
        """Restore the state of a key from `snapshot` of this or of another object.

        Parameters
        ----------
        key : label
            The key. Its present state is replaced, and it becomes the most recently used key.
        content : bytes
            The result of `snapshot` of a detector with the same settings.

        Examples
        --------
        >>> import mdvpf
        >>> users = mdvpf.KeyedDetector(mdvpf.SurpriseDetector(mdvpf.Markov(2)))
        >>> _ = users.update(1, "ann")
        >>> before = users.snapshot("ann")
        >>> _ = users.update(0, "ann")
        >>> users.restore("ann", before)
        >>> users.of("ann").update(0).time
        1
        """
        key = read_key("key", key)
        if self.background is not None:
            raise TypeError("restore: expected detectors without a background, which is shared")
        detector = detector_from_bytes(content)
        if detector.settings != self._template.settings:
            raise ValueError(
                f"content: the state of {detector!r}; expected the settings of the template, "
                f"{self._template.settings}"
            )
        own, expected = detector.predictor, self._template.predictor
        if own._description() != expected._description() or own.vocabulary != expected.vocabulary:
            raise ValueError(
                f"content: the state of a detector of {own!r}; expected {expected!r}, with the "
                "settings and the vocabulary of the template's predictor"
            )
        self._detectors.pop(key, None)
        if len(self._detectors) == self.max_keys:
            self._detectors.popitem(last=False)
        self._detectors[key] = detector

    def copy(self) -> Self:
        """Return an independent copy.

        Examples
        --------
        >>> import mdvpf
        >>> users = mdvpf.KeyedDetector(mdvpf.SurpriseDetector(mdvpf.Markov(2)))
        >>> users.copy().update(1, "ann") == users.update(1, "ann")
        True
        """
        twin = type(self)(self._template.copy(), max_keys=self.max_keys)
        for key, detector in self._detectors.items():
            twin._detectors[key] = detector._copied(twin.background)
        return twin

    def __copy__(self) -> Self:
        return self.copy()

    def _absorb(self, key: Label | None, symbol: Any, time: float | None) -> Detection:
        found = self._detectors.get(key)
        if found is None:
            found = self._new_detector()
            if time is not None:
                found.tell_time(time)
            detection = found.update(symbol)  # may raise, so `found` is added afterwards
            if len(self._detectors) == self.max_keys:
                _, oldest = self._detectors.popitem(last=False)
                if oldest._background is not None:
                    oldest._background.end(None)
            self._detectors[key] = found
            return detection
        if time is not None:
            found.tell_time(time)
        detection = found.update(symbol)
        self._detectors.move_to_end(key)
        return detection

    def _new_detector(self) -> SurpriseDetector:
        """Return a new detector with the settings of the template."""
        template = self._template
        return SurpriseDetector(
            template.predictor.copy(), background=template.background, **template.settings
        )

    # -- checkpoints -----------------------------------------------------------------------

    def _to_checkpoint(self) -> checkpoint.State:
        parts: dict[str, Any] = {"template": self._template}
        arrays: dict[str, Any] = {}
        listed = []
        for i, (key, detector) in enumerate(self._detectors.items()):
            state = detector._to_checkpoint()
            state.parts.pop("background", None)
            parts |= {f"{name} {i}": part for name, part in state.parts.items()}
            arrays |= {f"{name} {i}": array for name, array in state.arrays.items()}
            listed.append([None if key is None else label_to_json(key), state.values])
        values = {"max_keys": self.max_keys, "detectors": listed}
        return checkpoint.State(values, arrays, parts, version=2)

    @classmethod
    def _from_checkpoint(cls, state: checkpoint.State, given: dict[str, Any]) -> Self:
        parts = dict(state.parts)
        self = cls(parts.pop("template"), max_keys=state.values["max_keys"])
        if self.background is not None:
            parts["background"] = self.background
        for i, (saved, values) in enumerate(state.values["detectors"]):
            key = None if saved is None else label_from_json(saved)
            own = {name: parts[name] for name in ("background",) if name in parts}
            for name in ("predictor", "other"):
                if f"{name} {i}" in parts:
                    own[name] = parts[f"{name} {i}"]
            end = f" {i}"
            named = [name for name in state.arrays if name.endswith(end)]
            arrays = {name.removesuffix(end): state.arrays.pop(name) for name in named}
            detector = SurpriseDetector._from_checkpoint(
                checkpoint.State(values, arrays, own), given
            )
            own_learn = {"learn": detector.learn}  # the only setting that can change later
            fits = detector.settings == self._template.settings | own_learn
            if not fits or key in self._detectors:
                raise checkpoint.CheckpointError(
                    f"file: the detector of {key!r} does not match the template"
                )
            self._detectors[key] = detector
        checkpoint.require(len(self._detectors) <= self.max_keys, "too many keys")
        return self

    def _left_out(self) -> dict[str, Any]:
        return self._template._left_out()
