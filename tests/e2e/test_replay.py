"""Decisions that a real server recorded under load, made again after it ended: by what made them, by others, and changed."""

import json
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import flyball
from flyball.client import Client
from flyball.decision_log.read.filters import instant
from flyball.native.journal import Journal, JournalLog
from tests.support import command_line, decision_folders, serving

Json = dict[str, Any]

SPEC = """\
decision: pay
owner: tests@example.com
purpose: replayed by tests
input:
  card_id:  {type: string, key: true, pii: true}
  amount:   {type: float, min: 0, max: 100000}
  currency: {type: category, values: [EUR, USD]}
  country:  {type: category, values: [DE, FR], unknown: other}
features:
  spent_1h:    {window: sum(amount) by card_id last 1h, on_missing: 0}
  payments_1h: {window: count() by card_id last 1h, on_missing: 0}
  large:       {compute: "amount > 1000.0", type: bool}
transforms:
  - log1p: [amount, spent_1h]
  - one_hot: [currency, country]
  - cast: {of: large, to: float}
models:
  one: {path: one.onnx, columns: from transforms, score: "probabilities[1]"}
  two: {path: two.onnx, columns: from transforms, score: "probabilities[1]"}
variants: {champion: one, ensemble: {models: [one, two], weights: {one: 0.5, two: 0.5}}}
route: {split: {ensemble: 0.3}}
policy:
  guard: {score: 0..1}
  rules:
    - {when: "large && country != 'DE'", then: review, reason: R07}
    - {when: payments_1h > 60.0, then: reject, reason: R11}
  bands: {pass: "< 0.70", review: "< 0.97", reject: ">= 0.97"}
  adverse: [reject]
remedies: {guard_violated: review, timeout: rules}
"""
COLUMNS = 8
ROWS = 500


@dataclass(frozen=True)
class Recorded:
    """A folder with the spec, its models and its journal, and what callers were answered."""

    folder: Path
    answers: dict[str, Json]

    @property
    def journal(self) -> Path:
        return self.folder / "journal"

    def flyball(self, *words: str, code: int = 0) -> Any:
        """What `flyball decisions …` prints as JSON."""
        ending = command_line.flyball("decisions", *words, "--journal-folder", self.journal, "--json")
        assert ending.code == code, ending.text
        return json.loads("\n".join(ending.stdout)) if ending.stdout else ending.text


def rows(seed: int = 7) -> list[Json]:
    dice = random.Random(seed)
    return [
        {
            "card_id": f"c-{dice.randrange(6)}",
            "amount": dice.choice([0.0, 1e-300, round(dice.expovariate(0.01), 2), dice.random() * 3000]),
            "currency": dice.choice(["EUR", "USD"]),
            "country": dice.choice(["DE", "FR", "日本"]),
        }
        for _ in range(ROWS)
    ]


def decide(server: serving.Server, sent: list[Json]) -> dict[str, Json]:
    """In single rows and in lists, over several connections, so that runs are shared."""
    chunks = [sent[place : place + 7] for place in range(0, len(sent), 7)]
    with Client(server.url) as client, ThreadPoolExecutor(8) as pool:

        def ask(chunk: list[Json]) -> list[Any]:
            if len(chunk) % 2:
                return [row.decided for row in client.decide_rows("pay", chunk)]
            return [client.decide("pay", row, explain=True) for row in chunk]

        answers = [decided for chunk in pool.map(ask, chunks) for decided in chunk]
    return {decided.id: {"outcome": decided.outcome, "score": decided.score} for decided in answers}


def serve(folder: Path) -> list[str]:
    options = ["--listen", "127.0.0.1:0", "--journal-folder", str(folder / "journal")]
    return [*serving.flyball(), "serve", "--decision", str(folder / "pay.yaml"), *options]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("replay")
    for name in ("one", "two"):
        decision_folders.fraud_model(folder, name, COLUMNS)
    (folder / "pay.yaml").write_text(SPEC)
    with serving.serving(serve(folder)) as server:
        answers = decide(server, rows())
        assert server.stop().code == 0
    with serving.serving(serve(folder)) as again:  # a restart begins a segment of its own
        assert again.stop().code == 0
    return Recorded(folder, answers)


@pytest.fixture
def copied(recorded: Recorded, tmp_path: Path) -> Recorded:
    """Its own folder for a test that changes something."""
    shutil.copytree(recorded.journal, tmp_path / "journal")
    return Recorded(tmp_path, recorded.answers)


def test_what_was_decided_under_load_comes_out_to_the_bit_after_a_restart(recorded: Recorded) -> None:
    found = recorded.flyball("replay")
    assert found["decisions"] == ROWS
    assert found["classes"] == {"bit-exact": ROWS, "within tolerance": 0, "differs": 0, "erased": 0, "cannot": 0}, found
    assert found["runtime_differences"] == {}


