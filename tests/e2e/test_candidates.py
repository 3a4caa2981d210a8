"""A candidate beside what serves: its share of the answers, its shadow, its records, and what is refused."""

import json
import signal
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from flyball.native.journal import JournalLog
from tests.support import binomial_bounds, command_line, decision_documents, onnx_models, serving, snapshots
from tests.support.serving import Server, until
from tests.support.signers import Office, changed
from tests.support.wire import Http, infer_path, json_request

Json = dict[str, Any]
Start = Callable[..., Server]
DRAWS = 600
SHARE = Fraction(1, 4)


def version(number: str, path: Path) -> Json:
    return {"version": number, "artifact": {"path": str(path), "digest": snapshots.digest(path.read_bytes())}}


def candidate(path: Path, **more: Any) -> Json:
    return {"share": float(SHARE), "shadow": False, "versions": [version("2", path)], **more}


def tried(document: Json, candidate: Json) -> Json:
    return {**document, "candidate": candidate}


def decides(folder: Path, decision: Json, *, theirs: Json | None = None, **more: Any) -> Json:
    """The decision by one model, and the same by another as its candidate."""
    ours, other = decision_documents.thousandth(folder), decision_documents.thousandth(folder, "halved", 0.0005)
    theirs = theirs or {**decision, "models": [decision_documents.model("m", "2")]}
    return tried(decision_documents.deployment(decision, {"1": ours}), candidate(other, decision=theirs, **more))


def serve(start: Start, folder: Path, documents: list[Json], *more: str) -> Server:
    index = snapshots.write(folder / "snapshot", 1, documents)
    return start(*serving.flyballd(), "--snapshot", index, "--listen", "127.0.0.1:0", *more)


def rows(server: Server, accounts: list[str], amount: float = 400.0) -> list[Json]:
    """One decision for each account, in one request."""
    sent = [{"input": {"account": account, "amount": amount}} for account in accounts]
    with Http(server) as connection:
        reply = connection.post("/v1/decisions/pay", {"rows": sent})
    assert reply.status == 200, reply.body
    answers: list[Json] = reply.json["rows"]
    return answers


def test_the_bounds_of_a_count_are_those_of_its_distribution() -> None:
    half = binomial_bounds.within(2, Fraction(1, 2), missed=Fraction(2, 3))
    assert list(half) == [1], "each end has a quarter, which is less than a third"
    assert list(binomial_bounds.within(2, Fraction(1, 2), missed=Fraction(1, 3))) == [0, 1, 2]
    assert 80 < binomial_bounds.within(DRAWS, SHARE)[0] < 150 < binomial_bounds.within(DRAWS, SHARE)[-1] < 230


def test_a_model_as_it_is_answers_its_share_of_those_who_name_no_version(start: Start, tmp_path: Path) -> None:
    ours, theirs = onnx_models.linear(tmp_path, "one", seed=1), onnx_models.linear(tmp_path, "two", seed=2)
    server = serve(start, tmp_path, [tried(snapshots.deployment("linear", ours), candidate(theirs))])
    body = json_request(onnx_models.row("linear", 1))
    with Http(server) as connection:
        answers = [connection.post(infer_path("linear"), body).json for _ in range(DRAWS)]
        paths = [f"/v2/models/linear/versions/{number}/infer" for number in "12" * 20]
        named = [connection.post(path, body).json["model_version"] for path in paths]
        described = connection.get("/v2/models/linear").json
        (state,) = connection.get("/v1/deployments").json["deployments"]
    by = Counter(answer["model_version"] for answer in answers)
    assert set(by) == {"1", "2"}
    assert by["2"] in binomial_bounds.within(DRAWS, SHARE), by
    outputs = {answer["model_version"]: answer["outputs"][0]["data"] for answer in answers}
    assert outputs["1"] != outputs["2"], "each answers with its own weights"
    assert named == list("12" * 20)
    assert described["versions"] == ["1", "2"]
    assert (state["version"], state["candidate"]) == ("1", {"versions": ["2"], "share": 0.25, "shadow": False})


def test_a_decision_is_made_by_its_candidate_in_its_share(start: Start, tmp_path: Path) -> None:
    server = serve(start, tmp_path, [decides(tmp_path, decision_documents.document())])
    answers = rows(server, ["a"] * DRAWS)
    by = Counter(answer["route"] for answer in answers)
    assert set(by) == {"champion", "candidate"}
    assert by["candidate"] in binomial_bounds.within(DRAWS, SHARE), by
    assert {(answer["route"], round(answer["score"], 6)) for answer in answers} == {("champion", 0.4), ("candidate", 0.2)}


def test_a_key_stays_with_whoever_decided_it(start: Start, tmp_path: Path) -> None:
    server = serve(start, tmp_path, [decides(tmp_path, decision_documents.document(route={"sticky": "account"}))])
    accounts = [f"account-{number}" for number in range(DRAWS)]
    first, second = rows(server, accounts), rows(server, accounts)
    assert [answer["route"] for answer in first] == [answer["route"] for answer in second]
    assert Counter(answer["route"] for answer in first)["candidate"] in binomial_bounds.within(DRAWS, SHARE)


def records(journal: Path, kind: str) -> list[Json]:
    return list(JournalLog(journal).records(kinds=[kind]))


