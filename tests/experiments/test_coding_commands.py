"""`mdvpf compress` and `mdvpf decompress`."""

from __future__ import annotations

from pathlib import Path

import pytest

from mdvpf.cli import main

pytest.importorskip("constriction")
pytest.importorskip("typer")


@pytest.mark.parametrize(
    "content", [b"it was the best of times\r\n", b"3\n1\n4\n1\n", b"\xff\x00\xff", b""]
)
def test_a_file_is_the_same_after_compress_and_decompress(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(content)
    assert main(["compress", str(file), "--particles", "100"]) == 0
    packed = tmp_path / "a.txt.mdvpf"
    assert f"{len(content)} bytes in {packed.stat().st_size}" in capsys.readouterr().out
    file.unlink()
    assert main(["decompress", str(packed)]) == 0
    assert file.read_bytes() == content
    assert main(["decompress", str(packed), "--out", str(tmp_path / "b")]) == 0
    assert (tmp_path / "b").read_bytes() == content


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, packed = tmp_path / "a", tmp_path / "a.mdvpf"
    file.write_bytes(b"abc")
    packed.write_bytes(b"mine")
    assert main(["compress", str(file)]) == 2
    assert "exists" in capsys.readouterr().err
    assert packed.read_bytes() == b"mine"
    assert main(["decompress", str(packed)]) == 2
    assert file.read_bytes() == b"abc"


def test_a_missing_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    out = tmp_path / "none" / "a.mdvpf"
    assert main(["compress", str(tmp_path / "a"), "--out", str(out)]) == 2
    assert "expected a folder that exists" in " ".join(capsys.readouterr().err.split())


def test_a_failure_leaves_no_part_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    file = tmp_path / "a"
    file.write_bytes(b"abc")
    with monkeypatch.context() as patch:
        patch.setattr("mdvpf.checkpoint.atomic_write.os.fsync", fail)
        assert main(["compress", str(file), "--particles", "100"]) == 1
    assert "No space left" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert main(["compress", str(file), "--particles", "100"]) == 0


def test_data_that_cannot_be_decompressed_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.mdvpf"
    file.write_bytes(b"abc")
    assert main(["decompress", str(file)]) == 1
    assert "not compressed by mdvpf" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()
    other = tmp_path / "b.txt"
    other.write_bytes(b"abc")
    assert main(["decompress", str(other)]) == 2
    assert "--out" in capsys.readouterr().err
    assert main(["compress", str(other), "--particles", "1"]) == 2
    assert "n_particles=1" in capsys.readouterr().err
