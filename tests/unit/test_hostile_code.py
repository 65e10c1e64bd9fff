"""Compressed data from untrusted files: an error, and no more memory than was decoded."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf import coding
from mdvpf.cli import main
from mdvpf.coding.files import pack, unpack

pytest.importorskip("constriction")

HEAD = 20  # bytes of the head: the number of symbols is the last four of them


def resealed(data: bytes, n: int, rest: bytes | None = None) -> bytes:
    """Return data with another number of symbols and a valid checksum."""
    head = data[: HEAD - 4] + struct.pack("<I", n)
    content = data[HEAD + 4 :] if rest is None else rest
    return head + struct.pack("<I", zlib.crc32(head + content)) + content


class Enough(Exception):
    """Raised after a number of decoded symbols."""


class Counting(mdvpf.Markov):
    """A chain that stops the decoder."""

    left = 2000

    def __repr__(self) -> str:
        return "chain"

    def update(self, symbol: int | None) -> mdvpf.Step:
        type(self).left -= 1
        if not type(self).left:
            raise Enough
        return super().update(symbol)


def test_memory_depends_on_the_decoded_symbols_not_on_the_header() -> None:
    data = resealed(coding.compress([0, 1, 0], Counting(2)), 2**32 - 1)
    assert len(data) < 60
    Counting.left = 2000
    tracemalloc.start()
    try:
        with pytest.raises(Enough):
            coding.decompress(data, Counting(2))
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        (b"\x03" + bytes(40), "kind 3"),
        (b"\x10" + bytes(40), "kind 16"),
        (b"\xff" + bytes(40), "kind 255"),
        (b"\x01\xff\xff\xff", "too large"),
        (b"\x01\x05", "alphabet is missing"),
        (b"", "alphabet is missing"),
        (b"\x00" + bytes(32), "alphabet is missing"),
        (b"\x09\x01\x00\x00\x05\x00\x00", "n_particles=1"),
    ],
)
def test_files_that_claim_what_pack_never_writes_are_refused(rest: bytes, words: str) -> None:
    data = resealed(pack(b"1 2 3", n_particles=84), 5, rest)
    with pytest.raises(coding.CodingError, match=words):
        unpack(data)


def test_any_code_is_decoded_or_refused() -> None:
    rng = np.random.default_rng(3)
    chain = mdvpf.Markov(5)
    data = coding.compress(rng.integers(5, size=30), chain)
    for n_bytes in range(40):
        with pytest.raises(coding.CodingError):
            coding.decompress(resealed(data, 30, rng.bytes(n_bytes)), chain)


def test_the_command_names_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[Any]) -> None:
    file = tmp_path / "numbers.mdvpf"
    file.write_bytes(b"no such thing")
    assert main(["decompress", str(file)]) == 1
    assert capsys.readouterr().err == f"mdvpf: {file}: not compressed by mdvpf\n"
