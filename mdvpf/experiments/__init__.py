"""Experiments of the paper and of this project: lists of independent runs, tables and figures."""
