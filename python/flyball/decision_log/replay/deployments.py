"""Finds the deployment of a record in the log's `served` records, and runs it in this process.

Model files must have the recorded digests. Must not know rows or comparisons.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.decision.bulk_calls import DEADLINE_MS, QUEUE_WAIT_MS
from flyball.decision.local import LocalServer
from flyball.documents.snapshot import Bundle
from flyball.documents.snapshot.models import FORMAT
from flyball.documents.snapshot.store import canonical, digest_of
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from flyball.native.journal import JournalLog

    Json = Mapping[str, Any]

_CHUNK = 4096
_IN_FLIGHT_MAX = 65_536
_RUN_MS_MAX = 600_000


class NotReplayableError(Exception):
    """A record cannot be replayed; the message is the reason."""


@dataclass(frozen=True)
class Deployment:
    """A deployment as it served: its document, and the base of its paths."""

    digest: str
    document: Json
    base: Path

    @property
    def name(self) -> str:
        """The name that callers use."""
        return str(self.document["name"])

    @property
    def decision(self) -> Json:
        """The decision's document."""
        found: Json = self.document["decision"]
        return found

    @property
    def versions(self) -> list[Json]:
        """Its models, with those of its candidate."""
        return [*self.document["versions"], *(self.document.get("candidate") or {}).get("versions", ())]

    @cached_property
    def features(self) -> dict[str, Json]:
        """The features by name."""
        return {str(item["name"]): item for item in self.decision.get("features") or ()}

    def has(self, models: list[Json]) -> bool:
        """Whether its versions are those of a decision's models."""
        digests = {item["version"]: item["artifact"]["digest"] for item in self.versions}
        return all(digests.get(item["version"]) == item["digest"] for item in models)


class Deployments:
    """Finds the deployments of records, and runs them."""

    def __init__(self, log: JournalLog, models: Path | None = None) -> None:
        """`models` is a folder to search for model files by digest."""
        self._log = log
        self._files = _FilesByDigest(models)
        self._segments = log.segments()
        self._served: dict[int, list[Json]] = {}
        self._compacted: list[Json] | None = None
        self._known: dict[str, Deployment] = {}
        self._found: dict[tuple[Any, ...], Deployment] = {}
        self._servers: OrderedDict[str, LocalServer | NotReplayableError] = OrderedDict()

    def of(self, record: Json) -> Deployment:
        """The deployment that decided a record; raises `NotReplayableError`."""
        models = record.get("models") or []
        named = (record["decision"], record["document"], tuple(sorted((item["version"], item["digest"]) for item in models)))
        if named not in self._found:
            self._found[named] = self._search(record, models)
        return self._found[named]

    def running(self, deployment: Deployment) -> LocalServer:
        """A private server of the deployment, reused for later rows; raises `NotReplayableError`."""
        running = self._servers.get(deployment.digest)
        if running is None:
            running = self._servers[deployment.digest] = self._started(deployment)
        self._servers.move_to_end(deployment.digest)
        if isinstance(running, NotReplayableError):
            raise running
        return running

    def unbatched(self) -> dict[str, str]:
        """Models with batching off, and why."""
        running = [server for server in self._servers.values() if isinstance(server, LocalServer)]
        return {
            f"{ack.name} v{version.version}": version.batching.reason or "by its settings"
            for server in running
            for ack in server.acks()
            for version in ack.versions
            if not version.batching.on
        }

    def close(self, but: int = 0) -> None:
        """Stop all servers but the `but` most recently used."""
        while len(self._servers) > but:
            _, running = self._servers.popitem(last=False)
            if isinstance(running, LocalServer):
                running.close()

    def _started(self, deployment: Deployment) -> LocalServer | NotReplayableError:
        try:
            bundle = offline_bundle(deployment, self._files.path)
            return LocalServer(bundle, offline=True, deadline_ms=DEADLINE_MS)
        except NotReplayableError as why:
            return why
        except FlyballError as error:
            return NotReplayableError(error.message)

    def _search(self, record: Json, models: list[Json]) -> Deployment:
        """The last matching deployment before the record, searched backwards by segment."""
        why = f"no served record of {record['decision']} with document {record['document']}"
        for served in self._before(record["seq"]):
            if (served["decision"], served["document"]) != (record["decision"], record["document"]):
                continue
            deployment = self._read(served)
            if deployment.has(models):
                return deployment
            why = f"no served record of {record['decision']} with the models of this record"
        raise NotReplayableError(why)

    def _before(self, seq: int) -> Iterator[Json]:
        """`served` records before a sequence number, newest first: segment by segment, then all compacted ones."""
        first = self._segments[0].first_seq if self._segments else seq + 1
        for facts in reversed(self._segments):
            yield from (item for item in reversed(self._in_segment(facts.segment)) if item["seq"] <= seq)
        if self._compacted is None:
            self._compacted = list(_served_until(self._log, first))
        yield from (item for item in reversed(self._compacted) if item["seq"] <= seq)

    def _in_segment(self, segment: int) -> list[Json]:
        if segment not in self._served:
            starts = sorted(facts.first_seq for facts in self._segments)
            start = next(facts.first_seq for facts in self._segments if facts.segment == segment)
            stop = next((first for first in starts if first > start), None)
            found: list[Json] = []
            at, end = start, False
            while not end and (stop is None or at < stop):
                lines, at, end = self._log.chunk(at, _CHUNK, {"kinds": ["served"]})
                found += [json.loads(line) for line in lines.splitlines()]
            self._served[segment] = [item for item in found if stop is None or item["seq"] < stop]
        return self._served[segment]

    def _read(self, served: Json) -> Deployment:
        digest = str(served["deployment"])
        if digest not in self._known:
            document = self._log.blob(digest)
            if document is None:
                raise NotReplayableError(f"the deployment's document {digest} is no longer in the log")
            self._known[digest] = Deployment(digest, json.loads(document), Path(served["base"]))
        return self._known[digest]


