"""Data sets: drawing, reading, looking for files, and downloading."""

from __future__ import annotations

import copy
import dataclasses
import gzip
import hashlib
import io
import pickle
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdvpf
from mdvpf import datasets
from mdvpf.datasets import HMM, book_texts, files, masquerade_commands, msnbc_clicks

# -- finite HMMs ---------------------------------------------------------------------------


def test_hmm_keeps_a_copy_that_cannot_be_written() -> None:
    start = np.array([0.5, 0.5])
    hmm = HMM(start, np.eye(2), [[1, 0, 0], [0, 0.5, 0.5]])
    start[0] = 7
    assert hmm.start.tolist() == [0.5, 0.5]
    for array in (hmm.start, hmm.transition, hmm.emission):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(AttributeError):
        hmm.start = start  # type: ignore[misc]
    third = HMM([1 / 3] * 3, np.full((3, 3), 1 / 3), np.eye(3))
    for twin in (pickle.loads(pickle.dumps(third)), copy.copy(third), copy.deepcopy(third)):
        for name in ("start", "transition", "emission"):
            array = getattr(twin, name)
            assert array.tobytes() == getattr(third, name).tobytes()
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


@pytest.mark.parametrize(
    "matrices, error, message",
    [
        (([0.5, 0.6], np.eye(2), np.eye(2)), ValueError, "start with sums 1.1: expected"),
        (([1.5, -0.5], np.eye(2), np.eye(2)), ValueError, "start with entries that are negative"),
        (([np.nan, 1], np.eye(2), np.eye(2)), ValueError, "start with entries that are negative"),
        (([1, 0], np.eye(3), np.eye(2)), ValueError, r"transition of shape \(3, 3\): expected"),
        (([1, 0], [1, 0], np.eye(2)), ValueError, r"transition of shape \(2,\): expected"),
        (([1, 0], np.eye(2), np.eye(3)), ValueError, r"emission of shape \(3, 3\): expected 2"),
        (([1, 0], np.eye(2), [[1], [0.5]]), ValueError, "emission with sums"),
        (([], [], []), ValueError, r"start of shape \(0,\): expected"),
        (("ab", np.eye(2), np.eye(2)), TypeError, "start='ab': expected"),
        (([1, 0], [[1, 0], [1]], np.eye(2)), TypeError, "transition=.*expected rows"),
    ],
)
def test_bad_matrices_are_refused(matrices: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        HMM(*matrices)


def test_random_hmm_has_the_moments_of_its_dirichlet() -> None:
    # Var p = (1/n)(1 - 1/n) / (n c + 1) for a symmetric Dirichlet of n entries.
    rng = np.random.default_rng(0)
    hmms = [datasets.random_hmm(3, 5, transition=0.5, emission=4, rng=rng) for _ in range(2000)]
    for name, n, c in (("start", 3, 0.5), ("transition", 3, 0.5), ("emission", 5, 4)):
        p = np.array([getattr(hmm, name) for hmm in hmms]).reshape(-1, n)
        np.testing.assert_allclose(p.mean(axis=0), 1 / n, atol=0.03)
        np.testing.assert_allclose(p.var(axis=0), (n - 1) / n**2 / (n * c + 1), rtol=0.1)


def test_samples_are_drawn_by_inverse_cdf() -> None:
    hmms = [datasets.random_hmm(3, 4, rng=1), datasets.random_hmm(2, 6, rng=2)]
    stream = datasets.sample_hmms(hmms, [50, 70], rng=3)
    rng = np.random.default_rng(3)
    states, symbols = [], []
    for hmm, n in zip(hmms, (50, 70), strict=True):
        p = hmm.start
        for u, v in rng.random((n, 2)):
            states.append(next(i for i in range(len(p)) if p[: i + 1].sum() > u))
            q = hmm.emission[states[-1]]
            symbols.append(next(i for i in range(len(q)) if q[: i + 1].sum() > v))
            p = hmm.transition[states[-1]]
    assert stream.states.tolist() == states
    assert stream.symbols.tolist() == symbols
    assert stream.change_points.tolist() == [50]
    assert stream.hmms == tuple(hmms)
    assert stream.n_symbols == 6


def test_samples_have_the_frequencies_of_the_matrices() -> None:
    hmm = datasets.random_hmm(3, 4, rng=4)
    n = 100_000
    stream = datasets.sample_hmms([hmm], [n], rng=5)
    for matrix, pairs in (
        (hmm.transition, (stream.states[:-1], stream.states[1:])),
        (hmm.emission, (stream.states, stream.symbols)),
    ):
        counts = np.zeros(matrix.shape)
        np.add.at(counts, pairs, 1)
        expected = counts.sum(axis=1, keepdims=True) * matrix
        assert np.all(np.abs(counts - expected) < 5 * np.sqrt(expected + 1))


def test_impossible_symbols_are_never_drawn() -> None:
    # The last symbols are impossible, and the cumulative sums of the first do not reach 1.
    emission = [[0.1] * 9 + [1 - 0.1 * 9, 0, 0]]
    hmm = HMM([1], [[1]], emission)
    uniforms = np.full((1, 2), np.nextafter(1, 0))

    class Almost(np.random.Generator):
        def random(self, size: Any = None) -> Any:
            return np.broadcast_to(uniforms[0, 0], size)

    stream = datasets.sample_hmms([hmm], [3], Almost(np.random.PCG64(0)))
    assert stream.symbols.tolist() == [9, 9, 9]


def test_a_segment_starts_from_its_own_start() -> None:
    last = HMM([0, 0, 1], np.eye(3), np.eye(3))
    first = HMM([1, 0, 0], np.eye(3), np.eye(3))
    stream = datasets.sample_hmms([last, first, last], [2, 1, 2], rng=0)
    assert stream.states.tolist() == [2, 2, 0, 2, 2]
    assert stream.change_points.tolist() == [2, 3]


def test_switching_hmm_is_the_papers_by_default() -> None:
    stream = datasets.switching_hmm(rng=0)
    sizes = [(hmm.n_states, hmm.n_symbols) for hmm in stream.hmms]
    assert sizes == [(3, 3), (4, 8)]
    assert (len(stream.symbols), stream.change_points.tolist()) == (300, [150])
    assert set(stream.symbols[:150]) == {0, 1, 2}
    assert set(stream.symbols[150:]) == set(range(8))
    first, second = stream.hmms
    assert first.start.tolist() == [1 / 3] * 3 and second.start.tolist() == [1 / 4] * 4
    half, third = 1 / 2, 1 / 3
    assert first.transition.tolist() == [[0, half, half], [half, half, 0], [half, 0, half]]
    assert first.emission.tolist() == [[half, 0, half], [third] * 3, [0, half, half]]
    moves = [[0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1], [1, 1, 0, 0]]
    assert second.transition.tolist() == [[half * x for x in row] for row in moves]
    emitted = [{0, 6, 7}, {0, 1, 2}, {2, 3, 4}, {4, 5, 6}]
    assert second.emission.tolist() == [[third * (y in e) for y in range(8)] for e in emitted]


def test_switching_hmm_has_the_scores_it_is_known_for() -> None:
    # Measured on the paper's stream by two programs that are not this one, 20 streams, K = 100,
    # beta = 1: the generator -1.360, VPA -1.706, SMC -1.732. Three standard errors of both.
    names: dict[str, list[float]] = {"generator": [], "VPA": [], "SMC": []}
    model = mdvpf.InfiniteHMM(8, beta=1.0)
    for seed in range(20):
        stream = datasets.switching_hmm(rng=seed)
        contenders = (
            mdvpf.KnownHMM(stream.hmms, stream.change_points),
            mdvpf.ParticleFilter(model, mdvpf.VPA(), n_particles=100),
            mdvpf.ParticleFilter(model, mdvpf.SMC(), n_particles=100, rng=seed),
        )
        for scores, contender in zip(names.values(), contenders, strict=True):
            scores.append(contender.run(stream.symbols).log_predictive.mean())
    for name, known in (("generator", -1.360), ("VPA", -1.706), ("SMC", -1.732)):
        error = np.std(names[name], ddof=1) / np.sqrt(20)
        assert abs(np.mean(names[name]) - known) < 3 * np.sqrt(2) * error, name


def test_switching_hmm_takes_sizes_hmms_and_segments() -> None:
    mine = datasets.random_hmm(2, 9, rng=0)
    stream = datasets.switching_hmm([(2, 3), mine, (5, 2), mine], [10, 20, 30, 5], rng=1)
    assert [hmm.n_states for hmm in stream.hmms] == [2, 2, 5, 2]
    assert stream.hmms[1] is mine
    assert stream.change_points.tolist() == [10, 30, 60]
    assert len(stream.symbols) == len(stream.states) == 65


@pytest.mark.parametrize("seed", [7, np.random.SeedSequence(7), np.random.PCG64(7)])
def test_switching_hmm_follows_its_seed(seed: Any) -> None:
    stream, same = datasets.switching_hmm(rng=seed), datasets.switching_hmm(rng=7)
    np.testing.assert_array_equal(stream.symbols, same.symbols)
    np.testing.assert_array_equal(stream.hmms[0].transition, same.hmms[0].transition)
    rng = np.random.default_rng(7)
    np.testing.assert_array_equal(datasets.switching_hmm(rng=rng).symbols, same.symbols)
    assert datasets.switching_hmm(rng=rng).symbols.tolist() != same.symbols.tolist()


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: datasets.sample_hmms([], []), ValueError, "hmms: got none"),
        (lambda: datasets.sample_hmms(1, [1]), TypeError, "hmms=1: expected a sequence of HMMs"),
        (lambda: datasets.switching_hmm(3), TypeError, "sources=3: expected a sequence of HMMs"),
        (lambda: datasets.sample_hmms([1], [1]), TypeError, r"hmms\[0\]=1: expected an HMM"),
        (lambda: datasets.switching_hmm(lengths=[5]), ValueError, "lengths has 1 entries: exp"),
        (lambda: datasets.switching_hmm(lengths=0), ValueError, "lengths=0: expected an integer"),
        (lambda: datasets.switching_hmm([3]), TypeError, r"sources\[0\]=3: expected an HMM or"),
        (lambda: datasets.switching_hmm([(0, 3)]), ValueError, "n_states=0: expected an integer"),
        (lambda: datasets.switching_hmm(rng="x"), TypeError, "rng='x': expected None"),
        (lambda: datasets.switching_hmm(concentration=0), ValueError, "concentration=0: expected"),
        (lambda: datasets.random_hmm(2, 2, emission=-1), ValueError, "emission=-1: expected"),
    ],
)
def test_bad_arguments_of_samplers(
    call: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()


# -- books ---------------------------------------------------------------------------------


def kept_by_hand(text: str, alphabet: str) -> str:
    out = ""
    for character in text.lower():
        out += character if character in alphabet else " "
    return " ".join(out.split())


@pytest.fixture
def texts(tmp_path: Path) -> list[Path]:
    contents = [
        "\ufeff“Well, Prince,” said  she;\r\n\r\nit was -- the 4th of July, café-time.\n" * 3,
        "...ONE two, 3, _four_ [^]\\ five-six?" * 5,
    ]
    files = [tmp_path / "one.txt", tmp_path / "two.txt.gz"]
    files[0].write_text(contents[0], encoding="utf-8", newline="")
    files[1].write_bytes(gzip.compress(contents[1].encode()))
    return files


def test_books_keep_letters_and_one_space_for_the_rest(texts: list[Path]) -> None:
    stream = datasets.books(texts, n_characters=60)
    raw = (texts[0].read_text("utf-8-sig"), gzip.decompress(texts[1].read_bytes()).decode())
    expected = [kept_by_hand(text, datasets.LETTERS) for text in raw]
    assert expected[0].startswith("well prince said she it was the th of july caf time well")
    assert stream.text() == expected[0][:60] + expected[1][:60]
    assert [stream.alphabet[i] for i in stream.symbols] == list(stream.text())
    assert stream.change_points.tolist() == [60]
    assert stream.n_symbols == 27
    assert stream.titles == ("one.txt", "two.txt.gz")
    assert stream.available == tuple(map(len, expected))


def test_books_from_an_offset(texts: list[Path]) -> None:
    whole = datasets.books(texts, n_characters=60).text()
    part = datasets.books(texts, n_characters=20, offsets=[5, 30]).text()
    assert part == whole[5:25] + whole[90:110]
    length = datasets.books(texts[:1], n_characters=1).available[0]
    assert datasets.books(texts[:1], length).text()[-5:] == " time"
    assert datasets.books(texts[:1], 5, offsets=[length - 5]).text() == " time"


@pytest.mark.parametrize(
    "alphabet, expected",
    [("ONEtwo ", "ONE two o "), ("one", "oneoo"), ("2345 ", "3 3 3 "), ("]^-\\ ", "^]\\ - ^]\\ ")],
)
def test_the_text_is_written_in_the_characters_of_the_alphabet(
    texts: list[Path], alphabet: str, expected: str
) -> None:
    stream = datasets.books(texts[1:], n_characters=len(expected.rstrip()), alphabet=alphabet)
    assert stream.text() == expected.rstrip()


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"n_characters": 0}, ValueError, "n_characters=0: expected"),
        ({"n_characters": 10_000}, ValueError, "one.txt has .* expected 10000 from offset 0"),
        ({"offsets": [0]}, ValueError, "offsets has 1 entries: expected 2"),
        ({"offsets": [0, 10_000]}, ValueError, "two.txt.gz has .* from offset 10000 on"),
        ({"offsets": [0, -1]}, ValueError, r"offsets\[1\]=-1: expected"),
        ({"alphabet": "aa"}, ValueError, "alphabet='aa': expected at least one"),
        ({"alphabet": ""}, ValueError, "alphabet='': expected at least one"),
        ({"alphabet": " "}, ValueError, "alphabet=' ': expected at least one"),
        ({"alphabet": 3}, TypeError, "alphabet=3: expected a string"),
        ({"paths": []}, ValueError, "paths: got none"),
        ({"paths": "alice.txt"}, TypeError, "paths='alice.txt': expected a sequence of paths"),
        ({"paths": ["/nowhere"]}, FileNotFoundError, "path='/nowhere': no such file"),
        ({"paths": ["a", "b", "c", "d", None]}, ValueError, r"paths\[4\]=None: expected a path"),
        ({"paths": [3]}, TypeError, "path=3: expected the name"),
    ],
)
def test_bad_arguments_of_books(
    texts: list[Path], arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        datasets.books(**({"paths": texts, "n_characters": 60} | arguments))


def test_the_default_books(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDVPF_DATA", str(data_dir))
    stream = datasets.books()
    text = stream.text()
    assert len(text) == 1800
    assert stream.change_points.tolist() == [600, 1200]
    assert stream.titles[1] == "The Wonderful Wizard of Oz"
    for i, name in enumerate(("alice", "wizard_of_oz", "war_and_peace")):
        raw = gzip.decompress((data_dir / f"{name}.txt.gz").read_bytes()).decode()
        assert text[600 * i : 600 * i + 600] == kept_by_hand(raw[:2000], datasets.LETTERS)[:600]
    late = datasets.books(offsets=[stream.available[0] - 600, 0, 12345])
    assert late.text()[600:1200] == text[600:1200]


def test_an_own_book_among_the_defaults(
    texts: list[Path], data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDVPF_DATA", str(data_dir))
    mine = datasets.books([None, texts[0], None], n_characters=50)
    assert mine.titles == ("Alice's Adventures in Wonderland", "one.txt", "War and Peace")
    assert mine.text()[50:61] == "well prince"


# -- clicks and commands -------------------------------------------------------------------

CLICKS = b"% Different categories:\r\n\r\nnews tech on-air\r\n\r\n\r\n% Sequences:\r\n\r\n" + (
    b"1 1 \r\n2 \r\n3 2 2 1 \r\n3 \r\n"
)


@pytest.fixture
def few_clicks(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Replace the real file by one of 4 users."""
    monkeypatch.setattr(msnbc_clicks, "_MSNBC_USERS", 4)
    monkeypatch.setattr(msnbc_clicks, "_MSNBC_EVENTS", 8)
    monkeypatch.setattr(msnbc_clicks, "_MSNBC_CATEGORIES", 3)
    return CLICKS


def zipped(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/"), content)
    return out.getvalue()


def packings(content: bytes) -> dict[str, bytes]:
    packed = gzip.compress(content)
    return {
        "msnbc990928.seq": content,
        "msnbc990928.seq.gz": packed,
        "web.zip": zipped(**{"msnbc990928.seq.gz": packed, "readme.html": b"<html>"}),
    }


@pytest.mark.parametrize("name", packings(b""))
def test_clicks_are_read_however_they_are_packed(
    name: str, tmp_path: Path, few_clicks: bytes
) -> None:
    file = tmp_path / name
    file.write_bytes(packings(few_clicks)[name])
    clicks = datasets.msnbc(file)
    assert clicks.symbols.tolist() == [0, 0, 1, 2, 1, 1, 0, 2]
    assert clicks.lengths.tolist() == [2, 1, 4, 1]
    assert clicks.categories == ("news", "tech", "on-air")
    assert clicks.n_symbols == 3


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda c: c.replace(b"2 2 1", b"2 1"), "4 users, 7 clicks, 3 categories; expected 4, 8"),
        (lambda c: c.replace(b"3 \r\n", b"7 \r\n"), "categories out of range"),
        (lambda c: c.replace(b"2 2 1", b"2 0 1"), "categories out of range"),
        (lambda c: c.replace(b"2 2 1", b"2 -2 1"), "characters other than digits"),
        (lambda c: c.replace(b"tech", b""), "4 users, 8 clicks, 2 categories"),
        (lambda c: c.replace(b"% Seq", b"% seq"), "no line '% Sequences:'"),
        (lambda c: b"", "no line '% Sequences:'"),
        (lambda c: gzip.compress(c)[:-9], "damaged, or not of the type"),
    ],
)
def test_clicks_that_are_not_the_right_ones(
    change: Callable[[bytes], bytes], message: str, tmp_path: Path, few_clicks: bytes
) -> None:
    file = tmp_path / "msnbc990928.seq"
    file.write_bytes(change(few_clicks))
    with pytest.raises(ValueError, match=f"msnbc990928.seq.*{message}"):
        datasets.msnbc(file)


def tar_with(member: tarfile.TarInfo, file: Path, clicks: bytes) -> Path:
    with tarfile.open(file, "w:gz") as archive:
        sequences = tarfile.TarInfo("folder/msnbc990928.seq")
        sequences.size = len(clicks)
        archive.addfile(sequences, io.BytesIO(clicks))
        archive.addfile(member)
    return file


def test_a_link_to_nothing_in_an_archive_is_passed_over(tmp_path: Path, few_clicks: bytes) -> None:
    link = tarfile.TarInfo("folder/link")
    link.type, link.linkname = tarfile.SYMTYPE, "nothing"
    file = tar_with(link, tmp_path / "a.tar.gz", few_clicks)
    assert len(datasets.msnbc(file).symbols) == 8


@pytest.mark.parametrize("target", ["nothing", "/nowhere/at/all", "../../outside", "folder/link"])
@pytest.mark.parametrize("kind", [tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE])
def test_archive_members_that_are_not_files_are_skipped(
    kind: bytes, target: str, tmp_path: Path, few_clicks: bytes
) -> None:
    member = tarfile.TarInfo("folder/link")
    member.type, member.linkname = kind, target
    file = tar_with(member, tmp_path / "a.tar.gz", few_clicks)
    assert len(datasets.msnbc(file).symbols) == 8


def test_an_archive_that_would_write_elsewhere_is_refused(
    tmp_path: Path, few_clicks: bytes
) -> None:
    (tmp_path / "inside").mkdir()
    file = tar_with(tarfile.TarInfo("../escaped"), tmp_path / "inside" / "a.tar.gz", few_clicks)
    with pytest.raises(ValueError, match="damaged, or not of the type"):
        datasets.msnbc(file)
    assert not list(tmp_path.rglob("escaped"))


def test_msnbc_is_the_file_of_the_archive_line_for_line(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDVPF_DATA", str(data_dir))
    clicks = datasets.msnbc()
    assert (len(clicks.lengths), clicks.lengths.sum(), len(clicks.symbols)) == (
        989_818,
        4_698_794,
        4_698_794,
    )
    assert (clicks.lengths.max(), np.sum(clicks.lengths == 1)) == (14_795, 365_435)
    assert clicks.categories[0] == "frontpage"
    assert clicks.categories[-1] == "travel"
    with gzip.open(data_dir / "msnbc990928.seq.gz", "rt") as file:
        lines = [next(file) for _ in range(1007)][7:]
    expected = [[int(word) - 1 for word in line.split()] for line in lines]
    assert clicks.lengths[:1000].tolist() == [len(row) for row in expected]
    joined = [symbol for row in expected for symbol in row]
    assert clicks.symbols[: len(joined)].tolist() == joined


@pytest.fixture
def few_commands(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Replace the real files by 2 users with 20 commands: 10 of their own, then blocks of 5."""
    for name, value in (("_USERS", 2), ("_COMMANDS", 20), ("_OWN", 10), ("_BLOCK", 5)):
        monkeypatch.setattr(masquerade_commands, name, value)
    monkeypatch.setattr(masquerade_commands, "_DISTINCT", 3)
    monkeypatch.setattr(masquerade_commands, "_MASQUERADES", 1)
    return {
        "User1": b"ls\ncat\n" * 10,
        "User2": b"ls\n" * 15 + b"sh\n" * 5,
        "label.txt": b"0 0\r\n0 1\r\n",
    }


@pytest.mark.parametrize("packing", ["folder", "tar", "zip"])
def test_commands_are_read_however_they_are_packed(
    packing: str, tmp_path: Path, few_commands: dict[str, bytes]
) -> None:
    path = tmp_path / "commands"
    if packing == "folder":
        (path / "something else").mkdir(parents=True)
        for name, content in few_commands.items():
            (path / name).write_bytes(content)
    elif packing == "zip":
        members = {f"data__{name}": content for name, content in few_commands.items()}
        path.write_bytes(zipped(**members))
    else:
        with tarfile.open(path, "w:gz") as archive:
            for name, content in few_commands.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    data = datasets.masquerade(path)
    assert data.commands == ("cat", "ls", "sh")
    assert data.symbols.tolist() == [[1, 0] * 10, [1] * 15 + [2] * 5]
    assert data.labels.tolist() == [[False, False], [False, True]]
    assert data.n_symbols == 3


@pytest.mark.parametrize(
    "change, message",
    [
        ({"User2": None}, "no file User2"),
        ({"User2": b"ls\n"}, "1 commands in User2; expected 20"),
        ({"User2": b"ls\n" * 20}, "2 distinct commands, 1 masquerades; expected 3 and 1"),
        ({"label.txt": None}, "no file of labels, label.txt or masquerade_summary.txt"),
        ({"label.txt": b"0 0\n"}, "labels that are not 2 rows of 2"),
        ({"label.txt": b"0 0\n0 2\n"}, "labels that are not 2 rows of 2"),
        ({"label.txt": b"0 0\n1 1\n"}, "3 distinct commands, 2 masquerades"),
    ],
)
def test_commands_that_are_not_the_right_ones(
    change: dict[str, bytes | None], message: str, tmp_path: Path, few_commands: dict[str, bytes]
) -> None:
    members = {name: c for name, c in (few_commands | change).items() if c is not None}
    file = tmp_path / "masquerade-data.zip"
    file.write_bytes(zipped(**members))
    with pytest.raises(
        ValueError, match=f"masquerade-data.zip: not the expected content: {message}"
    ):
        datasets.masquerade(file)


def test_masquerade_is_the_files_of_the_archive_word_for_word(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDVPF_DATA", str(data_dir))
    data = datasets.masquerade()
    assert data.symbols.shape == (50, 15_000)
    assert data.labels.shape == (50, 100)
    assert (data.n_symbols, data.labels.sum()) == (856, 231)
    with tarfile.open(data_dir / "schonlau_sea.tar.gz") as archive:
        for user in (1, 17, 50):
            words = archive.extractfile(f"User{user}").read().decode("latin-1").split()  # type: ignore[union-attr]
            assert [data.commands[i] for i in data.symbols[user - 1]] == words
        labels = np.loadtxt(archive.extractfile("label.txt"), dtype=int)
    np.testing.assert_array_equal(data.labels.T, labels)


# -- where files come from -----------------------------------------------------------------


class Server:
    """A local web server with fixed answers, which counts requests."""

    def __init__(self) -> None:
        self.content = b""
        self.status = 200
        self.missing = 0  # bytes that are announced and not sent
        self.requests: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests.append(self.path)
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(outer.content) + outer.missing))
                self.end_headers()
                self.wfile.write(outer.content)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self) -> None:
        if self.thread.is_alive():
            self.server.shutdown()
            self.thread.join()
        self.server.server_close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Cache downloads here, and hide all other data."""
    pooch = pytest.importorskip("pooch", reason="needs pooch: install mdvpf[data]")
    folder = tmp_path / "cache"
    monkeypatch.setattr(pooch, "os_cache", lambda project: folder / project)
    monkeypatch.delenv("MDVPF_DATA", raising=False)
    for name in (
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    return folder / "mdvpf"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, cache: Path, few_clicks: bytes) -> Iterator[Server]:
    server = Server()
    server.content = packings(few_clicks)["web.zip"]
    source = files.Source(
        msnbc_clicks._MSNBC.title, msnbc_clicks._MSNBC.files, (f"{server.url}/web.zip",)
    )
    monkeypatch.setattr(msnbc_clicks, "_MSNBC", source)
    yield server
    server.close()


THREE_WAYS = (
    r"MSNBC\.com anonymous web data: there is no such file, and {}.*one of three ways: "
    r"pass the path of your own copy; put msnbc990928\.seq\.gz or msnbc990928\.seq into the folder "
    r"that MDVPF_DATA names \(not set\); or install mdvpf\[data\] and have it downloaded from http"
)


def test_a_good_download_is_kept(server: Server, cache: Path) -> None:
    assert datasets.msnbc().lengths.tolist() == [2, 1, 4, 1]
    server.close()
    assert datasets.msnbc().lengths.tolist() == [2, 1, 4, 1]
    assert server.requests == ["/web.zip"]
    assert [file.name for file in cache.iterdir()] == ["web.zip"]


@pytest.mark.parametrize(
    "content, message",
    [
        (b"<html>We have moved</html>", "not the expected content: no line '% Sequences:'"),
        (packings(CLICKS[:-20])["web.zip"], "not the expected content: 1 users, 2 clicks"),
        (packings(CLICKS)["web.zip"][:-40], "web.zip: not the expected content: no line"),
    ],
)
def test_a_download_with_the_wrong_content_is_not_kept(
    content: bytes, message: str, server: Server, cache: Path
) -> None:
    right, server.content = server.content, content
    with pytest.raises(ValueError, match=message):
        datasets.msnbc()
    assert list(cache.iterdir()) == []
    server.content = right
    assert datasets.msnbc().n_symbols == 3


def test_a_download_with_another_hash_is_not_kept(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, right = msnbc_clicks._MSNBC, hashlib.sha256(CLICKS).hexdigest()
    known = dataclasses.replace(source, digests=(("msnbc990928.seq", right),))
    monkeypatch.setattr(msnbc_clicks, "_MSNBC", known)
    forged = CLICKS.replace(b"1 1 ", b"1 2 ")
    server.content = packings(forged)["web.zip"]
    with pytest.raises(ValueError, match=f"msnbc990928.seq with the SHA-256 .* expected {right}"):
        datasets.msnbc()
    assert list(cache.iterdir()) == []
    server.content = packings(CLICKS)["web.zip"]
    assert datasets.msnbc().symbols[:2].tolist() == [0, 0]


def test_the_known_hash_is_that_of_the_real_file(data_dir: Path) -> None:
    ((name, known),) = msnbc_clicks._MSNBC.digests
    content = files.unpack(data_dir / "msnbc990928.seq.gz")[name]
    assert hashlib.sha256(content).hexdigest() == known


def test_a_transfer_that_breaks_off_is_not_kept(server: Server, cache: Path) -> None:
    right, server.content = server.content, server.content[:100]
    server.missing = len(right) - 100
    with pytest.raises(FileNotFoundError, match=THREE_WAYS.format("the download failed")):
        datasets.msnbc()
    assert list(cache.iterdir()) == []
    server.content, server.missing = right, 0
    assert datasets.msnbc().n_symbols == 3


def test_a_file_that_the_server_does_not_have(server: Server, cache: Path) -> None:
    server.status = 404
    with pytest.raises(FileNotFoundError, match=THREE_WAYS.format("the download failed: 404")):
        datasets.msnbc()
    assert not cache.exists() or list(cache.iterdir()) == []


def test_without_a_network_the_message_names_the_three_ways_to_the_file(server: Server) -> None:
    server.close()
    with pytest.raises(FileNotFoundError, match=THREE_WAYS.format("the download failed")):
        datasets.msnbc()


def test_without_pooch_the_message_names_the_three_ways_to_the_file(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(FileNotFoundError, match=THREE_WAYS.format("the package pooch is not inst")):
        datasets.msnbc()
    assert server.requests == []


def test_the_folder_comes_before_the_download_and_the_path_before_both(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.setenv("MDVPF_DATA", str(folder))
    (folder / "msnbc990928.seq").write_bytes(CLICKS.replace(b"1 1 \r\n2 ", b"2 2 \r\n1 "))
    (tmp_path / "mine.seq").write_bytes(CLICKS.replace(b"1 1 \r\n2 ", b"3 3 \r\n1 "))
    assert datasets.msnbc().symbols[:3].tolist() == [1, 1, 0]
    assert datasets.msnbc(tmp_path / "mine.seq").symbols[:3].tolist() == [2, 2, 0]
    assert datasets.msnbc(str(tmp_path / "mine.seq")).symbols[:3].tolist() == [2, 2, 0]
    assert server.requests == []
    (folder / "msnbc990928.seq").unlink()
    assert datasets.msnbc().symbols[:3].tolist() == [0, 0, 1]
    assert server.requests == ["/web.zip"]


def test_wrong_content_in_the_folder_is_an_error_and_stays(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDVPF_DATA", str(tmp_path))
    (tmp_path / "msnbc990928.seq.gz").write_bytes(gzip.compress(b"something else"))
    with pytest.raises(ValueError, match="not the expected content: no line"):
        datasets.msnbc()
    assert (tmp_path / "msnbc990928.seq.gz").exists()
    assert server.requests == []


def test_a_book_is_cut_out_of_what_is_downloaded(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = book_texts._Book("A Book", "a.txt", 1, "It was so", 20)
    source = files.Source(book.title, (("a.txt",),), (f"{server.url}/1-0.txt",))
    monkeypatch.setattr(book_texts._Book, "source", property(lambda self: source))
    monkeypatch.setattr(book_texts, "_BOOKS", (book,))
    body = "It was,\r\nso it was, and that is all.\r\n\r\n"
    around = "\ufeffPreface: it was hard.\r\n\r\n“{}*** END OF THE PROJECT ***\r\nIt was so."
    server.content = around.format("It was not so.").encode()
    with pytest.raises(ValueError, match="expected A Book, with the words 'It was so'"):
        datasets.books(n_characters=10)
    server.content = around.format("It was so.").encode()
    with pytest.raises(ValueError, match="10 characters; expected 20 or more"):
        datasets.books(n_characters=10)
    server.content = around.format(body).encode()
    stream = datasets.books(n_characters=10)
    assert stream.text() == "it was so "
    assert stream.available == (len("it was so it was and that is all"),)


def test_commands_need_two_downloads(
    server: Server, few_commands: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    # One content for both addresses: the archive has the labels too.
    server.content = zipped(**few_commands)
    urls = (f"{server.url}/masquerade-data.zip", f"{server.url}/masquerade_summary.txt")
    source = files.Source("commands", (("nothing",),), urls)
    monkeypatch.setattr(masquerade_commands, "_MASQUERADE", source)
    assert datasets.masquerade().n_symbols == 3
    assert server.requests == ["/masquerade-data.zip", "/masquerade_summary.txt"]
    assert len(list(cache.iterdir())) == 2


def test_sources_are_where_they_are_published() -> None:
    addresses = [url for book in book_texts._BOOKS for url in book.source.urls]
    addresses += [*msnbc_clicks._MSNBC.urls, *masquerade_commands._MASQUERADE.urls]
    assert len(set(addresses)) == 6
    assert all(url.startswith("https://") for url in addresses)
