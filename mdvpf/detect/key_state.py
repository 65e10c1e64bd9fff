"""The detector of one key as bytes, for systems that store a state for each key."""

from __future__ import annotations

import io
from typing import Any, Self

from mdvpf import checkpoint
from mdvpf._support import validate
from mdvpf.detect.detector import SurpriseDetector


@checkpoint.register("KeyState")
class KeyState(checkpoint.Saveable):
    """The checkpoint of a detector without a background.

    Parameters
    ----------
    state : State
        The checkpoint of the detector.
    """

    def __init__(self, state: checkpoint.State) -> None:
        self.state = state

    def _to_checkpoint(self) -> checkpoint.State:
        return self.state

    @classmethod
    def _from_checkpoint(cls, state: checkpoint.State, given: dict[str, Any]) -> Self:
        arrays = dict(state.arrays)
        state.arrays.clear()  # `detector_from_bytes` checks them
        return cls(checkpoint.State(state.values, arrays, dict(state.parts), state.version))


def detector_to_bytes(detector: SurpriseDetector) -> bytes:
    """Return the whole state of a detector, to continue with it elsewhere.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf.detect.key_state import detector_from_bytes, detector_to_bytes
    >>> detector = mdvpf.SurpriseDetector(mdvpf.Markov(2))
    >>> _ = detector.run([0, 1, 1])
    >>> twin = detector_from_bytes(detector_to_bytes(detector))
    >>> twin.update(0) == detector.update(0)
    True
    """
    if detector.background is not None:
        raise TypeError(
            f"detector={detector!r}: expected one without a background, which all keys share"
        )
    file = io.BytesIO()
    KeyState(detector._to_checkpoint()).save(file)
    return file.getvalue()


def detector_from_bytes(content: bytes) -> SurpriseDetector:
    """Return the detector that `detector_to_bytes` encoded; CheckpointError if damaged.

    Examples
    --------
    >>> from mdvpf.detect.key_state import detector_from_bytes
    >>> detector_from_bytes(b"nonsense")
    Traceback (most recent call last):
    ...
    mdvpf.checkpoint.file_format.CheckpointError: file: not a checkpoint of mdvpf
    """
    found = KeyState.load(io.BytesIO(validate.content("content", content)))
    state = found.state
    try:
        detector = SurpriseDetector._from_checkpoint(state, {})
    except (KeyError, TypeError, ValueError) as error:
        raise checkpoint.CheckpointError(
            f"file: the state of a key is not valid: {error}"
        ) from error
    checkpoint.require(not state.arrays, "unexpected arrays in the state of a key")
    return detector
