"""Compression: the same symbols again, in the number of bytes that the predictions imply."""

from __future__ import annotations

import builtins
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

import mdvpf
from mdvpf import coding, packing
from mdvpf.baselines.base import Baseline

pytest.importorskip("constriction")

SLACK = 64  # bytes


def ideal(symbols: Any, predictor: mdvpf.Predictor) -> float:
    """Return the number of bytes that the predictions imply."""
    return float(-predictor.score(symbols).sum() / math.log(2) / 8)


def predictors(n_symbols: int) -> list[mdvpf.Predictor]:
    model = mdvpf.InfiniteHMM(n_symbols, beta=0.05)
    return [
        mdvpf.Markov(n_symbols, beta=0.05),
        mdvpf.ContextTree(n_symbols, beta=0.05),
        mdvpf.ParticleFilter(model, mdvpf.MDVPA(), 30),
        mdvpf.ParticleFilter(model, mdvpf.SMC(), 30, rng=5),
        mdvpf.Mixture.grid(
            n_symbols, alpha=[1], gamma=[1, 10], beta=[0.1], n_particles=10, restart=9
        ),
    ]


@pytest.mark.parametrize("n_symbols", [1, 2, 3, 16, 17, 27, 300])
@pytest.mark.parametrize("which", range(5))
def test_round_trip_at_the_length_of_the_predictions(n_symbols: int, which: int) -> None:
    rng = np.random.default_rng(n_symbols)
    symbols = rng.integers(n_symbols, size=150) * rng.integers(2, size=150)
    predictor = predictors(n_symbols)[which]
    before = predictor.predict_proba()
    data = coding.compress(symbols, predictor)
    assert_array_equal(predictor.predict_proba(), before)
    assert_array_equal(coding.decompress(data, predictors(n_symbols)[which]), symbols)
    best = ideal(symbols, predictor)
    assert abs(len(data) - best) <= 0.001 * best + SLACK


class Fixed(Baseline):
    """A predictor that never changes."""

    def __init__(self, proba: NDArray[np.float64]) -> None:
        super().__init__(len(proba))
        self.proba = proba

    def _size(self) -> int:
        return 1

    def new_sequence(self) -> None:
        pass

    def predict_proba(self) -> NDArray[np.float64]:
        return self.proba

    def _advance(self, symbol: int, number: int) -> float:
        return math.log(self.proba[symbol])


@pytest.mark.parametrize("n_symbols", [27, 1000, 70_000])
def test_long_streams_and_large_alphabets_keep_to_a_thousandth(n_symbols: int) -> None:
    rng = np.random.default_rng(0)
    fixed = Fixed(rng.dirichlet(np.full(n_symbols, 0.5)))
    symbols = rng.choice(n_symbols, size=5_000, p=fixed.proba)
    data = coding.compress(symbols, fixed)
    best = ideal(symbols, fixed)
    assert best > 2_000
    assert abs(len(data) - best) <= 0.001 * best + SLACK
    assert_array_equal(coding.decompress(data, fixed), symbols)


def test_nearly_certain_symbols_cost_nearly_nothing() -> None:
    symbols = np.zeros(20_000, dtype=int)
    fixed = Fixed(np.array([1 - 1e-6, *np.full(999, 1e-6 / 999)]))
    data = coding.compress(symbols, fixed)
    assert len(data) <= 1.001 * ideal(symbols, fixed) + SLACK


def test_symbols_of_probability_zero_are_coded_too() -> None:
    hmm = mdvpf.datasets.HMM([1, 0], [[0, 1], [1, 0]], np.eye(2, 40))
    predictor = mdvpf.KnownHMM(hmm, n_symbols=40)
    symbols = [0, 1, 0, 39, 17, 1]
    assert coding.decompress(coding.compress(symbols, predictor), predictor).tolist() == symbols


def test_none_at_all() -> None:
    data = coding.compress([], mdvpf.Markov(3))
    assert coding.decompress(data, mdvpf.Markov(3)).tolist() == []


def test_a_predictor_continues_from_its_state() -> None:
    chain = mdvpf.Markov(4, beta=0.01)
    chain.run([0, 1, 2, 3] * 50)
    data = coding.compress([0, 1, 2, 3] * 20, chain)
    assert coding.decompress(data, chain).tolist() == [0, 1, 2, 3] * 20
    with pytest.raises(coding.CodingError, match="another predictor"):
        coding.decompress(data, mdvpf.Markov(4, beta=0.01))


