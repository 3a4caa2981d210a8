"""A report is made from a record and from nothing else: on the terminal, as one page, as plots, as JSON.

All of them show the figures of `summary`. Must not know how anything was measured.
"""

from flyball.bench.report.document import report_document
from flyball.bench.report.page import write_page
from flyball.bench.report.plots import write_plots
from flyball.bench.report.summary import Summary, summarise
from flyball.bench.report.terminal import print_report

__all__ = ["Summary", "print_report", "report_document", "summarise", "write_page", "write_plots"]
