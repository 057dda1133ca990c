"""A report on a fit as one HTML file, for people who did not run it."""

from scalemix.analysis.report.story import Story, Told
from scalemix.analysis.report.writing import build_report, write_report

__all__ = ["Story", "Told", "build_report", "write_report"]
