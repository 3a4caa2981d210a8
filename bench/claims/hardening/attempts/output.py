"""Attempts on output: control characters from callers, server paths in errors, frames in the log."""

from __future__ import annotations

import http.client
import io
import json
import re
import tarfile
from typing import TYPE_CHECKING

from bench.claims.hardening.attempts import Build, Seen, attempt
from bench.claims.hardening.raw_server import PREFACE, SETTINGS, frame, frames, head, model, run, serving, waited
from bench.claims.hardening.server_process import ServerProcess

if TYPE_CHECKING:
    from pathlib import Path

_ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_HOSTILE = "a\x1b[2J\x1b]0;owned\x07\x9b31m\u202etxt.exe"


@attempt("Names with terminal escapes are printed as they are")
def escapes_on_the_terminal(build: Build, folder: Path) -> Seen:
    """A file name, and the name of a model's input, as `inspect` shows them."""
    import onnx

    path = model(folder / "m.onnx")
    made = onnx.load(path)
    made.graph.input[0].name = made.graph.node[0].input[0] = _HOSTILE
    path.write_bytes(made.SerializeToString())
    seen = {
        "an input's name": run([build.flyball, "inspect", str(path)], folder),
        "a file's name": run([build.flyball, "inspect", str(folder / f"{_HOSTILE}.onnx")], folder),
    }
    raw = [name for name, ended in seen.items() if _ACTS.search(ended.stdout + ended.stderr)]
    lines = run([build.flyball, "inspect", str(folder / "x\nError: all is well.onnx")], folder)
    if re.search(r"^Error: all is well", lines.stderr, re.MULTILINE):
        raw.append("a new line")
    return Seen(f"printed raw: {', '.join(raw)}" if raw else "all are escaped", holds=not raw)


@attempt("The server's log holds terminal escapes of callers")
def escapes_in_the_log(build: Build, folder: Path) -> Seen:
    """A snapshot's name is in the log of its refusal."""
    folder.joinpath("index.json").write_text(json.dumps({_HOSTILE: 1}, ensure_ascii=False))
    ended = run([build.flyballd, "--snapshot", str(folder / "index.json"), "--listen", "127.0.0.1:0"], folder)
    raw = bool(_ACTS.search(ended.stderr + ended.stdout))
    return Seen("printed raw" if raw else "escaped", holds=ended.returncode not in {0, 124} and not raw)


@attempt("`log: debug` shows every HTTP/2 frame of every caller")
def debug_shows_frames(build: Build, folder: Path) -> Seen:
    """One call by HTTP/2 under `log: debug`."""
    with serving(build, folder, log="debug") as server, server.connect() as connection:
        connection.sendall(PREFACE + SETTINGS + frame(1, 5, 1, head("/v2/health/live", "GET")))
        frames(connection, lambda kind, stream, _payload: (kind, stream) == (0, 1))
        waited(lambda: "h2" in server.log(), 1.0)
        targets = re.findall(r'"target":"([^"]+)"', server.log())
    foreign = [target for target in targets if not target.startswith("flyball")]
    return Seen(f"{len(foreign)} lines of other libraries, {len(targets) - len(foreign)} of ours", holds=not foreign)


@attempt("Errors of the admin API name the server's folders")
def admin_errors_name_paths(build: Build, folder: Path) -> Seen:
    """A package that cannot be registered, sent by HTTP."""
    home = folder / "registry"
    run([build.flyball, "registry", "init", str(home)], folder)
    key = run([build.flyball, "registry", "key", "add", "ada", "--role", "deployer", "--registry", str(home)], folder).stdout
    command = [build.flyball, "admin", "--registry", str(home), "--listen", "127.0.0.1:0"]
    with ServerProcess(command, folder) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        headers = {"authorization": f"Bearer {key.strip()}", "content-type": "application/x-tar"}
        connection.request("POST", "/v1/registry/fraud/register", _package(), headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        shown = str(folder) in text or ".passing-" in text
        return Seen(f"{answer.status}: {text[:160]}", holds=answer.status == 422 and not shown)


def _package() -> bytes:
    """A package without its meta.json."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in (("model.onnx", b"not a model"),):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()
