"""Sends durable records as CloudEvents over HTTP, at least once: the position is stored after each response.

Reads the log's files, so that a slow or failing receiver never affects a request. Must not know the format of events.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import HTTPError

from flyball.decision_log.cloud_events import BATCH, batch_of
from flyball.decision_log.read.whole_log import WholeLog
from flyball.decision_log.retention.retired import read_retired
from flyball.documents.durable_file import read_json, write_json
from flyball.errors import EvidenceError, RefusedError, UnavailableError, UsageError, plain_cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from flyball.decision_log.retention.retired import Retired

    Shape = Callable[[str, dict[str, Any]], list[dict[str, Any]]]

_RETRIED = (408, 425, 429, *range(500, 600))
_PAUSE_S, _PAUSE_S_MAX = 0.1, 30.0
_FOLLOW_S = 0.5
_BODY_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Receiver:
    """The receiver's URL, and its timeouts: for one response, and for one batch with retries."""

    url: str
    timeout_s: float = 10.0
    give_up_s: float = 300.0
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise UsageError(f"--to: {self.url!r} is not an http or https URL", next_step="write http://HOST:PORT/PATH")


class Position:
    """The next record to send, stored in `state/`; on disk before the next batch is sent."""

    def __init__(self, journal: Path, receiver: Receiver, name: str | None) -> None:
        label = name or hashlib.sha256(receiver.url.encode()).hexdigest()[:12]
        if not label.replace("-", "").replace("_", "").isalnum():
            raise UsageError(f"--name: {label!r} is not valid", next_step="use letters, digits, - and _")
        self._path = journal / "state" / f"push-{label}.json"
        stored = read_json(self._path)
        self.next_seq = int(stored["next_seq"]) if stored else 0

    def store(self, next_seq: int) -> None:
        """Store that all records before are delivered."""
        self.next_seq = next_seq
        write_json(self._path, {"next_seq": next_seq})


@dataclass(frozen=True, slots=True)
class Pushed:
    """The result of a push."""

    records: int
    events: int
    next_seq: int


def push(
    journal: Path,
    receiver: Receiver,
    shape: Shape,
    *,
    batch: int = 100,
    name: str | None = None,
    follow: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Pushed:
    """Send undelivered records, then new ones with `follow`; `progress` gets the number of records so far.

    It may be interrupted at any point: acknowledged records are not sent again, all others are.
    """
    position, node, log = Position(journal, receiver, name), _node(journal), WholeLog(journal)
    records = events = 0
    with urllib3.PoolManager(num_pools=1, maxsize=1, retries=False) as pool:
        while True:
            sender = _Sender(pool, receiver)
            for chunk in _batches(_undelivered(log, position.next_seq), node, shape, batch):
                if chunk.events:
                    sender.send(batch_of(chunk.events), chunk.first_seq)
                position.store(chunk.next_seq)
                records, events = records + chunk.records, events + len(chunk.events)
                if progress is not None:
                    progress(records)
            if not follow:
                return Pushed(records, events, position.next_seq)
            time.sleep(_FOLLOW_S)


def _node(journal: Path) -> str:
    document = read_json(journal / "node.json")
    if document is None:
        raise UsageError(f"{journal} is not a journal", next_step="give its folder:  --journal-folder DIR")
    return str(document["node"])


def _undelivered(log: WholeLog, next_seq: int) -> Iterator[dict[str, Any]]:
    gone = [entry for entry in read_retired(log.folder).values() if entry.gone_unix_ns is not None]
    lost = [entry for entry in gone if next_seq and entry.next_seq > next_seq]
    if lost:
        raise EvidenceError(
            f"records {max(next_seq, lost[0].first_seq)} to {lost[-1].next_seq - 1} were removed before they were sent",
            code="push_behind",
            next_step="give another --name to start with the oldest remaining record",
        )
    return _consecutive(log.records(next_seq, durable_only=True), next_seq, gone)


def _consecutive(records: Iterator[dict[str, Any]], next_seq: int, gone: list[Retired]) -> Iterator[dict[str, Any]]:
    """Yield the records; raises on a gap, whose records would never be sent. Removed segments are no gap."""
    for record in records:
        for entry in gone:
            if entry.first_seq <= next_seq < entry.next_seq:
                next_seq = entry.next_seq
        if next_seq and record["seq"] != next_seq:
            raise EvidenceError(
                f"record {next_seq} is missing; the next one is {record['seq']}",
                code="push_behind",
                next_step="see all findings:  flyball decisions verify",
            )
        next_seq = record["seq"] + 1
        yield record


@dataclass(frozen=True, slots=True)
class _Batch:
    events: list[dict[str, Any]]
    records: int
    first_seq: int
    next_seq: int


def _batches(records: Iterator[dict[str, Any]], node: str, shape: Shape, most: int) -> Iterator[_Batch]:
    """Batches limited by records and bytes; a record over the byte limit is sent alone."""
    left = list(islice(records, most))
    while left:
        events: list[dict[str, Any]] = []
        length, count = 0, 0
        for record in left:
            made = shape(node, record)
            length += len(batch_of(made))
            if count and length > _BODY_BYTES_MAX:
                break
            events += made
            count += 1
        yield _Batch(events, count, left[0]["seq"], left[count - 1]["seq"] + 1)
        left = left[count:] + list(islice(records, count))


class _Sender:
    def __init__(self, pool: urllib3.PoolManager, receiver: Receiver) -> None:
        self._pool, self._receiver = pool, receiver

    def send(self, body: bytes, first_seq: int) -> None:
        """Send a batch, with retries; raises if it is refused or times out."""
        headers = {"Content-Type": f"{BATCH}; charset=utf-8", **self._receiver.headers}
        begun, attempt = time.monotonic(), 0
        while True:
            reason, after_s = self._attempt(body, headers, first_seq)
            if reason is None:
                return
            pause = min(_PAUSE_S_MAX, max(_PAUSE_S * 2 ** min(attempt, 16), after_s))
            if time.monotonic() - begun + pause > self._receiver.give_up_s:
                raise UnavailableError(
                    f"{self._receiver.url} did not accept record {first_seq} in {attempt + 1} attempts: {reason}",
                    code="receiver_unavailable",
                    next_step="nothing is lost: run it again, and it continues there",
                )
            time.sleep(pause)
            attempt += 1

    def _attempt(self, body: bytes, headers: dict[str, str], first_seq: int) -> tuple[str | None, float]:
        """Return why it was not accepted (None if it was), and the receiver's Retry-After in seconds."""
        try:
            response = self._pool.request(
                "POST", self._receiver.url, body=body, headers=headers, redirect=False,
                timeout=urllib3.Timeout(total=self._receiver.timeout_s), preload_content=False,
            )  # fmt: skip
            try:
                answer = response.read(500, decode_content=False)
            finally:
                response.close()
        except HTTPError as error:
            return plain_cause(error), 0.0
        if 200 <= response.status < 300:
            return None, 0.0
        text = answer.decode("utf-8", "replace").strip()
        if response.status not in _RETRIED:
            raise RefusedError(
                f"{self._receiver.url} refused the batch from record {first_seq} with {response.status}: {text[:200]}",
                code="receiver_refused",
                next_step="nothing is lost: fix the receiver, and run it again",
            )
        return f"response {response.status} {text[:200]}".strip(), _seconds(response.headers.get("Retry-After"))


def _seconds(retry_after: str | None) -> float:
    try:
        return max(0.0, float(retry_after or 0))
    except ValueError:
        return 0.0  # an HTTP date: use the usual pause
