"""What learns without particles: one table of expected counts instead of many hypotheses.

A learner has the protocol of the filters, so that experiments, mixtures and detectors take it. It
can be frozen: what it has learnt then predicts other sequences and does not change any more.
"""

from mdvpf.learners.soft_hmm import SoftHMM

__all__ = ["SoftHMM"]
