"""Processes under measurement: none outlives whoever started it, and what they say stays small."""

import os
import sys
import threading
from pathlib import Path

import pytest

from flyball.bench.process import Process
from flyball.errors import FlyballError
from tests.support.serving import until

SLEEP = "import time; time.sleep(60)"
READY_S = 7.5
# Starts a process of its own, and says their ids where the test can read them.
PARENT = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], stdout=subprocess.DEVNULL)
open(sys.argv[1], "w").write(f"{{os.getpid()}} {{child.pid}} ")
time.sleep(60)
"""


def gone(pid):
    """Ended: not there, or dead and not yet buried by whoever inherited it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_ctrl_c_while_waiting_for_ready_leaves_no_process_behind(tmp_path, monkeypatch):
    told, wait = tmp_path / "pids", threading.Event.wait

    def interrupted(event, timeout=None):
        if timeout != READY_S:  # threads wait for each other too
            return wait(event, timeout)
        until("the processes", lambda: told.is_file() and len(told.read_text().split()) == 2)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Event, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Process([sys.executable, "-c", PARENT, str(told)], ready_s=READY_S)
    for pid in told.read_text().split():
        until(f"the end of {pid}", lambda pid=pid: gone(pid))


def test_the_exit_code_of_a_process_that_ends_by_itself_is_its_own():
    code = "import os, sys, time; sys.stdout.flush(); os.close(1); time.sleep(0.05); os._exit(7)"
    with pytest.raises(FlyballError, match=r"did not become ready \(exit 7\)"):
        Process([sys.executable, "-c", code])


def test_of_what_a_process_wrote_only_the_end_is_read():
    write = r"import os, time; os.write(2, b'early' + b'\n' * 70_000 + b'late')"
    with Process([sys.executable, "-c", f"{write}; print('ready x', flush=True); time.sleep(60)"]) as child:
        assert child.stderr_tail() == "late"


def test_reading_the_words_does_not_move_where_the_process_writes():
    code = "import os, time; os.write(2, b'one'); print('ready x', flush=True); time.sleep(60)"
    with Process([sys.executable, "-c", code]) as child:
        assert child.stderr_tail() == "one"
        assert os.lseek(child._errors.fileno(), 0, os.SEEK_CUR) == 3  # shared with the child
        os.lseek(child._errors.fileno(), 1, os.SEEK_SET)
        assert child.stderr_tail() == "one"
        assert os.lseek(child._errors.fileno(), 0, os.SEEK_CUR) == 1