@pytest.mark.timeout(90)
def test_records_name_the_candidate_and_come_out_to_the_bit_when_they_are_replayed(start: Start, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    document = decides(tmp_path, decision_documents.document(record={"durability": "sync"}))
    server = serve(start, tmp_path, [document], "--journal-folder", str(journal))
    answers = rows(server, [f"account-{number}" for number in range(200)], amount=412.7)
    assert server.stop().code == 0
    kept = {record["id"]: record for record in records(journal, "decision")}
    assert len(kept) == 200
    for answer in answers:
        record = kept[answer["decision_id"]]
        assert record["variant"] == answer["route"]
        (model,) = record["models"]
        number = {"champion": "1", "candidate": "2"}[answer["route"]]
        assert (model["version"], model["digest"]) == (number, _digest(document, number))
    replayed = command_line.flyball("decisions", "replay", "--journal-folder", journal, "--json")
    found = json.loads("\n".join(replayed.stdout))
    assert found["classes"] == {"bit-exact": 200, "within tolerance": 0, "differs": 0, "erased": 0, "cannot": 0}, found


def _digest(document: Json, number: str) -> str:
    listed = [*document["versions"], *document["candidate"]["versions"]]
    return str(next(item["artifact"]["digest"] for item in listed if item["version"] == number))


def test_a_candidate_in_the_shadow_is_in_the_records_and_never_in_an_answer(start: Start, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    document = decides(tmp_path, decision_documents.document(record={"durability": "sync"}), shadow=True, share=1.0)
    server = serve(start, tmp_path, [document], "--journal-folder", str(journal))
    with Http(server) as connection:
        for number in range(20):
            sent = {"input": {"account": f"a{number}", "amount": 400.0}}
            answer = connection.post("/v1/decisions/pay", sent).json
            assert answer["route"] == "champion"
            assert round(answer["score"], 6) == 0.4
    assert server.stop().code == 0
    assert {record["variant"] for record in records(journal, "decision")} == {"champion"}
    beside = records(journal, "shadow")
    assert beside, "some of twenty have run by the time the server ends"
    assert {record["variant"] for record in beside} == {"candidate"}
    assert {round(record["score"], 6) for record in beside} == {0.2}


def test_what_cannot_be_compared_is_refused_and_what_served_goes_on(start: Start, tmp_path: Path) -> None:
    server = serve(
        start,
        tmp_path,
        [decision_documents.deployment(decision_documents.document(), {"1": decision_documents.thousandth(tmp_path)})],
    )
    other = decision_documents.document(models=[decision_documents.model("m", "2")], purpose="another")
    snapshots.write(tmp_path / "snapshot", 2, [decides(tmp_path, decision_documents.document(), theirs=other)])
    server.signal(signal.SIGHUP)
    line = server.log_line(lambda fields: fields.get("message") == "deployment refused")
    assert "candidate: purpose is" in str(line)
    assert "models alone" in str(line)
    assert decision_documents.decided(decision_documents.ask(server, 400.0))["route"] == "champion"


class Signed:
    """A server that trusts an office, what it serves, and what is to be tried beside that."""

    def __init__(self, start: Start, folder: Path) -> None:
        self.office, self.folder, self.generation = Office(folder), folder / "snapshot", 0
        ours, theirs = onnx_models.linear(folder, "one", seed=1), onnx_models.linear(folder, "two", seed=2)
        self.document = self.office.deployment("linear", 1, ours)
        package = self.office.package("linear", 2, theirs)
        self.model = package / "model.onnx"
        self.candidate = candidate(self.model, signed=self.office.signed("linear", 2, package))
        command = serving.flyballd(unsigned=False)
        index = self.publish(self.document)
        self.server = start(*command, "--snapshot", index, "--listen", "127.0.0.1:0", "--watch", *self.office.flags)

    def publish(self, document: Json) -> Path:
        self.generation += 1
        return self.office.write(self.folder, self.generation, [document])

    def told(self) -> Json | None:
        """What became of the last snapshot; none where it is not known yet."""
        with Http(self.server) as connection:
            lines: list[Json] = connection.get("/v1/deployments").json["deployments"]
        return next((line for line in lines if line["generation"] == self.generation), None)

    def answered_by(self) -> set[str]:
        body = json_request(onnx_models.row("linear", 1))
        with Http(self.server) as connection:
            return {connection.post(infer_path("linear"), body).json["model_version"] for _ in range(100)}


def test_a_candidate_is_served_by_its_own_release(start: Start, tmp_path: Path) -> None:
    signed = Signed(start, tmp_path)
    signed.publish(tried(signed.document, signed.candidate))
    line = until("it is judged", signed.told)
    assert (line["state"], line["signed"]["version"]) == ("applied", 1)
    assert signed.answered_by() == {"1", "2"}


BAD: dict[str, tuple[str, Callable[[Signed], Json]]] = {
    "unsigned": ("unsigned", lambda it: {**it.candidate, "signed": None}),
    "not approved": (
        "approvals_missing",
        lambda it: {**it.candidate, "signed": it.office.signed("linear", 2, it.model.parent, approved_by=())},
    ),
    "by a stranger": (
        "unknown_key",
        lambda it: {**it.candidate, "signed": it.office.signed("linear", 2, it.model.parent, by="stranger")},
    ),
    "another file": (
        "changed_file",
        lambda it: changed(it.candidate, "versions", 0, "artifact", "digest", to="sha256:" + "0" * 64),
    ),
    "the champion's release": ("extra_file", lambda it: {**it.candidate, "signed": it.document["signed"]}),
}


@pytest.mark.parametrize("name", BAD)
def test_a_candidate_that_may_not_serve_refuses_the_whole_and_what_served_goes_on(
    start: Start, tmp_path: Path, name: str
) -> None:
    signed = Signed(start, tmp_path)
    reason, make = BAD[name]
    signed.publish(tried(signed.document, make(signed)))
    line = until("it is judged", signed.told)
    assert line["state"] == "refused"
    assert line["reason"].startswith(f"{reason}: "), line
    assert signed.answered_by() == {"1"}
