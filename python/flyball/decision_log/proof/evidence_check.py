"""Checks an evidence pack of flyball:  python verify.py [PACK.zip or FOLDER] [--key HEX]

Needs nothing but Python 3.9 or later, and trusts nothing of the system that made the pack: it computes every hash and the
signature itself. Give --key with the public key that you got from elsewhere; without it the pack's own key is used,
which shows that the pack is whole, not who made it. What no proof covers is printed as "not proven". This script is part
of the pack: take it from where you trust it.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import math
import struct
import sys
import uuid
import zipfile
from pathlib import Path
from typing import Any

Files = dict[str, bytes]


class NotProvenError(Exception):
    """What does not hold."""


# ---- SHA-256 and trees (RFC 6962) -----------------------------------------------------------------------------------


def leaf_hash(data: bytes) -> bytes:
    """Of a leaf."""
    return hashlib.sha256(b"\0" + data).digest()


def climb(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes:
    """The root that a leaf and the hashes beside its way lead to."""
    hash_, rest, last = leaf, list(path), size - 1
    demand(0 <= index < size, "a proof is of a place that its tree does not have")
    while last > 0:
        if index % 2 == 1 or index < last:
            demand(bool(rest), "a proof has too few hashes")
            beside = rest.pop(0)
            pair = beside + hash_ if index % 2 == 1 else hash_ + beside
            hash_ = hashlib.sha256(b"\1" + pair).digest()
        index, last = index // 2, last // 2
    demand(not rest, "a proof has more hashes than its tree has levels")
    return hash_


# ---- Ed25519 (RFC 8032): verification only, so nothing here is secret ------------------------------------------------

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT_OF_MINUS_1 = pow(2, (P - 1) // 4, P)


def add(a: Any, b: Any) -> Any:
    """The sum of two points (X, Y, Z, T): x = X/Z, y = Y/Z, x * y = T/Z."""
    one, two = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    three, four = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = two - one, four - three, four + three, two + one
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def times(count: int, point: Any) -> Any:
    """A point added to itself so many times."""
    total = (0, 1, 1, 0)
    while count:
        if count & 1:
            total = add(total, point)
        point, count = add(point, point), count >> 1
    return total


def point_of(encoded: bytes) -> Any:
    """The point that 32 bytes stand for; none where they stand for none."""
    number = int.from_bytes(encoded, "little")
    y, sign = number & (2**255 - 1), number >> 255
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT_OF_MINUS_1 % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    x = P - x if x & 1 != sign else x
    return (x, y, 1, x * y % P)


def signed(key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the owner of the key signed these bytes."""
    if len(key) != 32 or len(signature) != 64:
        return False
    public, commitment = point_of(key), point_of(signature[:32])
    scalar = int.from_bytes(signature[32:], "little")
    if public is None or commitment is None or scalar >= L:
        return False
    base = point_of((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))
    challenge = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % L
    left, right = times(scalar, base), add(commitment, times(challenge, public))
    return all((left[axis] * right[2] - right[axis] * left[2]) % P == 0 for axis in (0, 1))


# ---- CBOR (RFC 8949): what records use -------------------------------------------------------------------------------


def cbor(payload: bytes) -> Any:
    """The one item that the bytes are."""
    value, end = item(payload, 0)
    demand(end == len(payload), "a record has bytes behind its end")
    return value


def item(data: bytes, at: int) -> tuple[Any, int]:
    """An item and where it ends."""
    demand(at < len(data), "a record ends too early")
    major, short = data[at] >> 5, data[at] & 31
    at += 1
    if short >= 24:
        width = {24: 1, 25: 2, 26: 4, 27: 8}.get(short, 0)
        demand(width > 0 and at + width <= len(data), "a record uses a form that records do not have")
        raw, at = data[at : at + width], at + width
        if major == 7:
            return (struct.unpack({2: ">e", 4: ">f", 8: ">d"}[width], raw)[0] if width > 1 else None), at
        count = int.from_bytes(raw, "big")
    else:
        count = short
    if major in (0, 1):
        return (count if major == 0 else -1 - count), at
    if major in (2, 3):
        demand(at + count <= len(data), "a record ends too early")
        raw = data[at : at + count]
        return (raw if major == 2 else raw.decode("utf-8")), at + count
    if major == 6:
        demand(count == 1001, "a record uses a form that records do not have")
        value, at = item(data, at)
        return rfc3339(value.get(1, 0) * 1_000_000_000 + value.get(-9, 0)), at
    if major == 7:
        return {20: False, 21: True}.get(short), at
    found = []
    for _ in range(count * (major - 3)):
        value, at = item(data, at)
        found.append(value)
    return (found if major == 4 else {found[place]: found[place + 1] for place in range(0, len(found), 2)}), at


