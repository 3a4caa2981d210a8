"""An evidence pack proves a decision to whoever has Python, and proves nothing once anything in it is changed."""

import hashlib
import json
import subprocess
import sys
import uuid
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flyball.decision_log.proof import evidence_check, merkle
from flyball.decision_log.proof.export import export
from flyball.decision_log.read.whole_log import WholeLog
from flyball.decision_log.retention.compact import compact
from flyball.errors import NotFoundError, UnavailableError
from tests.support import journal_folders
from tests.support.journal_folders import START_NS, JournalFolder, Time, decision_pairs

Files = dict[str, bytes]
DECISION, LONG = "records/000000000005-decision.json", "records/000000000008-decision.json"


def served(path: Path) -> tuple[JournalFolder, uuid.UUID]:
    """A journal with a served decision, what was told of it later, and others around."""
    journal = JournalFolder(path)
    pairs = decision_pairs("loan", "reject", journal.now_ns)
    deployment = journal.blob(json.dumps({"decision": {"policy": {"bands": []}}}).encode())
    runtime = journal.blob(b'{"ort": "1.30"}')
    names = {name: pairs[name] for name in ("decision", "document", "policy", "schema")}
    journal.add("served", **names, deployment=deployment, runtime=runtime, base="/srv")
    for _ in range(3):
        journal.decide("card-fraud")
    identity = uuid.UUID(int=(journal.now_ns // 1_000_000) << 80 | 0x7 << 76 | 0x8 << 60 | 99)
    journal.add("decision", identity, **{**pairs, "runtime": runtime})
    journal.seal()
    journal.add("outcome", identity, decision="card-fraud", when=None, truth={"paid": False}, source=None, caller=None)
    journal.seal()
    journal.add("override", identity, decision="card-fraud", outcome="approve", by="ann", why="known", caller=None)
    journal.write()
    return journal, identity


def sealed(path: Path) -> tuple[JournalFolder, uuid.UUID]:
    """The same with an input that is too long for a record, values of all types, and some that are personal."""
    journal, _ = served(path)
    pairs = decision_pairs("loan", "reject", journal.now_ns + 120_000_000)
    del pairs["input"]
    odd = {"scores": {"fraud": float("nan")}, "score": float("-inf"), "remedy": ["run_error", "infer", "fallback"]}
    text_of_input = journal_folders.cbor({"note": "x" * 9000, "id": 7, "when": Time(START_NS // 10**9, 5)})
    blob, runtime = journal.blob(text_of_input), hashlib.sha256(b'{"ort": "1.30"}').digest()
    identity = uuid.UUID(int=(journal.now_ns // 1_000_000) << 80 | 0x7 << 76 | 0x8 << 60 | 100)
    personal = {"input_blob": [blob, len(text_of_input)], "subject": b"s" * 32, "personal": b"c" * 20}
    journal.add("decision", identity, **{**pairs, **odd, "runtime": runtime, **personal})
    journal.seal()
    return journal, identity


def unpacked(pack: Path) -> Files:
    with zipfile.ZipFile(pack) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def checked(files: Files, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs the pack's own script, in a Python that finds nothing of flyball's."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    command = [sys.executable, "-I", str(folder / "verify.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")


@pytest.fixture
def pack(tmp_path: Path) -> Files:
    journal, identity = served(tmp_path / "journal")
    export(WholeLog(journal.path), str(identity), tmp_path / "pack.zip")
    return unpacked(tmp_path / "pack.zip")


def test_a_pack_is_proven_by_its_own_script_alone(pack: Files, tmp_path: Path) -> None:
    shown = checked(pack, tmp_path / "pack", "--key", journal_folders.KEY.hex())
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines()[-1] == "PROVEN"
    assert "decision.json: the deployment of 000000000001-served" in shown.stdout
    own = checked(pack, tmp_path / "pack")
    assert "under the pack's own key" in own.stdout


def test_what_no_proof_covers_is_named(pack: Files, tmp_path: Path) -> None:
    shown = checked(pack, tmp_path / "pack").stdout
    unproven = [line.split(": ")[1].split(";")[0] for line in shown.splitlines() if line.startswith("--  not proven: ")]
    assert unproven == ["README.txt", "not-proven-yet.txt", "verify.py"]


def test_the_script_reads_the_zip_as_well(pack: Files, tmp_path: Path) -> None:
    shown = checked(pack, tmp_path / "pack", str(tmp_path / "pack.zip"))
    assert shown.returncode == 0


def test_a_pack_has_the_records_the_deployment_and_its_policy(pack: Files) -> None:
    records = sorted(name for name in pack if name.endswith(".cbor"))
    assert records == [
        f"records/{name}.cbor" for name in ("000000000001-served", "000000000005-decision", "000000000006-outcome")
    ]
    assert json.loads(pack["policy.json"]) == {"bands": []}
    assert pack["not-proven-yet.txt"] == b"000000000007-override\n"


def test_another_key_than_the_one_that_was_given_proves_nothing(pack: Files, tmp_path: Path) -> None:
    shown = checked(pack, tmp_path / "pack", "--key", "00" * 32)
    assert (shown.returncode, shown.stdout.startswith("NOT PROVEN")) == (1, True)


def text(name: str, old: str, new: str) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        assert old in files[name].decode()
        files[name] = files[name].decode().replace(old, new).encode()

    return change


def document(name: str, change: Callable[[Any], object]) -> Callable[[Files], None]:
    def apply(files: Files) -> None:
        read = json.loads(files[name])
        change(read)
        files[name] = json.dumps(read).encode()

    return apply


def payload(files: Files) -> None:
    files["records/000000000005-decision.cbor"] = files["records/000000000005-decision.cbor"].replace(b"reject", b"accept")


def resigned(files: Files) -> None:
    """By somebody else's key, who also put it into the pack: only --key, or the header, shows that."""
    files["node.json"] = files["node.json"].replace(journal_folders.KEY.hex().encode(), b"11" * 32)


@pytest.mark.parametrize(
    "tamper",
    [
        payload,
        text("records/000000000005-decision.json", '"outcome": "reject"', '"outcome": "approve"'),
        text("records/000000000005-decision.json", '"score": 0.914', '"score": 0.2'),
        text("records/000000000005-decision.json", '"amount": 4100.0', '"amount": 1.0'),
        text("records/000000000005-decision.json", '"value": 23', '"value": 2'),
        text("records/000000000005-decision.json", '"code": "R11"', '"code": "R12"'),
        text("decision.json", "bands", "bends"),
        text("runtime.json", "1.30", "1.31"),
        text("checkpoint.txt", "\n2\n", "\n3\n"),
        document("proof.json", lambda proof: proof["frames"][0].update(seq=6)),
        document("proof.json", lambda proof: proof["frames"][0].update(prev="00" * 32)),
        document("proof.json", lambda proof: proof["frames"][0]["path"].pop()),
        document("proof.json", lambda proof: proof["segments"]["1"].update(root="00" * 32)),
        document("proof.json", lambda proof: proof["segments"]["1"].update(frames=9)),
        document("proof.json", lambda proof: proof["segments"]["1"]["path"].append("00" * 32)),
        lambda files: files.pop("checkpoint.txt"),
        resigned,
        text("policy.json", "bands", "bends"),
        text("models.json", '"7"', '"8"'),
        document(DECISION, lambda record: record.update(approved_by="ann")),
        document(DECISION, lambda record: record.update(time="2020-01-01T00:00:00Z")),
        document(DECISION, lambda record: record.update(personal_fields=["amount"], input={"amount": 1.0, "country": "DE"})),
        document(DECISION, lambda record: record["timings"].update(parse=1000, route=6000)),
        document(DECISION, lambda record: record.update(single=1)),
        text(DECISION, '"outcome": "reject"', '"outcome": "approve", "outcome": "reject"'),
        document("proof.json", lambda proof: proof["frames"].pop(0) and proof.update(decision="000000000006-outcome")),
        document("proof.json", lambda proof: proof.update(note="all is well")),
        lambda files: files.pop("decision.json"),
        lambda files: files.pop("policy.json"),
        lambda files: files.pop("models.json"),
        lambda files: files.update({"verdict.txt": b"all is well"}),
        lambda files: files.update({"checkpoint.txt": files["checkpoint.txt"] + b"all is well\n"}),
    ],
    ids=["payload", "outcome", "score", "input", "feature", "reason", "deployment", "runtime", "checkpoint", "seq", "prev",
         "path", "root", "frames", "longer", "missing", "key", "policy", "models",
         "new key", "time", "in the open", "timings", "type", "twice", "decision", "proof's key", "no deployment",
         "no policy", "no models", "new file", "longer note"],
)  # fmt: skip
def test_a_changed_pack_is_not_proven_and_the_script_says_why(
    pack: Files, tmp_path: Path, tamper: Callable[[Files], None]
) -> None:
    tamper(pack)
    shown = checked(pack, tmp_path / "pack")
    assert shown.returncode == 1
    assert shown.stdout.startswith("NOT PROVEN: ")
    assert shown.stderr == ""


@pytest.fixture
def long(tmp_path: Path) -> Files:
    journal, identity = sealed(tmp_path / "long")
    assert "input.cbor" in export(WholeLog(journal.path), str(identity), tmp_path / "long.zip").documents
    return unpacked(tmp_path / "long.zip")


def test_a_long_input_is_in_the_pack_and_proven(long: Files, tmp_path: Path) -> None:
    shown = checked(long, tmp_path / "pack")
    assert shown.returncode == 0, shown.stdout
    assert "input.cbor: the input_blob of 000000000008-decision" in shown.stdout
    assert json.loads(long[LONG])["input"] == {"note": "x" * 9000, "id": 7, "when": "2026-11-16T00:00:00.000000005Z"}


@pytest.mark.parametrize(
    "tamper",
    [
        lambda files: files.pop("input.cbor"),
        lambda files: files.update({"input.cbor": files["input.cbor"].replace(b"x", b"y")}),
        text(LONG, '"id": 7', '"id": 8'),
        text(LONG, "000000005Z", "000000006Z"),
        document(LONG, lambda record: record.pop("personal")),
    ],
    ids=["missing", "other", "readable", "time", "not personal"],
)
def test_a_changed_long_input_is_not_proven(long: Files, tmp_path: Path, tamper: Callable[[Files], None]) -> None:
    tamper(long)
    assert checked(long, tmp_path / "pack").stdout.startswith("NOT PROVEN: ")


def test_personal_values_that_are_shown_are_named_as_not_proven(long: Files, tmp_path: Path) -> None:
    assert f"--  not proven: {LONG[8:-5]}: that its personal data is sealed" in checked(long, tmp_path / "sealed").stdout
    document(LONG, lambda record: record.pop("personal"))(long)
    document(LONG, lambda record: (record.update(personal_fields=["name"]), record["input"].update(name="Ann")))(long)
    shown = checked(long, tmp_path / "opened")
    assert (shown.returncode, f"--  not proven: {LONG[8:-5]}: input.name; " in shown.stdout) == (0, True)


def test_a_pack_is_the_same_before_and_after_compaction(tmp_path: Path) -> None:
    journal, identity = served(tmp_path / "journal")
    export(WholeLog(journal.path), str(identity), tmp_path / "before.zip")
    compact(WholeLog(journal.path))
    export(WholeLog(journal.path), str(identity), tmp_path / "after.zip")
    assert (tmp_path / "before.zip").read_bytes() == (tmp_path / "after.zip").read_bytes()


def test_a_decision_in_the_open_segment_has_no_proof_yet(tmp_path: Path) -> None:
    journal = journal_folders.filled(tmp_path / "journal", [2])
    identity = journal.decide()
    journal.write()
    with pytest.raises(UnavailableError, match="no proof yet"):
        export(WholeLog(journal.path), str(identity), tmp_path / "pack.zip")
    assert not (tmp_path / "pack.zip").exists()


def test_a_pack_is_for_its_owner_alone(tmp_path: Path) -> None:
    journal, identity = served(tmp_path / "journal")
    (tmp_path / "pack.zip").touch(0o644)
    export(WholeLog(journal.path), str(identity), tmp_path / "pack.zip")
    assert (tmp_path / "pack.zip").stat().st_mode & 0o777 == 0o600


def test_a_decision_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    journal = journal_folders.filled(tmp_path / "journal", [2])
    with pytest.raises(NotFoundError):
        export(WholeLog(journal.path), str(uuid.UUID(int=1)), tmp_path / "pack.zip")


# From RFC 8032, 7.1: key, message, signature.
SIGNED = [
    ("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"),
    ("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "message", "signature"), SIGNED)
def test_the_script_s_ed25519_agrees_with_the_rfc(key: str, message: str, signature: str) -> None:
    parts = [bytes.fromhex(part) for part in (key, message, signature)]
    assert evidence_check.signed(*parts)
    for place in range(3):
        changed = list(parts)
        changed[place] = bytes([*changed[place][:-1], changed[place][-1] ^ 1]) if changed[place] else b"x"
        assert not evidence_check.signed(*changed)


@pytest.mark.parametrize("size", range(1, 18))
def test_every_leaf_of_a_tree_climbs_to_its_root_and_no_other_does(size: int) -> None:
    leaves = [hashlib.sha256(bytes([number])).digest() for number in range(size)]
    for index, leaf in enumerate(leaves):
        path = merkle.path(leaves, index)
        assert evidence_check.climb(leaf, index, size, path) == merkle.root(leaves)
        assert evidence_check.climb(bytes(32), index, size, path) != merkle.root(leaves)
