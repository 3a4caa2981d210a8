"""Signals while a server is stopped and continued, and while its clock is stepped; and who it runs as."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import parts, serving, snapshots
from tests.support.onnx_models import row
from tests.support.serving import Server
from tests.support.wire import Http

STEPPED = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(clock, now);
    if (done == 0 && clock == CLOCK_REALTIME && access(getenv("STEPPED_WHEN"), F_OK) == 0)
        now->tv_sec += atol(getenv("STEPPED_BY_S"));
    return done;
}
"""
DAY_S = 86_400


@pytest.fixture(params=["flyball", "flyballd"])
def command(request: pytest.FixtureRequest, model: Callable[[str], Path], tmp_path: Path) -> list[str]:
    if request.param == "flyball":
        return [*serving.flyball(), "serve", str(model("linear")), "--listen", "127.0.0.1:0"]
    index = snapshots.write(tmp_path, 1, [snapshots.deployment("linear", model("linear"))])
    return [*serving.flyballd(), "--snapshot", str(index), "--listen", "127.0.0.1:0"]


def test_a_server_that_was_stopped_and_continued_serves_on_and_still_hears_sigterm(
    start: Callable[..., Server], command: list[str]
) -> None:
    server = start(*command)
    for _ in range(2):
        serving.stop_and_continue(server.process)
        with Http(server) as connection:
            connection.infer("linear", row("linear", 1))
        assert server.process.poll() is None
    assert server.stop().code == 0


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = parts.program("cc", "cc")
    folder = tmp_path_factory.mktemp("clock")
    source, library = folder / "stepped.c", folder / "stepped.so"
    source.write_text(STEPPED)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.mark.parametrize("step_s", [-DAY_S, DAY_S])
def test_sigterm_ends_a_server_whose_clock_was_stepped_while_it_ran(
    command: list[str], stepped: Path, tmp_path: Path, step_s: int
) -> None:
    when = tmp_path / "now"
    more = {"LD_PRELOAD": str(stepped), "STEPPED_WHEN": str(when), "STEPPED_BY_S": str(step_s)}
    server = Server(command, env={**serving.environment(), **more})
    try:
        when.touch()
        with Http(server) as connection:
            connection.infer("linear", row("linear", 1))
        server.signal(signal.SIGTERM)
        assert server.wait().code == 0
    finally:
        server.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is warned")
def test_a_server_that_runs_as_root_says_so_and_how_not_to(start: Callable[..., Server], command: list[str]) -> None:
    server = start(*command)
    line = server.log_line(lambda fields: "root" in fields["message"])
    assert line["level"] == "WARN"
    assert "User=" in line["message"]


def test_at_debug_the_log_has_our_own_events_alone(start: Callable[..., Server], command: list[str], tmp_path: Path) -> None:
    from tests.support.raw_h2 import Connection

    config = tmp_path / "debug.json"
    config.write_text('{"log": "debug"}')
    server = start(*command, "--config", config)
    with Connection(server) as connection:
        assert connection.call(b"\0" * 5, "/inference.GRPCInferenceService/ServerLive").status == 0
    lines = server.stop().stderr
    assert lines
    assert not [line for line in lines if '"target":"flyball' not in line]
