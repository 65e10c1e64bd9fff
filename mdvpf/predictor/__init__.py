"""What all predictors share: the protocol and its run loop, input, results and vocabularies.

A predictor gives the distribution of the next symbol of a stream. Filters, baselines and mixtures
are predictors; they live in packages of their own.
"""

from mdvpf.predictor.keys import NO_KEY, NONE_ENDS, KeyTable
from mdvpf.predictor.protocol import Predictor
from mdvpf.predictor.results import (
    N_FIELDS,
    Counts,
    FilterResult,
    MemoryReport,
    MixtureResult,
    Step,
    read_reports,
)
from mdvpf.predictor.stream import MISSING, Stream, read_symbol
from mdvpf.predictor.vocabulary import Label, Vocabulary, label_text

__all__ = [
    "MISSING",
    "NONE_ENDS",
    "NO_KEY",
    "N_FIELDS",
    "Counts",
    "FilterResult",
    "KeyTable",
    "Label",
    "MemoryReport",
    "MixtureResult",
    "Predictor",
    "Step",
    "Stream",
    "Vocabulary",
    "label_text",
    "read_reports",
    "read_symbol",
]
