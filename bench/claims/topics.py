"""The frame of a claim with topics: arguments, one shared stand, and isolated failures.

Must not know what is claimed.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from bench.claims.report import Report, exit_with
from bench.claims.tails.stand import Stand
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Topics = Mapping[str, Callable[[Stand], None]]


def run_topics(name: str, topics: Topics, about: str | None) -> NoReturn:
    """The whole command of a claim: measures the topics that its arguments ask for, and ends."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that servers are ended on the way out
    exit_with(lambda: measure_topics(name, topics, about))


def measure_topics(name: str, topics: Topics, about: str | None) -> int:
    """Measure the topics that are asked for; the exit code is 1 where a claim falls short."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(
        "--only", nargs="+", choices=list(topics), default=list(topics), metavar="TOPIC", help=" ".join(topics)
    )
    parser.add_argument("--quick", action="store_true", help="windows so short that they prove nothing")
    arguments = parser.parse_args()
    report = Report(name, quick=arguments.quick)
    if arguments.quick:
        print("quick: the windows are too short to prove anything; this only shows that the measurements run")
    if len(os.sched_getaffinity(0)) < 2:
        report.not_measured("everything", "", "one core only: server and generator cannot be set apart")
        return report.finish()
    with tempfile.TemporaryDirectory() as folder:
        stand = Stand(report, Path(folder), quick=arguments.quick)
        for topic in arguments.only:
            _measure(stand, topic, topics[topic])
    return report.finish()


def _measure(stand: Stand, topic: str, measure: Callable[[Stand], None]) -> None:
    """One topic; a server that fails takes its own topic with it, not the others'."""
    stand.begin(topic)
    try:
        measure(stand)
    except FlyballError as error:
        stand.report.record(f"{topic}: measured to its end", str(error)[:300], "no error", holds=False)
    stand.tell(f"took {stand.end():.0f} s")
