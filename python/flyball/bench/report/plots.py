"""The plots of a report with their descriptions. A plot without data is skipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flyball.bench.report import texts
from flyball.bench.report.drawing import drawing, png, subscribe
from flyball.bench.report.plots_latency import draw_percentiles, draw_timelines
from flyball.bench.report.plots_load import draw_concurrency, draw_kept, draw_rates
from flyball.bench.report.plots_server import draw_memory, draw_stages
from flyball.bench.report.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from matplotlib.figure import Figure

    from flyball.bench.record import BenchRecord
    from flyball.bench.report.summary import Summary


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot; `says` describes it. Draw it inside of `drawing()`.

    `of_headline`: drawn from the headline's windows, so that their load belongs to its context.
    """

    name: str
    title: str
    says: str
    draw: Callable[[Summary], Figure]
    has_data: Callable[[Summary], bool]
    of_headline: bool = False

    def figure(self, summary: Summary) -> Figure:
        """The plot with its context, marked if the record is partial."""
        figure = self.draw(summary)
        context = " · ".join([texts.name_of(summary.record), *texts.setting(summary, with_load=self.of_headline)])
        subscribe(figure, context, texts.partial(summary.record))
        return figure


PLOTS = (
    Plot(
        "kept",
        "The rate that each keeps",
        "The highest rate at which each server meets the SLO; the thin line is the 95 % confidence interval.",
        draw_kept,
        lambda summary: sum(subject.kept_per_s is not None for subject in summary.subjects) > 1,
    ),
    Plot(
        "percentiles",
        "Latency by percentile",
        "How slow the slowest requests are. Solid lines count from the time at which a request was due; dashed ones "
        "from the time at which it was sent, as closed-loop tools do. The distance between the two is waiting time "
        "that such tools omit.",
        draw_percentiles,
        lambda summary: any(subject.windows for subject in summary.subjects),
        of_headline=True,
    ),
    Plot(
        "rate",
        "Latency against rate",
        "The cost of more load. A triangle marks the highest rate that meets the SLO, with its 95 % confidence "
        "interval. Hollow points: the generator was saturated, so they do not describe the server.",
        draw_rates,
        lambda summary: bool(summary.curve or summary.tried),
    ),
    Plot(
        "timeline",
        "Latency over time",
        "The windows behind the headline, interval by interval, one repeat after the other: stalls and drifts that "
        "percentiles hide.",
        draw_timelines,
        lambda summary: any(window.result.timeline for subject in summary.subjects for window in subject.windows),
        of_headline=True,
    ),
    Plot(
        "stages",
        "Where the time goes",
        "The server's own stage times of a mean request, beside the client's view. The hatched part is spent in the "
        "network, the kernel and the client; the striped part before a request was sent.",
        draw_stages,
        lambda summary: bool(summary.breakdowns),
        of_headline=True,
    ),
    Plot(
        "concurrency",
        "Closed loops",
        "Each connection waits for its answer before it sends again: more connections give more answers until the "
        "server is full, and then only longer waits. Hollow points: the generator was saturated.",
        draw_concurrency,
        lambda summary: bool(summary.concurrency),
    ),
    Plot(
        "memory",
        "Memory under load",
        "Resident memory of the server during the soak. The dashed line is the Theil–Sen slope.",
        draw_memory,
        lambda summary: bool(summary.soaks),
    ),
)


def write_plots(record: BenchRecord | Summary, folder: Path, stem: str) -> list[Path]:
    """Write every plot that has data, as `folder/stem-NAME.png`."""
    summary = summarise(record)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with drawing():
        for plot in plots_of(summary):
            path = folder / f"{stem}-{plot.name}.png"
            path.write_bytes(png(plot.figure(summary)))
            written.append(path)
    return written


def plots_of(summary: Summary) -> list[Plot]:
    """The plots that have data, in reading order."""
    return [plot for plot in PLOTS if plot.has_data(summary)]
