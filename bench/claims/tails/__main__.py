"""Run:  python -m bench.claims.tails [--only TOPIC …] [--quick]   from the root; `make claim-tails` builds first."""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
from pathlib import Path

from bench.claims.report import Report, exit_with
from bench.claims.tails import bursts, cores, neighbour, overload, reloads, steady, throughput
from bench.claims.tails.stand import Stand
from flyball.errors import FlyballError

TOPICS = {
    "throughput": throughput.measure,
    "steady": steady.measure,
    "overload": overload.measure,
    "bursts": bursts.measure,
    "reloads": reloads.measure,
    "neighbour": neighbour.measure,
    "cores": cores.measure,
}


def main() -> int:
    """Measure the topics; the exit code is 1 where a claim falls short."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=list(TOPICS), default=list(TOPICS), metavar="TOPIC", help=" ".join(TOPICS)
    )
    parser.add_argument("--quick", action="store_true", help="windows so short that they prove nothing")
    arguments = parser.parse_args()
    report = Report("tails", quick=arguments.quick)
    if arguments.quick:
        print("quick: the windows are too short to prove anything; this only shows that the measurements run")
    if len(os.sched_getaffinity(0)) < 2:
        report.not_measured("everything", "", "one core only: server and generator cannot be set apart")
        return report.finish()
    with tempfile.TemporaryDirectory() as folder:
        stand = Stand(report, Path(folder), quick=arguments.quick)
        for topic in arguments.only:
            measure_topic(stand, topic)
    return report.finish()


def measure_topic(stand: Stand, topic: str) -> None:
    """One topic; a server that fails takes its own topic with it, not the others'."""
    stand.begin(topic)
    try:
        TOPICS[topic](stand)
    except FlyballError as error:
        stand.report.judge(f"{topic}: measured to its end", str(error)[:300], "no error", holds=False)
    stand.tell(f"took {stand.end():.0f} s")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that servers are ended on the way out
    exit_with(main)
