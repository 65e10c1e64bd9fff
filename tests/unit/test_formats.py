"""Formats of live lines: the meaning of a line, refused lines, and stored state."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdvpf
from mdvpf.streams.events import Event
from mdvpf.streams.formats import FORMATS, LineFormat, make_format

WITHOUT_EXTRAS = ("lines", "json", "csv", "tsv")


def parsed(line_format: LineFormat, *lines: bytes) -> list[Event]:
    events = [line_format.parse(line) for line in lines]
    return [event for event in events if event is not None]


def symbols(line_format: LineFormat, *lines: bytes) -> list[Any]:
    return [event.symbol for event in parsed(line_format, *lines)]


# --- All formats


def test_the_names_of_the_formats() -> None:
    assert FORMATS == ("lines", "json", "csv", "tsv", "journal", "text")
    with pytest.raises(ValueError, match="format='xml'"):
        make_format("xml")
    with pytest.raises(TypeError, match="options="):
        make_format("lines", ["missing"])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", WITHOUT_EXTRAS)
def test_an_option_that_a_format_does_not_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"similarity=0.5: the format '{name}' has no such"):
        make_format(name, {"similarity": 0.5})


@pytest.mark.parametrize("name", WITHOUT_EXTRAS)
def test_an_option_that_is_none_is_not_given(name: str) -> None:
    options = {"symbol": None if name == "lines" else "page", "similarity": None, "end": None}
    made = make_format(name, options)
    assert made.options == ({} if name == "lines" else {"symbol": "page"})


@pytest.mark.parametrize("name", ["json", "csv", "tsv"])
def test_a_format_with_fields_needs_the_field_of_the_symbol(name: str) -> None:
    with pytest.raises(ValueError, match=r"expected symbol.*--column"):
        make_format(name, {"key": "user"})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"symbol": 7}, TypeError, "symbol=7"),
        ({"symbol": ""}, ValueError, "symbol=''"),
        ({"symbol": "a", "key": 7}, TypeError, "key=7"),
        ({"symbol": "a", "key": ["b", "b"]}, ValueError, "key="),
        ({"symbol": "a", "key": ["b", ""]}, ValueError, "key="),
        ({"symbol": "a", "missing": 0}, TypeError, "missing=0"),
        ({"symbol": "a", "end": [0]}, TypeError, "end="),
        ({"symbol": "a", "missing": "x", "end": "x"}, ValueError, "end='x'"),
        ({"symbol": "a", "time_unit": "ms"}, ValueError, "time_unit='ms': expected only with"),
        ({"symbol": "a", "time": "t", "time_unit": "h"}, ValueError, "time_unit='h'"),
        ({"symbol": "a", "pass_fields": b"x"}, TypeError, "pass_fields="),
    ],
)
def test_options_that_make_no_sense(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        make_format("json", options)


def test_options_are_json_and_make_the_same_format_again() -> None:
    options = {
        "symbol": "page",
        "key": ("user", "tab"),
        "time": "at",
        "time_unit": "ms",
        "missing": "?",
        "end": "bye",
        "pass_fields": ["ip"],
        "delimiter": ";",
    }
    made = make_format("csv", options)
    again = make_format("csv", json.loads(json.dumps(made.options)))
    assert again.options == made.options
    for each in (made, again):
        (event,) = parsed(each, b"user;tab;page;at;ip", b"ann;2;bye;1500;::1")
        assert event == Event("bye", ("ann", "2"), 1.5, {"ip": "::1"}, ends=True)


@pytest.mark.parametrize("name", WITHOUT_EXTRAS)
def test_a_foreign_state_is_refused(name: str) -> None:
    options = {} if name == "lines" else {"symbol": "page"}
    for state in ([], {"other": 1}, {"header": 7}, {"header": [7]}, {"header": ["user"]}):
        with pytest.raises(ValueError, match="expected"):
            make_format(name, options, state)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", WITHOUT_EXTRAS)
@pytest.mark.parametrize("line", [b"\xff\xfe", b'{"page": "\xff"}', b"a\xc3"])
def test_bytes_that_are_not_utf_8_are_refused(name: str, line: bytes) -> None:
    made = make_format(name, {} if name == "lines" else {"symbol": "page"})
    with pytest.raises(ValueError, match="UTF-8"):
        made.parse(line)


# --- lines


def test_lines_are_as_the_monitor_reads_them() -> None:
    lines = make_format("lines", {"missing": "?"})
    assert symbols(
        lines, b"\xef\xbb\xbfls\r\n", b"  cd \n", b"a b", "caf\u00e9\u2028x".encode()
    ) == [
        "ls",
        "cd",
        "a b",
        "caf\u00e9\u2028x",
    ]
    assert lines.parse(b"?\n") == Event(None)
    for empty in (b"", b"\n", b"\r\n", b" \t\n"):
        assert lines.parse(empty) == Event(None, ends=True, no_symbol=True)


def test_a_sequence_ends_with_any_of_the_end_markers() -> None:
    lines = make_format("lines", {"end": ["logout", "exit"]})
    ends = [event.ends for event in parsed(lines, b"login", b"logout", b"exit", b"exits")]
    assert ends == [False, True, True, False]


# --- json


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("page", "news"),
        ("request.path", "/a"),
        ("spans.1.name", "query"),
        ("http.status", 200),
        ("request.a.b", "dotted"),
        ("yes", "true"),
        ("half", "0.5"),
        ("whole", 3),
        ("null", None),
        ("nan", None),
    ],
)
def test_paths_and_values(path: str, expected: Any) -> None:
    line = (
        b'{"page": "news", "request": {"path": "/a", "a.b": "dotted"}, "http.status": 200,'
        b' "spans": [{}, {"name": "query"}], "yes": true, "half": 0.5, "whole": 3.0, "null": null,'
        b' "nan": NaN}\r\n'
    )
    assert symbols(make_format("json", {"symbol": path}), line) == [expected]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "expected a JSON object"),
        (b"[1]", "expected a JSON object"),
        (b"news", "expected a JSON object"),
        (b"{}", "no field 'a.b'"),
        (b'{"a": 1}', "no field 'a.b'"),
        (b'{"a": [1]}', "no field 'a.b'"),
        (b'{"a": {"b": [1]}}', "field 'a.b' is"),
        (b'{"a": {"b": ""}}', "nothing in the field 'a.b'"),
        (b'{"a": {"b": "\\ud800"}}', "expected text in Unicode"),
        (b'{"a": {"b": "x"}}', "no field 'k'"),
        (b'{"a": {"b": "x"}, "k": null}', "nothing in the field 'k'"),
        (b'{"a": {"b": "x"}, "k": ""}', "nothing in the field 'k'"),
        (b'{"a": {"b": "x"}, "k": 1}', "no field 't'"),
        (b'{"a": {"b": "x"}, "k": 1, "t": null}', "nothing in the field 't'"),
        (b'{"a": {"b": "x"}, "k": 1, "t": 5}', "needs a time unit"),
        (b"[" * 100_000, "nested"),
        (b'{"a": ' * 100_000, "nested"),
        (b'{"a": ' + b"9" * 5000 + b"}", "shorter numbers"),
    ],
)
def test_lines_of_json_that_are_refused(line: bytes, message: str) -> None:
    made = make_format("json", {"symbol": "a.b", "key": "k", "time": "t"})
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        made.parse(line)
    assert len(str(caught.value)) < 300


def test_numbers_and_text_are_different_symbols_but_the_same_marker() -> None:
    made = make_format("json", {"symbol": "s", "end": "1", "missing": "0"})
    events = parsed(made, b'{"s": 1}', b'{"s": "1"}', b'{"s": 0}', b'{"s": "0"}')
    assert [(event.symbol, event.ends) for event in events] == [
        (1, True),
        ("1", True),
        (None, False),
        (None, False),
    ]


def test_fields_are_passed_through_as_they_are_and_may_be_absent() -> None:
    made = make_format("json", {"symbol": "s", "pass_fields": ["a.b", "none"]})
    (event,) = parsed(made, b'{"s": 1, "a": {"b": [1, {"c": null}]}}')
    assert event.fields == {"a.b": [1, {"c": None}], "none": None}


def test_fields_that_are_nested_too_deeply_for_a_report_are_refused() -> None:
    made = make_format("json", {"symbol": "s", "pass_fields": ["deep"]})
    for levels, is_fine in [(50, True), (60, False), (900, False)]:
        line = b'{"s": 1, "deep": ' + b"[" * levels + b"]" * levels + b"}"
        if is_fine:
            assert made.parse(line) is not None
        else:
            with pytest.raises(ValueError, match="nested"):
                made.parse(line)


def test_blank_lines_of_json_say_nothing() -> None:
    assert make_format("json", {"symbol": "s"}).parse(b" \r\n") is None


# --- csv and tsv


def test_cells_by_the_names_in_the_first_line() -> None:
    made = make_format("csv", {"symbol": "page", "key": ["user", "tab"], "missing": ""})
    lines = [
        b'\xef\xbb\xbf"tab", user ,page\r\n',
        b'1,ann,"news, ""local"""\r\n',
        b"\r\n",
        b"2,bob,\r\n",
    ]
    assert parsed(made, *lines) == [
        Event('news, "local"', ("ann", "1")),
        Event(None, ("bob", "2")),
    ]


