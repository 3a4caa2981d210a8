"""Python's judge of signatures against the data plane's: whatever was written, both take it or both name one reason."""

import copy
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyball.errors import SignatureError
from flyball.native import checks
from flyball.signing import keys, oms, release, trust
from tests.support.serving import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests/golden/signing"))

import parts

ROOTS = [keys.load_public(parts.ROOT.pem)]
BUNDLE, RELEASE, TRUST = parts.bundle(), parts.release_text(), parts.trust_text()
TEXTS = [
    "..",
    "a/../b",
    ".git/config",
    "sha256",
    "high",
    "2026-11-31T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "fraud@0",
    "é",
    "0" * 64,
]
LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.sampled_from(TEXTS) | st.text(max_size=4)
VALUES = st.recursive(
    LEAVES | st.floats(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(TEXTS), inner, max_size=2),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("signed") / "package"
    for name, text in parts.FILES.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text)
    return made


def of_python(judge):
    try:
        judge()
    except SignatureError as refused:
        return refused.reason
    return None


def of_rust(refusal):
    assert refusal is None or refusal.words
    return None if refusal is None else refusal.reason


def both_on_package(folder: Path, bundle: bytes, policy: bytes = TRUST) -> str | None:
    def judge():
        oms.verify_folder(folder, bundle, trust.read_policy(policy, ROOTS, parts.NOW), parts.NOW)

    rust = of_rust(checks.verify_package(folder, bundle, policy, parts.ROOT.pem, parts.NOW))
    assert of_python(judge) == rust
    return rust


def both_on_release(document: bytes) -> str | None:
    def judge():
        release.check_release(document, trust.read_policy(TRUST, ROOTS, parts.NOW), parts.NOW, "production")

    rust = of_rust(checks.verify_release(document, TRUST, parts.ROOT.pem, parts.NOW, "production"))
    assert of_python(judge) == rust
    return rust


def edited(data, text):
    """The same with a few bytes put in the place of a few others."""
    at = data.draw(st.integers(0, len(text)))
    odd = st.sampled_from([b'"', b"{", b"]", b",", b" ", b"A", b"=", b"\\u0000", b"1e999", b"1" * 310])
    put = data.draw(st.binary(max_size=2) | odd)
    return text[:at] + put + text[at + data.draw(st.integers(0, 3)) :]


def replaced(data, document):
    """The same with one value somewhere in it replaced, or left out."""
    places = list(_places(document))
    return parts.changed(copy.deepcopy(document), data.draw(st.sampled_from(places)), data.draw(st.just(...) | VALUES))


def _places(value, path=()):
    if path:
        yield path
    listed = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in listed:
        yield from _places(inner, (*path, key))


def test_what_nobody_changed_is_taken_by_both(folder):
    assert both_on_package(folder, BUNDLE) is None
    assert both_on_release(RELEASE) is None


@given(data=st.data())
def test_an_edited_bundle_has_one_answer_in_both(folder, data):
    both_on_package(folder, edited(data, BUNDLE))


@given(data=st.data())
def test_an_edited_release_has_one_answer_in_both(data):
    both_on_release(edited(data, RELEASE))


@given(data=st.data())
def test_an_edited_policy_has_one_answer_in_both(folder, data):
    both_on_package(folder, BUNDLE, edited(data, TRUST))


@given(data=st.data())
def test_whatever_a_signer_signs_has_one_answer_in_both(folder, data):
    both_on_package(folder, parts.bundle(replaced(data, parts.oms_statement())))
    both_on_package(folder, parts.text(replaced(data, parts.bundle_document())))


@given(data=st.data())
def test_whatever_an_author_releases_has_one_answer_in_both(data):
    statement = replaced(data, parts.release_statement())
    both_on_release(parts.envelope(oms.PAYLOAD_TYPE, statement, parts.ANNA, parts.BEN).text())


@given(data=st.data())
def test_whatever_a_root_signs_has_one_answer_in_both(folder, data):
    policy = replaced(data, parts.policy())
    both_on_package(folder, BUNDLE, parts.envelope(trust.PAYLOAD_TYPE, policy, parts.ROOT).text())
