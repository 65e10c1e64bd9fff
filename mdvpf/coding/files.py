"""Compress files losslessly with `auto`.

A file of integers separated by newlines or by spaces is coded as a list of symbols. Any other file
is coded as a list of bytes; its alphabet is the set of bytes that occur. Three fields precede the
code of the symbols (see `coder.py`): one byte for the kind of the file, the budget of particles
unless it is the default, and the alphabet, as the number of symbols or as one bit for each byte.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from mdvpf._support import validate
from mdvpf.coding.coder import CodingError, encode, opened
from mdvpf.mixture.auto import auto
from mdvpf.predictor import Predictor

MAGIC = b"\x8dF\x01"

_SEPARATORS = (b"", b"\n", b" ")  # by kind: none for bytes
_KINDS = 3  # bits of the kind
_ENDS = 4  # flag: the last number is followed by a newline
_BUDGET = 8  # flag: the budget follows
_BYTES_OF_NUMBER = 3
_BYTES_OF_SET = 32

_LARGEST_BUDGET = 256**_BYTES_OF_NUMBER - 1
_LARGEST_ALPHABET = 2**16  # files with larger numbers are coded as bytes
_NUMBER = rb"(?:0|[1-9][0-9]{0,4})"


def pack(content: bytes, n_particles: int | None = None, progress: bool = False) -> bytes:
    """Return the content of a file, compressed.

    Parameters
    ----------
    content : bytes
        Any bytes.
    n_particles : int, optional
        The budget of `auto`; its default if None.
    progress : bool, default False
        Whether to show a progress bar.

    Examples
    --------
    >>> from mdvpf.coding.files import pack, unpack
    >>> packed = pack(b"to be, or not to be, that is the question", n_particles=100)
    >>> unpack(packed)
    b'to be, or not to be, that is the question'
    """
    kind, alphabet, n_symbols, symbols = _read(validate.content("content", content))
    budget = b""
    if n_particles is not None:
        n_particles = validate.integer("n_particles", n_particles, low=1, high=_LARGEST_BUDGET)
        kind += _BUDGET
        budget = n_particles.to_bytes(_BYTES_OF_NUMBER, "little")
    extra = bytes([kind]) + budget + alphabet
    return encode(symbols, _predictor(n_symbols, n_particles), MAGIC, extra, progress)


def unpack(data: bytes, progress: bool = False) -> bytes:
    r"""Return the content of a file that `pack` compressed.

    Parameters
    ----------
    data : bytes
        What `pack` returned.
    progress : bool, default False
        Whether to show a progress bar.

    Raises
    ------
    coding.CodingError
        If the data are damaged, or were compressed by another version or on a machine with
        different floating-point results.

    Examples
    --------
    >>> from mdvpf.coding.files import pack, unpack
    >>> unpack(pack(b"3\n1\n4\n1\n5\n", n_particles=100))
    b'3\n1\n4\n1\n5\n'
    """
    found = opened(data, MAGIC)
    kind, rest = int.from_bytes(found.rest[:1], "little"), found.rest[1:]
    n_particles = None
    if kind & _BUDGET:
        n_particles = int.from_bytes(rest[:_BYTES_OF_NUMBER], "little")
        rest = rest[_BYTES_OF_NUMBER:]
    if kind & _KINDS >= len(_SEPARATORS) or kind >= 2 * _BUDGET:
        raise CodingError(f"data: a file of unknown kind {kind}; a newer mdvpf may read it")
    separator = _SEPARATORS[kind & _KINDS]
    size = _BYTES_OF_NUMBER if separator else _BYTES_OF_SET
    alphabet, rest = rest[:size], rest[size:]
    used = _used(alphabet)
    n_symbols = int.from_bytes(alphabet, "little") if separator else len(used)
    if len(alphabet) < size or n_symbols > _LARGEST_ALPHABET or (n_symbols == 0 and found.n):
        raise CodingError("data: the alphabet is missing or too large")
    try:
        predictor = _predictor(n_symbols, n_particles)
    except ValueError as error:
        raise CodingError(f"data: {error}") from error
    symbols = found.decode(predictor, n_extra=len(found.rest) - len(rest), progress=progress)
    if not separator:
        return used[symbols].astype(np.uint8).tobytes()
    end = b"\n" if kind & _ENDS else b""
    return separator.join(b"%d" % symbol for symbol in symbols.tolist()) + end


def _predictor(n_symbols: int, n_particles: int | None) -> Predictor:
    n_symbols = max(n_symbols, 1)  # an empty file has none
    if n_particles is None:
        return auto(n_symbols, rng=0)
    return auto(n_symbols, n_particles, rng=0)


def _read(content: bytes) -> tuple[int, bytes, int, NDArray[np.int64]]:
    """Return the kind of a file, its encoded alphabet, the alphabet's size, and the symbols."""
    for kind, separator in enumerate(_SEPARATORS):
        if separator and re.fullmatch(_NUMBER + b"(?:" + separator + _NUMBER + b")+\\n?", content):
            symbols = np.array(content.split(), dtype=np.int64)
            n_symbols = int(symbols.max()) + 1
            if n_symbols <= _LARGEST_ALPHABET:
                kind += _ENDS * content.endswith(b"\n")
                return kind, n_symbols.to_bytes(_BYTES_OF_NUMBER, "little"), n_symbols, symbols
    values = np.frombuffer(content, dtype=np.uint8)
    bits = np.zeros(256, dtype=np.uint8)
    bits[values] = 1
    alphabet = np.packbits(bits).tobytes()
    used = _used(alphabet)
    return 0, alphabet, len(used), np.searchsorted(used, values)


def _used(alphabet: bytes) -> NDArray[np.int64]:
    """Return the byte values of an encoded alphabet."""
    return np.flatnonzero(np.unpackbits(np.frombuffer(alphabet, dtype=np.uint8)))
