"""`flyball serve` as a process, with a double for the extension: the ready line, signals, refusals, what it imports."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture
def start(tmp_path):
    running = []

    def begin(*arguments, **environment):
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), **environment}
        child = subprocess.Popen(
            [sys.executable, HERE / "fake_native.py", "serve", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=tmp_path,
        )
        running.append(child)
        return child

    yield begin
    for child in running:
        child.kill()
        child.communicate()


@pytest.fixture
def model(tmp_path):
    for name in ("fraud.onnx", "mlp.onnx", "bad.onnx"):
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


def test_the_ready_line_names_address_models_and_lanes(start, model):
    child = start("fraud.onnx", "card=mlp.onnx", "--listen", "127.0.0.1:0", "--lanes", "3")
    assert child.stdout.readline() == "ready http://127.0.0.1:4711 models=fraud:1,card:1 lanes=3\n"


def test_serve_imports_neither_onnxruntime_nor_numpy(start, model):
    child = start("fraud.onnx")
    child.stdout.readline()
    child.send_signal(signal.SIGTERM)
    _, errors = child.communicate(timeout=10)
    assert errors.endswith("imported \n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_the_exit_code_is_0(start, model, number):
    child = start("fraud.onnx", FLYBALL_FAKE_DRAIN_S="0.2")
    assert child.stdout.readline().endswith("lanes=2\n")
    child.send_signal(number)
    rest, errors = child.communicate(timeout=10)
    assert (child.returncode, rest) == (0, "")
    assert "draining" in errors
    assert "Traceback" not in errors


def test_a_second_signal_during_the_drain_ends_it_at_once_with_1(start, model):
    child = start("fraud.onnx", FLYBALL_FAKE_DRAIN_S="60")
    child.stdout.readline()
    child.send_signal(signal.SIGTERM)
    assert child.stderr.readline() == "draining\n"
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=5) == 1


def test_a_refused_model_that_was_named_ends_the_command_with_3(start, model):
    child = start("fraud.onnx", "bad.onnx")
    out, errors = child.communicate(timeout=10)
    assert (child.returncode, out) == (3, "")
    assert "Refused: bad: not an ONNX model" in errors


def test_a_file_that_is_not_there_ends_the_command_with_3(start, tmp_path):
    child = start("none.onnx")
    _, errors = child.communicate(timeout=10)
    assert child.returncode == 3
    assert errors.startswith("Refused: cannot read none.onnx: No such file")


@pytest.mark.parametrize("arguments", [(), ("m.onnx", "--snapshot", "index.json"), ("--no-such-flag",)])
def test_wrong_usage_exits_with_2(start, arguments):
    child = start(*arguments)
    child.communicate(timeout=10)
    assert child.returncode == 2


def test_flags_out_of_range_are_told_together_and_exit_with_3(start, model):
    child = start("fraud.onnx", "--lanes", "0", "--listen", "nowhere")
    _, errors = child.communicate(timeout=10)
    assert child.returncode == 3
    assert re.search(r"lanes: is 0", errors)
    assert re.search(r"listen\[0\]: is 'nowhere'", errors)


def test_a_configuration_file_is_read_and_flags_win(start, model):
    (model / "server.json").write_text('{"listen": ["127.0.0.1:1"], "lanes": 5}')
    child = start("fraud.onnx", "--config", "server.json", "--lanes", "7")
    assert child.stdout.readline() == "ready http://127.0.0.1:1 models=fraud:1 lanes=7\n"


def snapshot(folder, *names):
    """Written by hand: the compiler is not under test here."""
    import hashlib
    import json

    entries = []
    (folder / "deployments").mkdir(parents=True, exist_ok=True)
    for name in names:
        artifact = {"path": f"{name}.onnx", "digest": "sha256:" + "0" * 64}
        document = {
            "format": 1,
            "name": name,
            "route": {"version": "4"},
            "versions": [{"version": "4", "artifact": artifact}],
        }
        text = json.dumps(document).encode()
        digest = hashlib.sha256(text).hexdigest()
        (folder / "deployments" / f"{digest}.json").write_bytes(text)
        entries.append({"name": name, "digest": f"sha256:{digest}"})
    (folder / "index.json").write_text(json.dumps({"format": 1, "generation": 1, "deployments": entries}))
    return folder / "index.json"


def test_a_snapshot_serves_what_is_good(start, tmp_path):
    index = snapshot(tmp_path / "snapshot", "fraud", "bad")
    child = start("--snapshot", str(index))
    assert child.stdout.readline() == "ready http://127.0.0.1:8080 models=fraud:4 lanes=2\n"


def test_a_snapshot_in_which_nothing_is_good_exits_with_3(start, tmp_path):
    child = start("--snapshot", str(snapshot(tmp_path / "snapshot", "bad")))
    _, errors = child.communicate(timeout=10)
    assert child.returncode == 3
    assert "bad: not an ONNX model" in errors


def test_sighup_reads_the_snapshot_again_and_a_broken_one_changes_nothing(start, tmp_path):
    index = snapshot(tmp_path / "snapshot", "fraud")
    child = start("--snapshot", "snapshot/index.json")
    child.stdout.readline()
    snapshot(tmp_path / "snapshot", "fraud", "mlp")
    child.send_signal(signal.SIGHUP)
    assert child.stderr.readline() == "applied fraud,mlp\n"
    index.write_text("{}")
    child.send_signal(signal.SIGHUP)
    assert '"message": "snapshot refused"' in child.stderr.readline()
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=10)
    assert child.returncode == 0


def test_sighup_without_a_snapshot_is_ignored(start, model):
    child = start("fraud.onnx")
    child.stdout.readline()
    child.send_signal(signal.SIGHUP)
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=10)
    assert child.returncode == 0