# ---- A record in words -----------------------------------------------------------------------------------------------

STAGES = ("parse", "route", "admit", "features", "tensor", "queue", "infer", "policy", "record", "respond")
DIGESTS = ("document", "policy", "schema", "runtime", "deployment")
REVEALED = {"input": "personal_fields", "features": "personal_features"}


def rfc3339(unix_ns: int) -> str:
    """A time in words; no zeros at its end."""
    seconds, rest = divmod(unix_ns, 1_000_000_000)
    time = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    return time.isoformat() + f".{rest:09d}".rstrip("0").rstrip(".") + "Z"


def plain(value: Any) -> Any:
    """As JSON has it: bytes are hexadecimal there, and what is not finite is a text."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list):
        return [plain(part) for part in value]
    return {name: plain(part) for name, part in value.items()} if isinstance(value, dict) else value


def named(value: list[Any], *names: str) -> Any:
    """What is a list in the log, for its length, has names in JSON."""
    demand(len(value) == len(names), "a record has a list of another length")
    return {name: plain(value[place]) for place, name in enumerate(names)}


def part_in_words(key: str, value: Any) -> Any:
    """One pair of a record."""
    if key == "id":
        return str(uuid.UUID(bytes=value))
    if key in DIGESTS:
        return "sha256:" + value.hex()
    if key == "features":
        return {name: named(part, "value", "origin", "age_ms") for name, part in value.items()}
    if key == "reasons" and isinstance(value, list):
        return [named(part, "code", "field", "contribution") for part in value]
    if key == "batch":
        return [named(part, "model", "rows", "position") for part in value]
    if key == "models":
        return [{**named(part, "model", "version", "digest"), "digest": "sha256:" + part[2].hex()} for part in value]
    if key == "remedy" and value is not None:
        return named(value, "cause", "stage", "used")
    if key == "input_blob":
        return ["sha256:" + value[0].hex(), value[1]]
    return named(value, *STAGES) if key == "timings" else plain(value)


def in_words(record: Any) -> Any:
    """All that JSON may say of a record, but for what is personal."""
    words = {key: part_in_words(key, value) for key, value in record.items() if key != "personal"}
    return {**words, "time": rfc3339(record["at"])} if "at" in record else words


def same(one: Any, other: Any) -> bool:
    """By their text, for which 1, 1.0 and true are three things."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def told_once(pairs: list[tuple[str, Any]]) -> Any:
    """An object of JSON: who reads its text must not see another value than this script."""
    demand(len(pairs) == len({name for name, _ in pairs}), "a file says the same thing twice")
    return dict(pairs)


def document(files: Files, name: str) -> Any:
    """A file of JSON."""
    demand(name in files, f"{name} is missing")
    return json.loads(files[name], object_pairs_hook=told_once)


def without_personal(name: str, shown: Any, words: Any) -> tuple[Any, list[str]]:
    """What is shown of a record beside what is personal, and what of that is shown but cannot be proven."""
    rest, unproven = dict(shown), []
    if "personal" in rest:
        rest.pop("personal_error", None)
        unproven.append(f"{name}: that what is personal is {rest.pop('personal')}; the log has it encrypted")
        return rest, unproven
    values = rest.pop("personal_values", [])
    shows = bool(values) or any(rest.get(names) for names in REVEALED.values())
    demand(shows, f"{name}: it does not show that something is personal")
    demand(set(values) <= {"row", "why"} - set(words), f"{name}: what the log has in the open is shown as personal")
    for value in values:
        rest.pop(value, None)
        unproven.append(f"{name}: {value}; it was opened with a key that is not in this pack")
    for part, list_ in REVEALED.items():
        fields = rest.pop(list_, [])
        demand(not set(fields) & set(words.get(part) or ()), f"{name}: what the log has in the open is shown as personal")
        if fields:
            rest[part] = {field: value for field, value in rest[part].items() if field not in fields}
            unproven += [f"{name}: {part}.{field}; it was opened with a key that is not in this pack" for field in fields]
            if not rest[part] and part not in words:
                del rest[part]
    return rest, unproven


# ---- The pack --------------------------------------------------------------------------------------------------------


def demand(holds: bool, otherwise: str) -> None:
    """Stops with the reason where something does not hold."""
    if not holds:
        raise NotProvenError(otherwise)


