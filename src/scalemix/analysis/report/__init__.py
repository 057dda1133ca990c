"""A report on a fit as one HTML file, for people who did not run it."""

from scalemix.analysis.report.story import Column, ReportedFit, Story
from scalemix.analysis.report.writing import build_report, write_report

__all__ = ["Column", "ReportedFit", "Story", "build_report", "write_report"]