def test_tabs_and_other_delimiters() -> None:
    assert symbols(make_format("tsv", {"symbol": "b"}), b"a\tb", b"1\tx,y") == ["x,y"]
    semicolons = make_format("csv", {"symbol": "b", "delimiter": ";"})
    assert symbols(semicolons, b"a;b", b"1;x,y") == ["x,y"]
    for delimiter in ("", ";;", "\n", '"'):
        with pytest.raises(ValueError, match="delimiter="):
            make_format("csv", {"symbol": "b", "delimiter": delimiter})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'1,"news', "records of several lines"),
        (b"1", "1 cells; expected 2"),
        (b"1,2,3", "3 cells; expected 2"),
        (b"1,", "nothing in the field 'page'"),
        (b'1,"a"b', "expected a row of cells"),
        (b"1,a\rb", "expected a row of cells"),
        (b"1," + b"x" * 200_000, "expected a row of cells"),
    ],
)
def test_rows_that_are_refused_leave_the_header(line: bytes, message: str) -> None:
    made = make_format("csv", {"symbol": "page"})
    made.parse(b"user,page")
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        made.parse(line)
    assert len(str(caught.value)) < 300
    assert symbols(made, b"1,news") == ["news"]


@pytest.mark.parametrize("header", [b"user,site", b"page,page", b'"page'])
def test_a_header_without_the_columns_is_refused_and_can_come_again(header: bytes) -> None:
    made = make_format("csv", {"symbol": "page"})
    with pytest.raises(ValueError, match=r"column|quotation"):
        made.parse(header)
    assert made.state() == {"header": None}
    assert symbols(made, b"user,page", b"ann,news") == ["news"]


