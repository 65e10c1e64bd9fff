"""What lives with a stream: the monitor, readers of files, and predictors chosen by name."""

from mdvpf.streams.monitor import Monitor, Report

__all__ = ["Monitor", "Report"]
