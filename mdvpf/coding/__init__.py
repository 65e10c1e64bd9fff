"""Lossless compression with any predictor: a symbol of probability p takes -log2 p bits.

`coder` compresses arrays of symbols with a given predictor, `files` whole files with `auto`.
"""

from mdvpf.coding.coder import CodingError, compress, decompress
from mdvpf.coding.files import pack, unpack

__all__ = ["CodingError", "compress", "decompress", "pack", "unpack"]
