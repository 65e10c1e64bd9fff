"""Where real data comes from: a file that the user names, a folder of files, or a download.

Nothing is bundled. A data set is looked for in that order, and whoever asks for it checks what
was found: `load` hands the file to a parser that raises ValueError if the content is not what it
should be. A download that fails its check is deleted, so that the next attempt starts afresh.
"""

from __future__ import annotations

import gzip
import os
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mdvpf._support.extras import needed

T = TypeVar("T")
Named = str | os.PathLike[str]
Contents = dict[str, bytes]  # what a file holds, by name: an archive has several

FOLDER = "MDVPF_DATA"  # the environment variable that names the folder
TIMEOUT = 60  # seconds without an answer after which a download is given up

_DAMAGED = (gzip.BadGzipFile, EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError)


@dataclass(frozen=True, slots=True)
class Source:
    """A data set: what it is called, its files in a folder, and where it can be downloaded.

    Attributes
    ----------
    title : str
        For messages.
    files : tuple of tuples of str
        Sets of file names, any of which will do.
    urls : tuple of str
        What to download: all of it is needed.
    """

    title: str
    files: tuple[tuple[str, ...], ...]
    urls: tuple[str, ...]


def load(source: Source, path: Named | None, parse: Callable[[Contents], T]) -> T:
    """Find a data set, read it and return what `parse` makes of it, or raise."""
    if path is not None:
        return _parsed([existing(path)], parse)
    found = _in_folder(source)
    if found:
        return _parsed(found, parse)
    downloads = _download(source)
    try:
        return _parsed(downloads, parse)
    except ValueError:
        for file in downloads:
            file.unlink(missing_ok=True)
        raise


def existing(path: Named) -> Path:
    """Return the path of a file or folder that a user named, or raise."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path={path!r}: expected the name of a file, or None")
    file = Path(path).expanduser()
    if not file.exists():
        raise FileNotFoundError(f"path={str(path)!r}: no such file")
    return file


def unpack(file: Path) -> Contents:
    """Return what a file holds: one entry, or the members of an archive or folder."""
    try:
        if file.is_dir():
            return _read(file.iterdir())
        if zipfile.is_zipfile(file):
            return _read_archive(file, "Unzip")
        if tarfile.is_tarfile(file):
            return _read_archive(file, "Untar")
        return _read([file])
    except _DAMAGED as error:
        raise ValueError(f"{file}: damaged, or not what its name says ({error})") from error


def _read_archive(file: Path, processor: str) -> Contents:
    with needed(f"the archive {file.name}", "pooch", "data"):
        import pooch
    with tempfile.TemporaryDirectory() as folder:
        if processor == "Untar":  # which pooch trusts where Python is older than 3.12
            with tarfile.open(file) as members:
                for member in members:
                    tarfile.data_filter(member, folder)
        getattr(pooch, processor)(extract_dir=folder)(str(file), "download", None)
        return _read(Path(folder).rglob("*"))


def _read(files: Iterable[Path]) -> Contents:
    contents = {}
    for file in files:
        if file.is_file():
            content = file.read_bytes()
            is_packed = content[:2] == b"\x1f\x8b"
            name = file.name.removesuffix(".gz")
            contents[name] = gzip.decompress(content) if is_packed else content
    return contents


def _parsed(files: list[Path], parse: Callable[[Contents], T]) -> T:
    contents: Contents = {}
    for file in files:
        contents |= unpack(file)
    try:
        return parse(contents)
    except ValueError as error:
        names = ", ".join(str(file) for file in files)
        raise ValueError(f"{names}: not the expected content: {error}") from error


def _in_folder(source: Source) -> list[Path]:
    folder = os.environ.get(FOLDER)
    if folder:
        for names in source.files:
            files = [Path(folder).expanduser() / name for name in names]
            if all(file.is_file() for file in files):
                return files
    return []


def _download(source: Source) -> list[Path]:
    try:
        import pooch
    except ImportError as error:
        raise FileNotFoundError(_ways(source, "the package pooch is not installed")) from error
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING")  # the hash of what was downloaded is of no use: content is checked
    try:
        return [
            Path(
                pooch.retrieve(
                    url,
                    known_hash=None,
                    fname=url.rsplit("/", 1)[-1],
                    path=pooch.os_cache("mdvpf"),
                    downloader=pooch.HTTPDownloader(timeout=TIMEOUT),
                )
            )
            for url in source.urls
        ]
    except OSError as error:  # requests' errors are among them
        raise FileNotFoundError(_ways(source, f"the download failed: {error}")) from error
    finally:
        logger.setLevel(level)


def _ways(source: Source, reason: str) -> str:
    folder = os.environ.get(FOLDER)
    names = " or ".join(" and ".join(names) for names in source.files)
    return (
        f"{source.title}: there is no such file, and {reason}. Provide it in one of three ways: "
        f"pass the path of your own copy; put {names} into the folder that {FOLDER} names "
        f"({'now ' + folder if folder else 'not set'}); or install mdvpf[data] and have it "
        f"downloaded from {' and '.join(source.urls)}"
    )
