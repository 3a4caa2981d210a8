"""Packages signed as OpenSSF Model Signing 1.0 has it, in key mode: bundles that the public tool reads and writes too.

Served: files hashed whole with SHA-256, one signature, the key named by its hint. Refused: certificates, shards, other
hashes, followed links, and exclusions beyond the defaults, through which unsigned files could come. Must not know releases.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flyball.signing import dsse, keys
from flyball.signing.manifest import FILES_MAX, PASSED_BY, Manifest, check_name, manifest_of
from flyball.signing.reasons import Reason, refused
from flyball.signing.strict import constant, field, is_hex, read_object

if TYPE_CHECKING:
    from pathlib import Path

    from flyball.signing.trust import Trust

BUNDLE_BYTES_MAX = 4 * 1024 * 1024
MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://model_signing/signature/v1.0"
_BUNDLE = "the signature bundle"


@dataclass(frozen=True)
class Bundle:
    """A bundle that is well formed and not judged: its envelope, and the hint of the key that is said to have signed."""

    envelope: dsse.Envelope
    hint: str


def sign_folder(folder: Path, key: keys.PrivateKey, signature_file: str | None = None) -> bytes:
    """The bundle for a folder. `signature_file`: its name, where it is to lie at the top of the folder itself."""
    ignored = sorted(PASSED_BY | ({signature_file} if signature_file else set()))
    return _signed(_statement(folder.resolve().name, manifest_of(folder, frozenset(ignored)), ignored), key)


def sign_manifest(name: str, manifest: Manifest, key: keys.PrivateKey) -> bytes:
    """The bundle for a package that lies elsewhere, by the digests of its files."""
    return _signed(_statement(name, manifest, sorted(PASSED_BY)), key)


def root_of(folder: Path) -> str:
    """The id of the package in a folder, `sha256:…`, whether it is signed or not."""
    return manifest_of(folder).root


def verify_bundle(data: bytes | None, trust: Trust, now: int, signature_file: str | None = None) -> Manifest:
    """The manifest of a bundle that a trusted signer made, and that nobody revoked."""
    bundle = read_bundle(data)
    key = trust.key(bundle.hint, now)
    if "signer" not in key.roles:
        raise refused(Reason.WRONG_ROLE, f"{key.name} may not sign packages", "let a key with the role signer sign it")
    manifest = verify_with_key(bundle, key.public, signature_file)
    trust.check_package(manifest.root)
    return manifest


def verify_folder(folder: Path, data: bytes | None, trust: Trust, now: int, signature_file: str | None = None) -> Manifest:
    """The manifest of a bundle that a trusted signer made for exactly this folder."""
    manifest = verify_bundle(data, trust, now, signature_file)
    manifest.check_folder(folder, signature_file)
    return manifest


def read_bundle(data: bytes | None) -> Bundle:
    """The bundle in these bytes; its signature is not judged yet."""
    if data is None:
        raise refused(Reason.UNSIGNED, "the package has no signature", "flyball sign NAME@VERSION --key FILE")
    document = read_object(data, _BUNDLE, BUNDLE_BYTES_MAX)
    constant(document, "mediaType", MEDIA_TYPE, _BUNDLE)
    material = field(document, "verificationMaterial", dict, _BUNDLE)
    if "certificate" in material or "x509CertificateChain" in material:
        raise refused(Reason.UNSUPPORTED, "certificate mode is not served yet", "sign it with a key:  flyball key new FILE")
    hint = field(material, "publicKey", dict, _BUNDLE).get("hint")
    if not isinstance(hint, str) or not is_hex(hint):
        raise refused(Reason.MALFORMED, f"{_BUNDLE} does not name its key by its hint", "sign it again")
    envelope = dsse.parse_envelope(field(document, "dsseEnvelope", dict, _BUNDLE), PAYLOAD_TYPE, _BUNDLE)
    if len(envelope.signatures) != 1:
        raise refused(Reason.MALFORMED, f"{_BUNDLE} has {len(envelope.signatures)} signatures, and OMS has one")
    return Bundle(envelope, hint)


def verify_with_key(bundle: Bundle, key: keys.PublicKey, signature_file: str | None = None) -> Manifest:
    """The manifest of a bundle that this key signed."""
    envelope = bundle.envelope
    if not keys.verified(key, envelope.signatures[0].sig, envelope.signed_bytes()):
        raise refused(Reason.BAD_SIGNATURE, f"{_BUNDLE} was changed, or was not signed by the key that it names")
    statement = read_object(envelope.payload, "the signed statement", BUNDLE_BYTES_MAX)
    return _manifest(statement, frozenset({signature_file} if signature_file else ()))


def _signed(statement: dict[str, Any], key: keys.PrivateKey) -> bytes:
    payload = json.dumps(statement, indent=2).encode("ascii")
    envelope = dsse.sign(PAYLOAD_TYPE, payload, key)
    document = envelope.document()
    document["signatures"][0]["keyid"] = ""  # the key is named by the bundle, and the public tool writes it so
    hint = keys.hint(key.public_key())
    material = {"publicKey": {"hint": hint}, "tlogEntries": []}
    bundle = {"mediaType": MEDIA_TYPE, "verificationMaterial": material, "dsseEnvelope": document}
    return json.dumps(bundle).encode("ascii")


def _statement(name: str, manifest: Manifest, ignored: list[str]) -> dict[str, Any]:
    listed = [{"name": name, "algorithm": "sha256", "digest": digest} for name, digest in manifest.files.items()]
    if len(listed) > FILES_MAX:
        raise refused(Reason.TOO_LARGE, f"the package has {len(listed):,} files, and {FILES_MAX:,} are allowed")
    serialization = {"method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": ignored}
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": manifest.root.removeprefix("sha256:")}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {"resources": listed, "serialization": serialization},
    }


def _manifest(statement: dict[str, Any], may_ignore: frozenset[str]) -> Manifest:
    what = "the signed statement"
    constant(statement, "_type", STATEMENT_TYPE, what)
    constant(statement, "predicateType", PREDICATE_TYPE, what)
    predicate = field(statement, "predicate", dict, what)
    _check_serialization(field(predicate, "serialization", dict, what), may_ignore)
    listed = field(predicate, "resources", list, what)
    if not listed:
        raise refused(Reason.MALFORMED, f"{what} lists no file")
    if len(listed) > FILES_MAX:
        raise refused(Reason.TOO_LARGE, f"{what} lists {len(listed):,} files, and {FILES_MAX:,} are allowed")
    files: dict[str, str] = {}
    for resource in listed:
        name, digest = _resource(resource)
        if name in files:
            raise refused(Reason.DUPLICATE_NAME, f"{what} lists {name} twice")
        files[name] = digest
    manifest = Manifest(files)
    if _root(statement, what) != manifest.root:
        raise refused(Reason.ROOT_MISMATCH, f"{what} has a root digest that its files do not give")
    return manifest


def _check_serialization(document: dict[str, Any], may_ignore: frozenset[str]) -> None:
    what = "the signed statement"
    constant(document, "method", "files", what)
    constant(document, "hash_type", "sha256", what)
    if field(document, "allow_symlinks", bool, what):
        raise refused(Reason.SYMLINK, f"{what} was made with links followed", "sign the files themselves")
    ignored = document.get("ignore_paths", [])
    if not isinstance(ignored, list) or not all(isinstance(path, str) for path in ignored):
        raise refused(Reason.MALFORMED, f"{what} has ignore_paths that are not a list of texts")
    other = sorted(set(ignored) - PASSED_BY - may_ignore)
    if other:
        step = "sign it again without exclusions, with the signature outside of the folder"
        raise refused(Reason.IGNORED_PATHS, f"{what} leaves out {other[0]!r}, which anyone could then put there", step)


def _resource(document: object) -> tuple[str, str]:
    what = "a file of the signed statement"
    if not isinstance(document, dict):
        raise refused(Reason.MALFORMED, f"{what} is not an object")
    name = check_name(document.get("name"))
    constant(document, "algorithm", "sha256", what)
    digest = document.get("digest")
    if not isinstance(digest, str) or not is_hex(digest):
        raise refused(Reason.MALFORMED, f"{what}, {name}, has no SHA-256 digest")
    return name, digest


def _root(statement: dict[str, Any], what: str) -> str:
    subjects = field(statement, "subject", list, what)
    if len(subjects) != 1 or not isinstance(subjects[0], dict):
        raise refused(Reason.MALFORMED, f"{what} has {len(subjects)} subjects, and OMS has one")
    digest = field(subjects[0], "digest", dict, what).get("sha256")
    if not isinstance(digest, str) or not is_hex(digest):
        raise refused(Reason.MALFORMED, f"{what} has no root digest")
    return f"sha256:{digest}"
