"""Third-party load generators, run as closed loops on a flyball server, to validate our own closed loop.

wrk comes from the system's packages, oha from cargo, perf_analyzer from the last `tritonclient` wheel that carried it.
A tool that cannot be had is told with its reason. Must not judge.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.parts.here import NotHereError
from flyball.errors import FlyballError

TOOLS = Path("bench/peers/.venvs")
_PERF_ANALYZER = ["tritonclient==2.46.0", "nvidia-cuda-runtime-cu12"]


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """What a tool said of one window."""

    rate_per_s: float
    p50_us: float | None


def wrk() -> Path:
    """wrk, from the system's packages where this user may install them."""
    return _command("wrk", ["apt-get", "-qq", "install", "-y", "wrk"])


def oha() -> Path:
    """oha, built by cargo once (some minutes)."""
    place = TOOLS / "oha"
    if not (place / "bin" / "oha").is_file() and not shutil.which("oha"):
        print("claim-bench: building oha, some minutes", file=sys.stderr)
        _get(["cargo", "install", "--quiet", "--locked", "--root", str(place), "oha"], 900)
    found = shutil.which("oha") or place / "bin" / "oha"
    return Path(found)


def perf_analyzer() -> Path:
    """perf_analyzer, out of a wheel; it needs libb64 and a CUDA runtime library to start, and uses neither here."""
    place = TOOLS / "perf-analyzer"
    binary = place / "bin" / "perf_analyzer"
    if not binary.is_file():
        _command("/usr/lib/x86_64-linux-gnu/libb64.so.0d", ["apt-get", "-qq", "install", "-y", "libb64-0d"])
        place.mkdir(parents=True, exist_ok=True)
        _get([".venv/bin/uv", "venv", "--quiet", "--clear", str(place)], 60)
        _get(
            [".venv/bin/uv", "pip", "install", "--quiet", "--no-deps", "-p", str(place / "bin/python"), *_PERF_ANALYZER], 300
        )
        binary.chmod(0o755)
    return binary


def run_wrk(url: str, body: str, *, connections: int, seconds: float, cpus: list[int]) -> ClosedLoop:
    """One window of wrk with one thread."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "post.lua")
        script.write_text(
            f'wrk.method = "POST"\nwrk.body = {json.dumps(body)}\nwrk.headers["Content-Type"] = "application/json"\n'
        )
        command = [wrk(), "-t1", f"-c{connections}", f"-d{seconds:.0f}s", "--latency", "-s", script, url]
        said = _run(_pinned(command, cpus), seconds + 30)
    if "Non-2xx" in said:
        raise FlyballError(f"wrk got refusals:\n{said}")
    rate = re.search(r"Requests/sec:\s+([\d.]+)", said)
    p50 = re.search(r"50%\s+([\d.]+)(us|ms|s)", said)
    if rate is None or p50 is None:
        raise FlyballError(f"wrk said something else than expected:\n{said}")
    return ClosedLoop(float(rate[1]), float(p50[1]) * {"us": 1.0, "ms": 1e3, "s": 1e6}[p50[2]])


def run_oha(url: str, body: str, *, connections: int, seconds: float, cpus: list[int]) -> ClosedLoop:
    """One window of oha without its terminal interface."""
    command = [oha(), "--no-tui", "--output-format", "json", "-z", f"{seconds:g}s", "-c", str(connections), "-m", "POST"]
    command += ["-H", "Content-Type: application/json", "-d", body, "-w", url]
    said = json.loads(_run(_pinned(command, cpus), seconds + 30))
    if said["summary"]["successRate"] < 1 or set(said["statusCodeDistribution"]) != {"200"}:
        raise FlyballError(f"oha got refusals: {said['statusCodeDistribution']} {said.get('errorDistribution')}")
    return ClosedLoop(said["summary"]["requestsPerSec"], said["latencyPercentiles"]["p50"] * 1e6)


def run_perf_analyzer(
    url: str, model: str, payload: str, *, connections: int, seconds: float, cpus: list[int]
) -> ClosedLoop:
    """One measurement of perf_analyzer over HTTP; it repeats windows until they agree, at most four."""
    inputs = json.loads(payload)["inputs"]
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder, "input.json")
        given.write_text(
            json.dumps({"data": [{item["name"]: {"content": item["data"], "shape": item["shape"][1:]} for item in inputs}]})
        )
        asked: list[object] = ["-i", "http", "--input-data", given, "--concurrency-range", connections, "--percentile", 50]
        asked += ["--measurement-interval", round(seconds * 500), "--max-trials", 4, "-b", 1]
        figures = perf_figures(url, model, *asked, seconds=seconds * 10 + 60, cpus=cpus)
    return ClosedLoop(float(figures["Inferences/Second"]), float(figures["p50 latency"]))


def perf_figures(url: str, model: str, *asked: object, seconds: float, cpus: list[int] | None = None) -> dict[str, str]:
    """The first line of perf_analyzer's table, by its columns; fails where it does not run to its end."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.csv")
        command: list[object] = [perf_analyzer(), "-m", model, "-u", url.removeprefix("http://"), "-f", out, *asked]
        words = _pinned(command, cpus) if cpus else [str(word) for word in command]
        _run(words, seconds, {"LD_LIBRARY_PATH": _cuda_runtime()})
        (figures, *_) = csv.DictReader(out.read_text().splitlines())
    return figures


def _cuda_runtime() -> str:
    found = list((TOOLS / "perf-analyzer").glob("lib/python*/site-packages/nvidia/cuda_runtime/lib"))
    return str(found[0].resolve()) if found else ""


def _command(name: str, install: list[str]) -> Path:
    found = shutil.which(name) or (name if Path(name).is_file() else None)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        _get(install, 300)
        found = shutil.which(name) or (name if Path(name).is_file() else None)
    if found is None:
        raise NotHereError(f"{name} is not installed; get it: {' '.join(install)}")
    return Path(found)


def _pinned(command: list[object], cpus: list[int]) -> list[str]:
    return ["taskset", "-c", ",".join(str(cpu) for cpu in cpus), *(str(word) for word in command)]


def _run(command: list[str], timeout_s: float, environment: dict[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env={**os.environ, **(environment or {})},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FlyballError(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        raise FlyballError(f"{' '.join(command[:5])} ended with {done.returncode}: {(done.stderr or done.stdout)[-500:]}")
    return done.stdout


def _get(command: list[str], timeout_s: float) -> None:
    """Install something; a machine that cannot has not got it."""
    try:
        _run(command, timeout_s)
    except FlyballError as error:
        raise NotHereError(error.message) from error
