"""Find and read data files: a path from the user, a folder of files, or a download.

Nothing is bundled. `load` searches in that order and passes the content to a parser, which raises
a ValueError if the content is not as expected. A download must also match its hash, if one is
known. A download that fails a check is deleted, so that the next attempt downloads it again.

Archives are read in memory, never unpacked to disk.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

T = TypeVar("T")
Named = str | os.PathLike[str]
Contents = dict[str, bytes]  # contents by file name; an archive has several

FOLDER = "MDVPF_DATA"  # the environment variable that names the folder
TIMEOUT = 60  # seconds without an answer after which a download fails

# The errors of damaged files; a zip file with a password raises RuntimeError.
_DAMAGED = (
    gzip.BadGzipFile,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    tarfile.TarError,
    RuntimeError,
)


@dataclass(frozen=True, slots=True)
class Source:
    """A data set: its title, its files in a folder, and its download addresses.

    Attributes
    ----------
    title : str
        Title in messages.
    files : tuple of tuples of str
        Alternative sets of file names; one complete set is enough.
    urls : tuple of str
        Files to download, all of them.
    digests : tuple of pairs of str
        Names of downloaded files, each with the SHA-256 of its content.
    """

    title: str
    files: tuple[tuple[str, ...], ...]
    urls: tuple[str, ...]
    digests: tuple[tuple[str, str], ...] = ()


def load(source: Source, path: Named | None, parse: Callable[[Contents], T]) -> T:
    """Find and read a data set; return the result of `parse`, or raise."""
    if path is not None:
        return _parsed([existing(path)], parse)
    found = _in_folder(source)
    if found:
        return _parsed(found, parse)
    downloads = _download(source)
    try:
        return _parsed(downloads, parse, source.digests)
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
    """Return the content of a file, or of the members of an archive or folder, by name."""
    try:
        if file.is_dir():
            return _contents(_files(file.iterdir()))
        if zipfile.is_zipfile(file):
            return _contents(_zip_members(file))
        if tarfile.is_tarfile(file):
            return _contents(_tar_members(file))
        return _contents(_files([file]))
    except _DAMAGED as error:
        raise ValueError(f"{file}: damaged, or not of the type of its name ({error})") from error


def _files(files: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of regular files, also through links."""
    for file in files:
        if file.is_file():
            yield file.name, file.read_bytes()


def _zip_members(file: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                yield PurePosixPath(member.filename).name, archive.read(member)


def _tar_members(file: Path) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of the regular files in an archive; links are skipped."""
    with tarfile.open(file) as archive:
        for member in archive:
            if not member.isreg():
                continue
            if ".." in PurePosixPath(member.name).parts:
                raise tarfile.TarError(f"{member.name!r} lies outside the archive")
            content = archive.extractfile(member)
            assert content is not None
            yield PurePosixPath(member.name).name, content.read()


def _contents(members: Iterable[tuple[str, bytes]]) -> Contents:
    contents = {}
    for name, content in members:
        is_packed = content[:2] == b"\x1f\x8b"
        contents[name.removesuffix(".gz")] = gzip.decompress(content) if is_packed else content
    return contents


def _parsed(
    files: list[Path],
    parse: Callable[[Contents], T],
    digests: tuple[tuple[str, str], ...] = (),
) -> T:
    contents: Contents = {}
    for file in files:
        contents |= unpack(file)
    try:
        parsed = parse(contents)
        for name, expected in digests:
            found = hashlib.sha256(contents.get(name, b"")).hexdigest()
            if found != expected:
                raise ValueError(f"{name} with the SHA-256 {found}; expected {expected}")
        return parsed
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
    logger.setLevel("WARNING")  # hides the hash that pooch reports; `load` checks the content
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
    except OSError as error:  # includes the errors of requests
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
