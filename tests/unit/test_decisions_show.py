"""One decision on a page, the notes that cover it, and records as they come."""

from itertools import islice

import pytest

from flyball.decision_log.proof import checkpoints
from flyball.decision_log.read.records import Decided, Outcome, Record, find, typed
from flyball.decision_log.read.show import Proven, lines
from flyball.decision_log.read.tail import follow
from flyball.errors import JournalRefusedError, NotFoundError
from flyball.native.journal_documents import SegmentFacts
from tests.support.handwritten_log import ID, HandwrittenLog, decision, told

PROVEN = Proven(184, 20731, [], "2025-11-15 07:33:00", sealed=True)
NOTE = "flyball-journal/{node}\n{sealed}\nAAAA\nopen {segment} {frames} {leaf}\ntime {ms}\n\n— flyball-journal/x AAAA\n"


def page(tmp_path, *records, proven=PROVEN, texts=None):
    history = find(HandwrittenLog(tmp_path, *records), ID.format(1))
    return [line.plain for line in lines(history, proven, texts or {})]


def test_a_decision_is_told_in_few_lines(tmp_path):
    texts = {"R11": "more than 20 payments in the last hour", "R02": "amount far above usual"}
    assert page(tmp_path, decision(), texts=texts) == [
        f"{ID.format(1)}   card-fraud   2025-11-15 00:00:00.118   reject (0.914)",
        "  model fraud v7 sha256:3f9c…   policy sha256:b0b0…   schema sha256:5c5c…   route champion",
        "  R11 more than 20 payments in the last hour   payments_1h = 23 (window, age 0 ms)",
        "  R02 amount far above usual                   amount = 4100.00, +0.31",
        "  rules that fired: rule 1",
        "  features  payments_1h = 23 (window, age 0 ms)",
        "  input     amount = 4100.00 · country = FR",
        "  personal  encrypted; show it with --reveal",
        "  parse 6 µs · route 1 · infer 21   total 28 µs   (batch 3 of 5)",
        "  proof: segment 000184, frame 20731, root signed 2025-11-15 07:33:00",
        f"Replay:  flyball decisions replay {ID.format(1)}      What if:  … --set payments_1h=VALUE",
    ]


def test_what_was_told_later_follows_the_proof(tmp_path):
    shown = page(
        tmp_path,
        decision(),
        told("undelivered"),
        told("shadow", decision="card-fraud", of="variant", variant="next", score=0.4, outcome="review", agrees=False),
        told("override", decision="card-fraud", outcome="pass", by="ana", why="known customer", caller="desk"),
        told("override", decision="loan", outcome="reject", by="eve", why="of another decision", caller="eve"),
        told("outcome", decision="card-fraud", truth=False, when=None, source="bank", caller=None),
    )
    assert "  shadow next: review (0.400), disagrees" in shown
    assert "  not delivered: the client had disconnected" in shown
    assert shown[-3:-1] == [
        "  overridden 2025-11-15 03:00:00: pass, by ana (caller desk): known customer",
        "  true outcome 2025-11-15 05:00:00: false (bank) (not authenticated)",
    ]


@pytest.mark.parametrize(
    ("proven", "line"),
    [
        (Proven(1, 2, [], None, sealed=False),
         "  proof: segment 000001, frame 2, in the chain; no checkpoint covers it yet"),
        (Proven(1, 2, [], "07:33", sealed=False), "  proof: segment 000001, frame 2, chain signed 07:33"),
        (Proven(1, 2, ["the root differs"], "07:33", sealed=True),
         "  proof: DOES NOT HOLD: the root differs (segment 000001, frame 2)"),
    ],
)  # fmt: skip
def test_the_proof_says_what_it_is_worth(tmp_path, proven, line):
    assert line in page(tmp_path, decision(), proven=proven)


def test_a_remedy_an_erased_subject_and_masked_fields_are_not_hidden(tmp_path):
    remedy = {"cause": "timeout", "stage": "infer", "used": "rules"}
    shown = page(
        tmp_path, decision(remedy=remedy, personal="erased", masked=["iban"], route="rules", variant="b", score=None)
    )
    assert "  remedy: rules, for timeout at infer" in shown
    assert "  personal  erased" in shown
    assert "  masked    iban" in shown
    assert shown[0].endswith("   reject")
    assert shown[1].endswith("route rules (b)")


