"""The cases about packages: their bundles and their folders."""

import copy

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from parts import (
    ANNA,
    BEN,
    EARLY,
    FILES,
    LATE,
    NOW,
    REVOKED,
    SIGNER_384,
    SIGNER_521,
    STRANGER,
    bundle,
    bundle_document,
    changed,
    oms_statement,
    policy,
    release_text,
    root_of,
    text,
    trust_text,
)

from flyball.signing import dsse, oms
from flyball.signing.strict import encode_base64

SIGNATURE = ("dsseEnvelope", "signatures", 0, "sig")


def add_to(corpus):
    sound(corpus)
    shapes(corpus)
    spellings(corpus)
    formats(corpus)
    signatures(corpus)
    signing_keys(corpus)
    names(corpus)
    folders(corpus)


def sound(corpus):
    corpus.add("plain", "ok", "signed, approved, and as it was signed")
    corpus.add("signed on p-384", "ok", "SHA-384 goes with the curve", bundle=bundle(key=SIGNER_384))
    corpus.add("signed on p-521", "ok", "SHA-512 goes with the curve", bundle=bundle(key=SIGNER_521))
    files = {"a-b": "1\n", "a/b": "2\n"}
    for name, order in (("by code points", ["a-b", "a/b"]), ("by components, as the public tool does", ["a/b", "a-b"])):
        corpus.add(
            f"listed {name}",
            "ok",
            "the root is over the listed order, which is never changed",
            package={"files": files},
            bundle=bundle(oms_statement(files, order)),
            release=release_text(subjects=[("fraud@4", root_of(files, order))]),
        )
    corpus.add(
        "files of git are passed by",
        "ok",
        "OMS leaves them out at the top of the folder",
        package={"files": {**FILES, ".gitignore": "made\n", ".git/config": "x\n", ".github/a": "b\n", ".gitattributes": ""}},
    )
    corpus.add("empty folder", "ok", "folders are not signed, only files", package={"files": FILES, "folders": ["logs/old"]})
    more = bundle_document()
    more["extra"] = more["verificationMaterial"]["more"] = more["dsseEnvelope"]["also"] = 1
    corpus.add("keys that the format does not have", "ok", "OMS: unknown keys are passed over", bundle=text(more))
    corpus.add("no ignore paths", "ok", "they are optional", bundle=bundle(_serialization("ignore_paths", ...)))
    for name, keyid in (("absent", ...), ("null", None), ("empty", ""), ("any text", "anna")):
        document = changed(bundle_document(), ("dsseEnvelope", "signatures", 0, "keyid"), keyid)
        corpus.add(f"keyid {name}", "ok", "OMS does not use it", bundle=text(document))


def shapes(corpus):
    corpus.add("no bundle", "unsigned", "the package was never signed", bundle=None)
    corpus.add("bundle without signatures", "unsigned", "an empty list", bundle=_with(("dsseEnvelope", "signatures"), []))
    corpus.add("empty bundle", "malformed", "no byte at all", bundle=b"")
    corpus.add("half a bundle", "malformed", "cut off", bundle=bundle()[:-40])
    corpus.add("bundle is a list", "malformed", "not an object", bundle=b"[]")
    for part in ("mediaType", "verificationMaterial", "dsseEnvelope"):
        corpus.add(f"bundle without {part}", "malformed", "OMS requires it", bundle=_with((part,), ...))
    key = ("verificationMaterial", "publicKey")
    corpus.add("raw key instead of a hint", "malformed", "as before 1.1", bundle=_with(key, {"rawBytes": "QUJD"}))
    corpus.add("hint in capitals", "malformed", "one spelling", bundle=_with((*key, "hint"), ANNA.hint.upper()))
    corpus.add("hint cut off", "malformed", "64 digits", bundle=_with((*key, "hint"), ANNA.hint[:-1]))
    twice = bundle_document()
    twice["dsseEnvelope"]["signatures"] *= 2
    corpus.add("bundle with two signatures", "malformed", "OMS has one", bundle=text(twice))
    corpus.add("signature is no text", "malformed", "a number", bundle=_with(SIGNATURE, 7))
    for keyid in (0, False, [], {}):
        document = _with((*SIGNATURE[:3], "keyid"), keyid)
        corpus.add(f"keyid {keyid!r}", "malformed", "no text, though it counts as nothing in Python", bundle=document)
    corpus.add(
        "bundle of 4 MiB and a byte", "too_large", "spaces follow it", bundle=bundle(), bundle_bytes=4 * 1024 * 1024 + 1
    )
    corpus.add("bundle of 4 MiB", "ok", "spaces follow it", bundle=bundle(), bundle_bytes=4 * 1024 * 1024)
    for levels, expect in ((32, "ok"), (33, "too_large")):
        nested = bundle()[:-1] + b', "deep": ' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"
        corpus.add(f"{levels} levels deep", expect, "the outer object is the first level", bundle=nested)


