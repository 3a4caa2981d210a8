"""Packages signed as OMS has it: what we sign holds, any change is refused for its reason, and the public vectors agree."""

import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flyball.errors import SignatureError
from flyball.signing import keys, oms
from flyball.signing.manifest import PASSED_BY, Manifest, manifest_of
from flyball.signing.policy import TrustPolicy
from flyball.signing.trust import Trust
from tests.support.serving import REPOSITORY

VECTORS = REPOSITORY / "tests/golden/oms"
NOW = 1_800_000_000
KEY = keys.generate()
TRUST = Trust(TrustPolicy.first(NOW).with_key(KEY.public_key(), "anna", ["signer"], since=NOW - 1, until=None, now=NOW))

parts = st.text("abc.-_ ü", min_size=1, max_size=6).filter(lambda part: part not in (".", ".."))
paths = st.lists(parts, min_size=1, max_size=3).map("/".join).filter(lambda path: path.split("/")[0] not in PASSED_BY)
folders = st.dictionaries(paths, st.binary(max_size=64), min_size=1, max_size=6).filter(
    lambda files: not any(other.startswith(f"{name}/") for name in files for other in files)
)


def fill(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def package(tmp_path):
    return fill(tmp_path / "fraud", {"model.onnx": b"weights", "samples/1.json": b"{}", "meta.json": b"{}"})


def reason(call, *arguments, **more):
    with pytest.raises(SignatureError) as caught:
        call(*arguments, **more)
    return caught.value.reason


def verify(folder, bundle, **more):
    return oms.verify_folder(folder, bundle, TRUST, NOW, **more)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(files=folders, data=st.data())
def test_what_was_signed_holds_and_any_change_to_it_is_refused_for_its_reason(tmp_path_factory, files, data):
    folder = fill(tmp_path_factory.mktemp("package"), files)
    bundle = oms.sign_folder(folder, KEY)
    manifest = verify(folder, bundle)
    assert set(manifest.files) == set(files)
    assert manifest.root == oms.root_of(folder)
    name = data.draw(st.sampled_from(sorted(files)))
    change = data.draw(st.sampled_from(["byte", "longer", "added", "removed", "renamed", "link"]))
    path, content = folder / name, files[name]
    if change == "byte" and content:
        place = data.draw(st.integers(0, len(content) - 1))
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert reason(verify, folder, bundle) == "changed_file"
    elif change in ("byte", "longer"):
        path.write_bytes(content + b"\0")
        assert reason(verify, folder, bundle) == "changed_file"
    elif change == "added":
        path.with_name("one more").write_bytes(b"")
        assert reason(verify, folder, bundle) == "extra_file"
    elif change == "removed":
        path.unlink()
        assert reason(verify, folder, bundle) == "missing_file"
    elif change == "renamed":
        path.rename(path.with_name("one more"))
        assert reason(verify, folder, bundle) == "extra_file"
    else:
        path.rename(folder.with_suffix(".moved"))
        path.symlink_to(folder.with_suffix(".moved"))
        assert reason(verify, folder, bundle) == "symlink"


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(at=st.integers(0, 10_000), other=st.integers(1, 255))
def test_a_bundle_with_any_byte_changed_is_refused_or_says_the_very_same(package, at, other):
    bundle = oms.sign_folder(package, KEY)
    place = at % len(bundle)  # signatures differ in length from one to the next
    try:
        manifest = verify(package, bundle[:place] + bytes([bundle[place] ^ other]) + bundle[place + 1 :])
    except SignatureError:
        return
    assert manifest == verify(package, bundle)  # what is not signed may change: a keyid, the spaces between two values


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=200))
def test_bytes_that_are_no_bundle_are_refused_without_any_other_error(data):
    assert reason(oms.verify_bundle, data, TRUST, NOW) in ("malformed", "unsupported", "too_large")


@pytest.mark.parametrize("curve", keys.CURVES)
def test_a_folder_signed_on_each_curve_is_verified_with_its_key_and_no_other(package, curve):
    key, other = keys.generate(curve), keys.generate(curve)
    bundle = oms.read_bundle(oms.sign_folder(package, key))
    assert bundle.hint == keys.hint(key.public_key())
    assert oms.verify_with_key(bundle, key.public_key()) == manifest_of(package)
    assert reason(oms.verify_with_key, bundle, other.public_key()) == "bad_signature"


def test_files_are_listed_by_code_points_and_the_root_is_over_their_digests(tmp_path):
    folder = fill(tmp_path, {"a/b": b"2", "a-b": b"1"})
    manifest = manifest_of(folder)
    assert list(manifest.files) == ["a-b", "a/b"]
    digests = hashlib.sha256(b"1").digest() + hashlib.sha256(b"2").digest()
    assert manifest.root == f"sha256:{hashlib.sha256(digests).hexdigest()}"