def test_a_header_is_remembered_and_may_come_again() -> None:
    made = make_format("csv", {"symbol": "page"})
    assert make_format("csv", {"symbol": "page"}, made.state()).state() == {"header": None}
    made.parse(b"user,page")
    again = make_format("csv", {"symbol": "page"}, json.loads(json.dumps(made.state())))
    assert symbols(again, b"ann,news", b"user,page\n", b"bob,sport") == ["news", "sport"]


# --- text and journal, by Drain3


def random_lines(n: int, seed: int) -> list[bytes]:
    rng = random.Random(seed)
    words = ["user", "disk", "error", "x1", "10.1.2.3", "failed", "17", "<*>", "ok"]
    return [" ".join(rng.choices(words, k=rng.randint(1, 7))).encode() for _ in range(n)]


@pytest.fixture
def drain() -> None:
    pytest.importorskip("drain3", reason="drain3 is not installed")


@pytest.mark.usefixtures("drain")
def test_the_symbol_is_the_template_as_it_was_at_first() -> None:
    text = make_format("text")
    lines = [
        b"session opened for ann from 10.0.0.1 port 22",
        b"session opened for bob from 10.0.0.2 port 2222",
        b"disk 0xff is full",
        b"",
        b"session opened for eve from 10.0.0.2 port 2222",
    ]
    first = "session opened for ann from <ip> port <num>"
    assert symbols(text, *lines) == [first, first, "disk <hex> is full", first]


@pytest.mark.usefixtures("drain")
@pytest.mark.parametrize("most", [5, 100_000])
def test_restored_templates_continue_as_if_nothing_had_happened(most: int) -> None:
    lines = random_lines(3000, 1)
    text = make_format("text", {"max_templates": most})
    symbols(text, *lines[:1500])
    again = make_format("text", text.options, json.loads(json.dumps(text.state())))
    assert again.state() == text.state()
    assert symbols(text, *lines[1500:]) == symbols(again, *lines[1500:])
    assert again.state() == text.state()
    assert len(text.state()["clusters"]) <= most


@pytest.mark.usefixtures("drain")
def test_a_state_is_a_copy() -> None:
    text = make_format("text")
    symbols(text, *random_lines(100, 2))
    state = text.state()
    content = json.dumps(state)
    symbols(text, *random_lines(100, 3))
    assert json.dumps(state) == content


