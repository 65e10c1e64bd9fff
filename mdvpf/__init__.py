"""Particle filters for the infinite hidden Markov model, on streams that change under you."""

from importlib.metadata import version as _version

from mdvpf import datasets, regret
from mdvpf._auto import auto
from mdvpf.algorithms import MDVPA, SMC, VPA, OptimalResampling, ParticleLearning
from mdvpf.baselines import ContextTree, KnownHMM, Markov
from mdvpf.checkpoint import CheckpointError
from mdvpf.detect import Detection, DetectionResult, SurpriseDetector
from mdvpf.filter import ParticleFilter
from mdvpf.mixture import Mixture
from mdvpf.model import InfiniteHMM
from mdvpf.monitor import Monitor
from mdvpf.predictor import Predictor
from mdvpf.restart import Restart
from mdvpf.result import Counts, FilterResult, MemoryReport, MixtureResult, Step
from mdvpf.vocabulary import Vocabulary

__version__ = _version("mdvpf")

__all__ = [
    "InfiniteHMM",
    "MDVPA",
    "VPA",
    "SMC",
    "ParticleLearning",
    "OptimalResampling",
    "ParticleFilter",
    "KnownHMM",
    "Markov",
    "ContextTree",
    "Mixture",
    "auto",
    "Restart",
    "Predictor",
    "Vocabulary",
    "Monitor",
    "SurpriseDetector",
    "Detection",
    "DetectionResult",
    "CheckpointError",
    "Step",
    "FilterResult",
    "MixtureResult",
    "Counts",
    "MemoryReport",
    "datasets",
    "regret",
    "__version__",
]
