"""Take checkpoints apart and put them together by the description of the format.

Nothing of `mdvpf.checkpoint` is used here: these functions read and write what ``docs/design.md``
describes.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mdvpf

PREFIX = struct.Struct("<8sIQ")
DIGEST_BYTES = 16


def digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()


@dataclass
class Opened:
    """A checkpoint as its header, without the list of sections, and its sections by name."""

    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]

    def values(self) -> dict[str, Any]:
        values: dict[str, Any] = self.header["predictor"]["values"]
        return values


def saved(thing: mdvpf.Predictor | mdvpf.SurpriseDetector | mdvpf.Monitor) -> bytes:
    file = io.BytesIO()
    thing.save(file)
    return file.getvalue()


def unsealed(content: bytes) -> Opened:
    """Take a checkpoint apart."""
    _, _, n_bytes = PREFIX.unpack(content[: PREFIX.size])
    place = PREFIX.size + DIGEST_BYTES
    header = json.loads(content[place : place + n_bytes])
    place += n_bytes
    arrays = {}
    for section in header.pop("sections"):
        kind = np.dtype(section["dtype"])
        size = int(np.prod(section["shape"], dtype=np.int64)) * kind.itemsize
        array = np.frombuffer(content[place : place + size], kind).copy()
        arrays[section["name"]] = array.reshape(section["shape"])
        place += size
    assert place == len(content)
    return Opened(header, arrays)


def sealed(
    opened: Opened,
    *,
    version: int = 1,
    shapes: dict[str, list[int]] | None = None,
    dtypes: dict[str, str] | None = None,
) -> bytes:
    """Put a checkpoint together, with valid checksums; `shapes` and `dtypes` can be false."""
    sections = [
        {
            "name": name,
            "dtype": (dtypes or {}).get(name, array.dtype.str),
            "shape": (shapes or {}).get(name, list(array.shape)),
            "digest": digest(array.tobytes()).hex(),
        }
        for name, array in opened.arrays.items()
    ]
    text = json.dumps({**opened.header, "sections": sections}).encode()
    prefix = PREFIX.pack(b"\x89MDVPF\r\n", version, len(text))
    contents = b"".join(array.tobytes() for array in opened.arrays.values())
    return prefix + digest(prefix + text) + text + contents


def loaded(content: bytes, **given: Any) -> Any:
    return mdvpf.Predictor.load(io.BytesIO(content), **given)


def reloaded(thing: Any) -> Any:
    """Return what a file of a thing gives back."""
    return type(thing).load(io.BytesIO(saved(thing)))
