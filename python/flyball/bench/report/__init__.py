"""Reports from a record alone: terminal, HTML page, plots, JSON.

All show the figures of `summary`. Must not know how anything was measured.
"""

from flyball.bench.report.document import report_document
from flyball.bench.report.page import write_page
from flyball.bench.report.plots import write_plots
from flyball.bench.report.summary import Summary, summarise
from flyball.bench.report.terminal import print_report

__all__ = ["Summary", "print_report", "report_document", "summarise", "write_page", "write_plots"]
