"""The peers' registry, locks and installation, without installing any; `python -m bench.peers.check` runs the real ones."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from bench import environments
from bench.environments import Installed
from bench.peers import peers
from bench.peers.check import difference
from bench.peers.peers import PEERS, Peer, Setting, choose, install
from flyball.bench.models.perceptron import make_mlp
from flyball.bench.process import Process
from flyball.errors import FlyballError, UsageError
from tests.support.peer_modules import common

TRITON = next(peer for peer in PEERS if peer.name == "triton")
FASTAPI = next(peer for peer in PEERS if peer.name == "fastapi")


# The registry and the files.


def test_every_peer_has_its_folder_and_every_folder_its_peer():
    folders = {path.parent.name for path in peers.ROOT.glob("*/serve.py")}
    assert folders == {peer.name for peer in PEERS}
    for peer in PEERS:
        assert {"requirements.in", "requirements.lock"} <= {path.name for path in peer.folder.iterdir()}


def test_the_default_run_has_the_six_that_are_light():
    assert [peer.name for peer in choose([])] == ["fastapi", "asgi", "mlserver", "litserve", "bentoml", "triton"]
    assert [peer.name for peer in choose([], every=True)] == [peer.name for peer in PEERS]
    assert [peer.name for peer in choose(["kserve"])] == ["kserve"]


def test_an_unknown_peer_is_refused_with_the_names_that_there_are():
    with pytest.raises(UsageError, match="no peer torchserve") as told:
        choose(["fastapi", "torchserve"])
    assert "ray-serve" in str(told.value)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_lock_pins_every_package_and_names_no_place(peer):
    pins = [line for line in peer.lock.read_text().splitlines() if not line.lstrip().startswith("#")]
    assert pins
    for line in pins:
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*(\[[a-z,]+\])?==[0-9][^ ;@]*", line), line
    assert not re.search(r"://|--index|--find-links|\.(com|org|io|net)\b", peer.lock.read_text())


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_lock_holds_what_is_asked_for_and_no_torch(peer):
    asked = re.findall(
        r"^([a-z0-9-]+)(?:\[[a-z]+\])?==([^\s]+)", (peer.folder / "requirements.in").read_text(), re.MULTILINE
    )
    locked = dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", peer.lock.read_text(), re.MULTILINE))
    lines = (peer.folder / "requirements.in").read_text().splitlines()
    assert len(asked) == len([line for line in lines if not line.startswith("#")]), "a requirement is not pinned"
    assert {name: locked.get(name) for name, _ in asked} == dict(asked)
    assert "torch" not in locked
    assert peers.version(peer).startswith(locked[peer.package])


# Installing.


@pytest.fixture
def peer(tmp_path, monkeypatch):
    """A peer of its own making, so that its lock can change."""
    monkeypatch.setattr(peers, "ROOT", tmp_path)
    made = Peer("made-up", "made-up", default=False, note="")
    made.folder.mkdir()
    made.lock.write_text("made-up==1\n")
    return made


def fake_uv(tmp_path, script):
    """A uv that keeps its calls in a file, then runs the script; `$home` is the environment it is to make."""
    path = tmp_path / "uv"
    path.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\ncalls=$(wc -l < {tmp_path}/calls)\n'
        f"home={tmp_path}/.venvs/made-up\n{script}\n"
    )
    path.chmod(0o755)
    return path


def calls(tmp_path):
    return (tmp_path / "calls").read_text().splitlines()


WORKS = "mkdir -p $home/bin; touch $home/bin/python"


def test_an_installation_that_fails_is_tried_twice_and_told_by_its_last_words(peer, tmp_path):
    words = "".join(f"echo line {number}\n" for number in range(20))
    uv = fake_uv(tmp_path, f"{words}echo there is no made-up of version 1 >&2\nexit 2")
    reason = install(peer, tmp_path, uv=uv)
    assert isinstance(reason, str)
    assert reason.splitlines()[-1] == "there is no made-up of version 1"
    assert "line 3\n" not in reason
    assert len(calls(tmp_path)) == 2


def test_an_installation_that_works_at_the_second_try_is_installed(peer, tmp_path):
    uv = fake_uv(tmp_path, f"[ $calls -ge 2 ] || exit 1\n{WORKS}")
    assert isinstance(install(peer, tmp_path, uv=uv), Installed)
    assert [line.split()[0] for line in calls(tmp_path)] == ["venv", "venv", "pip"]


def test_the_second_run_installs_nothing(peer, tmp_path):
    first = install(peer, tmp_path, uv=fake_uv(tmp_path, WORKS))
    second = install(peer, tmp_path, uv=tmp_path / "absent")
    assert isinstance(first, Installed)
    assert isinstance(second, Installed)
    assert second.python == tmp_path / ".venvs" / "made-up" / "bin" / "python"


def test_a_changed_lock_is_installed_again(peer, tmp_path):
    uv = fake_uv(tmp_path, WORKS)
    install(peer, tmp_path, uv=uv)
    peer.lock.write_text("made-up==2\n")
    install(peer, tmp_path, uv=uv)
    assert len(calls(tmp_path)) == 4


def test_an_environment_that_is_half_made_is_no_environment(peer, tmp_path):
    install(peer, tmp_path, uv=fake_uv(tmp_path, f"{WORKS}; [ $1 = venv ]"))
    assert isinstance(install(peer, tmp_path, uv=fake_uv(tmp_path, "exit 1")), str)


def test_an_installation_that_never_ends_is_given_up(peer, tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "_INSTALL_S", 0.05)
    assert install(peer, tmp_path, uv=fake_uv(tmp_path, "exec sleep 30")) == "not installed within 0 s"


def test_a_uv_that_is_not_there_is_told_with_what_to_do(peer, tmp_path):
    reason = install(peer, tmp_path, uv=tmp_path / "absent")
    assert isinstance(reason, str)
    assert "make build" in reason


# Starting.


def test_a_peer_is_started_by_its_own_python_with_its_own_path():
    words = peers.command(FASTAPI, "fraud=m.onnx", Setting(3, max_batch=8))
    assert words[0].endswith(".venvs/fastapi/bin/python")
    assert words[2:] == ["fraud=m.onnx", "--port", "0", "--workers", "3", "--max-batch", "8"]
    assert "--max-batch" not in peers.command(FASTAPI, "fraud=m.onnx", Setting(3))
    assert peers.environment(FASTAPI, Path("x"))["TMPDIR"] == "x"


def test_triton_uses_the_onnx_backend_only_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "BUILT_BACKENDS", tmp_path / "built")
    monkeypatch.delenv("TRITON_BACKEND_DIR", raising=False)
    assert peers.environment(TRITON)["TRITON_BACKEND_DIR"] == ""
    (tmp_path / "built" / "onnxruntime").mkdir(parents=True)
    (tmp_path / "built" / "onnxruntime" / "libtriton_onnxruntime.so").touch()
    assert peers.environment(TRITON)["TRITON_BACKEND_DIR"] == str(tmp_path / "built")
    monkeypatch.setenv("TRITON_BACKEND_DIR", str(tmp_path))
    assert peers.environment(TRITON)["TRITON_BACKEND_DIR"] == ""
    (tmp_path / "onnxruntime").mkdir()
    (tmp_path / "onnxruntime" / "libtriton_onnxruntime.so").touch()
    assert peers.environment(TRITON)["TRITON_BACKEND_DIR"] == str(tmp_path.resolve())


def test_a_server_that_becomes_another_program_is_ready_once_it_answers(tmp_path):
    script = tmp_path / "serve.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\nfrom serving import arguments, become, say_ready_when\n"
        "serving = arguments()\nsay_ready_when(serving.port, '/')\n"
        "become(Path(sys.executable), '-m', 'http.server', '--bind', '127.0.0.1', str(serving.port))\n"
    )
    needs = {"PYTHONPATH": str(peers.ROOT / "common")}
    with Process([sys.executable, str(script), "m=m.onnx"], environment=needs) as server:
        assert b"http.server" in Path(f"/proc/{server.pid}/cmdline").read_bytes()


def test_a_server_that_ends_before_it_answers_is_told_with_its_words(tmp_path):
    script = tmp_path / "serve.py"
    script.write_text(
        "import sys\nfrom serving import arguments, say_ready_when\n"
        "say_ready_when(arguments().port, '/')\nsys.exit('there is no such model')\n"
    )
    needs = {"PYTHONPATH": str(peers.ROOT / "common")}
    with pytest.raises(FlyballError, match="there is no such model"):
        Process([sys.executable, str(script), "m=m.onnx"], environment=needs)


# Answers.


def test_joined_requests_get_the_answers_that_they_get_alone(tmp_path):
    model = common("onnx_model").OnnxModel(str(make_mlp(tmp_path / "m.onnx", sizes=(3, 4, 2))))
    random = np.random.default_rng(1)
    documents = [
        {"id": str(rows), "inputs": [{"name": "input", "datatype": "FP32", "shape": [rows, 3], "data": data.tolist()}]}
        for rows, data in ((rows, random.standard_normal(rows * 3)) for rows in (1, 3, 2))
    ]
    together, alone = model.infer_many(documents), [model.infer(document) for document in documents]
    assert [answer["id"] for answer in together] == ["1", "3", "2"]
    assert [answer["outputs"][0]["shape"] for answer in together] == [[1, 2], [3, 2], [2, 2]]
    for answer, expected in zip(together, alone, strict=True):
        assert answer["outputs"][0]["data"] == pytest.approx(expected["outputs"][0]["data"], rel=1e-6)


def test_tritons_vectors_are_expected_as_columns_and_nothing_else_changes():
    outputs = [
        {"name": "label", "datatype": "INT64", "shape": [1], "data": [0]},
        {"name": "probabilities", "datatype": "FP32", "shape": [1, 2], "data": [0.25, 0.75]},
    ]
    payloads = "".join(json.dumps({"inputs": [], "outputs": given}) + "\n" for given in (outputs, None)).encode()
    first, second = (json.loads(line) for line in peers.payloads_for(TRITON, payloads).splitlines())
    assert [output["shape"] for output in first["outputs"]] == [[1, 1], [1, 2]]
    assert second["outputs"] is None
    assert peers.payloads_for(FASTAPI, payloads) == payloads


WANTED = [{"name": "score", "datatype": "FP32", "shape": [1], "data": [0.1]}]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"id": "7", "outputs": WANTED}, None),
        ({"id": "7", "outputs": [{**WANTED[0], "data": [0.10000000149011612]}]}, None),  # the same float32
        ({"id": "7", "outputs": [{**WANTED[0], "data": [0.10000001]}]}, "score"),  # the next one
        ({"id": "8", "outputs": WANTED}, "id '8'"),
        ({"id": "7", "outputs": []}, "no output"),
        ({"id": "7", "outputs": [{**WANTED[0], "shape": [1, 1]}]}, r"\[1, 1\]"),
        ({"id": "7", "outputs": [{**WANTED[0], "datatype": "FP64"}]}, "FP64"),
    ],
)
def test_an_answer_is_right_to_the_bit_or_wrong(answer, problem):
    found = difference(answer, "7", WANTED)
    assert found is None if problem is None else re.search(problem, found or "")
