"""The plots of a report, and what each of them says. One for which the record has no data is left out."""

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
    """One plot; `says` explains it in a sentence or two. Draw it inside of `drawing()`.

    `of_headline`: drawn from the headline's windows, so that their load belongs to its context.
    """

    name: str
    title: str
    says: str
    draw: Callable[[Summary], Figure]
    has_data: Callable[[Summary], bool]
    of_headline: bool = False

    def figure(self, summary: Summary) -> Figure:
        """The plot with its context, and marked where the record is partial."""
        figure = self.draw(summary)
        context = " · ".join([texts.name_of(summary.record), *texts.setting(summary, with_load=self.of_headline)])
        subscribe(figure, context, texts.partial(summary.record))
        return figure


PLOTS = (
    Plot(
        "kept",
        "The rate that each keeps",
        "The highest rate at which each server keeps the promise; the thin line is the 95 % confidence interval.",
        draw_kept,
        lambda summary: sum(subject.kept_per_s is not None for subject in summary.subjects) > 1,
    ),
    Plot(
        "percentiles",
        "Latency by percentile",
        "How slow the slowest requests are. Solid lines count from the moment at which a request was due; dashed ones "
        "from the moment at which it was really sent, as closed-loop tools do. The distance between the two is waiting "
        "that such tools leave out.",
        draw_percentiles,
        lambda summary: any(subject.windows for subject in summary.subjects),
        of_headline=True,
    ),
    Plot(
        "rate",
        "Latency against rate",
        "What more load costs. A triangle marks the highest rate that keeps the promise, with its 95 % confidence "
        "interval. Hollow points: the generator was the limit, and they say nothing of the server.",
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
        "What the server's own clocks say of a mean request, beside what the client sees of it. The hatched part is "
        "spent in the network, in the kernel and in the client; the striped one before a request was sent at all.",
        draw_stages,
        lambda summary: bool(summary.breakdowns),
        of_headline=True,
    ),
    Plot(
        "concurrency",
        "Closed loops",
        "Every connection waits for its answer before it asks again: more connections give more answers until the "
        "server is full, and then only longer waits. Hollow points: the generator was the limit.",
        draw_concurrency,
        lambda summary: bool(summary.concurrency),
    ),
    Plot(
        "memory",
        "Memory under load",
        "Resident memory of the server during the soak. The dashed line is the slope through most of the samples.",
        draw_memory,
        lambda summary: bool(summary.soaks),
    ),
)


def write_plots(record: BenchRecord | Summary, folder: Path, stem: str) -> list[Path]:
    """Write every plot that the record has data for, as `folder/stem-NAME.png`."""
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
    """The plots that there is data for, in the order in which they are read."""
    return [plot for plot in PLOTS if plot.has_data(summary)]