def test_the_load_shared_runs_and_went_both_ways(recorded: Recorded) -> None:
    records = list(JournalLog(recorded.journal).records(kinds=["decision"]))
    assert max(run["rows"] for record in records for run in record["batch"]) > 7
    assert {record["variant"] for record in records} == {"champion", "ensemble"}
    assert {record["outcome"] for record in records} == {"pass", "review", "reject"}


def test_one_decision_and_a_sample_and_a_range(recorded: Recorded) -> None:
    some = next(iter(recorded.answers))
    assert recorded.flyball("replay", some)["decisions"] == 1
    sample = recorded.flyball("replay", "--sample", "40", "--seed", "3")
    assert (sample["decisions"], sample["classes"]["bit-exact"]) == (40, 40)
    later = recorded.flyball("replay", "--since", "2200-01-01", code=3)
    assert "no decision matches" in later


def test_a_decision_that_is_not_there_is_refused_by_name(recorded: Recorded) -> None:
    assert "has no decision" in recorded.flyball("replay", "0192f6c1-2345-7fff-bfff-ffffffffffff", code=3)


def test_a_model_that_is_gone_is_named_and_found_by_its_digest_elsewhere(recorded: Recorded, tmp_path: Path) -> None:
    moved = tmp_path / "kept" / "somewhere.onnx"
    moved.parent.mkdir()
    original = recorded.folder / "two.onnx"
    original.rename(moved)
    try:
        found = recorded.flyball("replay", code=4)
        (why,) = found["cannot"]
        assert found["classes"]["cannot"] == ROWS
        assert why.startswith("model sha256:")
        assert why.endswith(f"is no longer at {original}; give --models DIR")
        assert recorded.flyball("replay", "--models", str(moved.parent))["classes"]["bit-exact"] == ROWS
    finally:
        moved.rename(original)


def changed_record(record: Json) -> Json:
    return {**record, "score": 0.123, "outcome": "pass"}


def test_another_score_or_outcome_in_the_record_differs(recorded: Recorded) -> None:
    from flyball.decision_log.replay.deployments import Deployments
    from flyball.decision_log.replay.replay import Selection, replay, selected

    log = JournalLog(recorded.journal, reveal=True)
    records = list(selected(log, Selection(sample=20)))
    deployments = Deployments(log)
    try:
        found = replay(log, [changed_record(record) for record in records], deployments)
    finally:
        deployments.close()
    assert found.counts["differs"] == 20
    assert any(note.startswith("score 0.123 → ") for note in found.examples[0].compared.notes)


CANDIDATE = SPEC.replace('pass: "< 0.70", review: "< 0.97"', 'pass: "< 0.85", review: "< 0.99"').replace(
    'reject: ">= 0.97"', 'reject: ">= 0.99"'
)


def independently(recorded: Recorded) -> pd.DataFrame:
    """The candidate's outcomes by hand: the most severe of its bands over the champion's recorded scores and its rules."""
    log = JournalLog(recorded.journal)
    table = pd.DataFrame(log.records(kinds=["decision"]))
    table["country"] = table.input.map(lambda sent: sent["country"])
    table["amount"] = table.input.map(lambda sent: sent["amount"])
    table["payments"] = table.features.map(lambda features: features["payments_1h"]["value"])
    one = table.scores.map(lambda scores: scores["one"])
    severity = pd.cut(one, [-1, 0.85, 0.99, 2], right=False, labels=False)
    severity = severity.mask(table.payments > 60, 2)
    severity = severity.mask((table.amount > 1000) & (table.country != "DE"), severity.clip(lower=1))
    table["now"] = severity.map({0: "pass", 1: "review", 2: "reject"})
    return table


def test_a_candidate_s_flips_are_those_that_pandas_finds(recorded: Recorded) -> None:
    (recorded.folder / "candidate.yaml").write_text(CANDIDATE)
    page = recorded.folder / "report.html"
    found = recorded.flyball(
        "replay", "--candidate", str(recorded.folder / "candidate.yaml"), "--group-by", "country", "--html", str(page)
    )
    table = independently(recorded)
    assert found["decisions"] == len(table) == ROWS
    cross = pd.crosstab(table.outcome, table.now)
    told = {was: {now: count for now, count in row.items() if count} for was, row in found["matrix"].items()}
    assert told == {was: {now: int(count) for now, count in row.items() if count} for was, row in cross.T.to_dict().items()}
    assert found["flips"]["value"] == (table.outcome != table.now).mean()
    flips = table.assign(flip=table.outcome != table.now).groupby("country").flip.mean()
    assert {one["values"][0]: one["flips"]["value"] for one in found["segments"]} == flips.to_dict()
    assert 0 < found["flips"]["value"] < 1
    assert "candidate against the record" in page.read_text()


