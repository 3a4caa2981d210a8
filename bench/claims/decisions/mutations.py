"""Topic: mutated specs. Each is accepted or refused with a path and a fix; none crashes or loads partially.

They are checked in processes of their own, so that a crash is seen as one. Then mutated documents are applied to a running
server one after the other: what it serves is always one of them whole, and what it refuses leaves the one before.
"""

from __future__ import annotations

import copy
import json
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims.bars import none
from bench.claims.claim import Claim, Figure, Raw, Topic
from flyball.client import Client
from flyball.decision.compile.bundle import deployment_of
from flyball.decision.decision import Decision
from flyball.documents.config.server import ServerConfig
from flyball.documents.snapshot import compile_models
from flyball.errors import RefusedError
from flyball.native.server import Server
from tests.reference import agree as reading
from tests.reference import loan_rows
from tests.reference.mutations import change, mutated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.claims.tails.stand import Stand
    from flyball.documents.snapshot import Bundle

SPECS, QUICK_SPECS, BATCH, SEED = 10_000, 400, 250, 20261115
APPLIED = 400
ROW = {"customer": "c", "amount": 10.0, "age": 40, "currency": "EUR"}
_BATCH_S = 300.0
_PATH_AND_FIX = re.compile(r"decision: ([a-z_].*?( is |: )|the document)\S")  # a mutated name may hold anything
CHECKED, DOCUMENTS = "checked", "applied"
TAKEN, REFUSED, SILENT, CRASHED = "taken", "refused", "refused without path or fix", "crashed"


def measure(stand: Stand) -> None:
    """All of them through the check, and the good ones through a server."""
    folder = stand.folder / "mutations"
    folder.mkdir()
    shutil.copy(reading.SPEC, folder / "loan.yaml")
    loan_rows.make_model(folder / "loan.onnx")
    count = QUICK_SPECS if stand.quick else SPECS
    found: Counter[str] = Counter()
    notes: list[str] = []
    for start in range(0, count, BATCH):
        for verdict, number in _in_a_process(folder, start, min(BATCH, count - start), notes).items():
            found[verdict] += number
        stand.tell(f"{start + BATCH:,} of {count:,}: {dict(found)}")
    stand.keep(CHECKED, {"count": count, "verdicts": found, "notes": notes[:50]})
    _apply_mutated(stand, folder)


def _in_a_process(folder: Path, start: int, count: int, notes: list[str]) -> Counter[str]:
    """A line for each spec comes back; where lines are missing, the process ended or hung at the next one."""
    command = [sys.executable, "-m", "bench.claims.decisions.mutations", str(folder), str(start), str(count)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_BATCH_S, check=False)
        said, ending = done.stdout, f"ended with {done.returncode}: {done.stderr[-200:]}"
    except subprocess.TimeoutExpired as hung:
        said, ending = (hung.stdout or b"").decode(), f"hung for {_BATCH_S:g} s"
    told = [json.loads(line) for line in said.splitlines() if line.endswith("}")]
    found = Counter(str(one["verdict"]) for one in told)
    notes += [str(one["note"]) for one in told if one["note"]]
    if len(told) < count:
        found[CRASHED] += count - len(told)
        notes.append(f"spec {start + len(told)}: the process {ending}")
    return found


def _check(folder: Path, start: int, count: int) -> None:
    """What becomes of each spec, as a line of JSON."""
    text = (folder / "loan.yaml").read_text()
    for number, spec in enumerate(mutated(text, count, SEED + start), start):
        verdict, note = TAKEN, None
        try:
            Decision.from_yaml(spec, base=folder).check()
        except RefusedError as error:
            good = bool(error.faults) and all(fault.allowed for fault in error.faults)
            verdict, note = (REFUSED, None) if good else (SILENT, f"spec {number}: {error}"[:300])
        except Exception as error:
            verdict, note = CRASHED, f"spec {number}: {error!r}"[:300]
        print(json.dumps({"verdict": verdict, "note": note}), flush=True)


def _apply_mutated(stand: Stand, folder: Path) -> None:
    """Mutated documents, as no check of ours would let them through, one after the other."""
    decision = Decision.load(folder / "loan.yaml")
    compiled = decision.check().compiled
    chance = random.Random(SEED)
    tried, wrong = Counter[str](), list[str]()
    with _serving(decision.bundle(), folder) as (server, client):
        before = _served(client)
        for generation in range(2, 2 + (APPLIED // 10 if stand.quick else APPLIED)):
            document = copy.deepcopy(compiled.document)
            change(document, chance)
            source = replace(deployment_of(compiled), decision=document)
            try:
                bundle = compile_models([source], generation=generation)
            except RefusedError:  # a number that JSON does not have
                tried["no document"] += 1
                continue
            (ack,) = server.apply(bundle.to_bytes())
            tried[ack.state] += 1
            now = _served(client)
            if ack.state != "refused":
                before = now
            elif now != before:
                wrong.append(f"generation {generation}: {now} after a refusal, {before} before it")
            elif not _PATH_AND_FIX.match(ack.reason or ""):
                wrong.append(f"generation {generation}: the refusal names no place: {ack.reason}")
    stand.keep(DOCUMENTS, {"tried": tried, "wrong": len(wrong), "examples": wrong[:20]})


def _served(client: Client) -> tuple[str, str] | str:
    """What tells one decision from another, from outside: its policy and what it decides, or why it does not."""
    row = client.decide_rows("loan", [ROW])[0]
    return (row.decided.policy, row.decided.outcome) if row.decided else str(row.fault)


@contextmanager
def _serving(bundle: Bundle, folder: Path) -> Iterator[tuple[Server, Client]]:
    """A server in this process: a crash would end the claim itself."""
    address = f"unix:{folder / 'socket'}"
    settings = {"listen": [address], "log": "error", "lanes": 1, "unsigned": "allow"}
    server = Server(ServerConfig.model_validate(settings), bundle.to_bytes())
    try:
        with Client(address, deadline_ms=10_000) as client:
            yield server, client
    finally:
        server.drain()
        server.wait(10)


def _neither(raw: Raw) -> Figure:
    found, notes = raw[CHECKED]["verdicts"], raw[CHECKED]["notes"]
    told = f"{found.get(TAKEN, 0):,} accepted, {found.get(REFUSED, 0):,} refused" + (f": {notes[0]}" if notes else "")
    missing = raw[CHECKED]["count"] - sum(found.values())
    return Figure(found.get(SILENT, 0) + found.get(CRASHED, 0), told, f"{missing} specs have no verdict" if missing else "")


def _by_half(raw: Raw) -> Figure:
    found = raw[DOCUMENTS]
    told = ", ".join(f"{number} {what}" for what, number in found["tried"].items())
    fault = "" if {"applied", "refused"} <= set(found["tried"]) else "not one was applied, or not one refused"
    return Figure(found["wrong"], told + "".join(f": {one[:200]}" for one in found["examples"][:1]), fault)


TOPIC = Topic(
    "mutations",
    measure,
    subject="the spec of a loan decision, changed at random, and its compiled document, applied to a running server",
    sample=f"{SPECS:,} specs, {APPLIED} documents",
    claims=(
        Claim("specs", "specs neither accepted nor refused with a path and the allowed values", none(), _neither),
        Claim("documents", "documents applied in part: after a refusal the server decides as before", none(), _by_half),
    ),
)


if __name__ == "__main__":
    _check(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
