"""The queue of signals: what came is told once, what did not come is never told, and stopping a process is no signal."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.serving import until

SCRIPT = """
import os, signal, sys
from flyball.cli.signals import Signals
signals = Signals(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
{body}
"""


def run(body: str) -> str:
    script = SCRIPT.format(body=textwrap.dedent(body))
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30).stdout


def test_signals_that_came_before_anybody_waited_are_told_in_order_and_once() -> None:
    told = run("""
        for number in (signal.SIGHUP, signal.SIGTERM):
            os.kill(os.getpid(), number)
        print(signals.pending(signal.SIGTERM), signals.pending(signal.SIGINT))
        print(sorted([signals.next(10), signals.next(10)]), signals.next(0))
    """)
    assert told == f"True False\n[{signal.SIGHUP:d}, {signal.SIGTERM:d}] None\n"


def test_only_the_signals_asked_for_are_told_and_others_wait() -> None:
    told = run("""
        os.kill(os.getpid(), signal.SIGHUP)
        print(signals.next(0, among=(signal.SIGTERM, signal.SIGINT)))
        print(signals.next(10))
    """)
    assert told == f"None\n{signal.SIGHUP:d}\n"


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_process_that_is_stopped_past_its_time_to_wait_is_told_nothing() -> None:
    body = "while True:\n    print(signals.next(0.2), flush=True)\n"
    script = SCRIPT.format(body=body)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            for _ in range(3):
                assert process.stdout.readline() == "None\n"
                process.send_signal(signal.SIGSTOP)
                until("it is stopped", lambda: state(process.pid) == "T")
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(0.5)  # longer than the wait that it is in
                process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
            lines = iter(process.stdout.readline, "")
            assert next(line for line in lines if line != "None\n") == f"{signal.SIGTERM:d}\n"
        finally:
            os.kill(process.pid, signal.SIGKILL)