def test_truths_tell_which_of_two_is_wrong_more_often(copied: Recorded, recorded: Recorded) -> None:
    table = independently(recorded)
    truths = {row.id: "fraud" if row.amount > 500 else "good" for row in table.itertuples()}
    (copied.folder / "truths.csv").write_text(
        "id,truth,when\n" + "".join(f"{name},{truth},2026-11-15T07:30Z\n" for name, truth in truths.items())
    )
    assert copied.flyball("outcome", "--data", str(copied.folder / "truths.csv"), "--decision", "pay") == {"recorded": ROWS}
    (recorded.folder / "candidate.yaml").write_text(CANDIDATE)
    candidate = str(recorded.folder / "candidate.yaml")
    found = copied.flyball("replay", "--candidate", candidate, "--bad", "fraud", "--stopped", "review,reject")
    errors = {one["name"]: one for one in found["errors"]}
    bad = table[table.amount > 500]
    assert errors["missed"]["rows"] == len(bad)
    assert errors["missed"]["was"]["value"] == (bad.outcome == "pass").mean()
    assert errors["missed"]["now"]["value"] == (bad.now == "pass").mean()
    told = JournalLog(copied.journal).find(next(iter(truths)))[-1]
    assert (told["kind"], told["when"]) == ("outcome", instant("2026-11-15T07:30Z"))


def test_a_counterfactual_says_what_was_what_would_be_and_that_it_was_exact_before(recorded: Recorded) -> None:
    log = JournalLog(recorded.journal)
    rejected = next(record for record in log.records(kinds=["decision"]) if record["outcome"] == "reject")
    many = rejected["features"]["payments_1h"]["value"] > 60
    changes = ["--set", "payments_1h=1"] if many else ["--set", "amount=1"]
    found = recorded.flyball("replay", rejected["id"], *changes, "--set", "spent_1h=0")
    assert found["before"] == {"class": "bit-exact", "notes": []}
    assert found["was"]["outcome"] == "reject"
    assert found["now"]["outcome"] != "reject"
    with flyball.Decision.load(recorded.folder / "pay.yaml") as local:
        assert local.name == found["decision"]


def test_a_counterfactual_of_a_name_that_is_not_there_names_those_that_are(recorded: Recorded) -> None:
    some = next(iter(recorded.answers))
    assert "pay has no field or feature 'income'" in recorded.flyball("replay", some, "--set", "income=5", code=2)
    told = recorded.flyball("replay", some, "--set", "amount=5")
    assert any(note.startswith("spent_1h depends on amount") for note in told["notes"])


def test_an_erased_subject_is_erased_in_a_replay_and_others_are_not(copied: Recorded) -> None:
    records = list(JournalLog(copied.journal, reveal=True).records(kinds=["decision"]))
    of_one = sum(record["input"]["card_id"] == "c-1" for record in records)
    assert 0 < of_one < ROWS
    with Journal(copied.journal) as journal:
        journal.erase("c-1", by="tests", why="asked")
    found = copied.flyball("replay", code=4)
    assert found["classes"] == {
        "bit-exact": ROWS - of_one, "within tolerance": 0, "differs": 0, "erased": of_one, "cannot": 0,
    }  # fmt: skip
    erased = next(record["id"] for record in records if record["input"]["card_id"] == "c-1")
    assert "erased" in copied.flyball("replay", erased, "--set", "amount=1", code=3)


def test_reviews_wait_until_somebody_settles_them(copied: Recorded) -> None:
    before = copied.flyball("review", "--limit", "1000")
    assert before["waiting"] == sum(answer["outcome"] == "review" for answer in copied.answers.values())
    times = [one["time"] for one in before["decisions"]]
    assert times == sorted(times)
    first = before["decisions"][0]["id"]
    assert "unknown outcome 'pas'" in copied.flyball(
        "review", "settle", first, "--outcome", "pas", "--by", "ana", "--reason", "known", code=2
    )
    settled = copied.flyball("review", "settle", first, "--outcome", "pass", "--by", "ana", "--reason", "known")
    assert settled == {"id": first, "outcome": "pass", "by": "ana", "why": "known"}
    after = copied.flyball("review", "--limit", "1000")
    assert after["waiting"] == before["waiting"] - 1
    assert first not in {one["id"] for one in after["decisions"]}


def test_a_running_server_is_told_over_http_and_its_folder_is_locked_to_others(copied: Recorded, recorded: Recorded) -> None:
    shutil.copytree(recorded.folder, copied.folder / "made", ignore=shutil.ignore_patterns("journal"))
    shutil.copytree(copied.journal, copied.folder / "made" / "journal")
    served = Recorded(copied.folder / "made", copied.answers)
    some = next(iter(copied.answers))
    with serving.serving(serve(served.folder)) as server:
        told = served.flyball("outcome", some, "--truth", "true", "--source", "chargeback", "--url", server.url)
        assert told == {"recorded": 1}
        served.flyball("override", some, "--outcome", "reject", "--by", "ana", "--reason", "fraud", "--url", server.url)
        assert "--url" in served.flyball("outcome", some, "--truth", "true", code=5)
        assert server.stop().code == 0
    kinds = [record["kind"] for record in JournalLog(served.journal).find(some)]
    assert kinds == ["decision", "outcome", "override"]
