"""Data sets: HMMs, logs, books, clicks, shell commands, strings of automata.

HMMs and logs are generated at random; the others are files, and none is bundled. Each loader takes
the path of a file, or searches the folder that the environment variable ``MDVPF_DATA`` names, or
downloads the data with the package pooch (``mdvpf[data]``). Each loader validates what it has read.
The problems of PAutomaC are never downloaded: they are for academic research only.
"""

from mdvpf.datasets.automata_turns import random_automaton, taking_turns
from mdvpf.datasets.book_texts import LETTERS, TextStream, books
from mdvpf.datasets.event_logs import EventLog, help_desk, processes
from mdvpf.datasets.hmm_sources import (
    EXPANSIVE,
    HMM,
    PAPER_HMMS,
    HMMStream,
    random_hmm,
    sample_hmms,
    switching_hmm,
)
from mdvpf.datasets.log_anomalies import SpoiledLog, spoil
from mdvpf.datasets.masquerade_commands import Masquerade, masquerade
from mdvpf.datasets.msnbc_clicks import Clicks, msnbc
from mdvpf.datasets.pautomac_problems import (
    Automaton,
    PAutomaC,
    PAutomaCScore,
    pautomac,
    pautomac_score,
)

__all__ = [
    "HMM",
    "HMMStream",
    "EXPANSIVE",
    "PAPER_HMMS",
    "random_hmm",
    "sample_hmms",
    "switching_hmm",
    "random_automaton",
    "taking_turns",
    "EventLog",
    "help_desk",
    "processes",
    "SpoiledLog",
    "spoil",
    "LETTERS",
    "TextStream",
    "books",
    "Clicks",
    "msnbc",
    "Masquerade",
    "masquerade",
    "Automaton",
    "PAutomaC",
    "PAutomaCScore",
    "pautomac",
    "pautomac_score",
]
