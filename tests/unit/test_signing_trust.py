"""The trust policy and releases: edits, countersignatures and what they come to. The corpus has the refusals."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flyball.errors import SignatureError, UsageError
from flyball.signing import dsse, index, keys, release
from flyball.signing.policy import TrustPolicy
from flyball.signing.strict import seconds, written
from flyball.signing.trust import Trust, sign_policy

NOW = 1_800_000_000
ROOT, ANNA, BEN, CARA = (keys.generate() for _ in range(4))
PACKAGE = f"sha256:{'a' * 64}"


def policy():
    first = TrustPolicy.first(NOW)
    for key, name, roles in ((ANNA, "anna", ["signer"]), (BEN, "ben", ["approver"]), (CARA, "cara", ["approver"])):
        first = first.with_key(key.public_key(), name, roles, since=NOW, until=NOW + 1000, now=NOW)
    return first


def trust(changed=None, now=NOW, lowest_serial=0):
    return Trust(sign_policy(changed or policy(), [ROOT]), [ROOT.public_key()], now, lowest_serial)


def made(**changes):
    stated = {
        "name": "fraud",
        "version": 4,
        "environments": ["production"],
        "not_before": written(NOW),
        "not_after": written(NOW + 1000),
        "tier": "high",
        "models": {"4": PACKAGE},
        "decision": None,
        "policy": None,
        "schema": None,
        **changes,
    }
    return release.make_release(stated, {f"{stated['name']}@{stated['version']}": PACKAGE}, ANNA)


def test_each_edit_gives_the_next_serial_and_leaves_the_old_policy_as_it_was():
    old = policy()
    edits = [
        old.revoking(keys.hint(BEN.public_key()), "left", NOW + 1),
        old.revoking(PACKAGE, "wrong labels", NOW + 1),
        old.with_minimum("Fraud", 3, NOW + 1),
        old.renewed(NOW + 1, NOW + 50),
    ]
    assert [edit.serial for edit in edits] == [old.serial + 1] * 4
    assert {edit.issued for edit in edits} == {written(NOW + 1)}
    assert (old.revoked, old.minimum, old.expires) == ([], {}, None)
    assert edits[2].minimum == {"fraud": 3}
    assert trust(edits[3], lowest_serial=5).policy == edits[3]


def test_a_key_that_is_added_again_is_replaced():
    again = policy().with_key(BEN.public_key(), "ben", ["publisher"], since=NOW, until=None, now=NOW)
    assert [key.roles for key in again.keys if key.name == "ben"] == [["publisher"]]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda old: old.with_key(BEN.public_key(), "", ["signer"], since=NOW, until=None, now=NOW), "keys[2].name"),
        (lambda old: old.with_key(BEN.public_key(), "ben", [], since=NOW, until=None, now=NOW), "keys[2].roles"),
        (
            lambda old: old.with_key(BEN.public_key(), "ben", ["signer"], since=NOW, until=NOW, now=NOW),
            "'keys[2].until' must be after",
        ),
        (lambda old: old.revoking("ben", "left", NOW), "neither a key's hint nor a package's root"),
        (lambda old: old.revoking(PACKAGE, "x", NOW).revoking(PACKAGE, "x", NOW), "is revoked already"),
        (lambda old: old.with_minimum("a/b", 1, NOW), "minimum"),
        (lambda old: old.with_minimum("fraud", 0, NOW), "minimum.fraud"),
    ],
)
def test_an_edit_that_makes_no_sense_is_wrong_usage(edit, words):
    with pytest.raises(UsageError) as caught:
        edit(policy())
    assert words in caught.value.message


def test_a_policy_is_the_same_after_it_was_signed_and_read():
    edited = policy().revoking(PACKAGE, "wrong labels", NOW).with_minimum("fraud", 3, NOW)
    assert trust(edited).policy == edited
    assert trust(edited).policy.document() == edited.document()


def test_a_release_counts_the_people_who_countersigned_it():
    once = release.countersign(made(), BEN)
    with pytest.raises(SignatureError, match=r"approvals_missing: .*has 1 of 2 approvals"):
        trust().release(once, NOW, "production")
    held = trust().release(release.countersign(once, CARA), NOW, "production")
    assert (held.author, held.approvers) == ("anna", ["ben", "cara"])
    assert held.statement.subjects == {"fraud@4": PACKAGE}
    assert held.approver_keys == [keys.hint(key.public_key()) for key in (BEN, CARA)]


def test_an_approval_made_elsewhere_is_as_good_and_the_key_stays_there():
    data = made(tier="standard")
    signature = release.approval(data, BEN)
    assert signature.keyid == keys.hint(BEN.public_key())
    assert trust().release(release.attach(data, signature), NOW, "production").approvers == ["ben"]
    wrong = dsse.Signature(signature.keyid, release.approval(made(version=5), BEN).sig)
    with pytest.raises(SignatureError, match=r"bad_signature: .*ben"):
        trust().release(release.attach(data, wrong), NOW, "production")


def test_a_key_cannot_sign_a_release_twice_nor_can_more_than_sixteen():
    with pytest.raises(UsageError, match="has signed the release already"):
        release.countersign(made(), ANNA)
    data = made()
    for _ in range(15):
        data = release.countersign(data, keys.generate())
    with pytest.raises(UsageError, match="16 signatures at most"):
        release.countersign(data, BEN)


def test_a_release_that_makes_no_sense_is_never_signed():
    for changes in ({"tier": "none"}, {"environments": []}, {"version": 0}, {"not_after": written(NOW)}, {"comment": "x"}):
        with pytest.raises(SignatureError, match="malformed"):
            made(**changes)


def test_an_approver_reads_what_the_release_says_before_signing():
    assert release.read_release(made()).predicate.name == "fraud"


def test_a_publisher_s_signature_is_over_the_very_bytes_of_the_index():
    publisher = policy().with_key(ROOT.public_key(), "control", ["publisher"], since=NOW, until=None, now=NOW)
    signature = index.sign_index(b"{}", ROOT)
    trust(publisher).check_index(b"{}", signature, NOW)
    with pytest.raises(SignatureError, match="changed_file"):
        trust(publisher).check_index(b"{} ", signature, NOW)


def judged_release(data):
    return TRUSTED.release(data, NOW, "production")


def judged_policy(data):
    return Trust(data, [ROOT.public_key()], NOW).policy


def judged_index(data):
    return TRUSTED.check_index(b"{}", data, NOW)


TRUSTED = trust(policy().with_key(ROOT.public_key(), "control", ["publisher"], since=NOW, until=None, now=NOW))
DOCUMENTS = {
    judged_release: release.countersign(made(tier="standard"), BEN),
    judged_policy: sign_policy(policy(), [ROOT]),
    judged_index: index.sign_index(b"{}", ROOT),
}


@pytest.mark.parametrize("judge", DOCUMENTS, ids=lambda judge: judge.__name__)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_document_with_any_byte_changed_is_refused_or_says_the_very_same(judge, data):
    whole = DOCUMENTS[judge]
    place = data.draw(st.integers(0, len(whole) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
    try:
        found = judge(whole[:place] + bytes([other]) + whole[place + 1 :])
    except SignatureError:
        return
    assert found == judge(whole)  # only the spaces between values are not signed


@pytest.mark.parametrize("judge", DOCUMENTS, ids=lambda judge: judge.__name__)
@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=100))
def test_bytes_that_are_no_document_are_refused_without_any_other_error(judge, data):
    with pytest.raises(SignatureError) as caught:
        judge(data)
    assert caught.value.reason in ("malformed", "unsupported")


@settings(max_examples=100, deadline=None)
@given(kind=st.text(max_size=8), payload=st.binary(max_size=16), at=st.integers(0, 24))
def test_no_two_payloads_are_signed_as_the_same_bytes(kind, payload, at):
    one = dsse.pae(kind, payload)
    both = kind.encode() + payload
    if at <= len(both) and at != len(kind.encode()):
        try:
            other = dsse.pae(both[:at].decode(), both[at:])
        except UnicodeDecodeError:
            return
        assert one != other


@given(at=st.integers(0, 4_000_000_000))
def test_a_time_is_the_same_after_it_was_written_and_read(at):
    assert seconds(written(at)) == at


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-16",
        "2026-11-16T04:00Z",
        "2026-11-16t04:00:00z",
        "2026-11-16T04:00:60Z",
        "2026-11-16T04:00:00Z\n",
        "٢026-11-16T04:00:00Z",
    ],
)
def test_a_time_has_one_spelling(text):
    with pytest.raises(ValueError):  # noqa: PT011 - datetime's own words, or ours
        seconds(text)
