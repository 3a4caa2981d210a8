"""What a process that is closed off can still do, by C's own calls and by Python's; and where it cannot be closed off.

Each attempt runs in a process of its own, because nothing undoes a seal.
"""

import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flyball.models.convert.loader_process import ERROR, JOB

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone")
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


def environment(first: str = "") -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join([first, *filter(None, sys.path)])}


def answered(code: str, folder: Path, said: str = "", packages: str = "") -> Any:
    """What a script says, as JSON, that runs in a folder."""
    ended = subprocess.run(
        [sys.executable, "-B", "-c", code],
        cwd=folder,
        env=environment(packages),
        input=said.encode(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return json.loads(ended.stdout)


SEALED = """
import ctypes, json, os, sys
from pathlib import Path
from flyball.native.sandbox import seal
another = {another!r}.encode()
seal(Path.cwd(), Path({another!r}))
libc = ctypes.CDLL(None, use_errno=True)
def tried(call, *arguments):
    answer = call(*arguments)
    return 0 if answer >= 0 else ctypes.get_errno()
file = os.open(another, os.O_RDONLY)
HERE = -100
"""

CHANGES = """
import resource
times = (ctypes.c_long * 4)(5, 0, 5, 0)
limits = (ctypes.c_ulong * 2)(7, 7)
flags = ctypes.c_long(0x40)
print(json.dumps({
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
}))
"""


def test_nothing_of_a_file_is_changed_that_may_be_read(own: Path, another: Path) -> None:
    was, limits = another.stat(), resource.getrlimit(resource.RLIMIT_NOFILE)
    answers = answered(SEALED.format(another=str(another)) + CHANGES, own)
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
    outcome(os.mkfifo, "pipe"),
    outcome(os.symlink, another, "link"),
]))
"""


def test_nothing_is_made_or_moved_elsewhere_and_no_links_pipes_or_devices_anywhere(own: Path, another: Path) -> None:
    answers = answered(SEALED.format(another=str(another)) + MAKES, own)
    assert set(answers) <= {errno.EACCES, errno.EPERM, errno.EXDEV}, answers
    assert another.read_text() == "as it was"
    assert sorted(path.name for path in own.iterdir()) == []


READS = """
def outcome(path):
    try:
        os.listdir(path) if os.path.isdir(path) else open(path, "rb").close()
    except OSError as error:
        return error.errno
    return 0
print(json.dumps({path: outcome(path) for path in json.loads(sys.stdin.readline())}))
"""


def test_it_reads_its_packages_and_what_it_was_given_and_nothing_else(own: Path, another: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    me = os.getpid()
    closed = ["/etc/passwd", "/root", "/home", "/proc", "/proc/self/environ", "/proc/self/mem", "/sys/class", "/dev/shm"]  # noqa: S108
    closed += [f"/proc/{me}/{name}" for name in ("environ", "cmdline", "maps", "fd", "mem")]
    closed += [str(tmp_path), str(tmp_path / "secret")]
    opened = [str(another), str(own), json.__file__, pytest.__file__]
    answers = answered(SEALED.format(another=str(another)) + READS, own, said=json.dumps(opened + closed))
    assert answers == dict.fromkeys(opened, 0) | dict.fromkeys(closed, errno.EACCES)


def test_it_has_no_capability_and_no_way_to_get_one(own: Path, another: Path) -> None:
    code = SEALED.format(another=str(another)) + "print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=own, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin
        assert child.stdout
        assert child.stdout.readline() == b"\n"
        status = dict(line.split(":", 1) for line in Path(f"/proc/{child.pid}/status").read_text().splitlines())
        child.stdin.close()
        assert child.wait() == 0
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}
    assert os.geteuid() != 0 or int(status["CapBnd"], 16) == 0
    assert (status["NoNewPrivs"].strip(), status["Seccomp"].strip()) == ("1", "2")


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
    found = answered(SEALED.format(another=str(another)) + WORKS, own)
    assert found == [[0.0, 1.0, 2.0], "a", "", "by a thread", [512, 512], False]


APART = """
import json, sys
from pathlib import Path
from flyball.models.convert import loader_process
{before}
print(json.dumps([loader_process.main(Path.cwd()), json.loads(Path({error!r}).read_bytes())]))
"""


def load_in_process(own: Path, pickle: bytes, before: str = "", packages: str = "") -> tuple[int, dict[str, str]]:
    """What the process that loads a pickle says of it."""
    path = own.parent / "model.pkl"
    path.write_bytes(pickle)
    job = {"source": str(path), "kind": "pickle", "name": "x", "element": None, "rows_max": 100}
    (own / JOB).write_text(json.dumps(job))
    code, told = answered(APART.format(before=before, error=ERROR), own, packages=packages)
    return code, told


def calling(module: str, function: str, argument: Path) -> bytes:
    """A pickle that calls a function."""
    return f"\x80\x02c{module}\n{function}\n(V{argument}\ntR.".encode("latin-1")


# A filter of three steps: the system call that makes a ruleset answers as it does on a kernel without it.
NO_LANDLOCK = """
import ctypes, struct
libc = ctypes.CDLL(None)
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, head) == 0
"""


@pytest.mark.parametrize(
    ("before", "why", "next_step"),
    [
        (NO_LANDLOCK, "Landlock is not available here", "Linux 5.13 or newer"),
        (
            "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
            "this process already has 2 threads",
            "load it in Python yourself",
        ),
    ],
    ids=["no Landlock", "threads"],
)
def test_a_pickle_is_not_loaded_where_nothing_keeps_it_from_writing(
    before: str, why: str, next_step: str, own: Path, tmp_path: Path
) -> None:
    code, told = load_in_process(own, calling("os", "mkdir", tmp_path / "seen"), before)
    assert (code, told["kind"], told["code"]) == (1, "UsageError", "usage")
    assert told["message"].startswith(f"a file that may run code is only loaded in a sandbox: {why}")
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
    _, told = load_in_process(own, pickle, packages=str(tmp_path / "packages"))
    assert "SystemError: Permission denied" in told["message"]
    assert not (tmp_path / "seen").exists()
