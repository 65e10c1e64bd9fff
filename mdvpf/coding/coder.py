"""Compression by prediction: an entropy coder driven by any predictor.

A symbol of probability p takes ``-log2 p`` bits, so a better predictor gives a shorter file, and
regret in nats is redundancy in bits. Successful decoding proves that predictions are honest: the
decoder knows only earlier symbols, so no prediction can have used the symbol that it predicts.

The coder is the range coder of the package constriction (``mdvpf[coding]``). Encoder and decoder
must compute bit-identical probabilities. A file therefore records what these depend on: the version
of mdvpf, the platform, a digest of small test computations, and a digest of the predictor. If one
of them differs, decoding raises a `CodingError`. Decoded symbols are returned only if their
checksum matches.

Symbols of large alphabets are coded digit by digit, each given the digits before it. The coder
rounds probabilities to positive multiples of ``2**-24``. With 16 values a digit this costs at most
``16 * 2**-24`` nats a digit on average, for any alphabet.
"""

from __future__ import annotations

import hashlib
import math
import platform
import re
import struct
import sys
import zlib
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdvpf._support import validate
from mdvpf._support.extras import needed
from mdvpf._support.progress import progress_bar
from mdvpf.filter import ParticleFilter
from mdvpf.model import InfiniteHMM
from mdvpf.model.algorithms import MDVPA, OptimalResampling
from mdvpf.predictor import Predictor

MAGIC = b"\x8dM\x01"  # the last byte is the version of the format

# Magic, version, platform, probe, predictor, checksum of the symbols, number of symbols. A checksum
# of all other bytes follows.
_HEAD = struct.Struct("<3s3sB3s2sII")
_CHECKSUM = struct.Struct("<I")
_SYSTEMS = ("other", "linux", "darwin", "win32")
_MACHINES = ("other", "x86_64", "aarch64")
_SAME_MACHINE = {"amd64": "x86_64", "arm64": "aarch64"}
_BASE = 16  # values of a digit
_LARGEST_LENGTH = 2**32 - 1


class CodingError(ValueError):
    """Compressed data are damaged, or come from another version, platform or predictor.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf import coding
    >>> try:
    ...     coding.decompress(b"no such thing", mdvpf.Markov(2))
    ... except coding.CodingError as error:
    ...     print(error)
    data: not compressed by mdvpf
    """


def compress(symbols: ArrayLike, predictor: Predictor) -> bytes:
    """Compress symbols to about the sum of ``-log2 p`` bits over the predictor's probabilities p.

    Parameters
    ----------
    symbols : array_like of int
        The symbols; none may be missing.
    predictor : Predictor
        Any predictor, in any state; it is left unchanged.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf import coding
    >>> symbols = [0, 1, 2, 3] * 500
    >>> data = coding.compress(symbols, mdvpf.Markov(4, beta=0.01))
    >>> len(data) < 64
    True
    >>> coding.decompress(data, mdvpf.Markov(4, beta=0.01)).tolist() == symbols
    True
    """
    return encode(symbols, predictor, MAGIC)


def decompress(data: bytes, predictor: Predictor) -> NDArray[np.int64]:
    """Return the symbols that were compressed with the same predictor in the same state.

    Parameters
    ----------
    data : bytes
        What `compress` returned.
    predictor : Predictor
        The predictor in the state in which it compressed; it is left unchanged.

    Raises
    ------
    CodingError
        If the data are damaged, or were compressed with another predictor, by another version, or
        on a machine with different floating-point results.

    Examples
    --------
    >>> import mdvpf
    >>> from mdvpf import coding
    >>> data = coding.compress([0, 1, 0], mdvpf.ContextTree(2))
    >>> coding.decompress(data, mdvpf.ContextTree(2)).tolist()
    [0, 1, 0]
    """
    return opened(data, MAGIC).decode(predictor)


