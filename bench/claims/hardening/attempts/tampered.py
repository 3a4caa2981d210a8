"""Attempts on a published snapshot: every signed value changed, documents truncated and swapped."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
import urllib.request
from typing import TYPE_CHECKING, Any

from bench.claims.hardening.approvals import WAIT_S, House, small_model
from bench.claims.hardening.attempts import Build, Seen, attempt

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@attempt("a server serves a snapshot in which something was changed after it was signed")
def a_snapshot_is_tampered_with(build: Build, folder: Path) -> Seen:
    """Two deployments, so that their documents can be exchanged. Whatever is changed, `fraud` must not be served.

    The signature's file holds the index that was signed, and that one counts: a changed index.json may be passed over, where
    what is served is what was signed.
    """
    house = _published(build, folder)
    good = folder / "published"
    if not (signed := _served(build, folder, good)):
        return Seen("the snapshot is not served as it was signed", holds=False)
    taken, tried = [], 0
    for name, path, content in _tampered(good):
        tried += 1
        bad = folder / "bad"
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(house.folder / "published", bad)
        (bad / path).write_bytes(content)
        served = _served(build, folder, bad)
        if served and (served != signed or path.name != "index.json"):
            taken.append(name)
    told = f"; served: {', '.join(taken[:4])}" if taken else ""
    return Seen(f"{tried - len(taken)} of {tried} changes are not served{told}", holds=not taken)


def _published(build: Build, folder: Path) -> House:
    house = House.made(build, folder)
    small_model(folder / "other.onnx", 9)
    house.done("register", "other", "other.onnx")
    house.done("sign", "other@1", "--key", "ada.pem")
    for ref in ("fraud@1", "other@1"):
        house.done("approve", ref, "--key", "grace.pem", actor="")
        house.done("promote", ref, "--environment", "production")
    words = ("control", "--registry", "home", "--out", "published", "--publisher-key", "control.pem")
    command = house.command(*words, "--environment", "production")
    with subprocess.Popen(**command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as control:
        try:
            until = time.monotonic() + WAIT_S
            # The copy of what was published last is the last that is written.
            while not (folder / "published/last-good/index.json").exists() and time.monotonic() < until:
                time.sleep(0.05)
        finally:
            control.terminate()
    return house


def _tampered(good: Path) -> Iterator[tuple[str, Path, bytes]]:
    documents = sorted(good.glob("deployments/*.json"))
    fraud = next(path for path in documents if json.loads(path.read_bytes())["name"] == "fraud")
    other = next(path for path in documents if path != fraud)
    files = [good / "index.json", good / "index.sig.json", fraud, good / "trust.json"]
    files += [path for path in sorted(good.glob("packages/*/*")) if _package_of(fraud) in str(path)]
    for path in files:
        short, content = path.relative_to(good), path.read_bytes()
        yield f"{short} cut off", short, content.rstrip()[:-1]
        yield f"{short} with a byte more", short, content + b"}"
        if path.suffix == ".json":
            for where, changed in _changed(json.loads(content)):
                yield f"{short} {where}", short, json.dumps(changed, separators=(",", ":"), sort_keys=True).encode()
            for key, value in json.loads(content).items():
                wrong = next((changed for _, changed in _changed({key: value})), {key: "x"})
                twice = json.dumps(wrong, separators=(",", ":")).encode()[1:-1]
                inside = content.strip()[1:-1]
                yield f"{short} with {key} twice, the wrong one first", short, b"{" + twice + b"," + inside + b"}"
                yield f"{short} with {key} twice, the wrong one last", short, b"{" + inside + b"," + twice + b"}"
        else:
            half = len(content) // 2
            yield f"{short} one bit", short, content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :]
    yield "the other deployment's document in its place", fraud.relative_to(good), other.read_bytes()


def _package_of(document: Path) -> str:
    text = document.read_text()
    packages = [path.name for path in document.parents[1].glob("packages/*")]
    return next(name for name in packages if name in text)


def _changed(document: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """The document with one value after the other changed."""
    if isinstance(document, dict):
        for key, value in document.items():
            for place, changed in _changed(value, f"{where}.{key}"):
                yield place, {**document, key: changed}
    elif isinstance(document, list):
        for at, value in enumerate(document):
            for place, changed in _changed(value, f"{where}[{at}]"):
                yield place, [*document[:at], changed, *document[at + 1 :]]
    elif isinstance(document, bool):
        yield where, not document
    elif isinstance(document, int | float):
        yield where, document + 1
    elif isinstance(document, str) and document:
        yield where, ("A" if document[0] != "A" else "B") + document[1:]


def _served(build: Build, folder: Path, snapshot: Path) -> dict[str, Any]:
    """Generation and digests that a fresh server serves with `fraud`; nothing where it does not. It knows the root's key."""
    library = subprocess.run(
        [build.python, str(build.root / "tools/ort_library.py")], capture_output=True, text=True, check=True
    ).stdout.strip()
    state = folder / "state"
    shutil.rmtree(state, ignore_errors=True)
    words = ["--snapshot", str(snapshot / "index.json"), "--trust-root", str(folder / "root.pub")]
    words += ["--trust-policy", str(snapshot / "trust.json"), "--state-folder", str(state), "--environment", "production"]
    words += ["--listen", "127.0.0.1:0"]
    environment = {**os.environ, "ORT_DYLIB_PATH": library}
    with subprocess.Popen(
        [build.flyballd, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            if server.stdout is None or not select.select([server.stdout], [], [], WAIT_S)[0]:
                return {}
            ready = server.stdout.readline()
            return _told(ready.split()[1]) if "fraud" in ready else {}
        finally:
            server.kill()


def _told(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}/v1/deployments", timeout=WAIT_S) as answer:  # noqa: S310 - it says http itself
        document = json.load(answer)
    found = {one["name"]: one.get("digest") for one in document["deployments"]}
    return {"generation": document["generation"], "deployments": found}