def test_a_signature_file_inside_the_folder_is_accepted_by_its_own_name_only(package):
    bundle = oms.sign_folder(package, KEY, signature_file="model.sig")
    (package / "model.sig").write_bytes(bundle)
    verify(package, bundle, signature_file="model.sig")
    assert reason(verify, package, bundle) == "ignored_paths"
    assert reason(verify, package, bundle, signature_file="other.sig") == "ignored_paths"


def test_a_folder_with_a_link_a_pipe_or_no_file_cannot_be_signed(package, tmp_path):
    (tmp_path / "empty").mkdir()
    assert reason(oms.sign_folder, tmp_path / "empty", KEY) == "missing_file"
    assert reason(oms.sign_folder, tmp_path / "nowhere", KEY) == "missing_file"
    assert reason(oms.sign_folder, package / "model.onnx", KEY) == "special_file"
    (package / "link").symlink_to("model.onnx")
    assert reason(oms.sign_folder, package, KEY) == "symlink"
    (package / "link").unlink()
    os.mkfifo(package / "pipe")
    assert reason(oms.sign_folder, package, KEY) == "special_file"


def test_a_folder_that_is_itself_a_link_is_refused(package, tmp_path):
    bundle = oms.sign_folder(package, KEY)
    (tmp_path / "link").symlink_to(package)
    assert reason(verify, tmp_path / "link", bundle) == "symlink"


@pytest.mark.parametrize("name", ["a\\b", os.fsdecode(b"\xff")], ids=["backslash", "no text"])
def test_a_name_that_a_bundle_cannot_carry_is_refused_at_signing_and_is_an_extra_file_later(package, name):
    bundle = oms.sign_folder(package, KEY)
    (package / name).write_bytes(b"")
    assert reason(oms.sign_folder, package, KEY) == "path_escape"
    assert reason(verify, package, bundle) == "extra_file"


def test_more_files_than_a_package_may_have_are_refused_when_signed_and_when_read(package, monkeypatch):
    bundle = oms.sign_folder(package, KEY)
    monkeypatch.setattr(oms, "FILES_MAX", 2)
    assert reason(oms.sign_folder, package, KEY) == "too_large"
    assert reason(verify, package, bundle) == "too_large"


def test_a_folder_that_is_too_deep_is_refused(package):
    bundle = oms.sign_folder(package, KEY)
    Path(package, *["deep"] * 70).mkdir(parents=True)
    assert reason(verify, package, bundle) == "too_large"


def test_a_package_is_signed_by_its_manifest_where_its_files_are_elsewhere(package):
    bundle = oms.sign_manifest("fraud", manifest_of(package), KEY)
    verify(package, bundle)
    (package / "model.onnx").write_bytes(b"weightt")
    assert reason(verify, package, bundle) == "changed_file"


def test_a_manifest_tells_the_digest_of_a_file():
    manifest = Manifest({"a": "0" * 64})
    assert manifest.digest_of("a") == f"sha256:{'0' * 64}"
    assert manifest.digest_of("b") is None


def test_the_public_vector_in_key_mode_holds_for_its_model_and_not_for_another(tmp_path):
    key = keys.load_public((VECTORS / "key.pub").read_text())
    bundle = oms.read_bundle((VECTORS / "v1.0/valid/key.bundle.json").read_bytes())
    assert bundle.hint == keys.hint(key)
    assert reason(oms.verify_with_key, bundle, key) == "ignored_paths"
    manifest = oms.verify_with_key(bundle, key, signature_file="ignore-me")
    fill(tmp_path, {"signme-1": b"signme-1\n", "signme-2": b"signme-2", "ignore-me": b"anything"})
    manifest.check_folder(tmp_path, "ignore-me")
    (tmp_path / "signme-2").write_bytes(b"signme-2\n")
    assert reason(manifest.check_folder, tmp_path, "ignore-me") == "changed_file"


@pytest.mark.parametrize(
    ("vector", "expected"),
    [
        ("valid/certificate", "unsupported"),
        ("valid/sigstore", "unsupported"),
        ("invalid/empty", "malformed"),
        ("invalid/missing-envelope", "malformed"),
        ("invalid/missing-tlog-entries", "unsupported"),
        ("invalid/missing-verification-material", "malformed"),
        ("invalid-payload/wrong-predicate", "bad_signature"),
    ],
)
def test_a_public_vector_that_is_not_ours_to_serve_is_refused(vector, expected):
    key = keys.load_public((VECTORS / "key.pub").read_text())
    trust = Trust(TrustPolicy.first(NOW).with_key(key, "oms", ["signer"], since=NOW, until=None, now=NOW))
    assert reason(oms.verify_bundle, (VECTORS / f"v1.0/{vector}.bundle.json").read_bytes(), trust, NOW) == expected


def test_a_bundle_has_what_the_public_tool_writes(package):
    document = json.loads(oms.sign_folder(package, KEY))
    assert document["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    assert document["verificationMaterial"] == {"publicKey": {"hint": keys.hint(KEY.public_key())}, "tlogEntries": []}
    assert document["dsseEnvelope"]["payloadType"] == "application/vnd.in-toto+json"
    assert [signature["keyid"] for signature in document["dsseEnvelope"]["signatures"]] == [""]
