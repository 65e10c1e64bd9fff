"""The protocol of predictors: its run loop, input, results, keys and vocabularies.

A predictor gives the distribution of the next symbol of a stream. Filters, baselines and mixtures
are predictors and have packages of their own.
"""

from mdvpf.predictor.conformance import check_predictor
from mdvpf.predictor.keys import NO_KEY, NONE_ENDS, KeyTable, read_key
from mdvpf.predictor.protocol import Predictor, read_step
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
    "check_predictor",
    "label_text",
    "read_key",
    "read_reports",
    "read_step",
    "read_symbol",
]
