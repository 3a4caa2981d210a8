"""`flyball serve` as an operator meets it: its flags, its signals, and what it keeps out of its process."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support import serving, snapshots
from tests.support.decision_folders import PLAIN, plain
from tests.support.onnx_models import Arrays, row
from tests.support.serving import Server, until
from tests.support.wire import Http, Raw, assert_same, metrics, raw_post

Model = Callable[[str], Path]
Reference = Callable[[str, Arrays], Arrays]

# Each costs a tenth of a second or more at the start, and tens of megabytes; `onnxruntime` maps a second library too.
HEAVY = {"onnxruntime", "numpy", "onnx", "grpc", "fastapi"}


def test_the_ready_line_names_the_models_by_file_or_by_choice_and_the_lanes(
    start: Callable[..., Server], model: Model
) -> None:
    named = f"card={model('many')}"
    server = start(*serving.flyball(), "serve", model("linear"), named, "--listen", "127.0.0.1:0", "--lanes", "3")
    assert (server.host, server.models, server.lanes) == ("127.0.0.1", {"linear:1", "card:1"}, 3)
    with Http(server) as connection:
        assert connection.get("/v2/models/card/ready").status == 200


def test_a_configuration_file_is_read_and_flags_win(start: Callable[..., Server], model: Model, tmp_path: Path) -> None:
    config = tmp_path / "server.json"
    config.write_text(json.dumps({"listen": ["127.0.0.2:0"], "lanes": 1}))
    server = start(*serving.flyball(), "serve", model("linear"), "--config", config, "--lanes", "3")
    assert (server.host, server.lanes) == ("127.0.0.2", 3)
    assert server.stop().code == 0


def test_serve_imports_no_heavy_package(start: Callable[..., Server], model: Model) -> None:
    python = [sys.executable, "-X", "importtime", "-m", "flyball"]
    server = start(*python, "serve", model("linear"), "--listen", "127.0.0.1:0")
    lines = server.stop().stderr
    imported = {found[1] for line in lines if (found := re.match(r"import time: .*\| +([\w]+)", line))}
    assert "flyball" in imported
    assert not imported & HEAVY


def test_a_second_signal_during_the_drain_ends_it_at_once_with_1(serve: Callable[..., Server], tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"grace_ms": serving.ENDLESS_MS, "body_timeout_ms": serving.ENDLESS_MS}))
    server = serve("linear", more=("--config", str(config)))
    with Raw(server) as raw:
        raw.send(raw_post("linear", b'{"inputs": [', length=500))  # a request in flight for as long as its body may take
        until("its head was read", lambda: metrics(server).outcomes()["received"] == 1 or None)
        server.signal(signal.SIGTERM)
        until("the drain has begun", lambda: not _accepts(server) or None)
        assert server.process.poll() is None, "the drain must wait for the request"
        server.signal(signal.SIGINT)
        assert server.wait().code == 1


def _accepts(server: Server) -> bool:
    try:
        with Http(server) as connection:
            return connection.get("/v2/health/ready").status == 200
    except ConnectionError:
        return False


def test_sighup_without_a_snapshot_is_ignored(serve: Callable[..., Server], reference: Reference) -> None:
    server = serve("linear")
    server.signal(signal.SIGHUP)
    inputs = row("linear", 1)
    with Http(server) as connection:
        assert_same(connection.infer("linear", inputs), reference("linear", inputs))
    assert server.stop().code == 0


def test_sighup_reads_the_snapshot_again_and_a_broken_one_changes_nothing(
    start: Callable[..., Server], model: Model, reference: Reference, tmp_path: Path
) -> None:
    linear, many = (snapshots.deployment(name, model(name)) for name in ("linear", "many"))
    index = snapshots.write(tmp_path, 1, [linear])
    server = start(*serving.serve_snapshot(), "--snapshot", index, "--listen", "127.0.0.1:0")
    with Http(server) as connection:
        snapshots.write(tmp_path, 2, [linear, many])
        server.signal(signal.SIGHUP)
        until("the new model is ready", lambda: connection.get("/v2/models/many/ready").status == 200 or None)
        index.write_text('{"format": 1, "generation": 3, "deployments": [], "colour": "red"}')
        server.signal(signal.SIGHUP)
        line = server.log_line(lambda fields: fields.get("message") == "snapshot refused")
        assert "colour" in line["reason"]
        for name in ("linear", "many"):
            assert_same(connection.infer(name, row(name, 1)), reference(name, row(name, 1)))
    assert server.stop().code == 0


def test_reload_serves_an_edited_model_and_a_broken_edit_changes_nothing(
    start: Callable[..., Server], model: Model, reference: Reference, tmp_path: Path
) -> None:
    edited = tmp_path / "edited.onnx"
    edited.write_bytes(model("linear").read_bytes())
    server = start(*serving.flyball(), "serve", edited, "--reload", "--listen", "127.0.0.1:0")
    with Http(server) as connection:
        assert_same(connection.infer("edited", row("linear", 1)), reference("linear", row("linear", 1)))
        edited.write_bytes(b"half a mod")
        server.log_line(lambda fields: fields.get("level") == "ERROR" and "edited" in json.dumps(fields))
        assert_same(connection.infer("edited", row("linear", 1)), reference("linear", row("linear", 1)))
        edited.write_bytes(model("many").read_bytes())
        until("the new model", lambda: _inputs(connection) == set(row("many", 1)) or None)
        assert_same(connection.infer("edited", row("many", 1)), reference("many", row("many", 1)))
    assert server.stop().code == 0


def _inputs(connection: Http) -> set[str]:
    return {item["name"] for item in connection.get("/v2/models/edited").json["inputs"]}


def test_reload_serves_an_edited_decision(start: Callable[..., Server], tmp_path: Path) -> None:
    spec = plain(tmp_path, PLAIN)
    server = start(*serving.flyball(), "serve", "--decision", spec, "--reload", "--listen", "127.0.0.1:0")
    with Http(server) as connection:
        policy = connection.get("/v1/decisions/plain").json["policy"]
        spec.write_text(PLAIN.replace("then: review", "then: reject"))
        until("the new policy", lambda: connection.get("/v1/decisions/plain").json["policy"] != policy or None)


def test_reload_names_what_other_sources_have_instead(tmp_path: Path) -> None:
    ending = serving.run([*serving.flyball(), "serve", "--model-repository", str(tmp_path), "--reload"])
    assert ending.code == 2
    assert "write  --model-control-mode poll" in ending.text


def test_logs_are_text_on_a_terminal(model: Model) -> None:
    command = [*serving.flyball(), "serve", str(model("linear")), "--listen", "127.0.0.1:0"]
    controller, terminal = os.openpty()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal) as process:
        os.close(terminal)
        assert process.stdout
        process.stdout.readline()  # ready
        process.send_signal(signal.SIGTERM)
        process.wait(serving.STOP_S)
        shown = _read_all(controller)
    assert re.search(r"^\d\d:\d\d:\d\dZ +INFO .*drain", shown, re.MULTILINE), shown
    assert "{" not in shown


def _read_all(controller: int) -> str:
    parts = []
    try:
        while part := os.read(controller, 65_536):
            parts.append(part)
    except OSError:  # the terminal's other end is closed
        pass
    os.close(controller)
    return b"".join(parts).decode()


def test_a_refused_model_is_named_by_its_file_with_the_command_that_tells_more(model: Model, tmp_path: Path) -> None:
    folder = tmp_path / "my models"
    folder.mkdir()
    (folder / "zip.onnx").write_bytes(model("zipmap").read_bytes())
    ending = serving.run([*serving.flyball(), "serve", "my models/zip.onnx", "--listen", "127.0.0.1:0"], cwd=tmp_path)
    assert ending.code == 3
    assert "Refused: my models/zip.onnx: " in ending.text
    assert "see the details:  flyball inspect 'my models/zip.onnx'" in ending.text


def test_a_decision_that_needs_a_journal_is_refused_with_the_flag_that_gives_one(tmp_path: Path) -> None:
    spec = plain(tmp_path, f"{PLAIN}record: {{durability: sync}}\n")
    ending = serving.run([*serving.flyball(), "serve", "--decision", str(spec), "--listen", "127.0.0.1:0"])
    assert ending.code == 3
    assert "this server has no journal" in ending.text
    assert "give it a journal:  --journal-folder DIR" in ending.text
    assert "flyball check" not in ending.text


def test_a_port_in_use_is_refused_with_3(serve: Callable[..., Server], model: Model) -> None:
    taken = serve("linear").address
    ending = serving.run([*serving.flyball(), "serve", str(model("linear")), "--listen", taken])
    assert ending.code == 3
    assert taken in ending.text


def test_ctrl_c_before_ready_ends_with_130(model: Model, tmp_path: Path) -> None:
    # A pipe stands for a configuration that takes its time: the command waits for it, and is surely not ready.
    config = tmp_path / "config.json"
    os.mkfifo(config)
    command = [*serving.flyball(), "serve", str(model("linear")), "--config", str(config)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process, config.open("w"):  # returns once the command has opened the other end
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=serving.STOP_S)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in errors


def test_ctrl_c_while_models_are_loaded_ends_with_130_and_no_ready_line(model: Model) -> None:
    many = [f"m{number}={model('gbdt')}" for number in range(24)]  # more than a second of loading and probing
    command = [*serving.flyball(), "serve", *many, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until("signals are held back", lambda: _holds_back(process.pid, signal.SIGINT) or None, serving.START_S)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=serving.START_S)
    assert (process.returncode, out) == (130, "")


def _holds_back(pid: int, number: signal.Signals) -> bool:
    """Whether the process's main thread blocks the signal."""
    mask = re.search(r"^SigBlk:\t([0-9a-f]+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(mask and int(mask[1], 16) >> (number - 1) & 1)
