"""Lines from chunks of bytes, and positions in an input: chunk borders make no difference."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdvpf.streams.line_buffer import LONGEST_LINE, LineBuffer, RawLine, raw_lines
from mdvpf.streams.position import SPAN, Position, Progress, digest

CONTENTS = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b"\x00"]), max_size=60).map(
    b"".join
)


def taken(buffer: LineBuffer) -> list[RawLine]:
    found = []
    while (line := buffer.next()) is not None:
        found.append(line)
    return found


@given(CONTENTS, st.lists(st.integers(0, 100), max_size=5))
def test_lines_do_not_depend_on_how_bytes_arrive(content: bytes, cuts: list[int]) -> None:
    buffer, lines = LineBuffer(), []
    places = sorted({0, len(content), *(cut for cut in cuts if cut < len(content))})
    for first, stop in pairwise(places):
        buffer.feed(content[first:stop])
        if first % 2:  # now and then they are not used at once
            lines += taken(buffer)
    other = LineBuffer()
    other.feed(buffer.content())
    assert other.unfinished == buffer.unfinished
    lines += taken(other)
    whole = [part + b"\n" for part in content.split(b"\n")[:-1]]
    assert [line.content for line in lines] == whole
    assert buffer.unfinished == content.split(b"\n")[-1]
    assert sum(line.n_bytes for line in lines) == len(b"".join(whole))


@pytest.mark.parametrize("length", [LONGEST_LINE - 1, LONGEST_LINE, LONGEST_LINE + 1, 200_000])
@pytest.mark.parametrize("step", [1000, 65536, 10**6])
def test_long_lines_are_cut_and_counted(length: int, step: int) -> None:
    content = b"0\n" + bytes(i % 10 + 48 for i in range(length)) + b"\n1\n"
    buffer = LineBuffer()
    for first in range(0, len(content), step):
        buffer.feed(content[first : first + step])
    lines = taken(buffer)
    assert [line.n_bytes for line in lines] == [2, length + 1, 2]
    assert lines[1].content == content[2 : 2 + length + 1][: LONGEST_LINE + 1]
    assert lines[1].is_too_long == (length >= LONGEST_LINE)
    progress = Progress()
    for line in lines:
        progress.add(*line)
    position = progress.position()
    assert position.n_bytes == len(content)
    assert position.tail == digest(content[-SPAN:])
    assert position.is_in(io.BytesIO(content))
    assert list(raw_lines(io.BytesIO(content), len(content))) == lines


def test_a_line_that_never_ends_takes_no_memory() -> None:
    buffer = LineBuffer()
    for _ in range(100):
        buffer.feed(b"x" * 10_000)
    assert len(buffer.unfinished) == LONGEST_LINE + 1
    assert len(buffer.content()) == LONGEST_LINE + 1


@given(st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\n", b"") + b"\n"), max_size=40))
def test_a_position_that_was_saved_continues(lines: list[bytes]) -> None:
    whole, parts = Progress(), Progress()
    for line in lines:
        whole.add(line, len(line))
        parts.add(line, len(line))
        parts = Progress(Position.from_values(parts.position().to_values()))
    content = b"".join(lines)
    found, expected = parts.position(), whole.position()
    assert (found.n_bytes, found.n_lines, found.chain) == (
        expected.n_bytes,
        expected.n_lines,
        expected.chain,
    )
    for position in (found, expected):
        assert position.is_in(io.BytesIO(content + b"and more"))
    if content:
        changed = bytes([content[0] ^ 1]) + content[1:]
        assert not expected.is_in(io.BytesIO(changed))
        assert not expected.is_in(io.BytesIO(content[:-1]))


def test_positions_that_make_no_sense_are_refused() -> None:
    good = Progress()
    good.add(b"ab\n", 3)
    values = good.position().to_values()
    assert Position.from_values(values) == good.position()
    for name, bad in {
        "n_bytes": -1,
        "n_lines": 4,
        "head_bytes": 5,
        "tail_bytes": SPAN + 1,
        "head": "00",
        "chain": "xy",
        "path": 3,
        "inode": 2**64,
    }.items():
        with pytest.raises((TypeError, ValueError)):
            Position.from_values({**values, name: bad})
    with pytest.raises(ValueError, match="nothing else"):
        Position.from_values({**values, "other": 1})