def _served_until(log: JournalLog, stop: int) -> Iterator[Json]:
    return takewhile(lambda item: item["seq"] < stop, log.records(kinds=["served"]))


def offline_bundle(deployment: Deployment, find: Callable[[str, Path], Path]) -> Bundle:
    """The deployment for offline rows: without deadlines, and with its files at their present paths.

    Files are checked by digest only; signatures were verified when it served, and keys may have expired since.
    """
    document = _without_signatures(deployment.document)
    document["versions"] = _found_versions(deployment, document, find)
    if document.get("candidate") is not None:
        candidate = _without_signatures(document["candidate"])
        document["candidate"] = candidate | {"versions": _found_versions(deployment, candidate, find)}
    relaxed = {"in_flight_max": _IN_FLIGHT_MAX, "queue_wait_ms_max": QUEUE_WAIT_MS, "run_ms_max": _RUN_MS_MAX}
    document |= {"limits": {**document.get("limits", {}), **relaxed}, "slo": {}, "batch": None}
    exact = canonical(document)
    entry = {"name": deployment.name, "digest": digest_of(exact)}
    index = canonical({"format": FORMAT, "generation": 1, "deployments": [entry]})
    return Bundle(index, (exact,), deployment.base)


def _without_signatures(part: Json) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key != "signed"}


def _found_versions(deployment: Deployment, part: Json, find: Callable[[str, Path], Path]) -> list[dict[str, Any]]:
    return [
        {**item, "artifact": {**item["artifact"], "path": str(_located(deployment, item["artifact"], find))}}
        for item in part["versions"]
    ]


def _located(deployment: Deployment, artifact: Json, find: Callable[[str, Path], Path]) -> Path:
    """The model's present path; external weights must be beside it."""
    path = find(str(artifact["digest"]), (deployment.base / artifact["path"]).absolute())
    for item in artifact.get("external_data") or ():
        find(str(item["digest"]), path.parent / str(item["name"]))
    return path


class _FilesByDigest:
    """Finds files by digest: at their recorded path, else anywhere in a folder."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._digests: dict[Path, str] = {}
        self._listed: list[Path] | None = None

    def path(self, digest: str, path: Path) -> Path:
        if self._digest(path) == digest:
            return path
        if self._folder is None:
            raise NotReplayableError(f"model {digest} is no longer at {path}; give --models DIR")
        if self._listed is None:
            self._listed = sorted(item for item in self._folder.rglob("*") if item.is_file())
        found = next((item for item in self._listed if self._digest(item) == digest), None)
        if found is None:
            raise NotReplayableError(f"model {digest} is neither at {path} nor in {self._folder}")
        return found

    def _digest(self, path: Path) -> str | None:
        if path not in self._digests:
            try:
                with path.open("rb") as file:
                    self._digests[path] = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
            except OSError:
                return None
        return self._digests[path]