def encode(
    symbols: ArrayLike,
    predictor: Predictor,
    magic: bytes,
    extra: bytes = b"",
    progress: bool = False,
) -> bytes:
    """Return a header, then `extra`, then the code of the symbols."""
    encoder = _constriction().stream.queue.RangeEncoder()
    categorical = _constriction().stream.model.Categorical
    predictor = _checked(predictor).copy()
    values = validate.integers("symbols", symbols, low=0, high=predictor.n_symbols - 1)
    if len(values) > _LARGEST_LENGTH:
        raise ValueError(f"symbols: got {len(values)}; expected at most {_LARGEST_LENGTH}")
    head = _HEAD.pack(
        magic, _version(), _platform(), _probe(), _identity(predictor), _crc(values), len(values)
    )

    def choose(symbol: int, start: int, size: int, choices: NDArray[np.float64]) -> int:
        digit = (symbol - start) // size
        encoder.encode(digit, categorical(choices, perfect=False))
        return digit

    with progress_bar(progress, len(values), "compress") as advance:
        for symbol in values.tolist():
            _by_digits(predictor.predict_proba(), partial(choose, symbol))
            predictor.update(symbol)
            advance(1)
    words: NDArray[np.uint32] = encoder.get_compressed()
    rest = extra + words.astype("<u4").tobytes().rstrip(b"\0")
    return head + _CHECKSUM.pack(zlib.crc32(head + rest)) + rest


def opened(data: bytes, magic: bytes) -> Opened:
    """Read the header of compressed data; raise if they are damaged or cannot be decoded here."""
    content = validate.content("data", data)
    if not content.startswith(magic):
        raise CodingError("data: not compressed by mdvpf")
    head, rest = content[: _HEAD.size], content[_HEAD.size :]
    expected, rest = rest[: _CHECKSUM.size], rest[_CHECKSUM.size :]
    if expected != _CHECKSUM.pack(zlib.crc32(head + rest)):
        raise CodingError("data: damaged")
    _, release, place, probe, identity, checksum, n = _HEAD.unpack(head)
    if release != _version():
        raise CodingError(
            f"data: compressed by version {_named_version(release)}; "
            f"expected {_named_version(_version())}, the one in use"
        )
    if place != _platform():
        raise CodingError(
            f"data: compressed on {_named_platform(place)}; "
            f"expected {_named_platform(_platform())}, the platform in use"
        )
    if probe != _probe():
        raise CodingError(
            "data: compressed with different floating-point results: on another processor, or "
            "with other versions of Python, NumPy or constriction"
        )
    return Opened(identity, checksum, n, rest)


@dataclass(frozen=True, slots=True)
class Opened:
    """Compressed symbols and the fields of their header.

    Attributes
    ----------
    identity : bytes
        Digest of the predictor.
    checksum : int
        Checksum of the symbols.
    n : int
        Number of symbols.
    rest : bytes
        The extra bytes, if any, then the code.
    """

    identity: bytes
    checksum: int
    n: int
    rest: bytes

    def decode(
        self, predictor: Predictor, n_extra: int = 0, progress: bool = False
    ) -> NDArray[np.int64]:
        """Return the symbols."""
        predictor = _checked(predictor).copy()
        if self.identity != _identity(predictor):
            raise CodingError("data: compressed with another predictor, or in another state of it")
        code = self.rest[n_extra:]
        words = np.frombuffer(code + b"\0" * (-len(code) % 4), dtype="<u4").astype(np.uint32)
        decoder = _constriction().stream.queue.RangeDecoder(words)
        categorical = _constriction().stream.model.Categorical

        def choose(start: int, size: int, choices: NDArray[np.float64]) -> int:
            return int(decoder.decode(categorical(choices, perfect=False)))

        found = array("q")  # grows with the symbols: the number in the header may be false
        with progress_bar(progress, self.n, "decompress") as advance:
            for _ in range(self.n):
                symbol = _by_digits(predictor.predict_proba(), choose)
                found.append(symbol)
                predictor.update(symbol)
                advance(1)
        symbols = np.array(found, dtype=np.int64)
        if _crc(symbols) != self.checksum:
            raise CodingError("data: the decoded symbols do not match their checksum")
        return symbols


