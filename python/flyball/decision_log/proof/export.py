"""Writes evidence packs: one decision with its proofs, in a zip that anyone can verify with Python alone.

Records are included as exact bytes and as JSON, with the documents they reference by digest. Must not know terminals.
"""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from flyball.decision_log.proof.prove import ProvenSegment, newest_note
from flyball.documents.durable_file import sync_folder
from flyball.errors import NotFoundError

if TYPE_CHECKING:
    from pathlib import Path

    from flyball.decision_log.proof.checkpoints import Checkpoint
    from flyball.decision_log.read.whole_log import WholeLog

_DECIDED = ("decision", "failed")


@dataclass(frozen=True, slots=True)
class Exported:
    """The contents of a pack."""

    decision_id: str
    records: list[str]
    documents: list[str]
    segments: int


def export(whole: WholeLog, decision_id: str, out: Path) -> Exported:
    """Write the pack. Readable records include personal data only if the log was opened with `reveal`."""
    records = whole.find(decision_id)
    decided = next((record for record in records if record["kind"] in _DECIDED), None)
    if decided is None:
        raise NotFoundError(
            f"the journal in {whole.folder} has no decision {decision_id}", code="record_not_found",
            next_step="list decisions:  flyball decisions query",
        )  # fmt: skip
    served = _served(whole, decided)
    pack = _Pack(whole, newest_note(whole))
    for record in [*records, *([served] if served else [])]:
        pack.add(record)
    documents = _documents(whole, decided, served, pack)
    pack.finish(decided)
    _write(out, pack.contents)
    return Exported(decision_id, pack.names, documents, pack.note.sealed)


class _Pack:
    """The files of a pack, by name."""

    def __init__(self, whole: WholeLog, note: Checkpoint) -> None:
        self.note, self.contents = note, dict[str, bytes]()
        self.names: list[str] = []
        self._whole = whole
        self._segments: dict[int, ProvenSegment] = {}
        self._frames: list[dict[str, Any]] = []

    def add(self, record: dict[str, Any]) -> None:
        """Add a record with its proof. Annotations since the last seal have no proof yet, and are left out."""
        segment, name = record["segment"], name_of(record)
        if segment > self.note.sealed and record["kind"] not in _DECIDED:
            self.contents["not-proven-yet.txt"] = self.contents.get("not-proven-yet.txt", b"") + f"{name}\n".encode()
            return
        if segment not in self._segments:
            self._segments[segment] = ProvenSegment.of(self._whole, segment, self.note)
        proven = self._segments[segment]
        self._frames.append({"record": name, **proven.frame_document(record["seq"])})
        self.names.append(name)
        self.contents[f"records/{name}.cbor"] = proven.frames[record["seq"]].payload
        self.contents[f"records/{name}.json"] = _json(record)

    def finish(self, decided: dict[str, Any]) -> None:
        """Add the proof document, the verification script and the README."""
        proof = {
            "format": 1, "decision": name_of(decided), "frames": self._frames,
            "segments": {str(number): proven.document() for number, proven in self._segments.items()},
        }  # fmt: skip
        node = json.loads((self._whole.folder / "node.json").read_bytes())
        self.contents |= {
            "proof.json": _json(proof),
            "node.json": _json({"node": node["node"], "key": node["key"]}),
            "checkpoint.txt": self.note.note.encode(),
            "models.json": _json(decided.get("models", [])),
            "verify.py": files("flyball.decision_log.proof").joinpath("evidence_check.py").read_bytes(),
            "README.txt": _readme(decided).encode(),
        }


def name_of(record: dict[str, Any]) -> str:
    """The name of a record's files."""
    return f"{record['seq']:012d}-{record['kind']}"


def _served(whole: WholeLog, decided: dict[str, Any]) -> dict[str, Any] | None:
    """The `served` record of the decision: the last one before it with the same documents."""
    same = ("document", "policy", "schema")
    found = None
    for record in whole.records(kinds=["served"], decision=decided["decision"]):
        if record["seq"] < decided["seq"] and all(record.get(name) == decided.get(name) for name in same):
            found = record
    return found


def _documents(whole: WholeLog, decided: dict[str, Any], served: dict[str, Any] | None, pack: _Pack) -> list[str]:
    """Add the documents that records reference by digest: deployment, policy, runtime, a long input."""
    named = {"runtime.json": decided.get("runtime"), "decision.json": served["deployment"] if served else None}
    if decided.get("input_blob"):
        named["input.cbor"] = decided["input_blob"][0]
    found = {file: content for file, digest in named.items() if digest and (content := whole.blob(digest)) is not None}
    pack.contents |= found
    if "decision.json" in found:
        pack.contents["policy.json"] = _json(_policy(found["decision.json"]))
    return list(found)


def _policy(deployment: bytes) -> Any:
    """The policy of the deployment, for readers; the log references the whole deployment."""
    decision = json.loads(deployment).get("decision")
    return decision.get("policy") if isinstance(decision, dict) else None


def _json(document: Any) -> bytes:
    return json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True).encode() + b"\n"


def _readme(decided: dict[str, Any]) -> str:
    what = decided.get("outcome") or "no decision"
    return f"""Evidence for one decision

{decided["decision"]}: {what}, {decided["time"]}, id {decided["id"]}

records/         the log's records about it: exact bytes (.cbor), and readable (.json)
decision.json    the deployment that decided; policy.json is its policy; models.json lists its models by digest
runtime.json     the machine and the libraries that it ran on
input.cbor       only if the input is too long for the record: its exact bytes
proof.json       hashes that lead from each record to checkpoint.txt, which the node signed; node.json has its key

Verify it with Python 3.9 or later, without other packages:

    python verify.py
    python verify.py --key HEX        with the node's public key, obtained from another source

Personal data is encrypted in the log, and the proof covers the encrypted bytes. If records/*.json show it, it was
decrypted with a key that is not in this pack, and verify.py reports it as not proven, like this file.
"""


def _write(out: Path, contents: dict[str, bytes]) -> None:
    """Write the zip, readable by its owner only: it has inputs, and may have personal data."""
    temporary = out.with_name(f".{out.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, content in contents.items():
                    archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(out.absolute().parent)
