"""The HTML report: one self-contained file that needs no network."""

from neuro_divergent.report.page import Page
from neuro_divergent.report.search import search_report
from neuro_divergent.report.training import training_report

__all__ = ["Page", "search_report", "training_report"]
