"""The cases about releases, the trust policy and the Snapshot's index."""

import base64
import hashlib
import json

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from parts import (
    ANNA,
    ANNA_OTHER,
    BEN,
    CARA,
    CARA_OTHER,
    DAY,
    DIGEST,
    EARLY,
    LATE,
    MODEL,
    NOW,
    PUBLISHER,
    REVOKED,
    ROOT,
    ROOT_NEW,
    SIGNER_521,
    STRANGER,
    changed,
    envelope,
    index_text,
    oms_statement,
    policy,
    release_statement,
    release_text,
    root_of,
    text,
    trust_text,
    trusted,
)

from flyball.signing import oms, trust
from flyball.signing.strict import encode_base64, written

INDEX = b'{"format": 5, "generation": 3}\n'


def add_to(corpus):
    approvals(corpus)
    signatures(corpus)
    windows(corpus)
    models(corpus)
    statements(corpus)
    policies(corpus)
    policy_documents(corpus)
    indexes(corpus)


def approvals(corpus):
    def case(name, expect, about, /, *signers, tier="standard", **more):
        corpus.add(name, expect, about, release=release_text(*signers, tier=tier, **more))

    case("low tier without approval", "ok", "none is asked for", ANNA, tier="low")
    case("high tier with two approvals", "ok", "on two curves", ANNA, BEN, CARA, tier="high")
    case("more approvals than asked for", "ok", "nobody minds", ANNA, BEN, CARA)
    case("author on p-521 who may approve others", "ok", "its own does not count", SIGNER_521, BEN, author=SIGNER_521.hint)
    case("no approval", "approvals_missing", "one is asked for", ANNA)
    case("high tier with one approval", "approvals_missing", "two are asked for", ANNA, BEN, tier="high")
    case("one approver twice", "approvals_missing", "counts once", ANNA, BEN, BEN, tier="high")
    case("two keys of one approver", "approvals_missing", "one person", ANNA, CARA, CARA_OTHER, tier="high")
    case("author's own key again", "approvals_missing", "not another person", SIGNER_521, SIGNER_521, author=SIGNER_521.hint)
    case("author's other key", "approvals_missing", "the same name in another case", ANNA, ANNA_OTHER)
    case("approval by a publisher", "approvals_missing", "who may not approve", ANNA, PUBLISHER)
    case("release by an approver", "wrong_role", "who may not sign", BEN, CARA, author=BEN.hint)
    case("author who did not sign first", "wrong_role", "the first signature is the author's", BEN, ANNA)
    case("author who did not sign", "wrong_role", "somebody else did", SIGNER_521, BEN)
    strict = trust_text(approvals={"low": 0, "standard": 2, "high": 3})
    corpus.add("policy that asks for two", "approvals_missing", "the policy decides", trust=strict)


def signatures(corpus):
    def case(name, expect, about, release, **more):
        corpus.add(name, expect, about, release=release, **more)

    case("no release", "unsigned", "the version was never released", None)
    unsigned = changed(_document(), ("signatures",), [])
    case("release without signatures", "unsigned", "an empty list", text(unsigned))
    case("approved by a stranger", "unknown_key", "though another approved", release_text(ANNA, BEN, STRANGER))
    case("approved by a revoked key", "key_revoked", "though another approved", release_text(ANNA, BEN, REVOKED))
    case("approved by an expired key", "key_expired", "though another approved", release_text(ANNA, BEN, LATE))
    case("approved by a key of tomorrow", "key_not_yet_valid", "though another approved", release_text(ANNA, BEN, EARLY))
    case("released by a revoked key", "key_revoked", "the author's", release_text(REVOKED, BEN, author=REVOKED.hint))
    other = _document(release_text(ANNA, BEN, version=5))["signatures"][1]
    moved = changed(_document(release_text(ANNA, BEN, CARA)), ("signatures", 1), other)
    case("approval of another release", "bad_signature", "though another approved", text(moved))
    altered = _document()
    payload = base64.b64decode(altered["payload"]).replace(b'"standard"', b'"low"')
    altered["payload"] = encode_base64(payload)
    case("tier changed after signing", "bad_signature", "fewer approvals", text(altered))
    stolen = changed(_document(release_text(ANNA, STRANGER)), ("signatures", 1, "keyid"), BEN.hint)
    case("approval under another's hint", "bad_signature", "a stranger names an approver", text(stolen))
    unnamed = changed(_document(), ("signatures", 1, "keyid"), "")
    case("approval without a hint", "malformed", "each signature names its key", text(unnamed))
    many = _document(release_text(ANNA, *[BEN] * 16))
    case("17 signatures", "too_large", "16 are allowed", text(many))
    spaced = release_text()
    case("release of 256 KiB and a byte", "too_large", "spaces follow it", spaced, release_bytes=256 * 1024 + 1)
    case("release of 256 KiB", "ok", "spaces follow it", spaced, release_bytes=256 * 1024)
    case("policy in the release's place", "unsupported", "another payload type", trust_text())
    signed = envelope(oms.PAYLOAD_TYPE, oms_statement(), ANNA, BEN).text()
    case("package's statement in the release's place", "unsupported", "another predicate type", signed)


