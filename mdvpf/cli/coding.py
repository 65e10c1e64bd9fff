"""`mdvpf compress` and `mdvpf decompress`: arithmetic coding of files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mdvpf.checkpoint import atomic_write
from mdvpf.cli import shared
from mdvpf.coding import CodingError
from mdvpf.coding.files import pack, unpack

SUFFIX = ".mdvpf"

_Source = Annotated[
    Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="The file to read.")
]
_Target = Annotated[
    Path | None, typer.Option("--out", "-o", help="The file to write, which must not exist yet.")
]


def compress(
    file: _Source,
    out: _Target = None,
    particles: Annotated[
        int | None,
        typer.Option("--particles", "-K", help="Total number of particles of the mixture."),
    ] = None,
) -> int:
    """Compress a file: integers separated by white space, or any bytes.

    The default mixture predicts every symbol from those before it, and a symbol of probability p
    takes -log2 p bits. Decompression needs the same platform and the same version: another one
    refuses the file.

    For example:

    mdvpf compress alice.txt

    mdvpf compress clicks.txt --out clicks.packed --particles 1000
    """
    target = _require_new(out if out is not None else file.with_name(file.name + SUFFIX))
    content = file.read_bytes()
    with shared.usage():
        packed = pack(content, particles, progress=True)
    atomic_write.replace(_require_new(target), [packed])
    rate = 8 * len(packed) / len(content) if content else 0.0
    print(f"{target}: {len(content):,} bytes in {len(packed):,}, {rate:.3f} bits a byte")
    return 0


def decompress(file: _Source, out: _Target = None) -> int:
    """Decompress a file that `mdvpf compress` wrote on the same platform and version.

    For example:

    mdvpf decompress alice.txt.mdvpf --out again.txt
    """
    if out is None:
        if file.suffix != SUFFIX:
            raise typer.BadParameter(f"{str(file)!r} does not end in {SUFFIX}: expected --out")
        out = file.with_suffix("")
    target = _require_new(out)
    try:
        content = unpack(file.read_bytes(), progress=True)
    except CodingError as error:
        raise CodingError(f"{file}: {str(error).removeprefix('data: ')}") from error
    atomic_write.replace(_require_new(target), [content])
    print(f"{target}: {len(content):,} bytes")
    return 0


def _require_new(target: Path) -> Path:
    if target.exists():
        raise typer.BadParameter(f"{str(target)!r} exists: expected another name for --out")
    if not target.parent.is_dir():
        raise typer.BadParameter(f"{str(target.parent)!r}: expected a folder that exists for --out")
    return target