def test_any_damage_is_found() -> None:
    data = coding.compress([0, 1, 1, 0, 1, 0, 0, 0, 1] * 9, mdvpf.ContextTree(2))
    for i in range(len(data)):
        for bit in (1, 128):
            spoilt = bytearray(data)
            spoilt[i] ^= bit
            with pytest.raises(coding.CodingError):
                coding.decompress(bytes(spoilt), mdvpf.ContextTree(2))
    for n in range(len(data)):
        with pytest.raises(coding.CodingError):
            coding.decompress(data[:n], mdvpf.ContextTree(2))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("_version", b"\x63\x02\x01", r"by version 99\.2\.1; expected \d+\.\d+\.\d+"),
        ("_platform", 0x32, "on win32-aarch64; expected"),
        ("_platform", 0xFF, "on other-other; expected"),
        ("_probe", b"abc", "different floating-point results"),
        ("_identity", b"ab", "another predictor"),
    ],
)
def test_data_compressed_elsewhere_are_refused(
    name: str, value: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(coding.coder, name, lambda *_: value)
        data = coding.compress([0, 1, 1], mdvpf.Markov(2))
    with pytest.raises(coding.CodingError, match=words):
        coding.decompress(data, mdvpf.Markov(2))


def test_a_decoder_that_predicts_otherwise_is_found_out() -> None:
    class Off(mdvpf.Markov):
        """A predictor with the name of a chain, which predicts late symbols a little worse."""

        def __repr__(self) -> str:
            return super().__repr__()

        def predict_proba(self) -> Any:
            proba = super().predict_proba()
            return proba[::-1].copy() if self._tree.n_nodes > 2 else proba

    symbols = np.random.default_rng(0).integers(2, size=300) * np.arange(300) % 2
    data = coding.compress(symbols, mdvpf.Markov(2, beta=0.01))
    with pytest.raises(coding.CodingError, match="do not match their checksum"):
        coding.decompress(data, Off(2, beta=0.01))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: coding.compress([0, 2], mdvpf.Markov(2)), ValueError, r"symbols\[1\]=2"),
        (lambda: coding.compress([0, None], mdvpf.Markov(2)), TypeError, r"symbols\[1\]=None"),
        (lambda: coding.compress([0], 3), TypeError, "predictor=3"),
        (lambda: coding.decompress(b"", 3), coding.CodingError, "not compressed"),
        (lambda: coding.decompress("x", mdvpf.Markov(2)), TypeError, "data of type str"),
        (lambda: packing.pack("x"), TypeError, "content of type str"),
        (lambda: packing.pack(b"x", 3), ValueError, "n_particles=3"),
        (lambda: packing.unpack(b"x"), coding.CodingError, "not compressed"),
    ],
)
def test_bad_input_is_refused(
    call: Callable[[], object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        call()


def test_without_constriction_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    found = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "constriction":
            raise ImportError(name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"mdvpf\[coding\]"):
        coding.compress([0], mdvpf.Markov(2))


# --- Files


@settings(max_examples=10, deadline=None)
@given(st.binary(max_size=20) | st.text("0123456789 \n", max_size=20).map(str.encode))
def test_any_file_comes_back(content: bytes) -> None:
    assert packing.unpack(packing.pack(content, 100)) == content


@pytest.mark.parametrize(
    ("content", "n_symbols"),
    [
        (b"3\n0\n4\n", 5),
        (b"3\n0\n4", 5),
        (b"3 0 4", 5),
        (b"10 0 4\n", 11),
        (b"3\n0 4\n", 5),  # bytes from here on: newline, space, 0, 3, 4
        (b"03\n0\n", 3),
        (b"70000\n0\n", 3),
        (b"7", 1),
        (b"", 0),
        (b"a\r\nb", 4),
        (bytes(range(200, 232)), 32),
    ],
)
def test_how_files_are_read(content: bytes, n_symbols: int) -> None:
    assert packing._read(content)[2] == n_symbols
    assert packing.unpack(packing.pack(content, 100)) == content


@pytest.mark.parametrize(
    ("content", "n_particles"),
    [
        (b"It was the best of times", None),
        (b"It was the best of times, it was the worst of times", 100),
        (b"\n".join(b"%d" % (n * n % 81) for n in range(60)), 100),
        (np.random.default_rng(0).permutation(256)[:128].astype(np.uint8).tobytes(), 84),
    ],
)
def test_files_keep_to_the_length_of_the_predictions(
    content: bytes, n_particles: int | None
) -> None:
    packed = packing.pack(content, n_particles)
    _, _, n_symbols, symbols = packing._read(content)
    budget = () if n_particles is None else (n_particles,)
    best = ideal(symbols, mdvpf.auto(n_symbols, *budget, rng=0))
    assert abs(len(packed) - best) <= 0.001 * best + SLACK
    assert packing.unpack(packed) == content


def test_damaged_files_are_refused() -> None:
    packed = packing.pack(b"abracadabra", 100)
    for i in range(len(packed)):
        spoilt = bytearray(packed)
        spoilt[i] ^= 4
        with pytest.raises(coding.CodingError):
            packing.unpack(bytes(spoilt))


def test_another_process_decodes() -> None:
    packed = packing.pack(b"abracadabra", 100)
    code = "import sys; from mdvpf.coding.files import unpack; " \
        "sys.stdout.buffer.write(unpack(sys.stdin.buffer.read()))"  # fmt: skip
    found = subprocess.run([sys.executable, "-c", code], input=packed, capture_output=True)
    assert found.stdout == b"abracadabra", found.stderr