def windows(corpus):
    def case(name, expect, about, /, now=NOW, **stated):
        corpus.add(name, expect, about, now=now, release=release_text(**stated))

    case("release of tomorrow", "not_yet_valid", "a second too early", not_before=written(NOW + 1))
    case("release in its first second", "ok", "not_before is inside", not_before=written(NOW))
    case("release that ended", "expired", "not_after is outside", not_after=written(NOW))
    case("release in its last second", "ok", "a second before", not_after=written(NOW + 1))
    case("release for staging", "wrong_environment", "not for production", environments=["staging"])
    case("environment in capitals", "wrong_environment", "names are exact", environments=["Production"])
    case("release of another name", "wrong_name", "the deployment is fraud", name="credit")
    case("name in capitals", "wrong_name", "names are exact", name="Fraud")
    case("release below the minimum", "below_minimum", "3 is the oldest", version=2)
    oldest = release_text(version=3)
    corpus.add("release at the minimum", "ok", "3 is the oldest", release=oldest, package_name="fraud@3")
    corpus.add(
        "minimum of a name in capitals",
        "below_minimum",
        "the minimum knows no case",
        deployment="FRAUD",
        release=release_text(name="FRAUD", version=2),
    )
    corpus.add(
        "wrong decision", "wrong_digest", "not the released one", digests={"decision": f"sha256:{'1' * 64}", "policy": None}
    )
    corpus.add("right decision", "ok", "as released", digests={"decision": DIGEST, "policy": None, "schema": None})
    corpus.add("schema that was not released", "wrong_digest", "null is a digest too", digests={"schema": DIGEST})
    corpus.add("no decision where one was released", "wrong_digest", "it cannot be left out", digests={"decision": None})


def statements(corpus):
    def case(name, expect, about, statement):
        corpus.add(name, expect, about, release=envelope(oms.PAYLOAD_TYPE, statement, ANNA, BEN).text())

    plain = release_statement()
    other = [("fraud@4", "0" * 64)]
    case("release of another package", "wrong_subject", "another root", release_statement(other))
    both = [("fraud@4", "0" * 64), ("embedding@2", root_of())]
    further = {"release": envelope(oms.PAYLOAD_TYPE, release_statement(both), ANNA, BEN).text()}
    corpus.add(
        "referenced package", "ok", "a further subject is as good as the first", package_name="embedding@2", **further
    )
    corpus.add("package under the first's name", "wrong_subject", "the root is another subject's", **further)
    corpus.add("package that is no subject", "wrong_subject", "though its root is", package_name="other@1")
    case(
        "subject of another version",
        "wrong_subject",
        "the first is the version itself",
        release_statement([("fraud@5", root_of())]),
    )
    case("subject twice", "duplicate_name", "readers could take either", release_statement([("fraud@4", root_of())] * 2))
    case(
        "17 subjects",
        "too_large",
        "16 are allowed",
        release_statement([(f"fraud@{4 + place}", root_of()) for place in range(17)]),
    )
    case(
        "subject without a version",
        "malformed",
        "NAME@VERSION",
        release_statement([("fraud@4", root_of()), ("a", root_of())]),
    )
    case("subject with a digest more", "malformed", "sha256 alone", changed(plain, ("subject", 0, "digest", "md5"), "0"))
    case("no subject", "malformed", "at least one", changed(plain, ("subject",), []))
    case(
        "other statement type", "unsupported", "in-toto 0.1", changed(plain, ("_type",), "https://in-toto.io/Statement/v0.1")
    )
    case("release of format 2", "unsupported", "not known", changed(plain, ("predicateType",), "https://flyball/release/v2"))
    for key, value in (
        ("version", "4"), ("version", 0), ("version", True), ("version", 4.0), ("version", 2**31), ("tier", "none"),
        ("environments", []), ("environments", ["a/b"]), ("environments", ["a"] * 17), ("name", "a/b"), ("author", "anna"),
        ("not_after", written(NOW - DAY)), ("not_before", "2026-11-16T04:00:00+00:00"),
        ("not_before", "2026-11-16T04:00:00.5Z"),
        ("not_before", "2026-02-30T00:00:00Z"), ("decision", "0" * 64), ("schema", ...), ("comment", "hello"),
        ("models", ...), ("models", None), ("models", []),
    ):  # fmt: skip
        shown = "absent" if value is ... else str(value)[:24]
        if isinstance(value, list):
            shown = f"{len(value)} of {value[0]}" if value else "empty"
        statement = changed(plain, ("predicate", key), value)
        case(f"release with {key} {shown!r}", "malformed", "the format says what it is", statement)
    revoked = [{"package": f"sha256:{root_of()}", "at": written(NOW), "why": "wrong labels"}]
    corpus.add("package revoked", "package_revoked", "named by the release", trust=trust_text(revoked=revoked))


