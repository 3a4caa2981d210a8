"""All signers for the tests: a trust policy, packages with their bundles, releases, a signed index.

Keys are made anew for each office. What is wrong in a test is asked for here, so that everything else in it is right.
"""

import copy
import hashlib
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flyball.signing import keys, oms
from flyball.signing.index import sign_index
from flyball.signing.policy import TrustPolicy
from flyball.signing.release import countersign, make_release
from flyball.signing.strict import written
from flyball.signing.trust import sign_policy
from tests.support import snapshots

DAY_S = 86_400
PEOPLE = {"anna": ["signer"], "ben": ["approver"], "cara": ["approver"], "control": ["publisher"], "dora": ["signer"]}


class Office:
    """The keys of some people, and the files of trust that a server is given."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = int(time.time())
        self.root = keys.generate()
        self.keys = {name: keys.generate() for name in PEOPLE}
        self.keys["stranger"] = keys.generate()
        self.policy: dict[str, Any] = {
            "format": 1,
            "serial": 0,
            "issued": written(self.now - DAY_S),
            "expires": None,
            "keys": [self.trusted(name, roles) for name, roles in PEOPLE.items()],
            "revoked": [],
            "minimum": {},
            "approvals": {"low": 0, "standard": 1, "high": 2},
        }
        (folder / "root.pub").write_text(keys.public_pem(self.root.public_key()))
        self.issue()

    def trusted(self, name: str, roles: Sequence[str], **changes: Any) -> dict[str, Any]:
        public = self.keys[name].public_key()
        known = {"hint": keys.hint(public), "pem": keys.public_pem(public), "name": name, "roles": list(roles)}
        return {**known, "from": written(self.now - DAY_S), "until": None, **changes}

    def issue(self, **changes: Any) -> None:
        """The next trust policy; `changes` replace its keys."""
        self.policy |= {"serial": self.policy["serial"] + 1, **changes}
        self.put_policy(sign_policy(TrustPolicy.model_validate(self.policy), [self.root]))

    def put_policy(self, text: bytes) -> None:
        beside = self.folder / "trust.json.new"
        beside.write_bytes(text)
        beside.replace(self.folder / "trust.json")

    def revoke(self, name: str) -> None:
        hint = keys.hint(self.keys[name].public_key())
        self.issue(revoked=[*self.policy["revoked"], {"key": hint, "at": written(self.now), "why": "lost"}])

    @property
    def flags(self) -> list[str]:
        return ["--trust-root", str(self.folder / "root.pub"), "--trust-policy", str(self.folder / "trust.json")]

    def package(self, name: str, version: int, model: Path) -> Path:
        """A folder with a model, as the registry lays it out."""
        folder = self.folder / "packages" / f"{name}-{version}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copyfile(model, folder / "model.onnx")
        (folder / "meta.json").write_text(json.dumps({"format": 1, "name": name}))
        return folder

    def signed(
        self,
        name: str,
        version: int,
        folder: Path,
        *,
        by: str = "anna",
        approved_by: Sequence[str] = ("ben",),
        stated: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """A package's bundle and its release; `stated` replaces what the release says."""
        bundle = oms.sign_folder(folder, self.keys[by])
        predicate = {
            "name": name,
            "version": version,
            "environments": ["production"],
            "not_before": written(self.now - DAY_S),
            "not_after": written(self.now + DAY_S),
            "tier": "standard",
            "models": {str(version): snapshots.digest((folder / "model.onnx").read_bytes())},
            "decision": None,
            "policy": None,
            "schema": None,
            **(stated or {}),
        }
        subject = f"{predicate['name']}@{predicate['version']}"
        release = make_release(predicate, {subject: oms.root_of(folder)}, self.keys[by])
        for approver in approved_by:
            release = countersign(release, self.keys[approver])
        packages = [{"name": name, "version": version, "folder": str(folder), "bundle": json.loads(bundle)}]
        return {"name": name, "version": version, "packages": packages, "release": json.loads(release)}

    def deployment(self, name: str, version: int, model: Path, **wishes: Any) -> dict[str, Any]:
        """The document of a version that is signed and approved."""
        folder = self.package(name, version, model)
        document = snapshots.deployment(name, folder / "model.onnx", versions={str(version): folder / "model.onnx"})
        return {**document, "signed": self.signed(name, version, folder, **wishes)}

    def write(
        self, folder: Path, generation: int, documents: list[dict[str, Any]], *, by: str | None = "control", **more: Any
    ) -> Path:
        """A snapshot whose index is signed; `more` stands in the index. Nobody signs it where `by` is none."""
        (folder / "deployments").mkdir(parents=True, exist_ok=True)
        entries = []
        for document in documents:
            content = json.dumps(document).encode()
            digest = snapshots.digest(content)
            (folder / "deployments" / f"{digest.removeprefix('sha256:')}.json").write_bytes(content)
            entries.append({"name": document["name"], "digest": digest})
        index = json.dumps({"format": 1, "generation": generation, "deployments": entries, **more}).encode()
        signature = folder / "index.sig.json"
        if by is None:
            signature.unlink(missing_ok=True)
        else:
            signature.write_bytes(sign_index(index, self.keys[by]))
        fresh = folder / "index.json.new"
        fresh.write_bytes(index)
        fresh.replace(folder / "index.json")
        return folder / "index.json"


def changed(document: dict[str, Any], *path: str | int, to: Any) -> dict[str, Any]:
    """A copy of a document with one value in it replaced."""
    document = copy.deepcopy(document)
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    return document


def root(folder: Path) -> str:
    """The root of a package, counted by hand."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    digests = b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)
    return "sha256:" + hashlib.sha256(digests).hexdigest()
