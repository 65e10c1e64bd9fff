"""Whole files and frames as events: one meaning in all formats, and errors with the place."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf.streams import Event, read_events, read_table
from mdvpf.streams.formats import make_format
from mdvpf.streams.frames import read_parquet
from mdvpf.streams.records import Fields, is_missing, label_of, plain

ROWS = [("ann", "news", 10.0), ("bob", "sport", 11.5), ("ann", "bye", 12.0), ("ann", "news", 12.0)]
EVENTS = [Event(page, user, at) for user, page, at in ROWS]
OPTIONS = {"symbol": "page", "key": "user", "time": "at", "time_unit": "s"}


def write(path: Path, content: str | bytes, *, packed: bool = False) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


def table(delimiter: str) -> str:
    lines = [("user", "page", "at"), *((user, page, str(at)) for user, page, at in ROWS)]
    return "".join(delimiter.join(line) + "\r\n" for line in lines)


def json_lines() -> str:
    return "".join(json.dumps({"user": u, "page": p, "at": at}) + "\n" for u, p, at in ROWS)


# --- Files of text


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", table(",")), ("a.tsv", table("\t")), ("a.jsonl", json_lines())],
)
def test_the_same_events_from_any_file(
    name: str, content: str, packed: bool, tmp_path: Path
) -> None:
    path = write(tmp_path / (name + ".gz" if packed else name), content, packed=packed)
    assert list(read_events(path, **OPTIONS)) == EVENTS
    assert list(read_events(str(path), **OPTIONS)) == EVENTS


def test_gzip_is_recognised_by_its_bytes_and_not_by_its_name(tmp_path: Path) -> None:
    packed = write(tmp_path / "a.csv", table(","), packed=True)
    plain_file = write(tmp_path / "b.csv.gz", table(","))
    assert list(read_events(packed, **OPTIONS)) == list(read_events(plain_file, **OPTIONS))


def test_a_gzip_file_that_is_cut_or_broken_is_named(tmp_path: Path) -> None:
    content = gzip.compress(table(",").encode() * 1000)
    for bad in (content[:-9], content[:40] + b"\xff" * 40 + content[80:], b"\x1f\x8b"):
        path = write(tmp_path / "cut.csv", bad)
        with pytest.raises(ValueError, match=r"cut\.csv: expected a complete gzip file"):
            list(read_events(path, **OPTIONS))


def test_an_empty_file_has_no_events_or_no_header(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "")
    assert list(read_events(path)) == []
    assert list(read_events(path, format="json", symbol="a")) == []
    with pytest.raises(ValueError, match="no column 'page'"):
        list(read_events(path, format="csv", symbol="page"))
    with pytest.raises(ValueError, match="no element"):
        list(read_events(path, format="xes"))


def test_lines_give_the_events_of_live_lines(tmp_path: Path) -> None:
    lines = [b"\xef\xbb\xbfa\r\n", b"b\n", b"\n", b"?\n", b"c"]
    path = write(tmp_path / "a", b"".join(lines))
    live = make_format("lines", {"missing": "?"})
    assert list(read_events(path, missing="?")) == [live.parse(line) for line in lines]


def test_a_cell_may_continue_in_the_next_line_of_a_whole_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", '\ufeffuser,page\nann,"two\nlines"\nbob,x\n')
    assert [event.symbol for event in read_events(path, symbol="page")] == ["two\nlines", "x"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "user,page\nann,news\nbob\n", "row 2: 1 cells; expected 2"),
        ("a.csv", "user,page\nann,news\nbob,\n", "row 2: nothing in the field 'page'"),
        ("a.csv", 'user,page\nann,"news\n', "line 2: unexpected end of data"),
        ("a.csv", "user,page\nann," + "x" * 200_000, "line 2: field larger than field limit"),
        ("a.csv", b"user,page\nann,\xff\n", "line 2: expected text in UTF-8"),
        ("a.csv", "user,site\n", "no column 'page'"),
        ("a.jsonl", '{"page": 1}\n{"page": }\n', "line 2: "),
        ("a.jsonl", '{"page": 1}\n\n{"site": 1}\n', "line 3: no field 'page'"),
        ("a.jsonl", b'{"page": 1}\n{"page": "\xff"}\n', "line 2: "),
        ("a.jsonl", '{"page": 1}\n' + "[" * 100_000, "line 2: "),
    ],
)
def test_errors_name_the_file_and_the_line(
    name: str, content: str | bytes, message: str, tmp_path: Path
) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(ValueError, match=re.escape(f"{path}: {message}")) as caught:
        list(read_events(path, symbol="page"))
    assert len(str(caught.value)) < 300 + len(str(path))


def test_a_line_without_end_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdvpf.streams.input_files.LONGEST_LINE", 1000)
    path = write(tmp_path / "a", b"a\n" + b"x" * 10_000, packed=True)
    with pytest.raises(ValueError, match="at most 1000 bytes"):
        list(read_events(path))


def test_options_are_refused_before_the_file_is_read(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere.csv"
    for options, message in [
        ({}, "expected symbol"),
        ({"symbol": "a", "colour": 1}, "colour=1"),
        ({"symbol": "a", "format": "xml"}, "format='xml'"),
        ({"symbol": "a", "time_unit": "s"}, "time_unit='s'"),
    ]:
        with pytest.raises(ValueError, match=message):
            read_events(nowhere, **options)
    with pytest.raises(FileNotFoundError):
        list(read_events(nowhere, symbol="a"))


# --- XES


def xes(traces: str, head: str = "") -> str:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>{head}\n'
        '<log xes.version="1.0" xmlns="http://www.xes-standard.org/">\n'
        '<global scope="event"><string key="concept:name" value="GLOBAL"/></global>\n'
        f"{traces}</log>"
    )


def trace(name: str | None, *events: tuple[str, str]) -> str:
    named = "" if name is None else f'<string key="concept:name" value="{name}"/>'
    inner = "".join(
        f'<event><string key="concept:name" value="{activity}">'
        '<string key="concept:name" value="NESTED"/></string>'
        f'<date key="time:timestamp" value="{at}"/><int key="cost" value="7"/></event>'
        for activity, at in events
    )
    return f"<trace>{named}{inner}</trace>\n"


LOG = xes(
    trace("c1", ("A", "1970-01-01T00:00:01Z"), ("B &amp; C", "1970-01-01T01:00:05+01:00"))
    + trace(None, ("A", "1970-01-01T00:00:03"))
    + trace("c3")
)


@pytest.mark.parametrize("packed", [False, True])
def test_cases_of_a_log_are_keys_that_end(packed: bool, tmp_path: Path) -> None:
    path = write(tmp_path / "log.xes", LOG, packed=packed)
    assert list(read_events(path)) == [
        Event("A", "c1", 1.0),
        Event("B & C", "c1", 5.0, ends=True),
        Event("A", 2, 3.0, ends=True),
    ]
    assert [e.key for e in read_events(path, by_time=True)] == ["c1", 2, "c1"]
    assert [e.ends for e in read_events(path, by_time=True)] == [False, True, True]


def test_any_attribute_of_a_log_can_be_read(tmp_path: Path) -> None:
    path = write(tmp_path / "log", LOG.replace("concept:name", "org:group"))
    found = read_events(
        path, format="xes", symbol="cost", key="org:group", pass_fields=["case:org:group"]
    )
    assert [(e.symbol, e.key, e.fields["case:org:group"]) for e in found] == [
        ("7", "A", "c1"),
        ("7", "B & C", "c1"),
        ("7", "A", None),
    ]


def test_a_log_without_times_has_none_unless_they_are_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "log.xes", re.sub("<date[^>]*>", "", LOG))
    assert [event.time for event in read_events(path)] == [None] * 3
    with pytest.raises(ValueError, match=r"log\.xes: line \d+: no field 'time:timestamp'"):
        list(read_events(path, time="time:timestamp"))


BOMB = (
    "<!DOCTYPE log ["
    '<!ENTITY a0 "boom">'
    + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12))
    + "]>"
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (xes(trace("&a11;", ("&a11;", "1970-01-01")), BOMB), "a document type (log)"),
        (xes("", '<!DOCTYPE log SYSTEM "file:///etc/passwd">'), "a document type (log)"),
        (xes(trace("c", ("&x;", "1970-01-01"))), "undefined entity"),
        (LOG[:400], "expected an XES log"),
        ("<html></html>", "<html>; expected an XES log"),
        ("news\n", "expected an XES log"),
        (xes("<trace>" + "<a>" * 1000), "nested"),
        (xes("<trace><event></event></trace>"), "no field 'concept:name'"),
        (xes(trace("c", ("A", "today"))), "field 'time:timestamp'"),
        (
            xes(
                '<trace><event><string key="concept:name" value="A"/></event>'
                '<string key="concept:name" value="late"/></trace>'
            ),
            "before its events",
        ),
        (LOG.encode("utf-16")[:300], "expected an XES log"),
        (LOG.replace("UTF-8", "klingon"), "klingon"),
        (LOG.replace("UTF-8", "shift_jis"), "multi-byte"),
    ],
)
def test_logs_that_are_refused(content: str | bytes, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "log.xes", content)
    with pytest.raises(ValueError, match=re.escape(f"{path}: line ")) as caught:
        list(read_events(path))
    assert message in str(caught.value)


def test_an_element_without_end_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdvpf.streams.event_logs._LARGEST_ELEMENT", 1 << 18)
    path = write(tmp_path / "log.xes", xes(trace("x" * (1 << 21))), packed=True)
    with pytest.raises(ValueError, match="elements of at most"):
        list(read_events(path))


def test_memory_does_not_grow_with_a_log(tmp_path: Path) -> None:
    one = trace("case", *[("A", "1970-01-01T00:00:01Z")] * 20)
    path = write(tmp_path / "log.xes", xes(one * 500))
    tracemalloc.start()
    try:
        n = sum(1 for _ in read_events(path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert n == 10_000
    assert path.stat().st_size > 1_500_000
    assert peak < 1_000_000


# --- Frames and Parquet


def frames() -> Iterator[Any]:
    columns = {
        "user": [user for user, _, _ in ROWS],
        "page": [page for _, page, _ in ROWS],
        "at": [at for _, _, at in ROWS],
    }
    for name in ("pandas", "polars", "polars lazy", "pyarrow"):
        package = name.split()[0]
        yield pytest.param(name, columns, id=name, marks=_needs(package))


def _needs(package: str) -> pytest.MarkDecorator:
    def is_there(name: str) -> bool:
        try:
            __import__(name)
        except ImportError:
            return False
        return True

    missing = [name for name in (package, "narwhals") if not is_there(name)]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def make_frame(name: str, columns: dict[str, Any]) -> Any:
    if name == "pandas":
        import pandas as pd

        return pd.DataFrame(columns)
    if name == "pyarrow":
        import pyarrow as pa

        return pa.table(columns)
    import polars as pl

    frame = pl.DataFrame(columns)
    return frame.lazy() if name == "polars lazy" else frame


@pytest.mark.parametrize(("name", "columns"), list(frames()))
def test_the_same_events_from_any_frame(name: str, columns: dict[str, Any]) -> None:
    assert list(read_events(make_frame(name, columns), **OPTIONS)) == EVENTS


@pytest.mark.parametrize(("name", "columns"), list(frames()))
def test_nulls_of_a_frame_are_missing_symbols(name: str, columns: dict[str, Any]) -> None:
    frame = make_frame(name, {"s": [1, None, 3], "t": ["a", None, "b"]})
    assert [event.symbol for event in read_events(frame, symbol="s")] == [1, None, 3]
    assert [event.symbol for event in read_events(frame, symbol="t")] == ["a", None, "b"]
    with pytest.raises(ValueError, match="row 2: nothing in the field 't'"):
        list(read_events(frame, symbol="s", key="t"))
    with pytest.raises(ValueError, match="no column 'u'"):
        read_events(frame, symbol="u")


def test_every_kind_of_missing_value_in_pandas() -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    for column in (
        pd.array([1, pd.NA, 3], dtype="Int64"),
        pd.array([1, None, 3], dtype="UInt8"),
        np.array([1.0, np.nan, 3.0]),
        np.array([1.0, np.nan, 3.0], dtype=np.float32),
        pd.Categorical([1, None, 3]),
        np.array([1, pd.NA, 3], dtype=object),
        np.array([1, None, np.float64(3)], dtype=object),
        np.array([np.int8(1), pd.NaT, 3], dtype=object),
    ):
        frame = pd.DataFrame({"s": column})
        assert [event.symbol for event in read_events(frame, symbol="s")] == [1, None, 3]


def test_times_of_a_frame() -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    at = pd.to_datetime(["1970-01-01T00:00:01.5", "1970-01-01T00:00:02.0"])
    for column in (at, at.tz_localize("UTC").tz_convert("Asia/Tokyo"), at.astype(str)):
        frame = pd.DataFrame({"s": [1, 2], "at": column})
        assert [event.time for event in read_events(frame, symbol="s", time="at")] == [1.5, 2.0]
    with pytest.raises(ValueError, match="row 1: nothing in the field 'at'"):
        list(read_events(pd.DataFrame({"s": [1], "at": [pd.NaT]}), symbol="s", time="at"))


def test_other_objects_are_not_frames() -> None:
    pytest.importorskip("narwhals")
    for source in (7, [1, 2], None, b"path"):
        with pytest.raises(TypeError, match="source of type"):
            read_events(source, symbol="s")
    with pytest.raises(ValueError, match="format='csv'"):
        read_events([], format="csv", symbol="s")


@pytest.mark.parametrize("packed", [False, True])
def test_parquet_files_give_the_events_of_their_columns(packed: bool, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import io

    import pyarrow.parquet as pq

    nanoseconds = pa.array([int(at * 10**9) + 1 for _, _, at in ROWS], pa.timestamp("ns", "UTC"))
    columns = {
        "user": pa.array([user for user, _, _ in ROWS]).dictionary_encode(),
        "page": [page for _, page, _ in ROWS],
        "at": nanoseconds,
        "other": [None] * len(ROWS),
    }
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, row_group_size=2)
    path = write(tmp_path / "a.parquet", file.getvalue(), packed=packed)
    assert list(read_events(path, symbol="page", key="user", time="at")) == EVENTS
    with pytest.raises(ValueError, match=r"a\.parquet: no column 'site'"):
        list(read_events(path, symbol="site"))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\xff" * 100 + b"PAR1", b"a,b\n"])
def test_invalid_parquet_files_are_refused(content: bytes, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    path = write(tmp_path / "a.parquet", content)
    with pytest.raises(ValueError, match=r"a\.parquet: expected a Parquet file"):
        list(read_events(path, symbol="page"))


# --- Tables


def test_a_table_is_ready_for_a_run(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", table(","))
    found = read_table(path, symbol="page", key="user", time="at", time_unit="s")
    assert found.symbols.tolist() == [0, 1, 2, 0]
    assert found.vocabulary == mdvpf.Vocabulary(["news", "sport", "bye"])
    assert found.keys == ["ann", "bob", "ann", "ann"]
    assert found.times is not None
    assert found.times.tolist() == [10.0, 11.5, 12.0, 12.0]
    assert found.lengths is None
    assert found.n_symbols == 3


def test_a_sequence_after_an_end_has_a_key_of_its_own(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", table(","))
    found = read_table(path, symbol="page", key="user", end="bye")
    assert found.keys == ["ann", "bob", "ann", ("ann", 2)]
    found = read_table(path, symbol="page", end="bye")
    assert found.keys is None
    assert found.lengths is not None
    assert found.lengths.tolist() == [3, 1]
    assert found.times is None


def test_missing_symbols_of_a_table_are_masked(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "a\n?\n\n\nb\n\n")
    found = read_table(path, missing="?")
    assert found.symbols.tolist() == [0, None, 1]
    assert found.lengths is not None
    assert found.lengths.tolist() == [2, 1]
    result = mdvpf.Markov(2, order=0).run(found.symbols, found.lengths)
    assert result.log_predictive[1] == 0.0


def test_a_vocabulary_may_be_given(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "a\nb\n")
    vocabulary = mdvpf.Vocabulary(["b"], unknown="other")
    assert read_table(path, vocabulary=vocabulary).symbols.tolist() == [1, 0]
    with pytest.raises(ValueError, match="expected one of the 1 labels"):
        read_table(path, vocabulary=mdvpf.Vocabulary(["b"]))
    with pytest.raises(TypeError, match="vocabulary="):
        read_table(path, vocabulary=["b"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no symbols"):
        read_table(write(tmp_path / "empty", ""))


def test_sorting_needs_times(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "a\nb\n")
    with pytest.raises(ValueError, match="by_time=True"):
        list(read_events(path, by_time=True))


def test_sorting_keeps_equal_times_in_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    at = rng.integers(20, size=200).tolist()
    content = "at,s\n" + "".join(f"{t},{i}\n" for i, t in enumerate(at))
    path = write(tmp_path / "a.csv", content)
    found = read_events(path, symbol="s", time="at", time_unit="s", by_time=True)
    assert [int(str(event.symbol)) for event in found] == np.argsort(at, kind="stable").tolist()


# --- Values


def test_values_of_records() -> None:
    assert label_of(np.int64(7), "s") == 7
    assert label_of(np.bool_(True), "s") == "true"
    assert label_of(np.float32(0.5), "s") == "0.5"
    assert label_of(np.str_("a"), "s") == "a"
    assert label_of(b"a", "s") == b"a"
    assert label_of(np.datetime64("NaT"), "s") is None
    assert is_missing(np.ma.masked)
    assert not is_missing(np.array([1, 2]))
    for value in ([1], {}, (1,), object(), np.array([1])):
        with pytest.raises(ValueError, match="field 's' is"):
            label_of(value, "s")


def test_values_that_are_passed_through_can_be_written_as_json() -> None:
    value = {1: [np.float64(1.5), float("inf"), float("nan"), b"\xff", {2}, np.arange(2), None]}
    assert plain(value) == {"1": [1.5, "inf", None, "\ufffd", "{2}", [0, 1], None]}
    json.dumps(plain(value), allow_nan=False)


# --- Without the extras


@pytest.mark.parametrize(
    ("package", "extra", "code"),
    [
        ("narwhals", "frames", "mdvpf.streams.read_events(7, symbol='s')"),
        ("drain3", "logs", "mdvpf.streams.formats.make_format('text')"),
        ("drain3", "logs", "mdvpf.streams.formats.make_format('journal')"),
    ],
)
def test_a_missing_package_is_named(package: str, extra: str, code: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        f"import mdvpf, mdvpf.streams.formats\n"
        f"try:\n    {code}\nexcept ImportError as error:\n    print(error)\n"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert f"needs the package {package}: install it, or mdvpf[{extra}]" in printed


def test_a_missing_pyarrow_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pyarrow: install it, or mdvpf\[parquet\]"):
        read_parquet(None, Fields({"symbol": "s"}))  # type: ignore[arg-type]


def test_the_package_imports_none_of_the_extras() -> None:
    program = (
        "import sys, mdvpf, mdvpf.streams.formats, mdvpf.streams.readers\n"
        "names = ['narwhals', 'pandas', 'polars', 'pyarrow', 'drain3']\n"
        "print([name for name in names if name in sys.modules])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == "[]"


def test_fields_of_a_file_without_a_known_suffix_are_an_error_that_names_the_suffixes(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "service.log", "a\nb\n")
    message = "service.log: symbol='page', but without a known suffix the file is read as lines"
    with pytest.raises(ValueError, match=f"{message}.*expected .csv, .tsv, .json.*or format"):
        list(read_events(path, symbol="page", key="user"))
    assert [event.symbol for event in read_events(path, end="b")] == ["a", "b"]
