"""Learners without particles: one table of expected counts instead of many hypotheses.

A learner is a `Predictor`, so experiments, mixtures and detectors use it like a filter. A frozen
learner predicts further sequences and no longer learns.
"""

from mdvpf.learners.soft_hmm import SoftHMM

__all__ = ["SoftHMM"]