def only(what: str, found: Any, *names: str) -> None:
    """A document has these parts and no other, which nobody would look at."""
    demand(set(found) == set(names), f"{what} has other parts than it should: {', '.join(sorted(set(found) ^ set(names)))}")


def check(files: Files, key: str | None) -> tuple[list[str], list[str]]:
    """Everything; gives what was found and what cannot be proven, line by line, or raises with what does not hold."""
    pack, node = document(files, "proof.json"), document(files, "node.json")
    only("proof.json", pack, "format", "decision", "frames", "segments")
    only("node.json", node, "node", "key")
    public = bytes.fromhex(key or node["key"])
    demand(not key or key.lower() == node["key"], "the pack names another key than --key")
    size, top, told = checkpoint(files["checkpoint.txt"].decode("utf-8"), node["node"], public)
    for number, segment in pack["segments"].items():
        check_segment(int(number), segment, node, size, top)
    kept, unproven = {}, []
    for frame in pack["frames"]:
        kept[frame["record"]], more = check_frame(files, frame, pack["segments"][str(frame["segment"])])
        unproven += more
        told.append(f"{frame['record']}: number {frame['seq']} of the log, in segment {frame['segment']}, as it was written")
    known = {f"records/{name}.{end}" for name in kept for end in ("cbor", "json")}
    known |= {"proof.json", "node.json", "checkpoint.txt"}
    for name, line in check_documents(files, kept, pack["decision"]).items():
        known.add(name)
        told.append(f"{name}: {line}")
    for name in sorted(files.keys() - known):
        demand(name in SPOKEN, f"{name} does not belong to a pack")
        unproven.append(f"{name}; {SPOKEN[name]}")
    return told, unproven


SPOKEN = {
    "README.txt": "it is for people",
    "not-proven-yet.txt": "it names records that were told since the last seal",
    "verify.py": "a script cannot vouch for itself",
}


def checkpoint(note: str, node: str, key: bytes) -> tuple[int, bytes, list[str]]:
    """The number of segments and the root that the note signs."""
    text, _, signatures = note.partition("\n\n")
    lines, name = (text + "\n").split("\n"), f"flyball-journal/{node}"
    demand(lines[0] == name, "the checkpoint is of another log")
    start = f"\u2014 {name} "
    written = signatures.splitlines()
    demand(all(line.startswith(start) for line in written), "the checkpoint has more in it than its note")
    found = [base64.b64decode(line[len(start) :]) for line in written]
    hint = hashlib.sha256(name.encode() + b"\n\x01" + key).digest()[:4]
    good = [raw for raw in found if raw[:4] == hint and signed(key, (text + "\n").encode(), raw[4:])]
    demand(bool(good), "the checkpoint's signature is not by this key")
    return int(lines[1]), base64.b64decode(lines[2]), [f"checkpoint over {lines[1]} segments: signed by {key.hex()}"]


def check_segment(number: int, segment: Any, node: Any, size: int, top: bytes) -> None:
    """The header belongs to the segment, and the segment to the checkpoint."""
    only(f"the proof of segment {number}", segment, "header", "header_path", "frames", "root", "path")
    header, root = bytes.fromhex(segment["header"]), bytes.fromhex(segment["root"])
    demand(len(header) == 256 and header[:8] == b"flyballJ", f"segment {number} has no header")
    demand(header[16:32].hex() == node["node"], f"segment {number} is of another node")
    demand(int.from_bytes(header[80:88], "little") == number, f"segment {number} has another number in its header")
    leaves = segment["frames"] + 1
    reached = climb(leaf_hash(header), 0, leaves, hashes(segment["header_path"]))
    demand(reached == root, f"the header of segment {number} does not lead to its root")
    reached = climb(leaf_hash(root), number - 1, size, hashes(segment["path"]))
    demand(reached == top, f"segment {number} is not under the checkpoint")


