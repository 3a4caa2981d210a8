"""What the corpus is made of: keys from names, policies, releases and bundles, whole or with one thing changed."""

import copy
import hashlib
import json

from cryptography.hazmat.primitives.asymmetric import ec

from flyball.signing import dsse, keys, oms, release, trust
from flyball.signing.index import PAYLOAD_TYPE as INDEX_TYPE
from flyball.signing.strict import seconds, written

NOW = seconds("2026-11-16T04:00:00Z")
DAY = 86_400
DIGEST = "sha256:" + hashlib.sha256(b"a decision").hexdigest()
FILES = {
    "decision.yaml": "decision: fraud\n",
    "meta.json": '{"format": 1}\n',
    "model.onnx": "weights\n",
    "samples/1.json": "{}\n",
}
MODEL = "sha256:" + hashlib.sha256(FILES["model.onnx"].encode()).hexdigest()


class Seeded:
    """A private key that comes from a name and always signs alike; it stands in for one of `cryptography`."""

    def __init__(self, name, curve="P-256"):
        number = int.from_bytes(hashlib.sha512(name.encode()).digest()[:31], "big")
        self.key = ec.derive_private_key(number, keys.CURVES[curve])
        self.hint = keys.hint(self.public_key())
        self.pem = keys.public_pem(self.public_key())

    def public_key(self):
        return self.key.public_key()

    def sign(self, data, algorithm):
        return self.key.sign(data, ec.ECDSA(algorithm.algorithm, deterministic_signing=True))


ROOT, ROOT_NEW, STRANGER = Seeded("root"), Seeded("root of next year", "P-384"), Seeded("stranger")
ANNA, ANNA_OTHER = Seeded("anna"), Seeded("anna's other key")
BEN, CARA, CARA_OTHER = Seeded("ben"), Seeded("cara", "P-384"), Seeded("cara's other key")
SIGNER_384, SIGNER_521 = Seeded("signer p384", "P-384"), Seeded("signer p521", "P-521")
EARLY, LATE, REVOKED = Seeded("from tomorrow"), Seeded("until yesterday"), Seeded("lost laptop")
PUBLISHER = Seeded("publisher")


def trusted(key, name, *roles, since=NOW - DAY, until=NOW + 365 * DAY):
    ends = None if until is None else written(until)
    return {"hint": key.hint, "pem": key.pem, "name": name, "roles": list(roles), "from": written(since), "until": ends}


def policy(**changes):
    """The trust policy of almost all cases; `changes` replace its keys."""
    everyone = [
        trusted(ANNA, "anna", "signer"),
        trusted(ANNA_OTHER, "Anna", "approver"),
        trusted(BEN, "ben", "approver", until=None),
        trusted(CARA, "cara", "approver"),
        trusted(CARA_OTHER, "cara", "approver"),
        trusted(SIGNER_384, "dora", "signer"),
        trusted(SIGNER_521, "emil", "signer", "approver"),
        trusted(EARLY, "frank", "signer", "approver", since=NOW + 1),
        trusted(LATE, "greta", "signer", "approver", until=NOW),
        trusted(REVOKED, "hans", "signer", "approver"),
        trusted(PUBLISHER, "control", "publisher"),
    ]
    document = {
        "format": 1,
        "serial": 7,
        "issued": written(NOW - DAY),
        "expires": written(NOW + 30 * DAY),
        "keys": everyone,
        "revoked": [{"key": REVOKED.hint, "at": written(NOW - 60), "why": "lost"}],
        "minimum": {"fraud": 3},
        "approvals": {"low": 0, "standard": 1, "high": 2},
    }
    return {**document, **changes}


def envelope(kind, payload, *signers):
    if not isinstance(payload, bytes):
        payload = json.dumps(payload, separators=(",", ":")).encode()
    return dsse.Envelope(kind, payload, tuple(dsse.signature_of(kind, payload, signer) for signer in signers))


def index_text(index, *signers):
    return envelope(INDEX_TYPE, index, *signers).text()


def trust_text(*roots, **changes):
    return envelope(trust.PAYLOAD_TYPE, policy(**changes), *(roots or (ROOT,))).text()


def predicate(**changes):
    stated = {
        "name": "fraud",
        "version": 4,
        "environments": ["staging", "production"],
        "not_before": written(NOW - DAY),
        "not_after": written(NOW + 90 * DAY),
        "tier": "standard",
        "author": ANNA.hint,
        "models": {"4": MODEL},
        "decision": DIGEST,
        "policy": None,
        "schema": None,
    }
    return {**stated, **changes}


def root_of(files=FILES, order=None):
    return hashlib.sha256(
        b"".join(hashlib.sha256(files[name].encode()).digest() for name in order or sorted(files))
    ).hexdigest()


def release_statement(subjects=None, **changes):
    stated = predicate(**changes)
    subjects = subjects or [(f"{stated['name']}@{stated['version']}", root_of())]
    listed = [{"name": name, "digest": {"sha256": root}} for name, root in subjects]
    return {"_type": oms.STATEMENT_TYPE, "subject": listed, "predicateType": release.PREDICATE_TYPE, "predicate": stated}


def release_text(*signers, subjects=None, **changes):
    return envelope(oms.PAYLOAD_TYPE, release_statement(subjects, **changes), *(signers or (ANNA, BEN))).text()


def oms_statement(files=FILES, order=None, **serialization):
    order = order or sorted(files)
    listed = [
        {"name": name, "algorithm": "sha256", "digest": hashlib.sha256(files[name].encode()).hexdigest()} for name in order
    ]
    how = {"method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": oms.IGNORED}
    return {
        "_type": oms.STATEMENT_TYPE,
        "subject": [{"name": "fraud", "digest": {"sha256": root_of(files, order)}}],
        "predicateType": oms.PREDICATE_TYPE,
        "predicate": {"resources": listed, "serialization": {**how, **serialization}},
    }


def bundle_document(statement=None, key=ANNA):
    made = envelope(oms.PAYLOAD_TYPE, oms_statement() if statement is None else statement, key).document()
    made["signatures"][0]["keyid"] = ""
    material = {"publicKey": {"hint": key.hint}, "tlogEntries": []}
    return {"mediaType": oms.MEDIA_TYPE, "verificationMaterial": material, "dsseEnvelope": made}


def bundle(statement=None, key=ANNA):
    return text(bundle_document(statement, key))


def text(document):
    return json.dumps(document).encode()


def changed(document, path, value):
    """A copy with one value replaced, or taken away where the new one is `...`; the path is keys and places."""
    document = copy.deepcopy(document)
    *way, last = path
    place = document
    for step in way:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return document