def test_a_failure_is_shown_with_its_stage_and_cannot_be_replayed(tmp_path):
    failed = {name: value for name, value in decision().items() if name not in ("outcome", "route", "timings")}
    shown = page(tmp_path, {**failed, "kind": "failed", "fault": ["run_failed", "infer", "the model gave up"]})
    assert shown[0].endswith("failed at infer: run_failed   the model gave up")
    assert not any(line.startswith("Replay") for line in shown)


@pytest.mark.parametrize("wanted", ["not-an-id", ID.format(9)])
def test_an_id_that_is_not_there_is_refused_with_the_way_to_those_that_are(tmp_path, wanted):
    with pytest.raises(NotFoundError) as caught:
        find(HandwrittenLog(tmp_path, decision()), wanted)
    assert caught.value.code == "record_not_found"
    assert "flyball decisions query" in caught.value.next_step


def test_records_have_the_type_of_their_kind_and_keep_what_is_new(tmp_path):
    log = HandwrittenLog(
        tmp_path,
        decision(score="Infinity", later="yes"),
        told("outcome", decision="card-fraud", truth=1),
        told("served", base="/x"),
    )
    decided, outcome, served = map(typed, log.records_given)
    assert isinstance(decided, Decided)
    assert (decided.score, decided.features["payments_1h"].origin) == (float("inf"), "window")
    assert decided.model_extra["later"] == "yes"
    assert isinstance(outcome, Outcome)
    assert (type(served), served.model_extra["base"]) == (Record, "/x")
    with pytest.raises(JournalRefusedError, match="record 0 has an unknown form"):
        typed({**log.records_given[0], "features": 3})


def note(sealed, segment, frames, ms=1_763_191_980_000):
    return NOTE.format(node="ab" * 16, sealed=sealed, segment=segment, frames=frames, leaf="cd" * 32, ms=ms)


@pytest.mark.parametrize(("segment", "frame", "covered"), [(2, 99, True), (3, 4, True), (3, 5, False), (4, 0, False)])
def test_a_note_covers_sealed_segments_and_the_frames_that_it_counts(segment, frame, covered):
    assert checkpoints.parse(note(2, 3, 5)).covers(segment, frame) is covered


def test_the_first_note_over_a_frame_says_since_when_it_is_signed(tmp_path):
    log = HandwrittenLog(tmp_path)
    log.checkpoints = lambda: [note(0, 1, 3, ms=0), note(0, 1, 4, ms=1000), note(1, 2, 0, ms=2000)]
    assert checkpoints.first_over(log, 1, 3).unix_ms == 1000
    assert checkpoints.first_over(log, 2, 0) is None
    assert f"{checkpoints.last(log).time:%H:%M:%S}" == "00:00:02"


@pytest.mark.parametrize("text", ["", "hello", note(1, 2, 3).replace("open", "shut"), note("x", 2, 3)])
def test_what_is_no_note_is_refused(text):
    with pytest.raises(JournalRefusedError, match="not a journal's checkpoint"):
        checkpoints.parse(text)


def test_tail_begins_with_the_last_ones_and_goes_on_with_what_comes(tmp_path):
    log = HandwrittenLog(
        tmp_path, *(decision(number) for number in range(5)), told("outcome", 1, decision="card-fraud", truth=1)
    )
    facts = {"segment": 1, "bytes": 0, "began": "first", "created_unix_ns": 0, "sealed": False, "root": "", "last": ""}
    log.segments = lambda: [SegmentFacts(first_seq=0, frames=len(log.records_given), **facts)]

    def pause(_seconds):
        log.records_given.append(log._placed(len(log.records_given), decision(7)))

    followed = follow(log, kinds=["decision"], last=2, pause=pause)
    assert [record["id"] for record in islice(followed, 3)] == [ID.format(number) for number in (3, 4, 7)]
    assert [record["seq"] for record in islice(follow(log, last=0, pause=pause), 1)] == [7]
