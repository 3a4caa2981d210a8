"""Records go to a receiver at least once and in order, whatever it does, and nothing personal goes with them."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from flyball.decision_log.cloud_events import flyball_events, kserve_events
from flyball.decision_log.push import Pushed, Receiver, push
from flyball.decision_log.read.whole_log import WholeLog
from flyball.decision_log.retention.compact import compact
from flyball.decision_log.retention.retired import read_retired, write_retired
from flyball.errors import EvidenceError, RefusedError, UnavailableError, UsageError
from tests.support import journal_folders
from tests.support.journal_folders import JournalFolder

Answer = Callable[[int], int | None]


class Sink:
    """A receiver of events on a port of its own; `answer` says what the n-th request gets, None: silence."""

    def __init__(self, answer: Answer = lambda _: 204, port: int = 0) -> None:
        self.requests: list[tuple[str, list[dict[str, Any]]]] = []
        self.taken: list[dict[str, Any]] = []
        self.released = threading.Event()
        sink = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                sink.requests.append((self.headers["Content-Type"], body))
                status = answer(len(sink.requests))
                if status is None:
                    sink.released.wait(60)
                    return
                if 200 <= status < 300:
                    sink.taken.extend(body)
                self.send_response(status)
                self.send_header("Retry-After", "0")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/events"

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def sink() -> Iterator[Callable[..., Sink]]:
    made: list[Sink] = []

    def start(*arguments: Any, **options: Any) -> Sink:
        made.append(Sink(*arguments, **options))
        return made[-1]

    yield start
    for one in made:
        one.close()


def sent(journal: JournalFolder, to: Sink, **options: Any) -> Pushed:
    receiver = Receiver(to.url, timeout_s=options.pop("timeout_s", 5), give_up_s=options.pop("give_up_s", 5))
    return push(journal.path, receiver, options.pop("shape", flyball_events), **options)


def sequence(events: list[dict[str, Any]]) -> list[int]:
    return [int(event["id"].rpartition("/")[2]) for event in events]


def test_every_record_arrives_once_and_in_order_where_nothing_fails(tmp_path: Path, sink: Callable[..., Sink]) -> None:
    journal, to = journal_folders.filled(tmp_path, [5, 4]), sink()
    assert sent(journal, to, batch=4) == Pushed(10, 10, 11)
    assert sequence(to.taken) == list(range(1, 11))
    assert [len(body) for _, body in to.requests] == [4, 4, 2]
    assert {kind for kind, _ in to.requests} == {"application/cloudevents-batch+json; charset=utf-8"}
    assert sent(journal, to) == Pushed(0, 0, 11)


def test_an_event_is_a_cloud_event_without_anything_personal(tmp_path: Path) -> None:
    journal = JournalFolder(tmp_path)
    identity = journal.decide("loan", subject=b"s" * 32, personal=b"c" * 20)
    journal.write()
    [record] = WholeLog(tmp_path).records()
    revealed = {**record, "personal_fields": ["name"], "input": {**record["input"], "name": "Ann"}}
    revealed |= {"personal_features": ["call"], "features": {"call": {"value": "Ann!"}, "plain": {"value": 1}}}
    [event] = flyball_events("ab", revealed)
    assert {name: event[name] for name in ("specversion", "id", "source", "type", "subject", "sequence")} == {
        "specversion": "1.0",
        "id": "ab/1",
        "source": "urn:flyball:journal:ab",
        "type": "dev.flyball.decision.v1",
        "subject": str(identity),
        "sequence": "00000000000000000001",
    }
    assert event["data"]["input"] == {"amount": 4100.0, "country": "DE"}
    assert event["data"]["features"] == {"plain": {"value": 1}}
    assert "Ann" not in json.dumps(event)
    request, response = kserve_events("ab", revealed)
    assert (request["type"], response["type"]) == (
        "org.kubeflow.serving.inference.request",
        "org.kubeflow.serving.inference.response",
    )
    assert (request["inferenceservicename"], response["data"]["outcome"]) == ("loan", "reject")
    assert "Ann" not in json.dumps([request, response])


def test_a_receiver_that_fails_is_tried_again_and_misses_nothing(tmp_path: Path, sink: Callable[..., Sink]) -> None:
    journal, to = journal_folders.filled(tmp_path, [6]), sink(lambda count: 503 if count % 2 else 200)
    sent(journal, to, batch=3)
    assert sequence(to.taken) == list(range(1, 8))
    assert len(to.requests) == 6


def test_a_receiver_that_stalls_gets_the_batch_again(tmp_path: Path, sink: Callable[..., Sink]) -> None:
    journal, to = journal_folders.filled(tmp_path, [2]), sink(lambda count: None if count == 1 else 200)
    sent(journal, to, timeout_s=0.3)
    assert sequence(to.taken) == [1, 2, 3]
    assert to.requests[0] == to.requests[1]


def test_a_dead_receiver_is_given_up_and_a_later_push_goes_on_from_there(tmp_path: Path, sink: Callable[..., Sink]) -> None:
    journal, first = journal_folders.filled(tmp_path, [6]), sink(lambda count: 200 if count == 1 else 500)
    with pytest.raises(UnavailableError, match=r"did not accept record 4 .* response 500"):
        sent(journal, first, batch=3, give_up_s=0.3)
    first.close()
    with pytest.raises(UnavailableError, match="refused"):
        sent(journal, first, batch=3, give_up_s=0.3)
    again = Sink(port=first.port)
    try:
        sent(journal, again, batch=3)
        assert sequence(first.taken) + sequence(again.taken) == list(range(1, 8))
    finally:
        again.close()


def test_a_receiver_that_refuses_the_batch_stops_the_push_with_its_reason(tmp_path: Path, sink: Callable[..., Sink]) -> None:
    journal, to = journal_folders.filled(tmp_path, [1]), sink(lambda _: 422)
    with pytest.raises(RefusedError, match="from record 1 with 422"):
        sent(journal, to)
    assert len(to.requests) == 1


def test_what_was_compacted_before_it_was_sent_is_sent_all_the_same(tmp_path: Path, sink: Callable[..., Sink]) -> None:
    journal, to = journal_folders.filled(tmp_path, [4, 3]), sink()
    compact(WholeLog(tmp_path))
    sent(journal, to)
    assert sequence(to.taken) == list(range(1, 9))


def test_records_that_were_removed_before_they_were_sent_are_an_error(tmp_path: Path, sink: Callable[..., Sink]) -> None:
    journal, to = journal_folders.filled(tmp_path, [4, 3]), sink(lambda count: 200 if count == 1 else 400)
    with pytest.raises(RefusedError):
        sent(journal, to, batch=2)
    compact(WholeLog(tmp_path))
    retired = read_retired(tmp_path)
    write_retired(tmp_path, {**retired, 1: retired[1].gone(1)})
    with pytest.raises(EvidenceError, match="records 3 to 4 were removed before they were sent"):
        sent(journal, to)


def test_a_record_that_a_reader_passes_over_is_an_error_and_not_lost(
    tmp_path: Path, sink: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, to = journal_folders.filled(tmp_path, [4, 3]), sink()
    records = WholeLog.records

    def without_third(log: WholeLog, *arguments: Any, **options: Any) -> Iterator[dict[str, Any]]:
        return (record for record in records(log, *arguments, **options) if record["seq"] != 3)

    with monkeypatch.context() as patch:
        patch.setattr(WholeLog, "records", without_third)
        with pytest.raises(EvidenceError, match="record 3 is missing; the next one is 4"):
            sent(journal, to, batch=1)
    sent(journal, to)
    assert sequence(to.taken) == list(range(1, 9))


def test_records_that_are_compacted_while_they_are_sent_are_all_sent(tmp_path: Path, sink: Callable[..., Sink]) -> None:
    def answer(count: int) -> int:
        if count == 2:
            compact(WholeLog(tmp_path))
        return 204

    journal, to = journal_folders.filled(tmp_path, [4, 3, 5]), sink(answer)
    sent(journal, to, batch=2)
    assert sequence(to.taken) == list(range(1, 14))


def test_positions_of_two_receivers_are_apart(tmp_path: Path, sink: Callable[..., Sink]) -> None:
    journal, one, other = journal_folders.filled(tmp_path, [2]), sink(), sink()
    sent(journal, one)
    sent(journal, other, shape=kserve_events)
    assert (len(one.taken), len(other.taken)) == (3, 6)


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(UsageError, match="not an http or https URL"):
        Receiver("ftp://somewhere")