@pytest.mark.usefixtures("drain")
def test_a_long_line_has_a_short_label_of_its_own() -> None:
    text = make_format("text")
    found = symbols(text, b"a " * 30_000, b"a " * 29_999, b"a " * 30_000)
    assert all(len(label) < 300 for label in found)
    assert found[0] == found[2] != found[1]


@pytest.mark.usefixtures("drain")
def test_masks_do_not_take_long_on_any_line() -> None:
    text = make_format("text")
    hostile = [b"1." * 30_000, b"0x" * 30_000, b"1-" * 30_000, b"a" * 65_000, b"1" * 65_000]
    hostile += [b"-" * 65_000, b"1234-" * 13_000]
    assert len(symbols(text, *hostile)) == 7  # a pattern that backtracks would take hours


@pytest.mark.usefixtures("drain")
def test_groups_of_a_pattern_are_fields() -> None:
    pattern = r"(?P<at>\S+) (?P<host>\S+) (?P<program>\w+): (?P<what>.*)"
    options = {
        "pattern": pattern,
        "symbol": "what",
        "key": ["host", "program"],
        "time": "at",
        "time_unit": "s",
        "pass_fields": ["what"],
    }
    text = make_format("text", options)
    (event,) = parsed(text, b"12.5 web sshd: port 22 closed")
    assert event == Event("port <num> closed", ("web", "sshd"), 12.5, {"what": "port 22 closed"})
    state = text.state()
    for line in (b"other", b"now web sshd: port 22 closed"):
        with pytest.raises(ValueError, match="expected"):
            text.parse(line)
    assert text.state() == state


@pytest.mark.usefixtures("drain")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "host"}, "expected pattern"),
        ({"pattern": "(?P<message>.*)", "key": "host"}, "named group"),
        ({"pattern": "("}, "pattern="),
        ({"masks": ["("]}, "masks="),
        ({"similarity": 2.0}, "similarity="),
        ({"max_templates": 0}, "max_templates="),
    ],
)
def test_options_of_text_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_format("text", options)


@pytest.mark.usefixtures("drain")
def test_hostile_templates_are_refused_and_change_nothing() -> None:
    text = make_format("text")
    symbols(text, *random_lines(50, 4))
    good = json.dumps(text.state())
    rng = random.Random(5)
    junk: list[Any] = [None, -1, 2**70, "x", [], {}, [[]], True, 1.5, {"9": [{}, [1]]}, [1, "a", 7]]

    def broken(value: Any) -> Any:
        """Return a value with one entry somewhere replaced by junk."""
        if rng.random() < 0.3 or not isinstance(value, (list, dict)) or not value:
            return rng.choice(junk)
        places = list(value) if isinstance(value, dict) else list(range(len(value)))
        place = rng.choice(places)
        value[place] = broken(value[place])
        return value

    for _ in range(2000):
        state = broken(json.loads(good))
        try:
            text.restore(state)
        except (ValueError, TypeError):
            assert json.dumps(text.state()) == good
        else:  # an accepted state works
            symbols(text, *random_lines(30, 6))
            text.restore(json.loads(good))


@pytest.mark.usefixtures("drain")
@pytest.mark.parametrize("name", ["text", "journal"])
def test_options_of_templates_are_json(name: str) -> None:
    made = make_format(name, {"masks": (r"id=\w+",), "similarity": 1, "end": "bye"})
    assert made.options == {"masks": [r"id=\w+"], "similarity": 1.0, "end": ["bye"]}
    again = make_format(name, json.loads(json.dumps(made.options)), made.state())
    assert again.options == made.options
    line = b"job id=abc done" if name == "text" else entry(MESSAGE="job id=abc done")
    assert symbols(again, line) == ["job <masked> done"]


@pytest.mark.usefixtures("drain")
def test_templates_of_other_options_are_refused() -> None:
    text = make_format("text", {"similarity": 0.5})
    with pytest.raises(ValueError, match="same options"):
        make_format("text", {"similarity": 0.6}, text.state())


def entry(**fields: Any) -> bytes:
    record = {
        "__CURSOR": "s=a;i=1",
        "__REALTIME_TIMESTAMP": "1700000000250000",
        "_SYSTEMD_UNIT": "ssh.service",
        "MESSAGE": "port 22 closed",
        "PRIORITY": "6",
    }
    record.update(fields)
    return json.dumps({name: value for name, value in record.items() if value is not None}).encode()


