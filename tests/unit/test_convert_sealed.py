"""What a process that is closed off can still do, by C's own calls and by Python's; and where it cannot be closed off.

Each attempt runs in a process of its own, because nothing undoes a seal.
"""

import errno
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flyball.convert import system_calls
from flyball.convert.apart import ERROR, JOB

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone")
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
REFUSED = errno.EPERM


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The folder of the process: all that it may write to."""
    path = tmp_path / "own"
    path.mkdir()
    return path


@pytest.fixture
def another(tmp_path: Path) -> Path:
    """Somebody's file, beside that folder."""
    path = tmp_path / "another"
    path.write_text("as it was")
    path.chmod(0o640)
    os.utime(path, (1, 1))
    return path


def answered(code: str, folder: Path, **environment: str) -> Any:
    """What a script says, as JSON, that runs in a folder."""
    path = os.pathsep.join([environment.get("PYTHONPATH", ""), *filter(None, sys.path)])
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env={"PYTHONPATH": path}, capture_output=True, check=False, timeout=30
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return json.loads(ended.stdout)


SEALED = """
import ctypes, json, os, sys
from pathlib import Path
from flyball.convert import landlock
from flyball.convert.sealed import keep_writes_below, seal
{before}
keep_writes_below(Path.cwd())
seal()
libc = ctypes.CDLL(None, use_errno=True)
def tried(call, *arguments):
    answer = call(*arguments)
    return 0 if answer >= 0 else ctypes.get_errno()
another = {another!r}.encode()
file = os.open(another, os.O_RDONLY)
HERE = -100
"""

CHANGES = """
import resource
times = (ctypes.c_long * 4)(5, 0, 5, 0)
limits = (ctypes.c_ulong * 2)(7, 7)
flags = ctypes.c_long(0x40)
print(json.dumps({{
    "chmod": tried(libc.chmod, another, 0o777),
    "fchmod": tried(libc.fchmod, file, 0o777),
    "fchmodat": tried(libc.fchmodat, HERE, another, 0o777, 0),
    "fchmodat2": tried(libc.syscall, 452, HERE, another, 0o777, 0),
    "chown": tried(libc.chown, another, os.getuid(), os.getgid()),
    "lchown": tried(libc.lchown, another, os.getuid(), os.getgid()),
    "fchown": tried(libc.fchown, file, os.getuid(), os.getgid()),
    "fchownat": tried(libc.fchownat, HERE, another, os.getuid(), os.getgid(), 0),
    "setxattr": tried(libc.setxattr, another, b"user.x", b"1", 1, 0),
    "lsetxattr": tried(libc.lsetxattr, another, b"user.x", b"1", 1, 0),
    "fsetxattr": tried(libc.fsetxattr, file, b"user.x", b"1", 1, 0),
    "removexattr": tried(libc.removexattr, another, b"user.x"),
    "lremovexattr": tried(libc.lremovexattr, another, b"user.x"),
    "fremovexattr": tried(libc.fremovexattr, file, b"user.x"),
    "utime": tried(libc.utime, another, times),
    "utimes": tried(libc.utimes, another, times),
    "utimensat": tried(libc.utimensat, HERE, another, times, 0),
    "futimens": tried(libc.futimens, file, times),
    "attributes by ioctl": tried(libc.ioctl, file, ctypes.c_ulong(0x40086602), ctypes.byref(flags)),
    "truncate": tried(libc.truncate, another, 1),
    "open to read and cut off": tried(libc.open, another, os.O_RDONLY | os.O_TRUNC),
    "open for nothing and cut off": tried(libc.open, another, os.O_ACCMODE | os.O_TRUNC),
    "limits of its parent": tried(libc.prlimit, os.getppid(), resource.RLIMIT_NOFILE, limits, None),
    "its own limits": tried(libc.setrlimit, resource.RLIMIT_NOFILE, limits),
    "signals to its parent from a file": tried(libc.fcntl, file, 8, os.getppid()),
    "memory to share": tried(libc.shmget, 0, 4096, 0o600),
}}))
"""


@pytest.mark.parametrize(
    "before", ["", "landlock._version = lambda: 1", "landlock._version = lambda: 2"], ids=["", "1", "2"]
)
def test_nothing_of_a_file_elsewhere_is_changed_with_any_version_of_landlock(before: str, own: Path, another: Path) -> None:
    was, limits = another.stat(), resource.getrlimit(resource.RLIMIT_NOFILE)
    answers = answered(SEALED.format(before=before, another=str(another)) + CHANGES.format(), own)
    assert answers == dict.fromkeys(answers, REFUSED)
    now = another.stat()
    assert another.read_text() == "as it was"
    assert (now.st_mode, now.st_mtime, now.st_ctime) == (was.st_mode, was.st_mtime, was.st_ctime)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == limits


MAKES = """
import stat
def outcome(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return error.errno
    return 0
outside = Path(another.decode()).parent
print(json.dumps([
    outcome((outside / "new").write_text, "x"),
    outcome(Path(another.decode()).write_text, "x"),
    outcome(os.rename, another, "mine"),
    outcome(os.link, another, "mine"),
    outcome(os.unlink, another),
    outcome(os.mknod, "disk", stat.S_IFBLK | 0o600, os.makedev(7, 0)),
]))
"""


