"""Where real data comes from: a file that the user names, a folder of files, or a download.

Nothing is bundled. A data set is looked for in that order, and whoever asks for it checks what
was found: `load` hands the file to a parser that raises ValueError if the content is not what it
should be. A download that fails its check is deleted, so that the next attempt starts afresh.
"""

from __future__ import annotations

import gzip
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

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
            files = (each for each in file.iterdir() if each.is_file())
            return _gunzipped((each.name, each.read_bytes()) for each in files)
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as members:
                return _gunzipped((name, members.read(name)) for name in members.namelist())
        if tarfile.is_tarfile(file):
            with tarfile.open(file) as members:
                streams = ((each.name, members.extractfile(each)) for each in members)
                return _gunzipped((name, each.read()) for name, each in streams if each)
        return _gunzipped([(file.name, file.read_bytes())])
    except _DAMAGED as error:
        raise ValueError(f"{file}: damaged, or not what its name says ({error})") from error


def _gunzipped(entries: Iterable[tuple[str, bytes]]) -> Contents:
    contents = {}
    for name, content in entries:
        packed = content[:2] == b"\x1f\x8b"
        base = name.rsplit("/", 1)[-1].removesuffix(".gz")
        contents[base] = gzip.decompress(content) if packed else content
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