def spellings(corpus):
    plain = bundle()
    corpus.add("a key twice", "malformed", "readers could take either", bundle=plain[:-1] + b', "mediaType": "x"}')
    inner = _payload(oms_statement())[:-1] + b', "_type": "x"}'
    corpus.add("a key twice in the statement", "malformed", "though it is signed", bundle=_signed(inner))
    corpus.add("not a number", "malformed", "NaN is no JSON", bundle=plain[:-1] + b', "more": NaN}')
    for name, number, expect in (
        ("beyond all floats", b"1e999", "malformed"),
        ("below all floats", b"-1e999", "malformed"),
        ("of 310 digits", b"1" * 310, "malformed"),
        ("of 5000 digits", b"1" * 5000, "malformed"),
        ("of 309 digits", b"1" * 309, "ok"),
        ("next to nothing", b"1e-999", "ok"),
    ):
        said = plain[:-1] + b', "more": ' + number + b"}"
        corpus.add(f"number {name}", expect, "what a float cannot hold is refused", bundle=said)
    inner = _payload(oms_statement())[:-1] + b', "more": 1e999}'
    corpus.add("number beyond all floats in the statement", "malformed", "though it is signed", bundle=_signed(inner))
    corpus.add("byte order mark", "malformed", "UTF-8 has none here", bundle=b"\xef\xbb\xbf" + plain)
    corpus.add("half a surrogate pair", "malformed", "no text", bundle=plain[:-1] + b', "more": "\\ud800"}')
    corpus.add("text after the bundle", "malformed", "one document", bundle=plain + b"{}")
    payload = bundle_document()["dsseEnvelope"]["payload"]
    for name, spelled in _misspelled(payload):
        corpus.add(
            f"payload in base64 {name}", "malformed", "one spelling", bundle=_with(("dsseEnvelope", "payload"), spelled)
        )
    corpus.add("statement is no json", "malformed", "though it is signed", bundle=_signed(b"resources"))


def formats(corpus):
    for kind in ("certificate", "x509CertificateChain"):
        material = {kind: {}, "tlogEntries": []}
        corpus.add(f"signed with {kind}", "unsupported", "not served yet", bundle=_with(("verificationMaterial",), material))
    old = "application/vnd.dev.sigstore.bundle.v0.1+json"
    corpus.add("other media type", "unsupported", "an older bundle", bundle=_with(("mediaType",), old))
    corpus.add(
        "other payload type", "unsupported", "not in-toto", bundle=_with(("dsseEnvelope", "payloadType"), "text/plain")
    )
    statement = oms_statement()
    for key, value in (
        ("_type", "https://in-toto.io/Statement/v0.1"),
        ("predicateType", "https://model_signing/Digests/v0.1"),
    ):
        corpus.add(f"other {key}", "unsupported", "an older statement", bundle=bundle(changed(statement, (key,), value)))
    for key, value in (("method", "shards"), ("hash_type", "blake3")):
        corpus.add(f"other {key}", "unsupported", f"{value} is optional in OMS", bundle=bundle(_serialization(key, value)))
    other = changed(statement, ("predicate", "resources", 1, "algorithm"), "blake2b")
    corpus.add("other algorithm of one file", "unsupported", "blake2b is optional in OMS", bundle=bundle(other))
    corpus.add(
        "links followed", "symlink", "what they led to was signed", bundle=bundle(_serialization("allow_symlinks", True))
    )
    for ignored in ("cache", "model.sig", "./.git", ".git/hooks"):
        paths = bundle(_serialization("ignore_paths", [".git", ignored]))
        corpus.add(f"leaves out {ignored}", "ignored_paths", "anyone could put a file there", bundle=paths)
    for key, value in (("ignore_paths", ".git"), ("allow_symlinks", "false"), ("method", ...), ("allow_symlinks", ...)):
        shown = "absent" if value is ... else "of another type"
        corpus.add(f"{key} {shown}", "malformed", "OMS says what it is", bundle=bundle(_serialization(key, value)))