def test_files_elsewhere_are_neither_made_nor_written_nor_moved_and_no_device_is_made(own: Path, another: Path) -> None:
    answers = answered(SEALED.format(before="", another=str(another)) + MAKES, own)
    assert set(answers) <= {errno.EACCES, errno.EPERM, errno.EXDEV}, answers
    assert another.read_text() == "as it was"
    assert sorted(path.name for path in own.iterdir()) == []


WORKS = """
import resource, shutil, tempfile, threading
import numpy as np
with tempfile.NamedTemporaryFile(dir=".") as made, tempfile.TemporaryDirectory(dir=".") as folder:
    made.write(b"some")
    np.save(Path(folder) / "array.npy", np.arange(3.0))
    read = np.load(Path(folder) / "array.npy").tolist()
Path("a").write_text("longer")
Path("a").write_text("a")
os.replace("a", "b")
shutil.copyfile("b", "c")
with open("c", "r+b") as file:
    file.truncate(0)
Path("/dev/null").write_text("x")
thread = threading.Thread(target=Path("d").write_text, args=("by a thread",))
thread.start()
thread.join()
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
print(json.dumps([read, Path("b").read_text(), Path("c").read_text(), Path("d").read_text(), limits, sys.stdin.isatty()]))
"""


def test_what_python_and_numpy_need_still_works(own: Path, another: Path) -> None:
    found = answered(SEALED.format(before="", another=str(another)) + WORKS, own)
    assert found == [[0.0, 1.0, 2.0], "a", "", "by a thread", [512, 512], False]


APART = """
import json, sys
from pathlib import Path
from flyball.convert import apart, landlock
{before}
print(json.dumps([apart.main(Path.cwd()), json.loads(Path({error!r}).read_bytes())]))
"""


def taken_apart(own: Path, pickle: bytes, before: str = "", **environment: str) -> tuple[int, dict[str, str]]:
    """What the process that loads a pickle says of it."""
    path = own.parent / "model.pkl"
    path.write_bytes(pickle)
    job = {"source": str(path), "kind": "pickle", "name": "x", "element": None, "rows_max": 100}
    (own / JOB).write_text(json.dumps(job))
    code, told = answered(APART.format(before=before, error=ERROR), own, **environment)
    return code, told


def calling(module: str, function: str, argument: Path) -> bytes:
    """A pickle that calls a function."""
    return f"\x80\x02c{module}\n{function}\n(V{argument}\ntR.".encode("latin-1")


@pytest.mark.parametrize(
    ("before", "why", "next_step"),
    [
        ("landlock._CREATE = 9999", "there is no Landlock here (Function not implemented)", "Linux 5.13 or newer"),
        (
            "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
            "this process has 2 threads already",
            "load it in Python yourself",
        ),
    ],
    ids=["no Landlock", "threads"],
)
def test_a_pickle_is_not_loaded_where_nothing_keeps_it_from_writing(
    before: str, why: str, next_step: str, own: Path, tmp_path: Path
) -> None:
    code, told = taken_apart(own, calling("os", "mkdir", tmp_path / "seen"), before)
    assert (code, told["kind"], told["code"]) == (1, "UsageError", "usage")
    assert why in told["message"]
    assert next_step in told["next"]
    assert not (tmp_path / "seen").exists()


# In the place of a package that is imported before the file is loaded, as those do whose arithmetic has a pool of threads.
POOL = """
import pathlib, queue, threading
asked, answered = queue.Queue(), queue.Queue()
def serve():
    try:
        pathlib.Path(asked.get()).mkdir()
        answered.put("made")
    except OSError as error:
        answered.put(error.strerror)
threading.Thread(target=serve, daemon=True).start()
def make(path):
    asked.put(path)
    raise SystemError(answered.get())
"""


def test_threads_of_a_package_that_was_imported_before_write_nowhere_else_either(own: Path, tmp_path: Path) -> None:
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "torch.py").write_text(POOL)
    pickle = calling("torch", "make", tmp_path / "seen")
    _, told = taken_apart(own, pickle, PYTHONPATH=str(tmp_path / "packages"))
    assert "SystemError: Permission denied" in told["message"]
    assert not (tmp_path / "seen").exists()


@pytest.mark.parametrize("machine", system_calls.MACHINES)
def test_the_numbers_of_system_calls_are_the_kernel_s(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip("the kernel's headers are not installed here")
    told = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[machine].read_text()))
    known = {name: int(number) for name, number in told.items()}
    groups = (system_calls.REFUSED, system_calls.ABSENT, system_calls.JUDGED, system_calls.SECCOMP)
    ours = {name: number for group in groups for name, number in system_calls.on(machine, group).items()}
    assert {name: known[name] for name in ours if name in known} == {name: ours[name] for name in ours if name in known}
    absent = {name for group in groups for name in group} - set(ours)
    assert not absent & set(known)
    # Headers may be older than calls; numbers of all machines are the same since 424.
    assert all(ours[name] > 424 for name in ours if name not in known)
