"""Verifies an evidence pack of flyball:  python verify.py [PACK.zip or FOLDER] [--key HEX]

Needs only Python 3.9 or later, and does not trust the system that made the pack: it computes every hash and the signature
itself. Give --key with the public key, obtained from another source; without it the pack's own key is used, which shows
that the pack is consistent, not who made it. Parts without a proof are printed as "not proven". This script is part of
the pack: get it from a source that you trust.
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
    """A check failed."""


# ---- SHA-256 and trees (RFC 6962) -----------------------------------------------------------------------------------


def leaf_hash(data: bytes) -> bytes:
    """The hash of a leaf."""
    return hashlib.sha256(b"\0" + data).digest()


def climb(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes:
    """Compute the root from a leaf and its sibling hashes."""
    hash_, rest, last = leaf, list(path), size - 1
    demand(0 <= index < size, "the position of a proof is outside its tree")
    while last > 0:
        if index % 2 == 1 or index < last:
            demand(bool(rest), "a proof has too few hashes")
            sibling = rest.pop(0)
            pair = sibling + hash_ if index % 2 == 1 else hash_ + sibling
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
    """Multiply a point by a scalar."""
    total = (0, 1, 1, 0)
    while count:
        if count & 1:
            total = add(total, point)
        point, count = add(point, point), count >> 1
    return total


def point_of(encoded: bytes) -> Any:
    """Decode a point from 32 bytes; None if they are not valid."""
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
    """Whether the signature of these bytes is valid for the key."""
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
    """Decode the one item in the bytes."""
    value, end = item(payload, 0)
    demand(end == len(payload), "a record has extra bytes at its end")
    return value


def item(data: bytes, at: int) -> tuple[Any, int]:
    """Decode an item; return it and its end."""
    demand(at < len(data), "a record ends too early")
    major, short = data[at] >> 5, data[at] & 31
    at += 1
    if short >= 24:
        width = {24: 1, 25: 2, 26: 4, 27: 8}.get(short, 0)
        demand(width > 0 and at + width <= len(data), "a record uses an unsupported encoding")
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
        demand(count == 1001, "a record uses an unsupported encoding")
        value, at = item(data, at)
        return rfc3339(value.get(1, 0) * 1_000_000_000 + value.get(-9, 0)), at
    if major == 7:
        return {20: False, 21: True}.get(short), at
    found = []
    for _ in range(count * (major - 3)):
        value, at = item(data, at)
        found.append(value)
    return (found if major == 4 else {found[index]: found[index + 1] for index in range(0, len(found), 2)}), at


# ---- A record as JSON ------------------------------------------------------------------------------------------------

STAGES = ("parse", "route", "admit", "features", "tensor", "queue", "infer", "policy", "record", "respond")
DIGESTS = ("document", "policy", "schema", "runtime", "deployment")
REVEALED = {"input": "personal_fields", "features": "personal_features"}


def rfc3339(unix_ns: int) -> str:
    """Format a time, without trailing zeros."""
    seconds, rest = divmod(unix_ns, 1_000_000_000)
    time = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    return time.isoformat() + f".{rest:09d}".rstrip("0").rstrip(".") + "Z"


def plain(value: Any) -> Any:
    """Convert to JSON: bytes become hex, and non-finite numbers text."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list):
        return [plain(part) for part in value]
    return {name: plain(part) for name, part in value.items()} if isinstance(value, dict) else value


def named(value: list[Any], *names: str) -> Any:
    """Convert a list of the log to an object: the log omits names to save space."""
    demand(len(value) == len(names), "a record has a list of the wrong length")
    return {name: plain(part) for name, part in zip(names, value)}  # noqa: B905 - Python 3.9 has no strict


def json_of(key: str, value: Any) -> Any:
    """Convert one field of a record to JSON."""
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


def readable(record: Any) -> Any:
    """Convert a record to JSON, without personal data."""
    fields = {key: json_of(key, value) for key, value in record.items() if key != "personal"}
    return {**fields, "time": rfc3339(record["at"])} if "at" in record else fields


