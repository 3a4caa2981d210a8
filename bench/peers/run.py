"""`make bench-peers`: the same model, requests and cores for flyball and popular servers.

In each round every server is started, timed to its first right answer, measured at one rate and searched for the highest
rate that keeps the SLO, then stopped: the next one has the cores to itself. A peer that does not install or start is named
with its reason. Raw data go to bench/results, the plots beside them.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims.report import exit_with
from bench.peers import peers
from bench.peers.peers import Peer, Setting, choose, fastest, install, running_version, settings, version
from flyball.bench.documents import read_scenario
from flyball.bench.measure import Measurement, Subject
from flyball.bench.models.make import make_model
from flyball.bench.payloads import payloads_for
from flyball.bench.phases import Phases
from flyball.bench.record import SubjectRecord
from flyball.bench.report import print_report, summarise, write_page, write_plots
from flyball.bench.run import first_answer, run_load
from flyball.bench.scenario_run import Cores, Requests, measure_surroundings, new_record
from flyball.bench.servers import serving
from flyball.cli.output import console
from flyball.cli.progress import progress_on
from flyball.errors import FlyballError
from flyball.native.load_documents import LoadPlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flyball.bench.progress import Progress
    from flyball.bench.scenario import Scenario

RESULTS = Path("bench/results")
FLYBALL = "flyball"
_ONE = Setting(1)


@dataclass(frozen=True, slots=True)
class Course:
    """What is the same for every server."""

    scenario: Scenario
    requests: Requests
    model: Path
    cores: Cores


@dataclass(frozen=True, slots=True)
class Side:
    """A server to measure; flyball has no peer."""

    name: str
    peer: Peer | None = None
    setting: Setting = _ONE


@contextmanager
def started(side: Side, course: Course) -> Iterator[tuple[Subject, SubjectRecord]]:
    """A server that has given its first right answer."""
    requests, cpus = course.requests, course.cores.server
    if side.peer is None:
        with serving(course.model, requests.name, requests.payloads, cpus, label=side.name) as found:
            yield found
        return
    with peers.serving(side.peer, f"{requests.name}={course.model}", side.setting, cpus or []) as server:
        path = side.peer.path.format(model=requests.name)
        payloads = peers.payloads_for(side.peer, requests.payloads)
        first = payloads.split(b"\n", 1)[0]
        cold_start_s = first_answer(server.url, requests.name, first, started=server.started, path=path)
        told = SubjectRecord(
            name=side.name,
            command=_shown(side),
            version=running_version(side.peer, server.url),
            cold_start_s=cold_start_s,
            note=side.peer.note,
        )
        yield Subject(side.name, server.url, server, path, payloads), told


def _shown(side: Side) -> list[str]:
    """How it was started, without the places of this machine."""
    return [f"bench/peers/{side.name}/serve.py", "--workers", str(side.setting.workers), *side.setting.flags]


def measure_round(measurement: Measurement, course: Course, sides: list[Side], turn: int) -> list[Side]:
    """Every server once; gives those that failed, which are left out from then on."""
    failed = []
    out = console()
    place = turn % len(sides)
    for side in sides[place:] + sides[:place]:  # another one first in each round
        try:
            with started(side, course) as (subject, told), progress_on(out) as progress:
                _keep_best(measurement, told)
                phases = Phases(course.scenario, measurement, subject, course.cores.generator, progress)
                phases.steady(repeats=1, first_repeat=turn)
                phases.search(repeats=1)
                if turn == 0:
                    phases.curve()
                    phases.concurrency()
                assert subject.process is not None  # noqa: S101 - started here
                _keep_best(measurement, told.model_copy(update={"memory_bytes": subject.process.memory_bytes()}))
        except FlyballError as error:
            failed.append(side)
            out.print(f"{side.name} is left out from here on: {error}", style="yellow", markup=False)
            measurement.add_subject(SubjectRecord(name=side.name, note=f"failed: {str(error)[:300]}"))
    return failed


def _keep_best(measurement: Measurement, told: SubjectRecord) -> None:
    """The fastest cold start of all rounds: the others measure the disk's cache."""
    known = next((subject for subject in measurement.record.subjects if subject.name == told.name), None)
    best = [start for start in (told.cold_start_s, known.cold_start_s if known else None) if start is not None]
    measurement.add_subject(told.model_copy(update={"cold_start_s": min(best, default=None)}))


def installed_sides(wanted: list[Peer], course: Course, progress: Progress) -> tuple[list[Side], dict[str, str]]:
    """Those that installed, flyball first, and the reasons of the others."""
    sides, reasons = [Side(FLYBALL)], {}
    for peer in wanted:
        step = progress.begin(f"install {peer.name}", 1.0)
        found = install(peer)
        if isinstance(found, str):
            reasons[peer.name] = found
            step.end("did not install")
            continue
        step.end(f"{version(peer)}, {found.seconds:.0f} s")
        try:
            sides.append(Side(peer.name, peer, _best_setting(peer, course)))
        except FlyballError as error:
            reasons[peer.name] = f"did not start: {error}"
    return sides, reasons


def _best_setting(peer: Peer, course: Course) -> Setting:
    """The setting with the highest rate in a short closed loop."""
    ways = settings(peer, len(course.cores.server or [0]))
    if len(ways) == 1:
        return ways[0]

    def rate(way: Setting) -> float:
        with started(Side(peer.name, peer, way), course) as (subject, _):
            plan = LoadPlan(
                url=subject.url,
                model=course.requests.name,
                path=subject.path,
                connections=course.scenario.connections,
                duration_s=2.0,
                cpus=course.cores.generator,
            )
            return run_load(plan, subject.payloads or b"").rate_per_s

    out = console()
    way, _ = fastest(ways, rate, lambda reason: out.print(f"{peer.name}, {reason}", style="yellow", markup=False))
    return way


def main() -> int:
    """Install, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peers", nargs="*", help="names of peers; without them the default six")
    parser.add_argument("--scenario", default="bench/peers/fraud-gbdt.yaml")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--all", action="store_true", default=os.environ.get("ALL") == "1", help="the heavy ones too")
    arguments = parser.parse_args()
    scenario, out, cores = read_scenario(arguments.scenario), console(), Cores.here()
    path = RESULTS / f"{datetime.now(UTC):%Y-%m-%dT%H%M%S}-peers-{scenario.scenario}.json"
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(scenario.model, Path(folder))
        payloads = payloads_for(scenario.payloads, model, scenario.model)
        requests = Requests(scenario.model.name, model, payloads, scenario.payloads)
        course = Course(scenario, requests, model, cores)
        with progress_on(out) as progress:
            sides, reasons = installed_sides(choose(arguments.peers, every=arguments.all), course, progress)
        record = new_record(["python", "-m", "bench.peers.run", *sys.argv[1:]], requests, cores, scenario=scenario)
        with Measurement(record, path, payloads) as measurement:
            with progress_on(out) as progress:
                measure_surroundings(measurement, requests, cores, progress, window_s=2.0)
            for turn in range(arguments.rounds):
                failed = measure_round(measurement, course, sides, turn)
                sides = [side for side in sides if side not in failed]
            for name, reason in reasons.items():
                measurement.add_subject(SubjectRecord(name=name, note=f"not measured: {reason[:300]}"))
    summary = summarise(measurement.record)
    write_page(summary, path.with_suffix(".html"), raw=path)
    write_plots(summary, path.parent, path.stem)
    print_report(summary, out, path)
    for name, reason in reasons.items():
        out.print(f"{name} was not measured: {reason}", style="yellow", markup=False)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that servers are ended on the way out
    exit_with(main)