def models(corpus):
    """Which file answers as which version is the release's to say: the package may hold others."""

    def case(name, expect, about, deployed, **stated):
        said = {version: one if isinstance(one, dict) else {"digest": one} for version, one in deployed.items()}
        corpus.add(name, expect, about, models=said, release=release_text(**stated))

    case("right model", "ok", "as released", {"4": MODEL})
    case("another file of the package", "wrong_digest", "signed, but not released as a model", {"4": DIGEST})
    case("right model as another version", "wrong_digest", "the release says which", {"5": MODEL})
    case("a model more", "wrong_digest", "nobody released it", {"4": MODEL, "5": DIGEST})
    two = {"401": MODEL, "402": DIGEST}
    case("two models", "ok", "of one decision", two, models=two)
    case("two models swapped", "wrong_digest", "each would answer for the other", {"401": DIGEST, "402": MODEL}, models=two)
    case("a model less", "wrong_digest", "it was released with both", {"401": MODEL}, models=two)
    data = {"a.bin": _digest("a"), "b.bin": _digest("b")}
    whole = {"4": {"digest": MODEL, "external_data": data}}
    stated = {"4": _digest_of_all(MODEL, data["a.bin"], data["b.bin"])}
    case("model with external data", "ok", "one digest over all of it", whole, models=stated)
    swapped = {"a.bin": data["b.bin"], "b.bin": data["a.bin"]}
    other = {"4": {"digest": MODEL, "external_data": swapped}}
    case("external data swapped", "wrong_digest", "the same graph with other weights", other, models=stated)
    case("external data left out", "wrong_digest", "the graph alone", {"4": MODEL}, models=stated)
    case("external data that was not released", "wrong_digest", "the same graph", whole)
    case("decision without a model", "ok", "its rules alone decide", {}, models={})
    case("a model where none was released", "wrong_digest", "nobody released it", {"4": MODEL}, models={})
    neither = release_text(models={}, decision=None)
    corpus.add("release without a model or a decision", "malformed", "there is nothing to serve", release=neither)
    for name, about, stated in (
        ("17 models", "16 are allowed", {str(place): DIGEST for place in range(1, 18)}),
        ("model by a version with a zero first", "one spelling", {"04": DIGEST}),
        ("model by a name", "versions are numbers", {"fraud": DIGEST}),
        ("model by a version of ten digits", "nine are allowed", {"1234567890": DIGEST}),
        ("model without its algorithm", "sha256: and 64 digits", {"4": DIGEST[7:]}),
        ("model that is null", "a digest", {"4": None}),
    ):
        corpus.add(name, "malformed", about, release=release_text(models=stated))


def policies(corpus):
    def case(name, expect, about, trust, **more):
        corpus.add(name, expect, about, trust=trust, **more)

    case("no policy", "unsigned", "nobody is trusted", None)
    case("policy signed by two roots", "ok", "the other one is not known here", trust_text(ROOT_NEW, ROOT))
    case("two roots known", "ok", "either may sign", trust_text(ROOT_NEW), roots=[ROOT.pem, ROOT_NEW.pem])
    case("policy signed by a stranger", "unknown_key", "not a root", trust_text(STRANGER))
    case("policy signed by a signer", "unknown_key", "trusted, but not a root", trust_text(ANNA))
    case(
        "policy without signatures", "unsigned", "an empty list", text(changed(_document(trust_text()), ("signatures",), []))
    )
    altered = _document(trust_text())
    altered["payload"] = encode_base64(base64.b64decode(altered["payload"]).replace(b'"standard":1', b'"standard":0'))
    case("policy changed after signing", "bad_signature", "fewer approvals", text(altered))
    both = _document(trust_text(ROOT, ROOT_NEW))
    both["signatures"][1]["sig"] = _document(trust_text(ROOT_NEW, serial=8))["signatures"][0]["sig"]
    known = [ROOT.pem, ROOT_NEW.pem]
    case("one of two roots' signatures is bad", "bad_signature", "though the other holds", text(both), roots=known)
    case("older policy", "trust_downgrade", "7 was taken before", trust_text(serial=6))
    case("newer policy", "ok", "7 was taken before", trust_text(serial=8))
    case("policy that ended", "trust_expired", "expires is outside", trust_text(expires=written(NOW)))
    case("policy in its last second", "ok", "a second before", trust_text(expires=written(NOW + 1)))
    case("policy without an end", "ok", "expires is null", trust_text(expires=None))
    case("release in the policy's place", "unsupported", "another payload type", release_text(ROOT))
    case("policy of format 2", "unsupported", "not known", trust_text(format=2))
    case("policy of 4 MiB and a byte", "too_large", "spaces follow it", trust_text(), trust_bytes=4 * 1024 * 1024 + 1)