def check_frame(files: Files, frame: Any, segment: Any) -> tuple[Any, list[str]]:
    """The record's bytes belong to the segment, and the readable record says what they say and nothing else."""
    name, seq = frame["record"], frame["seq"]
    only(f"the proof of {name}", frame, "record", "seq", "segment", "prev", "path")
    demand(f"records/{name}.cbor" in files, f"{name}: its bytes are missing")
    payload = files[f"records/{name}.cbor"]
    index = seq - int.from_bytes(bytes.fromhex(segment["header"])[88:96], "little")
    leaf = leaf_hash(seq.to_bytes(8, "little") + bytes.fromhex(frame["prev"]) + payload)
    reached = climb(leaf, index + 1, segment["frames"] + 1, hashes(frame["path"]))
    demand(reached.hex() == segment["root"], f"{name}: its bytes are not what the log holds")
    record = cbor(payload)
    demand(name == f"{seq:012d}-{record['kind']}", f"{name}: the record has another number or kind")
    place = {"seq": seq, "segment": frame["segment"], "frame": index, "leaf": leaf.hex(), "prev": frame["prev"]}
    words = {**in_words(record), **place}
    if "input_blob" in record:
        demand("input.cbor" in files, f"input.cbor is missing, which {name} names as its input_blob")
        demand(
            hashlib.sha256(files["input.cbor"]).digest() == record["input_blob"][0], "input.cbor is not what the log names"
        )
        words["input"] = plain(cbor(files["input.cbor"]))
    shown, unproven = document(files, f"records/{name}.json"), list[str]()
    if "personal" in record:
        shown, unproven = without_personal(name, shown, words)
    for field in sorted(shown.keys() | words.keys()):
        told = field in shown and field in words and same(shown[field], words[field])
        demand(told, f"{name}: the readable record says another {field} than the log")
    return record, unproven


def check_documents(files: Files, kept: Any, name: str) -> dict[str, str]:
    """The files beside the records: all that they name by digest, and what is derived from those. Gives what each is."""
    demand(name in kept and kept[name]["kind"] in ("decision", "failed"), "the pack's decision is not among its records")
    decided, found = kept[name], {}
    served = [(one, record) for one, record in kept.items() if record["kind"] == "served"]
    others = [record for record in kept.values() if record["kind"] != "served"]
    demand(all(record["id"] == decided["id"] for record in others), "a record in this pack is of another decision")
    demand(len(served) == 1, "the record of how the decision was served is missing")
    as_served = all(served[0][1][field] == decided[field] for field in ("decision", "document", "policy", "schema"))
    demand(as_served and served[0][0] < name, "the deployment in this pack is not the one that decided")
    if "input_blob" in decided:  # what is shown of the record was compared with it
        found["input.cbor"] = f"the one that {name} names as its input_blob"
    for file, (one, record), field in [
        ("decision.json", served[0], "deployment"),
        ("runtime.json", (name, decided), "runtime"),
    ]:
        demand(file in files, f"{file} is missing, which {one} names as its {field}")
        demand(hashlib.sha256(files[file]).digest() == record[field], f"{file} is not the one that the log names")
        found[file] = f"the one that {one} names as its {field}"
    policy, models = document(files, "decision.json")["decision"].get("policy"), in_words(decided).get("models", [])
    for file, content in (("policy.json", policy), ("models.json", models)):
        demand(same(document(files, file), content), f"{file} is not what the log says")
        found[file] = "says what the log says"
    return found


def hashes(texts: list[str]) -> list[bytes]:
    """From hexadecimal."""
    return [bytes.fromhex(text) for text in texts]


def opened(place: Path) -> Files:
    """The files of a pack: of a zip, or of the folder that it was unpacked to."""
    if place.is_dir():
        return {path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob("*") if not path.is_dir()}
    with zipfile.ZipFile(place) as archive:
        demand(len(archive.namelist()) == len(set(archive.namelist())), "the pack has two files of one name")
        return {name: archive.read(name) for name in archive.namelist()}


def one_line(text: object) -> str:
    """One line, without what a terminal would obey: the pack's words must not look like this program's."""
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in str(text))


def main(arguments: list[str]) -> int:
    """Prints what was found; 0 only where everything holds."""
    words = list(arguments)
    key = words.pop(words.index("--key") + 1) if "--key" in words[:-1] else None
    words = [word for word in words if word != "--key"]
    place = Path(words[0]) if words else Path(__file__).resolve().parent
    try:
        told, unproven = check(opened(place), key)
    except NotProvenError as error:
        sys.stdout.write(f"NOT PROVEN: {one_line(error)}\n")
        return 1
    except (OSError, KeyError, ValueError, TypeError, AttributeError, IndexError, zipfile.BadZipFile, struct.error) as error:
        sys.stdout.write(f"NOT PROVEN: the pack is damaged: {type(error).__name__} {one_line(error)}\n")
        return 1
    lines = [f"ok  {one_line(line)}\n" for line in told] + [f"--  not proven: {one_line(line)}\n" for line in unproven]
    sys.stdout.write("".join(lines))
    sys.stdout.write("PROVEN\n" if key else "PROVEN under the pack's own key; compare it with the one that you were given\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