def signatures(corpus):
    document = bundle_document()
    other = text(changed(document, ("dsseEnvelope", "payload"), encode_base64(_payload(oms_statement({"a": "b"})))))
    corpus.add("another statement", "bad_signature", "under the same signature", bundle=other)
    statement = _payload(oms_statement())
    signed = dsse.pae(oms.PAYLOAD_TYPE, statement)
    der = ANNA.sign(signed, ec.ECDSA(hashes.SHA256()))
    for name, signature in (
        ("with one bit changed", der[:-1] + bytes([der[-1] ^ 1])),
        ("cut off", der[:-1]),
        ("with a byte more", der + b"\0"),
        ("as two numbers instead of DER", b"".join(part.to_bytes(32, "big") for part in utils.decode_dss_signature(der))),
        ("over the payload alone", ANNA.sign(statement, ec.ECDSA(hashes.SHA256()))),
        ("over another payload type", ANNA.sign(dsse.pae("text/plain", statement), ec.ECDSA(hashes.SHA256()))),
        ("with SHA-512 on P-256", ANNA.sign(signed, ec.ECDSA(hashes.SHA512()))),
        ("of zeros", utils.encode_dss_signature(0, 0)),
    ):
        corpus.add(f"signature {name}", "bad_signature", "not the key's", bundle=_with(SIGNATURE, encode_base64(signature)))
    for name, spelled in _misspelled(encode_base64(der)):
        corpus.add(f"signature in base64 {name}", "malformed", "one spelling", bundle=_with(SIGNATURE, spelled))
    stolen = bundle_document(key=STRANGER)
    stolen["verificationMaterial"]["publicKey"]["hint"] = ANNA.hint
    corpus.add("hint of another key", "bad_signature", "a stranger names a trusted key", bundle=text(stolen))


def signing_keys(corpus):
    corpus.add("signed by a stranger", "unknown_key", "not in the policy", bundle=bundle(key=STRANGER))
    corpus.add("signed by an approver", "wrong_role", "who may not sign", bundle=bundle(key=BEN))
    corpus.add("signed by a key of tomorrow", "key_not_yet_valid", "a second too early", bundle=bundle(key=EARLY))
    corpus.add("signed by a key in its first second", "ok", "from is inside", bundle=bundle(key=EARLY), now=NOW + 1)
    corpus.add("signed by an expired key", "key_expired", "until is outside", bundle=bundle(key=LATE))
    corpus.add("signed by a key in its last second", "ok", "a second before", bundle=bundle(key=LATE), now=NOW - 1)
    corpus.add("signed by a revoked key", "key_revoked", "whenever it signed", bundle=bundle(key=REVOKED))
    revoked = [*policy()["revoked"], {"package": f"sha256:{'0' * 64}", "at": policy()["issued"], "why": "another one"}]
    corpus.add("another package revoked", "ok", "not this one", trust=trust_text(revoked=revoked))


