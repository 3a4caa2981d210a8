"""Topic: mutated specs. Each is taken whole or refused with a path and a fix; none crashes, none is loaded by half.

They are checked in processes of their own, so that a crash is seen as one. Then mutated documents are applied to a running
server one after the other: what it serves is always one of them whole, and what it refuses leaves the one before.
"""

from __future__ import annotations

import copy
import multiprocessing
import random
import shutil
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flyball.client import Client
from flyball.config import ServerConfig
from flyball.engine import Server
from flyball.errors import RefusedError
from flyball.snapshot import compile_models
from flyball.spec import Decision
from flyball.spec.bundle import deployment_of
from tests.reference import agree as reading
from tests.reference import loan_rows
from tests.reference.mutations import change, mutated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.claims.tails.stand import Stand
    from flyball.snapshot import Bundle

SPECS, QUICK_SPECS, BATCH, SEED = 10_000, 400, 250, 20261115
APPLIED = 400
ROW = {"customer": "c", "amount": 10.0, "age": 40, "currency": "EUR"}
_BATCH_S = 300.0
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
    stand.keep("checked", {**found, "notes": notes[:50]})
    bad = found[SILENT] + found[CRASHED]
    figure = f"{found[TAKEN]:,} taken, {found[REFUSED]:,} refused, {bad} neither" + (f": {notes[0]}" if notes else "")
    stand.report.judge(f"{count:,} mutated specs: taken, or refused with path and fix", figure, "all", holds=not bad)
    _judge_applied(stand, folder)


def _in_a_process(folder: Path, start: int, count: int, notes: list[str]) -> Counter[str]:
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_check, args=(folder, start, count, theirs))
    process.start()
    theirs.close()
    found: Counter[str] = Counter()
    try:
        while mine.poll(_BATCH_S):
            verdict, note = mine.recv()
            found[verdict] += 1
            if note:
                notes.append(note)
    except EOFError:
        pass
    process.join(5)
    process.kill()
    if found.total() < count:  # the one at which it ended, or hung, and those that it never reached
        found[CRASHED] += count - found.total()
        notes.append(f"spec {start + found.total()}: the process ended with {process.exitcode}")
    return found


def _check(folder: Path, start: int, count: int, told: Any) -> None:
    text = (folder / "loan.yaml").read_text()
    for number, spec in enumerate(mutated(text, start + count, SEED)):
        if number < start:
            continue
        try:
            Decision.from_yaml(spec, base=folder).check()
        except RefusedError as error:
            good = bool(error.faults) and all(fault.allowed for fault in error.faults)
            told.send((REFUSED, None) if good else (SILENT, f"spec {number}: {error}"[:300]))
        except Exception as error:
            told.send((CRASHED, f"spec {number}: {error!r}"[:300]))
        else:
            told.send((TAKEN, None))
    told.close()


def _judge_applied(stand: Stand, folder: Path) -> None:
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
            (ack,) = server.apply(compile_models([source], generation=generation).to_bytes())
            tried[ack.state] += 1
            now = _served(client)
            if ack.state != "refused":
                before = now
            elif now != before:
                wrong.append(f"generation {generation}: {now} after a refusal, {before} before it")
            elif "allowed" not in (ack.reason or ""):
                wrong.append(f"generation {generation}: the refusal names no fix: {ack.reason}")
    stand.keep("applied", {**tried, "wrong": wrong[:20]})
    figure = f"{dict(tried)}, {len(wrong)} wrong" + (f": {wrong[0][:200]}" if wrong else "")
    claim = "mutated documents applied to a running server: whole or not at all"
    stand.report.judge(claim, figure, "none by half", holds=not wrong)


def _served(client: Client) -> tuple[str, str] | str:
    """What tells one decision from another, from outside: its policy and what it decides, or why it does not."""
    row = client.decide_rows("loan", [ROW])[0]
    return (row.decided.policy, row.decided.outcome) if row.decided else str(row.fault)


@contextmanager
def _serving(bundle: Bundle, folder: Path) -> Iterator[tuple[Server, Client]]:
    """A server in this process: a crash would end the claim itself."""
    address = f"unix:{folder / 'socket'}"
    server = Server(ServerConfig.model_validate({"listen": [address], "log": "error", "lanes": 1}), bundle.to_bytes())
    try:
        with Client(address, deadline_ms=10_000) as client:
            yield server, client
    finally:
        server.drain()
        server.wait(10)
