"""Attempts missed at first: redirected imports, replayed or racing approvals, kills during a load."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims.hardening.approvals import WAIT_S, House, small_model
from bench.claims.hardening.attempts import Build, Seen, attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_AT_ONCE = 8
_KILLS = 20


@attempt("a bundle file writes outside the registry that imports it, or fills its memory")
def an_import_leads_elsewhere(build: Build, folder: Path) -> Seen:
    """A rightly signed bundle, with entries in front of, in the place of and behind its own."""
    house = House.made(build, folder)
    house.done("registry", "export", "fraud@1", "--out", "good.flyball", "--key", "ada.pem")
    good = (folder / "good.flyball").read_bytes()
    with tarfile.open(fileobj=io.BytesIO(good)) as archive:
        entries = [(entry, archive.extractfile(entry).read()) for entry in archive]  # type: ignore[union-attr]
    taken, tried = [], 0
    for name, bytes_ in _hostile(entries, str(folder / "out")):
        (folder / "bad.flyball").write_bytes(bytes_)
        before = _outside(folder)
        ended = house.run("registry", "import", "bad.flyball")
        tried += 1
        if ended.returncode == 0 or _outside(folder) != before or "Traceback" in ended.stderr:
            taken.append(name)
    return Seen(f"{tried - len(taken)} of {tried} refused" + (f"; taken: {', '.join(taken)}" if taken else ""), not taken)


def _hostile(entries: list[tuple[tarfile.TarInfo, bytes]], outside: str) -> Iterator[tuple[str, bytes]]:
    def rewritten(change: Callable[[tarfile.TarInfo], None], place: int) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for at, (entry, content) in enumerate(entries):
                copy = tarfile.TarInfo.frombuf(entry.tobuf(), "utf-8", "strict")
                if at == place:
                    change(copy)
                archive.addfile(copy, io.BytesIO(content) if copy.isreg() else None)
        return out.getvalue()

    def to(**values: object) -> Callable[[tarfile.TarInfo], None]:
        def change(entry: tarfile.TarInfo) -> None:
            for name, value in values.items():
                setattr(entry, name, value)

        return change

    link = {"linkname": "/etc/passwd", "size": 0}
    changes = {
        "..": to(name="../../out"),
        "absolute": to(name=outside),
        "inside and up": to(name="blobs/sha256/../../../out"),
        "long name": to(name="a/" * 200 + "b"),
        "symbolic link": to(type=tarfile.SYMTYPE, **link),
        "hard link": to(type=tarfile.LNKTYPE, **link),
        "device": to(type=tarfile.CHRTYPE, size=0, devmajor=1, devminor=5),
        "pipe": to(type=tarfile.FIFOTYPE, size=0),
        "folder": to(type=tarfile.DIRTYPE, size=0),
    }
    for name, change in changes.items():
        for place in (0, len(entries) // 2, len(entries) - 1):
            yield f"{name} at {place}", rewritten(change, place)
    good = rewritten(to(), 0)
    huge = bytearray(good)
    huge[124:136] = b"77777777777\0"
    yield "eight gigabytes that are not there", _summed(huge)
    yield "bytes behind the end", good + b"x" * 512
    yield "cut off", good[: len(good) // 2]
    yield "twice", good[:-1024] + good


def _summed(header: bytearray) -> bytes:
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    return bytes(header)


def _outside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in {"bad.flyball", "home"})


@attempt("names in a Triton repository lead to files outside it")
def a_repository_leads_elsewhere(build: Build, folder: Path) -> Seen:
    """By the model's file, by its labels, and by links."""
    secret = small_model(folder / "secret.onnx", 1)
    taken = []
    names = ["../../../secret.onnx", str(secret), "..", ".", "a/b.onnx", "model.onnx\0x"]
    for place, name in enumerate(names):
        version = folder / f"repository-{place}" / "m" / "1"
        version.mkdir(parents=True)
        quoted = name.replace("\0", "\\000")
        (version.parent / "config.pbtxt").write_text(f'backend: "onnxruntime"\ndefault_model_filename: "{quoted}"\n')
        house = House(build, folder)
        if place == 0:
            house.done("registry", "init", "--environment", "production")
        ended = house.run("import", "triton", str(version.parents[1]))
        if ended.returncode == 0 or "Traceback" in ended.stderr:
            taken.append(repr(name))
    done = len(names) - len(taken)
    return Seen(f"{done} of {len(names)} refused" + (f"; taken: {', '.join(taken)}" if taken else ""), holds=not taken)


