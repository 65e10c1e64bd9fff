"""What lives with a stream: monitor, readers of files, predictors by name and how good they are."""

from mdvpf.streams.evaluation import Evaluation, evaluate
from mdvpf.streams.monitor import Monitor, Report

__all__ = ["Evaluation", "Monitor", "Report", "evaluate"]
