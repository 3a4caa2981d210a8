"""Attempts to escape the process in which `flyball convert` loads a pickle."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
from typing import TYPE_CHECKING, Any

from bench.claims.hardening.approvals import WAIT_S
from bench.claims.hardening.attempts import Build, Seen, attempt

if TYPE_CHECKING:
    from pathlib import Path

# By C's own calls: no hook of Python sees them. x86-64's numbers; on ARM64 those that differ are other calls, also denied.
_TRIES = """
import ctypes, json, os
libc = ctypes.CDLL(None, use_errno=True)
room = ctypes.create_string_buffer(256)
calls = {{
    "read a file of the user's": (libc.open, {secret!r}.encode(), 0),
    "read another process's environment": (libc.open, b"/proc/%d/environ" % {other}, 0),
    "read another process's command line": (libc.open, b"/proc/%d/cmdline" % {other}, 0),
    "list the user's folder": (libc.open, {folder!r}.encode(), 0o200000),
    "write a file": (libc.open, {secret!r}.encode(), 1),
    "make a file": (libc.open, {secret!r}.encode() + b".new", 0o101, 0o600),
    "open a socket": (libc.socket, 2, 1, 0),
    "start a process": (libc.fork,),
    "send a signal": (libc.kill, {other}, 0),
    "trace a process": (libc.ptrace, 16, {other}, 0, 0),
    "change another process's cores": (libc.sched_setaffinity, {other}, 128, room),
    "change another process's priority": (libc.setpriority, 0, {other}, 19),
    "mount": (libc.mount, b".", b".", b"none", 4096, 0),
    "set its user": (libc.setuid, os.getuid()),
    "userfaultfd": (libc.syscall, 323, 1, 0, 0),
    "memfd_create": (libc.syscall, 319, b"x", 0, 0),
    "perf_event_open": (libc.syscall, 298, room, 0, -1, -1, 0),
    "inotify": (libc.inotify_init,),
    "io_uring": (libc.syscall, 425, 8, room, 0),
    "bpf": (libc.syscall, 321, 0, room, 120),
    "keyctl": (libc.syscall, 250, 0, -3, 1, 0, 0),
}}
done = []
for name in calls:
    call, *arguments = calls[name]
    if call(*arguments) >= 0:
        done.append(name)
raise SystemError("done " + json.dumps([len(calls), done]) + " end")
"""


class _Calling:
    """A pickle that calls something when it is loaded."""

    def __init__(self, script: str) -> None:
        self._script = script

    def __reduce__(self) -> Any:
        return exec, (self._script,)


@attempt("a pickle that is converted reads the user's files and uses system calls that it does not need")
def a_pickle_reaches_out(build: Build, folder: Path) -> Seen:
    """Twenty-one things that no model needs to do."""
    secret = folder / "secret"
    secret.write_text("secret")
    rows = folder / "rows.csv"
    rows.write_text("amount,fraud\n" + "".join(f"{place},{place % 2}\n" for place in range(200)))
    script = _TRIES.format(secret=str(secret), folder=str(folder), other=os.getpid())
    (folder / "model.pkl").write_bytes(pickle.dumps(_Calling(script)))
    words = ["convert", "model.pkl", "--data", "rows.csv", "--target", "fraud", "--out", "out", "--trust-pickle"]
    ended = subprocess.run([build.flyball, *words], cwd=folder, capture_output=True, text=True, timeout=WAIT_S, check=False)
    said = re.search(r"done (\[.*\]) end", " ".join(ended.stderr.split()))
    if said is None:
        return Seen(f"the pickle did not get to run: {ended.stderr.strip()[-200:]}", holds=False)
    tries, done = json.loads(said[1])
    return Seen(f"{tries - len(done)} of {tries} denied" + (f"; done: {', '.join(done)}" if done else ""), holds=not done)
