"""A wall clock that steps between and within runs hides no record and breaks no chain.

The clock is stepped for one process alone, by a few lines of C before libc's own (`LD_PRELOAD`).
"""

import subprocess
import uuid
from pathlib import Path

import pytest

from flyball.native.journal import JournalLog
from tests.reference import journal
from tests.support import journal_servers as journals
from tests.support import parts, serving
from tests.support.decision_documents import ask, decided
from tests.support.serving import Server

STEPPED = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(clock, now);
    const char *step = getenv("STEPPED_BY_S");
    if (done == 0 && clock == CLOCK_REALTIME && step) now->tv_sec += atol(step);
    return done;
}
"""
HOUR_S = 3600


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = parts.program("cc", "cc")
    folder = tmp_path_factory.mktemp("clock")
    source, library = folder / "stepped.c", folder / "stepped.so"
    source.write_text(STEPPED)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def test_a_clock_that_steps_back_and_forth_hides_no_record(stepped: Path, tmp_path: Path) -> None:
    place = tmp_path / "journal"
    command = journals.command(tmp_path, place, {"durability": "sync"})
    ids = []
    for step_s in (0, -HOUR_S, 2 * HOUR_S, -5 * 365 * 24 * HOUR_S, 0):
        environment = {**serving.environment(), "LD_PRELOAD": str(stepped), "STEPPED_BY_S": str(step_s)}
        server = Server(command, env=environment)
        try:
            ids += [decided(ask(server, 100))["id"] for _ in range(3)]
        finally:
            server.kill()
    with serving.serving(command):
        log = JournalLog(place)
        assert log.verify().findings == []
        for one in ids:
            assert [record["kind"] for record in log.find(one)] == ["decision"], f"{one} is not found"
    assert {uuid.UUID(one).bytes for one in ids} == journal.ids(journals.kept(place)).keys()