def same(one: Any, other: Any) -> bool:
    """Compare as JSON text, in which 1, 1.0 and true differ."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def unique_keys(pairs: list[tuple[str, Any]]) -> Any:
    """Refuse duplicate keys: a reader of the text must see the same value as this script."""
    demand(len(pairs) == len({name for name, _ in pairs}), "a JSON file has a duplicate key")
    return dict(pairs)


def document(files: Files, name: str) -> Any:
    """Parse a JSON file."""
    demand(name in files, f"{name} is missing")
    return json.loads(files[name], object_pairs_hook=unique_keys)


def without_personal(name: str, shown: Any, fields_: Any) -> tuple[Any, list[str]]:
    """Remove personal data from the readable record; return the rest, and what cannot be proven."""
    rest, unproven = dict(shown), []
    if "personal" in rest:
        rest.pop("personal_error", None)
        unproven.append(f"{name}: that its personal data is {rest.pop('personal')}; it is encrypted in the log")
        return rest, unproven
    values = rest.pop("personal_values", [])
    shows = bool(values) or any(rest.get(names) for names in REVEALED.values())
    demand(shows, f"{name}: its personal data is not marked as personal")
    demand(set(values) <= {"row", "why"} - set(fields_), f"{name}: unencrypted data is shown as personal")
    for value in values:
        rest.pop(value, None)
        unproven.append(f"{name}: {value}; it was decrypted with a key that is not in this pack")
    for part, list_ in REVEALED.items():
        fields = rest.pop(list_, [])
        demand(not set(fields) & set(fields_.get(part) or ()), f"{name}: unencrypted data is shown as personal")
        if fields:
            rest[part] = {field: value for field, value in rest[part].items() if field not in fields}
            unproven += [f"{name}: {part}.{field}; it was decrypted with a key that is not in this pack" for field in fields]
            if not rest[part] and part not in fields_:
                del rest[part]
    return rest, unproven


# ---- The pack --------------------------------------------------------------------------------------------------------


def demand(holds: bool, fault: str) -> None:
    """Raise with the fault if a check fails."""
    if not holds:
        raise NotProvenError(fault)


def only(what: str, found: Any, *names: str) -> None:
    """Refuse a document with missing or extra keys, which nothing would verify."""
    demand(set(found) == set(names), f"{what} has missing or extra keys: {', '.join(sorted(set(found) ^ set(names)))}")


def check(files: Files, key: str | None) -> tuple[list[str], list[str]]:
    """Verify everything; return lines on what is proven and what is not. Raises on the first failed check."""
    pack, node = document(files, "proof.json"), document(files, "node.json")
    only("proof.json", pack, "format", "decision", "frames", "segments")
    only("node.json", node, "node", "key")
    public = bytes.fromhex(key or node["key"])
    demand(not key or key.lower() == node["key"], "the pack names another key than --key")
    size, top, proven = checkpoint(files["checkpoint.txt"].decode("utf-8"), node["node"], public)
    for number, segment in pack["segments"].items():
        check_segment(int(number), segment, node, size, top)
    kept, unproven = {}, []
    for frame in pack["frames"]:
        kept[frame["record"]], more = check_frame(files, frame, pack["segments"][str(frame["segment"])])
        unproven += more
        proven.append(f"{frame['record']}: record {frame['seq']} of the log, in segment {frame['segment']}, unchanged")
    known = {f"records/{name}.{end}" for name in kept for end in ("cbor", "json")}
    known |= {"proof.json", "node.json", "checkpoint.txt"}
    for name, line in check_documents(files, kept, pack["decision"]).items():
        known.add(name)
        proven.append(f"{name}: {line}")
    for name in sorted(files.keys() - known):
        demand(name in UNPROVEN, f"{name} does not belong to a pack")
        unproven.append(f"{name}; {UNPROVEN[name]}")
    return proven, unproven


UNPROVEN = {
    "README.txt": "an explanation for people",
    "not-proven-yet.txt": "a list of annotations since the last seal",
    "verify.py": "a script cannot verify itself",
}


def checkpoint(note: str, node: str, key: bytes) -> tuple[int, bytes, list[str]]:
    """Verify the checkpoint; return its number of segments and its root."""
    text, _, signatures = note.partition("\n\n")
    lines, name = (text + "\n").split("\n"), f"flyball-journal/{node}"
    demand(lines[0] == name, "the checkpoint belongs to another log")
    start = f"\u2014 {name} "
    written = signatures.splitlines()
    demand(all(line.startswith(start) for line in written), "the checkpoint has extra lines")
    found = [base64.b64decode(line[len(start) :]) for line in written]
    hint = hashlib.sha256(name.encode() + b"\n\x01" + key).digest()[:4]
    good = [raw for raw in found if raw[:4] == hint and signed(key, (text + "\n").encode(), raw[4:])]
    demand(bool(good), "the checkpoint is not signed by this key")
    return int(lines[1]), base64.b64decode(lines[2]), [f"checkpoint over {lines[1]} segments: signed by {key.hex()}"]


def check_segment(number: int, segment: Any, node: Any, size: int, top: bytes) -> None:
    """Verify that the header belongs to the segment, and the segment to the checkpoint."""
    only(f"the proof of segment {number}", segment, "header", "header_path", "frames", "root", "path")
    header, root = bytes.fromhex(segment["header"]), bytes.fromhex(segment["root"])
    demand(len(header) == 256 and header[:8] == b"flyballJ", f"segment {number} has no valid header")
    demand(header[16:32].hex() == node["node"], f"segment {number} belongs to another node")
    demand(int.from_bytes(header[80:88], "little") == number, f"segment {number} has a different number in its header")
    leaves = segment["frames"] + 1
    reached = climb(leaf_hash(header), 0, leaves, hashes(segment["header_path"]))
    demand(reached == root, f"the header of segment {number} does not match its root")
    reached = climb(leaf_hash(root), number - 1, size, hashes(segment["path"]))
    demand(reached == top, f"segment {number} is not covered by the checkpoint")


def check_frame(files: Files, frame: Any, segment: Any) -> tuple[Any, list[str]]:
    """Verify that the record's bytes belong to the segment, and that the readable record matches them."""
    name, seq = frame["record"], frame["seq"]
    only(f"the proof of {name}", frame, "record", "seq", "segment", "prev", "path")
    demand(f"records/{name}.cbor" in files, f"{name}: its bytes are missing")
    payload = files[f"records/{name}.cbor"]
    index = seq - int.from_bytes(bytes.fromhex(segment["header"])[88:96], "little")
    leaf = leaf_hash(seq.to_bytes(8, "little") + bytes.fromhex(frame["prev"]) + payload)
    reached = climb(leaf, index + 1, segment["frames"] + 1, hashes(frame["path"]))
    demand(reached.hex() == segment["root"], f"{name}: its bytes differ from the log")
    record = cbor(payload)
    demand(name == f"{seq:012d}-{record['kind']}", f"{name}: the record has a different number or kind")
    position = {"seq": seq, "segment": frame["segment"], "frame": index, "leaf": leaf.hex(), "prev": frame["prev"]}
    fields = {**readable(record), **position}
    if "input_blob" in record:
        demand("input.cbor" in files, f"input.cbor is missing, the input_blob of {name}")
        demand(
            hashlib.sha256(files["input.cbor"]).digest() == record["input_blob"][0],
            "input.cbor does not match its digest in the log",
        )
        fields["input"] = plain(cbor(files["input.cbor"]))
    shown, unproven = document(files, f"records/{name}.json"), list[str]()
    if "personal" in record:
        shown, unproven = without_personal(name, shown, fields)
    for field in sorted(shown.keys() | fields.keys()):
        equal = field in shown and field in fields and same(shown[field], fields[field])
        demand(equal, f"{name}: {field} of the readable record differs from the log")
    return record, unproven


