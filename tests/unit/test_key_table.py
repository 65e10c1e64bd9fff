"""The table of keys: numbers, the order of use, and the key that ends when there are too many."""

from __future__ import annotations

import json
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdvpf.predictor.keys import NO_KEY, NONE_ENDS, KeyTable
from mdvpf.predictor.stream import Stream

keys = st.lists(st.sampled_from([None, "a", "b", "c", 1, ("a", 1)]), max_size=30)


@given(keys, st.one_of(st.none(), st.integers(1, 4)))
def test_the_key_used_longest_ago_ends(stream, most):
    """An ordered dict of labels gives the keys in use and the key to end."""
    table = KeyTable(most)
    numbers, ended = table.assign(stream)
    used: OrderedDict[object, int] = OrderedDict()
    for key, number, end in zip(stream, numbers.tolist(), ended.tolist(), strict=True):
        if key not in used and most is not None and len(used) == most:
            assert used.popitem(last=False)[1] == end
        else:
            assert end == NONE_ENDS
        assert used.get(key, number) == number != end
        assert (number == NO_KEY) == (key is None)
        used[key] = number
        used.move_to_end(key)
        assert len(set(used.values())) == len(used)
    assert table.labels() == list(used)
    assert len(table) == len(used)


@given(keys, keys)
def test_a_saved_table_continues_as_it_would_have(before, after):
    table = KeyTable(3)
    table.assign(before)
    if before:
        table.end(before[0])
    twin = KeyTable.from_values(json.loads(json.dumps(table.to_values())))
    for one, other in zip(table.assign(after), twin.assign(after), strict=True):
        np.testing.assert_array_equal(one, other)


def test_numbers_of_ended_keys_are_given_again():
    table = KeyTable()
    table.assign(range(10_000))
    for key in range(10_000):
        table.end(key)
    numbers, _ = table.assign(["a", "b"])
    assert max(numbers) <= 10_000
    assert len(table) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"numbers": [1, 1]}, "every key and every number once"),
        ({"numbers": [1]}, "every number once"),
        ({"numbers": [0, 1], "n_given": 2}, "0 for the key None"),
        ({"keys": ["a", "a"]}, "every key"),
        ({"max_keys": 1}, "at most max_keys=1"),
        ({"n_given": 2**40}, "n_given"),
        ({"keys": ["a", 1.5]}, "expected a str, an int"),
    ],
)
def test_a_damaged_table_is_refused(change, message):
    table = KeyTable()
    table.assign(["a", "b"])
    with pytest.raises((ValueError, TypeError), match=message):
        KeyTable.from_values({**table.to_values(), **change})


@pytest.mark.parametrize(
    ("given_keys", "error", "message"),
    [
        ("ab", TypeError, "expected a sequence of keys, one for each symbol"),
        ({"a", "b"}, TypeError, "expected a sequence of keys"),
        ({"a": 0, "b": 1}, TypeError, "expected a sequence of keys"),
        (["a"], ValueError, "got 1; expected 2"),
        (["a", 1.5], TypeError, r"keys\[1\]=1.5"),
        (["a", True], TypeError, r"keys\[1\]=True"),
    ],
)
def test_bad_keys_are_refused(given_keys, error, message):
    with pytest.raises(error, match=message):
        Stream.read([0, 1], None, 2, given_keys)


def test_lengths_and_keys_exclude_each_other():
    with pytest.raises(ValueError, match="lengths and keys: expected one of them"):
        Stream.read([0, 1], [2], 2, ["a", "b"])


def test_symbols_follow_each_other_within_a_key():
    stream = Stream.read([0, 1, 0, 1, 0], None, 2, ["a", "a", "b", None, None])
    stream = stream.numbered(KeyTable())
    assert stream.is_continued(NO_KEY).tolist() == [False, True, False, False, True]
    assert stream.is_continued(1).tolist() == [True, True, False, False, True]


def test_a_key_does_not_follow_the_one_that_ends_to_make_room_for_it():
    stream = Stream.read([0, 1, 0], None, 2, ["a", "b", "c"]).numbered(KeyTable(1))
    assert stream.numbers.tolist() == [1, 2, 1]
    assert stream.ended.tolist() == [NONE_ENDS, 1, 2]
    assert stream.is_continued(NO_KEY).tolist() == [False, False, False]


@pytest.mark.parametrize("symbols", [[0, 1, 2, 0], [1, None, 2, 3], [None, 2]])
def test_an_open_alphabet_takes_symbols_in_order_of_appearance(symbols):
    first = Stream.read(symbols, None, 2, is_open=True).symbols
    assert first.tolist() == [-1 if symbol is None else symbol for symbol in symbols]


@pytest.mark.parametrize(("symbols", "i", "most"), [([0, 1, 3], 2, 2), ([2, 4], 1, 3), ([3], 0, 2)])
def test_a_symbol_that_skips_others_is_refused(symbols, i, most):
    with pytest.raises(ValueError, match=rf"symbols\[{i}\]=.: expected at most {most}"):
        Stream.read(symbols, None, 2, is_open=True)