@pytest.mark.usefixtures("drain")
def test_entries_of_the_journal() -> None:
    journal = make_format("journal", {"pass_fields": ["PRIORITY"]})
    (event,) = parsed(journal, entry())
    assert event == Event("port <num> closed", "ssh.service", 1700000000.25, {"PRIORITY": "6"})
    kernel = entry(_SYSTEMD_UNIT=None, SYSLOG_IDENTIFIER="kernel", __CURSOR="s=a;i=2")
    nobody = entry(_SYSTEMD_UNIT=None, MESSAGE=list("p\xf6rt 7 closed".encode()))
    empty = entry(MESSAGE=None)
    events = parsed(journal, kernel, nobody, empty, b"\n")
    assert [event.key for event in events] == ["kernel", "other", "ssh.service"]
    assert [event.symbol for event in events] == ["port <num> closed", "p\xf6rt <num> closed", None]


def test_a_field_of_the_journal_and_its_cursor() -> None:
    journal = make_format("journal", {"symbol": "PRIORITY", "key": "_PID", "end": "0"})
    journal.parse(entry(_PID="7"))
    assert journal.state() == {"cursor": "s=a;i=1", "templates": None}
    again = make_format("journal", journal.options, journal.state())
    assert journal.options == {"symbol": "PRIORITY", "key": ["_PID"], "end": ["0"]}
    with pytest.raises(ValueError, match="no field '_PID'"):
        again.parse(entry(__CURSOR="s=a;i=2"))
    assert again.state() == journal.state()  # a refused state is not used
    (event,) = parsed(again, entry(_PID=["8", "9"], PRIORITY="0", __CURSOR="s=a;i=2"))
    assert event == Event("0", "8", 1700000000.25, ends=True)
    assert again.state()["cursor"] == "s=a;i=2"


@pytest.mark.parametrize(
    "state",
    [
        {"cursor": 7, "templates": None},
        {"cursor": "a\nb", "templates": None},
        {},
        {"cursor": "a" * 5000, "templates": None},
        {"cursor": None, "templates": {}},
    ],
)
def test_hostile_states_of_the_journal_are_refused(state: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        make_format("journal", {"symbol": "PRIORITY"}, state)


def test_options_of_templates_only_where_there_are_templates() -> None:
    with pytest.raises(ValueError, match=r"similarity=0.5: expected only without symbol"):
        make_format("journal", {"symbol": "PRIORITY", "similarity": 0.5})


# --- Any bytes

_TOKENS = [b'{"s": ', b'"a"', b"1", b"}", b", ", b'"k": ', b'"t": ', b"[", b"]", b"null", b"s,k,t"]
_TOKENS += [
    b"\xff",
    b"\xef\xbb\xbf",
    b'"',
    b"\n",
    b"\r",
    b"\x00",
    b"a,b,2024-01-01",
    b"1e999",
    b"\t",
]
_TOKENS += [b'{"s": "x", "k": 1, "t": "2024-01-01"}', b" ", b"NaN", b"-", b"\\ud800", b"9" * 400]
any_line = st.lists(st.sampled_from(_TOKENS) | st.binary(max_size=8), max_size=8).map(b"".join)
FIELDS = {"symbol": "s", "key": "k", "time": "t", "pass_fields": ["u"]}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lines", {"missing": "1"}),
        ("json", FIELDS),
        ("csv", FIELDS),
        ("tsv", FIELDS),
        ("journal", FIELDS),
        ("journal", {}),
        ("text", {"max_templates": 3}),
    ],
)
@given(lines=st.lists(any_line, max_size=12), cut=st.integers(0, 12))
def test_any_bytes_are_an_event_or_refused_and_a_state_continues(
    name: str, options: dict[str, Any], lines: list[bytes], cut: int
) -> None:
    if "symbol" not in options and name != "lines":
        pytest.importorskip("drain3", reason="drain3 is not installed")
    made = make_format(name, options)
    again = make_format(name, options)
    for i, line in enumerate(lines):
        if i == cut:
            again = make_format(name, made.options, json.loads(json.dumps(made.state())))
        before = made.state()
        found = []
        for each in (made, again):
            try:
                found.append(each.parse(line))
            except ValueError as error:
                found.append(str(error))
                assert each.state() == before
                assert len(str(error)) < 400
        assert found[0] == found[1]
        event = found[0]
        if isinstance(event, Event):
            json.dumps(event.fields, allow_nan=False)
            assert event.symbol is None or mdvpf.Vocabulary([event.symbol])[event.symbol] == 0