def policy_documents(corpus):
    def case(name, expect, about, **document):
        corpus.add(name, expect, about, trust=trust_text(**document))

    everyone = policy()["keys"]

    def with_key(**changes):
        return [*everyone, {**trusted(STRANGER, "ida", "signer"), **changes}]

    case("policy with one more key", "ok", "as it should be", keys=with_key())
    case("hint of another key in the policy", "malformed", "not its own", keys=with_key(hint="0" * 64))
    case("a key twice in the policy", "duplicate_name", "with two sets of roles", keys=[*everyone, everyone[0]])
    case("unknown role", "malformed", "the roles are three", keys=with_key(roles=["admin"]))
    case("no role", "malformed", "at least one", keys=with_key(roles=[]))
    case("role twice", "malformed", "once", keys=with_key(roles=["signer", "signer"]))
    case("key that ends before it begins", "malformed", "until is after from", keys=with_key(until=written(NOW - DAY)))
    case("key of nobody", "malformed", "a name is needed", keys=with_key(name=""))
    case("key that is no pem", "malformed", "not a key", keys=with_key(pem="key"))
    case("key in pem with a line end more", "malformed", "one spelling", keys=with_key(pem=STRANGER.pem + "\n"))
    for name, key in (
        ("secp256k1", ec.derive_private_key(7, ec.SECP256K1())),
        ("ed25519", ed25519.Ed25519PrivateKey.from_private_bytes(b"7" * 32)),
    ):
        spki = serialization.PublicFormat.SubjectPublicKeyInfo
        pem = key.public_key().public_bytes(serialization.Encoding.PEM, spki).decode()
        case(f"key of {name}", "unsupported", "OMS has three curves", keys=with_key(pem=pem))
    for name, revoked in (
        ("neither", [{"at": written(NOW), "why": ""}]),
        ("both", [{"key": "0" * 64, "package": f"sha256:{'0' * 64}", "at": written(NOW), "why": ""}]),
        ("a root without its algorithm", [{"package": "0" * 64, "at": written(NOW), "why": ""}]),
    ):
        case(f"revocation of {name}", "malformed", "a key's hint or a package's root", revoked=revoked)
    case("minimum of a name written large", "malformed", "names are written small here", minimum={"Fraud": 3})
    case("minimum that is no version", "malformed", "a whole number from 1", minimum={"fraud": 0})
    case("approvals for two tiers", "malformed", "there are three", approvals={"low": 0, "standard": 1})
    case("more approvals than signatures", "malformed", "15 at most", approvals={"low": 0, "standard": 1, "high": 16})
    case("serial zero", "malformed", "a whole number from 1", serial=0)
    case("policy that does not say when it was issued", "malformed", "a time", issued=None)
    case("policy with a key of its own", "malformed", "no key that is not known", comment="hello")
    payload = {key: value for key, value in policy().items() if key != "expires"}
    absent = envelope(trust.PAYLOAD_TYPE, payload, ROOT).text()
    corpus.add("policy that does not say when it ends", "malformed", "null says never", trust=absent)


def indexes(corpus):
    def case(name, expect, about, signature, index=INDEX):
        corpus.add(name, expect, about, index=index, index_signature=signature)

    plain = index_text(INDEX, PUBLISHER)
    case("index as published", "ok", "by a publisher", plain)
    case("index without a signature", "unsigned", "no index.sig.json", None)
    case("changed index", "changed_file", "one byte", plain, INDEX.replace(b"3", b"4"))
    case("index signed by a signer", "wrong_role", "who may not publish", index_text(INDEX, ANNA))
    case("index signed by a stranger", "unknown_key", "not in the policy", index_text(INDEX, STRANGER))
    case("index under a release", "unsupported", "another payload type", release_text())
    broken = changed(_document(plain), ("payload",), encode_base64(INDEX.replace(b"3", b"4")))
    case(
        "index changed with its signature", "bad_signature", "not over these bytes", text(broken), INDEX.replace(b"3", b"4")
    )


def _digest(content):
    return "sha256:" + hashlib.sha256(content.encode()).hexdigest()


def _digest_of_all(*digests):
    raw = b"".join(bytes.fromhex(digest.removeprefix("sha256:")) for digest in digests)
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def _document(made=None):
    return json.loads(made if made is not None else release_text())
