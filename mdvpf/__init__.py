"""Particle filters for the infinite hidden Markov model on non-stationary streams."""

import sys as _sys
from importlib.metadata import version as _version

from mdvpf import coding, datasets, plots, regret
from mdvpf._support import progress as _progress
from mdvpf.baselines import ContextTree, KnownHMM, Markov, PitmanYorMixture, PitmanYorTree
from mdvpf.checkpoint import CheckpointError
from mdvpf.datasets import hmm_sources as _hmm_sources
from mdvpf.detect import (
    Background,
    Detection,
    DetectionResult,
    Incident,
    KeyedDetector,
    SequenceScore,
    SequenceScores,
    SurpriseDetector,
    block_detector,
    score_sequences,
)
from mdvpf.filter import ParticleFilter, estimation_variance
from mdvpf.learners import SoftHMM
from mdvpf.mixture import GeometricMixture, Mixture, Recall, Restart
from mdvpf.mixture import restart as _restart
from mdvpf.mixture.auto import auto
from mdvpf.mixture.evidence import by_evidence
from mdvpf.model import (
    Categorical,
    CompiledEmission,
    Gaussian,
    InfiniteHMM,
    OpenVocabulary,
    Poisson,
    Product,
)
from mdvpf.model import algorithms as _algorithms
from mdvpf.model.algorithms import MDVPA, SMC, VPA, OptimalResampling, ParticleLearning
from mdvpf.predictor import (
    Counts,
    FilterResult,
    MemoryReport,
    MixtureResult,
    Predictor,
    Step,
    Vocabulary,
    check_predictor,
)
from mdvpf.predictor import results as _results
from mdvpf.predictor import vocabulary as _vocabulary
from mdvpf.streams import Evaluation, Monitor, evaluate
from mdvpf.streams import monitor as _monitor

# Modules that moved after version 0.1; their old names can still be imported.
_MOVED = {
    "algorithms": _algorithms,
    "filter_plots": plots.filter_plots,
    "hmm": _hmm_sources,
    "monitor": _monitor,
    "packing": coding.files,
    "progress": _progress,
    "restart": _restart,
    "result": _results,
    "vocabulary": _vocabulary,
}
globals().update(_MOVED)
_sys.modules.update({f"{__name__}.{name}": module for name, module in _MOVED.items()})

__version__ = _version("mdvpf")

__all__ = [
    "InfiniteHMM",
    "Categorical",
    "OpenVocabulary",
    "Gaussian",
    "Poisson",
    "Product",
    "CompiledEmission",
    "MDVPA",
    "VPA",
    "SMC",
    "ParticleLearning",
    "OptimalResampling",
    "ParticleFilter",
    "estimation_variance",
    "KnownHMM",
    "Markov",
    "ContextTree",
    "PitmanYorTree",
    "PitmanYorMixture",
    "SoftHMM",
    "GeometricMixture",
    "Mixture",
    "Recall",
    "auto",
    "by_evidence",
    "Restart",
    "Predictor",
    "check_predictor",
    "Vocabulary",
    "evaluate",
    "Evaluation",
    "Monitor",
    "SurpriseDetector",
    "block_detector",
    "KeyedDetector",
    "score_sequences",
    "SequenceScores",
    "SequenceScore",
    "Background",
    "Incident",
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