@attempt("one person approves twice by asking at once, or an author approves with another key")
def approvers_race(build: Build, folder: Path) -> Seen:
    """Eight processes with one key; then the author's second key, under three spellings of the name."""
    house = House.made(build, folder)
    racing = [
        subprocess.Popen(
            **house.command("approve", "fraud@1", "--key", "grace.pem", actor=""),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(_AT_ONCE)
    ]
    codes = Counter(process.wait(WAIT_S) for process in racing)
    approved = _events(house)["approved"]
    own = []
    for spelling in ("ada", "Ada", "ADA"):
        key = f"second-{spelling}"
        house.done("key", "new", f"{key}.pem")
        trusted = house.run("trust", "add", f"{key}.pub", "--name", spelling, "--role", "approver")
        ended = house.run("approve", "fraud@1", "--key", f"{key}.pem", actor="")
        if trusted.returncode == 0 and ended.returncode == 0:
            own.append(spelling)
    text = f"{_AT_ONCE} at once: {codes[0]} succeeded, {approved} recorded; by the author's second key: {len(own)} of 3"
    return Seen(text, holds=codes[0] == approved == 1 and not own)


def _events(house: House) -> Counter[str]:
    lines = house.done("registry", "history", "fraud", "--json").splitlines()
    return Counter(json.loads(line)["kind"] for line in lines)


@attempt("an approval of one version counts for another")
def an_approval_is_replayed(build: Build, folder: Path) -> Seen:
    """Written into the database beside the registry, as whoever holds it could; then promoted."""
    house = House.made(build, folder)
    house.done("approve", "fraud@1", "--key", "grace.pem", actor="")
    house.version(2)
    database = next((folder / "home").rglob("*.db"), None) or next((folder / "home").rglob("*.sqlite*"))
    script = (
        "import json, sqlite3, sys\n"
        "base = sqlite3.connect(sys.argv[1])\n"
        "columns = [row[1] for row in base.execute('pragma table_info(events)')]\n"
        "rows = [dict(zip(columns, row)) for row in base.execute('select * from events')]\n"
        "print(json.dumps([columns, rows], default=lambda value: value.hex()))\n"
    )
    read = subprocess.run(
        [build.python, "-c", script, str(database)], capture_output=True, text=True, check=True, timeout=WAIT_S
    )
    _, rows = json.loads(read.stdout)
    approved = next(row for row in rows if row["kind"] == "approved")
    forge = (
        "import json, sqlite3, sys\n"
        "base, row = sqlite3.connect(sys.argv[1]), json.loads(sys.argv[2])\n"
        "last = base.execute('select max(sequence) from events').fetchone()[0]\n"
        "columns = [one[1] for one in base.execute('pragma table_info(events)')]\n"
        "kept = dict(zip(columns, base.execute('select * from events where sequence = ?', (row['sequence'],)).fetchone()))\n"
        "body = kept['body']\n"
        "text = body.decode() if isinstance(body, bytes) else body\n"
        "assert '\"version\":1' in text\n"
        "text = text.replace('\"version\":1', '\"version\":2')\n"
        "kept |= {'sequence': last + 1, 'body': text.encode() if isinstance(body, bytes) else text}\n"
        "if 'revision' in kept: kept['revision'] = base.execute('select max(revision) from events').fetchone()[0] + 1\n"
        "marks = ','.join('?' * len(columns))\n"
        "base.execute(f'insert into events values ({marks})', [kept[name] for name in columns])\n"
        "base.commit()\n"
    )
    forged = subprocess.run(
        [build.python, "-c", forge, str(database), json.dumps(approved)],
        capture_output=True, text=True, check=False, timeout=WAIT_S,
    )  # fmt: skip
    if forged.returncode:
        words = forged.stderr.strip().splitlines()[-1][:120]
        return Seen(f"the database refuses a second row of it: {words}", holds="Error" in words)
    promoted = house.run("promote", "fraud@2", "--environment", "production")
    verified = house.run("registry", "verify")
    found = "promotion refused" if promoted.returncode else "promoted"
    told = "verify says so" if verified.returncode else "verify says nothing"
    return Seen(f"{found}; {told}", holds=promoted.returncode != 0 and verified.returncode != 0)


@attempt("a server that is killed while it loads does not start again, or serves half of what it took")
def a_load_is_killed(build: Build, folder: Path) -> Seen:
    """SIGKILL at times spread over the start; then it starts, and answers."""
    small_model(folder / "m.onnx", 1)
    snapshot = folder / "snapshot"
    made = [build.flyball, "snapshot", "m.onnx", "--out", str(snapshot)]
    subprocess.run(made, cwd=folder, check=True, capture_output=True, timeout=WAIT_S)
    library = subprocess.run(
        [build.python, str(build.root / "tools/ort_library.py")], capture_output=True, text=True, check=True
    ).stdout.strip()
    index = next(path for path in snapshot.rglob("index.json"))
    journal = folder / "journal"
    words = [build.flyballd, "--snapshot", str(index), "--unsigned", "allow", "--listen", "127.0.0.1:0"]
    words += ["--journal-folder", str(journal), "--state-folder", str(folder / "state")]
    environment = {**os.environ, "ORT_DYLIB_PATH": library}
    for place in range(_KILLS):
        with _started(words, environment) as server, contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(0.02 + 0.3 * place / _KILLS)
    with _started(words, environment, piped=True) as server:
        ready = server.stdout.readline() if server.stdout else ""
    verified = subprocess.run(
        [build.flyball, "decisions", "verify", "--journal-folder", str(journal)],
        capture_output=True, text=True, check=False, timeout=WAIT_S,
    )  # fmt: skip
    whole = verified.returncode == 0
    shutil.rmtree(journal, ignore_errors=True)
    text = f"{_KILLS} kills; then: {ready.strip()[:80] or 'not ready'}; journal {'whole' if whole else 'broken'}"
    return Seen(text, holds=ready.startswith("ready") and whole)


@contextlib.contextmanager
def _started(words: list[str], environment: dict[str, str], *, piped: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A server that is killed at the end."""
    out = subprocess.PIPE if piped else subprocess.DEVNULL
    with subprocess.Popen(words, env=environment, stdout=out, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            yield server
        finally:
            server.send_signal(signal.SIGKILL)
