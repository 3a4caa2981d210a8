"""Attempts on the process: stop and continue, clock steps, and its user."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from bench.claims.hardening.attempts import Build, Seen, attempt
from bench.claims.hardening.raw_server import serving, waited

if TYPE_CHECKING:
    from pathlib import Path

_STEPPED = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(clock, now);
    const char *file = getenv("STEPPED_WHEN");
    if (done == 0 && (clock == CLOCK_REALTIME || getenv("STEPPED_ALL")) && file && access(file, F_OK) == 0)
        now->tv_sec += atol(getenv("STEPPED_BY_S"));
    return done;
}
"""
_TRIES = 5


@attempt("SIGSTOP and SIGCONT (Ctrl-Z, fg) end the server")
def stop_and_continue(build: Build, folder: Path) -> Seen:
    """Five times: stopped for longer than any wait of the server, then continued."""
    ended = 0
    for number in range(_TRIES):
        inside = folder / str(number)
        inside.mkdir()
        with serving(build, inside) as server:
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(1.5)
            server.process.send_signal(signal.SIGCONT)
            ended += waited(lambda: server.process.poll() is not None, 3.0) or not server.lives()
    return Seen(f"the server ended {ended} of {_TRIES} times", holds=ended == 0)


@attempt("SIGTERM does not end the server after its clock was stepped")
def sigterm_after_a_step(build: Build, folder: Path) -> Seen:
    """A day back and a day forth, while it runs."""
    compiler = shutil.which("cc")
    if compiler is None:
        return Seen("not tried: a stepped clock needs a C compiler", holds=False)
    source, library = folder / "stepped.c", folder / "stepped.so"
    source.write_text(_STEPPED)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True, timeout=60)
    times = []
    for number, (step, more) in enumerate(
        ((-86_400, {}), (86_400, {}), (-3000, {"STEPPED_ALL": "1"}), (3000, {"STEPPED_ALL": "1"}))
    ):
        inside = folder / str(number)
        inside.mkdir()
        env = {"LD_PRELOAD": str(library), "STEPPED_WHEN": str(inside / "now"), "STEPPED_BY_S": str(step), **more}
        with serving(build, inside, env=env) as server:
            (inside / "now").touch()
            began = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            waited(lambda: server.process.poll() is not None, 20.0)
            times.append(time.monotonic() - began)
    text = "gone after " + " and ".join(f"{seconds:.1f} s" for seconds in times)
    return Seen(text, holds=max(times) < 15)


@attempt("Starting as root says nothing")
def started_as_root(build: Build, folder: Path) -> Seen:
    """What the log says of it."""
    if os.geteuid() != 0:
        return Seen("not tried: this attempt must run as root", holds=False)
    with serving(build, folder) as server:
        told = [line for line in server.log().splitlines() if "root" in line.lower()]
    return Seen("the log warns, and says how to avoid it" if told else "no word of it in the log", holds=bool(told))
