"""Errors about a file say which."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import mdvpf
from mdvpf import datasets
from mdvpf.streams.readers import read_file


@pytest.mark.parametrize("kind", [str, Path, lambda path: str(path).encode()])
@pytest.mark.parametrize("load", [mdvpf.Predictor.load, mdvpf.Markov.load, mdvpf.Monitor.load])
def test_a_checkpoint_that_is_damaged(
    load: Callable[[object], object], kind: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "kept.mdvpf"
    mdvpf.Markov(2).save(path)
    content = path.read_bytes()
    damages = (b"", content[:20], content[:-1], content + b"\0", content[:-1] + b"\1", b"x" * 50)
    for damaged in damages:
        path.write_bytes(damaged)
        with pytest.raises(mdvpf.CheckpointError, match=f"^file='.*{path.name}': [a-z]"):
            load(kind(path))


def test_a_checkpoint_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "kept.mdvpf"
    mdvpf.Markov(2).save(path)
    with pytest.raises(mdvpf.CheckpointError, match=r"kept\.mdvpf': it holds a Markov"):
        mdvpf.ParticleFilter.load(path)
    algorithm = mdvpf.MDVPA(discount=lambda n: 0.0)
    mdvpf.ParticleFilter(mdvpf.InfiniteHMM(2), algorithm, n_particles=3).save(path)
    with pytest.raises(mdvpf.CheckpointError, match=r"kept\.mdvpf': discount: "):
        mdvpf.Predictor.load(path)


def test_a_checkpoint_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "no such folder" / "kept.mdvpf"
    with pytest.raises(FileNotFoundError) as caught:
        mdvpf.Markov(2).save(path)
    assert caught.value.filename == str(path)


def test_an_open_file_has_no_name_to_give() -> None:
    with pytest.raises(mdvpf.CheckpointError, match=r"^file: not a checkpoint"):
        mdvpf.Predictor.load(io.BytesIO(b"nothing of the kind"))


def test_a_short_text_and_an_empty_folder(tmp_path: Path) -> None:
    short = tmp_path / "short.txt"
    short.write_text("too short")
    with pytest.raises(ValueError, match=r"short\.txt has 9 characters"):
        datasets.books([short], n_characters=20)
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(ValueError, match="folder': 0 files; expected one text"):
        datasets.books([folder])


def test_archives_of_several_files_as_a_problem_of_pautomac(tmp_path: Path) -> None:
    pytest.importorskip("pooch")
    path = tmp_path / "1.pautomac.train"
    for part in (".test", "_solution.txt", "_model.txt"):
        (tmp_path / f"1.pautomac{part}").touch()
    with tarfile.open(path, "w") as archive:
        for name in ("one", "two"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(ValueError, match=r"1\.pautomac\.train: 2 files; expected one"):
        datasets.pautomac(1, tmp_path)


def test_csv_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "clicks.csv"
    path.write_text("page\n" + "x" * 200_000 + "\n")
    with pytest.raises(ValueError, match=r"clicks\.csv: line 2: field larger"):
        read_file(path, column="page")
