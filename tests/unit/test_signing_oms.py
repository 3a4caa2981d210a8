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
from flyball.signing.manifest import Manifest, manifest_of
from flyball.signing.policy import TrustPolicy
from flyball.signing.trust import Trust, sign_policy
from tests.support.serving import REPOSITORY

VECTORS = REPOSITORY / "tests/golden/oms"
NOW = 1_800_000_000
KEY = keys.generate()
ROOT = keys.generate()


def trusting(key):
    """The trust that this key may sign."""
    policy = TrustPolicy.first(NOW).with_key(key, "anna", ["signer"], since=NOW - 1, until=None, now=NOW)
    return Trust(sign_policy(policy, [ROOT]), [ROOT.public_key()], NOW)


TRUST = trusting(KEY.public_key())

parts = st.text("abc.-_ ü", min_size=1, max_size=6).filter(lambda part: part not in (".", ".."))
paths = st.lists(parts, min_size=1, max_size=3).map("/".join).filter(lambda path: path.split("/")[0] not in oms.IGNORED)
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


def verify(folder, bundle):
    return TRUST.package(bundle, NOW, folder)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(files=folders, data=st.data())
def test_what_was_signed_holds_and_any_change_to_it_is_refused_for_its_reason(tmp_path_factory, files, data):
    folder = fill(tmp_path_factory.mktemp("package"), files)
    bundle = oms.sign_folder(folder, KEY)
    assert verify(folder, bundle) == oms.root_of(folder)
    assert set(manifest_of(folder).files) == set(files)
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
        root = verify(package, bundle[:place] + bytes([bundle[place] ^ other]) + bundle[place + 1 :])
    except SignatureError:
        return
    assert root == verify(package, bundle)  # what is not signed may change: a keyid, the spaces between two values


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=200))
def test_bytes_that_are_no_bundle_are_refused_without_any_other_error(data):
    assert reason(TRUST.package, data, NOW) in ("malformed", "unsupported", "too_large")


@pytest.mark.parametrize("curve", keys.CURVES)
def test_a_folder_signed_on_each_curve_is_verified_with_its_key_and_no_other(package, curve):
    key, other = keys.generate(curve), keys.generate(curve)
    bundle = oms.sign_folder(package, key)
    assert trusting(key.public_key()).package(bundle, NOW, package) == oms.root_of(package)
    assert reason(trusting(other.public_key()).package, bundle, NOW) == "unknown_key"
    mine, others = (keys.hint(one.public_key()).encode() for one in (key, other))
    assert reason(trusting(other.public_key()).package, bundle.replace(mine, others), NOW) == "bad_signature"


def test_files_are_listed_by_code_points_and_the_root_is_over_their_digests(tmp_path):
    folder = fill(tmp_path, {"a/b": b"2", "a-b": b"1"})
    manifest = manifest_of(folder)
    assert list(manifest.files) == ["a-b", "a/b"]
    digests = hashlib.sha256(b"1").digest() + hashlib.sha256(b"2").digest()
    assert manifest.root == f"sha256:{hashlib.sha256(digests).hexdigest()}"


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


def test_more_files_than_a_package_may_have_are_not_signed():
    files = {str(number): "0" * 64 for number in range(oms.FILES_MAX + 1)}
    assert reason(oms.sign_manifest, "fraud", Manifest(files), KEY) == "too_large"


def test_a_folder_that_is_too_deep_is_refused(package):
    bundle = oms.sign_folder(package, KEY)
    Path(package, *["deep"] * 70).mkdir(parents=True)
    assert reason(verify, package, bundle) == "too_large"


def test_a_package_is_signed_by_its_manifest_where_its_files_are_elsewhere(package):
    bundle = oms.sign_manifest("fraud", manifest_of(package), KEY)
    verify(package, bundle)
    (package / "model.onnx").write_bytes(b"weightt")
    assert reason(verify, package, bundle) == "changed_file"


def test_the_public_vector_in_key_mode_is_signed_well_and_leaves_out_more_than_we_allow():
    trust = trusting(keys.load_public((VECTORS / "key.pub").read_text()))
    bundle = (VECTORS / "v1.0/valid/key.bundle.json").read_bytes()
    assert reason(trust.package, bundle, NOW) == "ignored_paths"
    changed = json.loads(bundle)
    changed["dsseEnvelope"]["payload"] = changed["dsseEnvelope"]["payload"].replace("ewog", "ewoK", 1)
    assert reason(trust.package, json.dumps(changed).encode(), NOW) == "bad_signature"


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
    trust = trusting(keys.load_public((VECTORS / "key.pub").read_text()))
    assert reason(trust.package, (VECTORS / f"v1.0/{vector}.bundle.json").read_bytes(), NOW) == expected


def test_a_bundle_has_what_the_public_tool_writes(package):
    document = json.loads(oms.sign_folder(package, KEY))
    assert document["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    assert document["verificationMaterial"] == {"publicKey": {"hint": keys.hint(KEY.public_key())}, "tlogEntries": []}
    assert document["dsseEnvelope"]["payloadType"] == "application/vnd.in-toto+json"
    assert [signature["keyid"] for signature in document["dsseEnvelope"]["signatures"]] == [""]