def names(corpus):
    for name in ("../model.onnx", "/model.onnx", "a/../b", "a//b", "./a", "a/.", "a/", "", ".", "..", "a\\b", "a\0b", "\\a"):
        statement = oms_statement({**FILES, name: "x\n"})
        corpus.add(f"file named {name!r}", "path_escape", "not a plain relative path", bundle=bundle(statement))
    doubled = oms_statement()
    doubled["predicate"]["resources"].append(copy.deepcopy(doubled["predicate"]["resources"][2]))
    corpus.add("a file twice", "duplicate_name", "readers could take either", bundle=bundle(doubled))
    statement = oms_statement()
    corpus.add(
        "no files", "malformed", "OMS: at least one", bundle=bundle(changed(statement, ("predicate", "resources"), []))
    )
    first = ("predicate", "resources", 0)
    digest = statement["predicate"]["resources"][0]["digest"]
    for name, value in (("in capitals", digest.upper()), ("cut off", digest[:-2]), ("absent", ...)):
        corpus.add(f"digest {name}", "malformed", "64 digits", bundle=bundle(changed(statement, (*first, "digest"), value)))
    corpus.add("file without a name", "malformed", "absent", bundle=bundle(changed(statement, (*first, "name"), ...)))
    root = ("subject", 0, "digest", "sha256")
    corpus.add("other root", "root_mismatch", "not over these files", bundle=bundle(changed(statement, root, "0" * 64)))
    corpus.add("no root", "malformed", "absent", bundle=bundle(changed(statement, root, ...)))
    statement["subject"] *= 2
    corpus.add("two subjects", "malformed", "OMS has one", bundle=bundle(statement))


def folders(corpus):
    def case(name, expect, about, files=None, **more):
        corpus.add(name, expect, about, package={"files": files or FILES, **more})

    without = {name: content for name, content in FILES.items() if name != "model.onnx"}
    case("changed byte", "changed_file", "of the model", {**FILES, "model.onnx": "weightt\n"})
    case("byte more", "changed_file", "at the end", {**FILES, "samples/1.json": "{}\n\n"})
    case("emptied file", "changed_file", "nothing is left", {**FILES, "model.onnx": ""})
    case("missing file", "missing_file", "the model", without)
    case("folder in a file's place", "missing_file", "a folder is no file", without, folders=["model.onnx"])
    case("extra file", "extra_file", "beside the model", {**FILES, "custom_ops.so": "code\n"})
    case("extra file below", "extra_file", "in a folder", {**FILES, "samples/2.json": "{}\n"})
    case("hidden extra file", "extra_file", "not one of git's", {**FILES, ".hidden": "x\n"})
    case("file of git below", "extra_file", "only the top is passed by", {**FILES, "samples/.gitignore": "x\n"})
    case("renamed file", "extra_file", "an unsigned one comes first", {**without, "model2.onnx": FILES["model.onnx"]})
    case("link to the same bytes", "symlink", "though they are right", without, symlinks={"model.onnx": "../elsewhere.onnx"})
    case("link to nothing", "symlink", "beside the files", symlinks={"more": "nowhere"})
    case("link to a folder", "symlink", "beside the files", symlinks={"more": "samples"})
    case("link below", "symlink", "in a folder", symlinks={"samples/2.json": "1.json"})
    case("pipe in a file's place", "special_file", "reading would wait for ever", without, pipes=["model.onnx"])
    case("pipe beside the files", "special_file", "neither file nor folder", pipes=["more"])
    listed = {**FILES, ".gitignore": "made\n"}
    corpus.add(
        "signed file of git is changed",
        "changed_file",
        "what is listed is judged",
        package={"files": {**FILES, ".gitignore": "none\n"}},
        bundle=bundle(oms_statement(listed)),
        release=release_text(subjects=[("fraud@4", root_of(listed))]),
    )


def _with(path, value):
    return text(changed(bundle_document(), path, value))


def _serialization(key, value):
    return changed(oms_statement(), ("predicate", "serialization", key), value)


def _payload(statement):
    return text(statement)


def _signed(payload):
    return bundle(payload)


def _misspelled(spelled):
    """The same bytes in base64 that is not the one spelling of them, and bytes that are none."""
    yield "with a line end", spelled[:8] + "\n" + spelled[8:]
    yield "with a stray sign", spelled[:8] + "*" + spelled[9:]
    yield "without its last digit", spelled.rstrip("=")[:-1]
    if spelled.endswith("="):
        yield "without padding", spelled.rstrip("=")
        last = spelled.rstrip("=")[-1]
        alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        stray = alphabet[alphabet.index(last) + 1]
        yield "with stray bits", spelled.rstrip("=")[:-1] + stray + spelled[len(spelled.rstrip("=")) :]