def check_documents(files: Files, kept: Any, name: str) -> dict[str, str]:
    """Verify the files that records reference by digest, and files derived from them; return what each is."""
    demand(name in kept and kept[name]["kind"] in ("decision", "failed"), "the pack's decision is not among its records")
    decided, found = kept[name], {}
    served = [(one, record) for one, record in kept.items() if record["kind"] == "served"]
    others = [record for record in kept.values() if record["kind"] != "served"]
    demand(all(record["id"] == decided["id"] for record in others), "a record in this pack belongs to another decision")
    demand(len(served) == 1, "the served record of the decision is missing")
    as_served = all(served[0][1][field] == decided[field] for field in ("decision", "document", "policy", "schema"))
    demand(as_served and served[0][0] < name, "the deployment in this pack did not make the decision")
    if "input_blob" in decided:  # the readable record was compared with it
        found["input.cbor"] = f"the input_blob of {name}"
    for file, (one, record), field in [
        ("decision.json", served[0], "deployment"),
        ("runtime.json", (name, decided), "runtime"),
    ]:
        demand(file in files, f"{file} is missing, the {field} of {one}")
        demand(hashlib.sha256(files[file]).digest() == record[field], f"{file} does not match its digest in the log")
        found[file] = f"the {field} of {one}"
    policy, models = document(files, "decision.json")["decision"].get("policy"), readable(decided).get("models", [])
    for file, content in (("policy.json", policy), ("models.json", models)):
        demand(same(document(files, file), content), f"{file} does not match the log")
        found[file] = "matches the log"
    return found


def hashes(texts: list[str]) -> list[bytes]:
    """Decode hex."""
    return [bytes.fromhex(text) for text in texts]


def read_pack(source: Path) -> Files:
    """Read the files of a pack from a zip or an unpacked folder."""
    if source.is_dir():
        return {path.relative_to(source).as_posix(): path.read_bytes() for path in source.rglob("*") if not path.is_dir()}
    with zipfile.ZipFile(source) as archive:
        demand(len(archive.namelist()) == len(set(archive.namelist())), "the pack has two files with the same name")
        return {name: archive.read(name) for name in archive.namelist()}


def one_line(text: object) -> str:
    """Escape control characters and newlines: text of the pack must not pass for this program's output."""
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in str(text))


def main(arguments: list[str]) -> int:
    """Print the result; returns 0 only if everything holds."""
    words = list(arguments)
    key = words.pop(words.index("--key") + 1) if "--key" in words[:-1] else None
    words = [word for word in words if word != "--key"]
    source = Path(words[0]) if words else Path(__file__).resolve().parent
    try:
        proven, unproven = check(read_pack(source), key)
    except NotProvenError as error:
        sys.stdout.write(f"NOT PROVEN: {one_line(error)}\n")
        return 1
    except (OSError, KeyError, ValueError, TypeError, AttributeError, IndexError, zipfile.BadZipFile, struct.error) as error:
        sys.stdout.write(f"NOT PROVEN: the pack is damaged: {type(error).__name__} {one_line(error)}\n")
        return 1
    lines = [f"ok  {one_line(line)}\n" for line in proven] + [f"--  not proven: {one_line(line)}\n" for line in unproven]
    sys.stdout.write("".join(lines))
    sys.stdout.write("PROVEN\n" if key else "PROVEN under the pack's own key; compare it with the key you obtained\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
