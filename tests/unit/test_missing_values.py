"""Missing symbols: None, masked entries and nulls of data frames, but never NaN."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf._support import validate

SYMBOLS = [0, 2, None, 1, None, 2]


def chain() -> mdvpf.Markov:
    return mdvpf.Markov(3)


def as_pandas(kind: str) -> Any:
    pd = pytest.importorskip("pandas")
    match kind:
        case "series":
            return pd.Series(SYMBOLS, dtype="Int64")
        case "small":
            return pd.Series(SYMBOLS, dtype="UInt8")
        case "arrow":
            pytest.importorskip("pyarrow")
            return pd.Series(SYMBOLS, dtype="int64[pyarrow]")
        case "array":
            return pd.array(SYMBOLS, dtype="Int64")
        case "object":
            return pd.Series([pd.NA if s is None else s for s in SYMBOLS], dtype=object)
        case "list":
            return [pd.NA if s is None else s for s in SYMBOLS]
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", ["series", "small", "arrow", "array", "object", "list"])
def test_nulls_of_pandas_are_missing(kind: str) -> None:
    symbols = as_pandas(kind)
    expected = chain().run(SYMBOLS).log_predictive
    assert expected[2] == expected[4] == 0.0
    np.testing.assert_array_equal(chain().run(symbols).log_predictive, expected)
    np.testing.assert_array_equal(chain().score(symbols), expected)
    detected = mdvpf.SurpriseDetector(chain()).run(symbols)
    np.testing.assert_array_equal(detected.surprise, -expected)


def test_na_is_missing_in_update() -> None:
    pd = pytest.importorskip("pandas")
    for predictor in (
        chain(),
        mdvpf.ParticleFilter(mdvpf.InfiniteHMM(3), n_particles=5),
        mdvpf.SoftHMM(3, n_states=2),
        mdvpf.Mixture([chain()]),
        mdvpf.SurpriseDetector(chain()),
    ):
        twin = predictor.copy()
        assert predictor.update(pd.NA) == twin.update(None)


class Nullable:
    """An array with nulls as polars and Arrow export it: NumPy sees NaN."""

    def __init__(self, values: list[int | None], way: str) -> None:
        self.values = values
        self.null_count = values.count(None)
        setattr(self, way, lambda: list(values))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array([math.nan if v is None else v for v in self.values], dtype=float)

    def __len__(self) -> int:
        return len(self.values)


@pytest.mark.parametrize("way", ["to_list", "to_pylist"])
def test_nulls_of_other_frames_are_missing(way: str) -> None:
    found = chain().run(Nullable(SYMBOLS, way)).log_predictive  # type: ignore[arg-type]
    np.testing.assert_array_equal(found, chain().run(SYMBOLS).log_predictive)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_nulls_of_arrow_are_missing(library: str) -> None:
    module = pytest.importorskip(library)
    array = module.Series(SYMBOLS) if library == "polars" else module.array(SYMBOLS)
    found = chain().run(array).log_predictive
    np.testing.assert_array_equal(found, chain().run(SYMBOLS).log_predictive)


@pytest.mark.parametrize(
    "symbols",
    [
        np.array([0.0, math.nan, 1.0]),
        np.array([0.0, 1.0]),
        np.ma.array([0.0, 1.0], mask=[False, True]),
    ],
)
def test_floats_are_an_error_that_names_the_way(symbols: Any) -> None:
    with pytest.raises(TypeError, match=r"float64: expected .* use a masked array, or pandas'"):
        chain().run(symbols)


@pytest.mark.parametrize("value", [math.nan, 1.0, -1, True, "1"])
def test_nothing_else_is_missing(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"symbols\[1\]=.*or None where one is miss"):
        chain().run([0, value])
    with pytest.raises((TypeError, ValueError), match=r"symbol=.*or None if it is missing"):
        chain().update(value)


def test_a_series_of_floats_with_nan_is_an_error() -> None:
    pd = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match="Int64"):
        chain().run(pd.Series([0, None, 1]))  # which pandas converts to floats


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_floats_of_a_frame_are_an_error_with_and_without_nulls(kind: str) -> None:
    module = pytest.importorskip(kind)
    for values in ([0.0, None, 1.0], [0.0, 1.0]):
        if kind == "pandas":
            array = module.array(values, dtype="Float64")
        else:
            array = module.Series(values) if kind == "polars" else module.array(values)
        with pytest.raises(TypeError, match=r"symbols\[0\]=0\.0: expected an integer"):
            chain().run(array)


def test_lengths_cannot_be_missing() -> None:
    pd = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match=r"lengths\[0\]=<NA>"):
        chain().run([0, 1], lengths=[pd.NA, 1])


def test_a_label_can_be_missing() -> None:
    pd = pytest.importorskip("pandas")
    vocabulary = mdvpf.Vocabulary("ab")
    assert vocabulary.encode(["a", pd.NA, None, "b"]).tolist() == [0, None, None, 1]
    series = pd.Series(["a", None, "b"], dtype="string")
    assert vocabulary.encode(series).tolist() == [0, None, 1]
    assert mdvpf.Vocabulary.from_data(series) == vocabulary


def test_pandas_is_not_imported_to_look_for_its_nulls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    assert validate.is_missing(None) and not validate.is_missing(math.nan)
    assert "pandas" not in sys.modules
