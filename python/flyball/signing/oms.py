"""Signs packages by OpenSSF Model Signing 1.0 in key mode; the public tool verifies the bundles too.

Whole files are hashed with SHA-256, and the hint names the key. `crates/signing` verifies bundles. Must not know releases.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from flyball.signing import dsse, keys
from flyball.signing.manifest import Manifest, manifest_of
from flyball.signing.reasons import Reason, refused

if TYPE_CHECKING:
    from pathlib import Path

FILES_MAX = 10_000
# OMS skips these at the top of a folder. Nothing is ever loaded from them.
IGNORED = [".git", ".gitattributes", ".github", ".gitignore"]
MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://model_signing/signature/v1.0"


def sign_folder(folder: Path, key: keys.PrivateKey) -> bytes:
    """The bundle for a folder."""
    return sign_manifest(folder.resolve().name, manifest_of(folder), key)


def sign_manifest(name: str, manifest: Manifest, key: keys.PrivateKey) -> bytes:
    """The bundle for a package by the digests of its files."""
    payload = json.dumps(_statement(name, manifest), indent=2).encode("ascii")
    document = dsse.sign(PAYLOAD_TYPE, payload, key).document()
    document["signatures"][0]["keyid"] = ""  # as the public tool does: the bundle names the key
    material = {"publicKey": {"hint": keys.hint(key.public_key())}, "tlogEntries": []}
    bundle = {"mediaType": MEDIA_TYPE, "verificationMaterial": material, "dsseEnvelope": document}
    return json.dumps(bundle).encode("ascii")


def root_of(folder: Path) -> str:
    """The id of the package in a folder, `sha256:…`."""
    return manifest_of(folder).root


def _statement(name: str, manifest: Manifest) -> dict[str, Any]:
    listed = [{"name": name, "algorithm": "sha256", "digest": digest} for name, digest in manifest.files.items()]
    if len(listed) > FILES_MAX:
        raise refused(Reason.TOO_LARGE, f"the package has {len(listed):,} files, and {FILES_MAX:,} are allowed")
    serialization = {"method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": IGNORED}
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": manifest.root.removeprefix("sha256:")}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {"resources": listed, "serialization": serialization},
    }