def _by_digits(
    proba: NDArray[np.float64], choose: Callable[[int, int, NDArray[np.float64]], int]
) -> int:
    """Encode or decode a symbol digit by digit.

    `choose` returns a digit. Its arguments are the first symbol still possible, the number of
    symbols for each value of the digit, and the probability of each value.
    """
    start, stop, size = 0, len(proba), 1
    while size * _BASE < stop:
        size *= _BASE
    while size:
        choices = np.add.reduceat(proba[start:stop], np.arange(0, stop - start, size))
        if len(choices) > 1:
            # Impossible symbols are coded too: uniformly if all choices have probability 0.
            start += size * choose(start, size, choices if choices.any() else choices + 1.0)
        stop = min(start + size, stop)
        size //= _BASE
    return start


# --- Values that must be equal for decoding


def _version() -> bytes:
    """Return the version of the package in three bytes; the probe has it in full."""
    numbers = [int(number) for number in re.findall(r"\d+", version("mdvpf"))]
    return bytes(number % 256 for number in (*numbers, 0, 0, 0)[:3])


def _named_version(code: bytes) -> str:
    return ".".join(str(number) for number in code)


def _platform() -> int:
    """Return the system and the machine in one byte."""
    machine = platform.machine().lower()
    machine = _SAME_MACHINE.get(machine, machine)
    system = _SYSTEMS.index(sys.platform) if sys.platform in _SYSTEMS else 0
    return 16 * system + (_MACHINES.index(machine) if machine in _MACHINES else 0)


def _named_platform(code: int) -> str:
    system, machine = divmod(code, 16)
    names = (*_SYSTEMS, *["other"] * 16), (*_MACHINES, *["other"] * 16)
    return f"{names[0][system]}-{names[1][machine]}"


@cache
def _probe() -> bytes:
    """Return a digest of the versions in use and of some of their floating-point results."""
    digest = hashlib.blake2b(digest_size=3)
    about = (version("mdvpf"), version("numpy"), version("constriction"), sys.version_info[:2])
    digest.update(repr((*about, sys.platform, platform.machine(), sys.byteorder)).encode())
    x = np.linspace(1e-9, 40.0, 1001)
    for values in (np.exp(-x), np.log(x), np.logaddexp(-x, -x[::-1]), np.add.reduce(1 / x)):
        digest.update(values.tobytes())
    scalars = [value for y in x.tolist() for value in (math.log(y), math.exp(-y), math.log1p(y))]
    digest.update(np.array(scalars).tobytes())
    model = InfiniteHMM(5, beta=0.1)
    for algorithm in (MDVPA(), OptimalResampling()):
        pf = ParticleFilter(model, algorithm, n_particles=30, rng=0)
        result = pf.run(np.arange(150) ** 2 % 7 % 5)
        digest.update(result.log_predictive.tobytes())
        digest.update(pf.predict_proba().tobytes())
    return digest.digest()


def _identity(predictor: Predictor) -> bytes:
    """Return a digest of a predictor's description and present prediction."""
    name = re.sub(
        r" at 0x[0-9a-fA-F]+", "", predictor._description()
    )  # addresses differ from day to day
    digest = hashlib.blake2b(name.encode(), digest_size=2)
    digest.update(predictor.predict_proba().tobytes())
    return digest.digest()


def _crc(symbols: NDArray[np.int64]) -> int:
    return zlib.crc32(symbols.astype("<i8").tobytes())


def _checked(predictor: Any) -> Predictor:
    if not isinstance(predictor, Predictor):
        raise TypeError(f"predictor={predictor!r}: expected a predictor")
    predictor._check_symbols("compress")
    return predictor


def _constriction() -> Any:
    with needed("compression", "constriction", "coding"):
        import constriction
    return constriction
