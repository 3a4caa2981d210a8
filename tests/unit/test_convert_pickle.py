"""A pickle is loaded by a process that is closed off: what it tries beside being a model is refused and named."""

import errno
import importlib.util
import json
import os
import pickle
import socket
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from flyball.errors import InvalidInputError, MissingExtraError, ModelRefusedError, UsageError
from flyball.models.convert import convert
from flyball.models.convert.loader import load_in_process
from flyball.models.convert.table import read_table
from tests.support import trained_models

FRAME = trained_models.payments(400)
COLUMNS = ["amount", "mcc"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_models.saved(FRAME[[*COLUMNS, "fraud"]], tmp_path_factory.mktemp("rows") / "rows.csv")


class Calling:
    """A pickle that calls something when it is loaded."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self._call = (call, arguments)

    def __reduce__(self) -> Any:
        return self._call


def dumped(folder: Path, thing: Any) -> Path:
    path = folder / "model.pkl"
    path.write_bytes(pickle.dumps(thing))
    return path


@pytest.mark.parametrize("dump", [pickle, joblib], ids=["pickle", "joblib"])
def test_a_pickled_pipeline_is_converted_and_answers_as_it_did(dump: Any, data: Path, tmp_path: Path) -> None:
    # Two jobs would be two processes, which may not be started.
    steps = ColumnTransformer([("one", StandardScaler(), ["amount"]), ("two", StandardScaler(), ["mcc"])], n_jobs=2)
    model = make_pipeline(steps, LogisticRegression()).fit(FRAME[COLUMNS], FRAME["fraud"])
    with (tmp_path / "fraud.pkl").open("wb") as file:
        dump.dump(model, file)
    made = convert(tmp_path / "fraud.pkl", data=data, out=tmp_path / "out", target="fraud", trust_pickle=True, rows=500)
    expected = model.predict_proba(FRAME[COLUMNS])[:, 1]
    np.testing.assert_allclose(trained_models.scores(made, FRAME), expected, rtol=0, atol=1e-6)


def test_without_trust_nothing_is_loaded(data: Path, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    path = dumped(tmp_path, Calling(os.mkdir, str(seen)))
    with pytest.raises(UsageError, match=r"a pickle, which can run arbitrary code.*\n.*--trust-pickle"):
        convert(path, data=data, out=tmp_path / "out", target="fraud")
    assert not seen.exists()


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (
            Calling(socket.create_connection, ("10.0.0.1", 80)),
            r"tried to (open a socket to 10\.0\.0\.1:80|make a socket|look up)",
        ),
        (Calling(os.system, "touch made"), r"tried to run the command touch made"),
        (Calling(os.execv, "/bin/true", ["true"]), r"tried to become the program /bin/true"),
        (Calling(os.fork), r"tried to start another process"),
        (Calling(os.kill, os.getpid(), 9), rf"tried to send a signal to process {os.getpid()}"),
    ],
    ids=["socket", "command", "program", "process", "signal"],
)
def test_what_a_pickle_tries_is_refused_and_named(thing: Any, said: str, data: Path, tmp_path: Path) -> None:
    path = dumped(tmp_path, thing)
    with pytest.raises(InvalidInputError, match=said) as refused:
        convert(path, data=data, out=tmp_path / "out", target="fraud", trust_pickle=True)
    assert refused.value.code == "pickle_refused"
    assert refused.value.next_step
    assert not (tmp_path / "out").exists()


# Each by C's own calls, which no hook of Python sees. Numbers are those of x86-64 and ARM64.
BY_ITS_OWN_CALLS = """
import ctypes, json, os, platform, threading
libc = ctypes.CDLL(None, use_errno=True)
machine = ("x86_64", "aarch64").index(platform.machine())
here, there, parent, room = b".", {outside!r}.encode(), {parent}, ctypes.create_string_buffer(256)
numbers = {{
    "keyctl": (250, 219), "bpf": (321, 280), "userfaultfd": (323, 282), "perf_event_open": (298, 241), "seccomp": (317, 277),
    "process_vm_readv": (310, 270), "kcmp": (312, 272), "setns": (308, 268), "io_uring_setup": (425, 425),
    "pidfd_open": (434, 434), "clone with its own user": (56, 220), "process_madvise": (440, 440), "chroot": (161, 51),
}}
calls = {{
    "connect": (libc.socket, 2, 1, 0), "socketpair": (libc.socketpair, 1, 1, 0, room), "fork": (libc.fork,),
    "exec": (libc.execv, b"/bin/true", None), "kill the parent": (libc.kill, parent, 0),
    "ptrace": (libc.ptrace, 16, parent, 0, 0),
    "read the parent's environment": (libc.open, b"/proc/%d/environ" % parent, 0),
    "mount": (libc.mount, here, here, here, 0, 0),
    "unshare": (libc.unshare, 0x10000000), "setuid": (libc.setuid, 65534), "setgid": (libc.setgid, 65534),
    "nice of the parent": (libc.setpriority, 0, parent, 19),
    "cores of the parent": (libc.sched_setaffinity, parent, 128, room),
    "read outside": (libc.open, there, 0), "write outside": (libc.open, there + b".new", 0o101, 0o600),
    "mkdir outside": (libc.mkdir, there + b".d", 0o700), "link outside": (libc.link, there, b"mine"),
    "limits": (libc.setrlimit, 7, room), "queue a signal": (libc.sigqueue, parent, 0, 0), "acct": (libc.acct, here),
    "share memory": (libc.shmget, 0, 4096, 0o600), "make an inotify": (libc.inotify_init,),
}}
for name, both in numbers.items():
    calls[name] = (libc.syscall, both[machine], 0x10000000, room, 0, 0, 0, 0)
answers = {{}}
for name, (call, *arguments) in calls.items():
    answers[name] = "done" if call(*arguments) >= 0 else os.strerror(ctypes.get_errno())
thread = threading.Thread(target=answers.__setitem__, args=("a thread", "done"))
thread.start()
thread.join()
raise SystemError("answers " + json.dumps(answers) + " end")
"""
BY_LANDLOCK = {"read the parent's environment", "read outside", "write outside", "mkdir outside"}


def test_the_kernel_refuses_too_where_python_is_gone_round(data: Path, tmp_path: Path) -> None:
    """Threads may still be started."""
    (tmp_path / "outside").write_text("secret")
    script = BY_ITS_OWN_CALLS.format(parent=os.getpid(), outside=str(tmp_path / "outside"))
    with pytest.raises(InvalidInputError, match="SystemError") as refused:
        convert(dumped(tmp_path, Calling(exec, script)), data=data, out=tmp_path / "out", target="fraud", trust_pickle=True)
    answers = json.loads(refused.value.message.partition("answers ")[2].rpartition(" end")[0])
    assert answers.pop("a thread") == "done"
    denied = {name: os.strerror(errno.EACCES if name in BY_LANDLOCK else errno.EPERM) for name in answers}
    assert answers == denied
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.pkl", "outside"]


@pytest.mark.skipif(not Path("/proc/sys/kernel").exists(), reason="Linux alone")
def test_a_pickle_writes_nowhere_but_in_its_own_folder(data: Path, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    path = dumped(tmp_path, Calling(os.mkdir, str(seen)))
    with pytest.raises(InvalidInputError, match="PermissionError"):
        convert(path, data=data, out=tmp_path / "out", target="fraud", trust_pickle=True)
    assert not seen.exists()


def test_a_pickle_sees_nothing_of_the_environment(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very secret")
    path = dumped(tmp_path, Calling(exec, "import os; raise SystemError(sorted(os.environ))"))
    with pytest.raises(InvalidInputError, match="SystemError") as refused:
        convert(path, data=data, out=tmp_path / "out", target="fraud", trust_pickle=True)
    assert "AWS" not in refused.value.message


def test_what_holds_no_model_says_what_it_is(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"a builtins\.dict is not a supported model"):
        convert(dumped(tmp_path, {"weights": [1, 2]}), data=data, out=tmp_path / "out", target="fraud", trust_pickle=True)


def test_a_pickle_that_is_cut_off_is_told_as_such(data: Path, tmp_path: Path) -> None:
    path = dumped(tmp_path, LogisticRegression())
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ModelRefusedError, match=r"model\.pkl is truncated or not a pickle"):
        convert(path, data=data, out=tmp_path / "out", target="fraud", trust_pickle=True)


@pytest.mark.parametrize(
    ("module", "kind", "said"),
    [
        (
            "xgboost_that_is_not_there",
            InvalidInputError,
            r"No module named 'xgboost_that_is_not_there'.*\n.*install the package",
        ),
        ("torch", MissingExtraError, r"requires torch, which is not installed\n.*pip install 'flyball\[torch\]'"),
    ],
)
def test_a_package_that_is_not_there_is_named(module: str, kind: Any, said: str, data: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec(module):
        pytest.skip(f"{module} is installed here")
    path = tmp_path / "model.pkl"
    path.write_bytes(b"\x80\x04c" + module.encode() + b"\nModel\n.")
    with pytest.raises(kind, match=said):
        convert(path, data=data, out=tmp_path / "out", target="fraud", trust_pickle=True)


FORGED = """
import os
from pathlib import Path
{act}
os._exit(0)
"""


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("Path('parts.json').write_text('[]'); Path('model.onnx').write_bytes(b'')", r"cannot read the output.*: "),
        ("pass", r"cannot read the output.*: "),
    ],
    ids=["other documents", "nothing"],
)
def test_what_a_pickle_leaves_in_place_of_a_model_is_not_trusted(act: str, said: str, data: Path, tmp_path: Path) -> None:
    path = dumped(tmp_path, Calling(exec, FORGED.format(act=act)))
    with pytest.raises(ModelRefusedError, match=said):
        convert(path, data=data, out=tmp_path / "out", target="fraud", trust_pickle=True)


def test_a_pickle_of_another_version_of_scikit_learn_is_noted(data: Path, tmp_path: Path) -> None:
    import sklearn

    model = LogisticRegression().fit(FRAME[COLUMNS], FRAME["fraud"])
    path = dumped(tmp_path, model)
    other = sklearn.__version__[:-1] + "x"
    path.write_bytes(path.read_bytes().replace(sklearn.__version__.encode(), other.encode()))
    made = convert(path, data=data, out=tmp_path / "out", target="fraud", trust_pickle=True, rows=200)
    assert any(other in note and sklearn.__version__ in note for note in made.document["notes"])


def test_what_never_ends_is_ended(data: Path, tmp_path: Path) -> None:
    path = dumped(tmp_path, Calling(exec, "while True: pass"))
    with pytest.raises(ModelRefusedError, match="was not loaded within 3 s"):
        load_in_process(path, "pickle", read_table(data), name="x", element=None, rows_max=100, wall_s_max=3.0)
