"""Figures with Matplotlib: lines in panels, runs, particles and incidents."""

from mdvpf.plots.filter_plots import emission_table, run_figure, transition_graph
from mdvpf.plots.incident_plot import incident_figure
from mdvpf.plots.number_plots import calibration_figure, fan_figure
from mdvpf.plots.panels import Line, Panel, figure, require, save, trailing_mean, with_band

__all__ = [
    "Line",
    "Panel",
    "calibration_figure",
    "emission_table",
    "fan_figure",
    "figure",
    "incident_figure",
    "require",
    "run_figure",
    "save",
    "trailing_mean",
    "transition_graph",
    "with_band",
]
