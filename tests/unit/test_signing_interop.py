"""The public `model_signing` tool verifies what flyball signs, and flyball what the tool signs, on every curve.

The tool is found by FLYBALL_MODEL_SIGNING or on the path; `make test-full` installs it.
"""

import subprocess

import pytest

from flyball.errors import SignatureError
from flyball.signing import keys, oms
from flyball.signing.policy import TrustPolicy
from flyball.signing.trust import Trust, sign_policy
from tests.support import parts

NOW = 1_800_000_000
FILES = {"model.onnx": b"weights", "a-b": b"1", "a/b": b"2", "samples/é 1.json": b"{}", "meta.json": b"{}"}

pytestmark = pytest.mark.timeout(120)  # the tool takes seconds to start


@pytest.fixture(autouse=True)
def here():
    """None of these tests means anything without the tool."""
    program()


def program():
    return parts.program("model-signing", "model_signing", variable="FLYBALL_MODEL_SIGNING")


@pytest.fixture(params=keys.CURVES)
def signer(request, tmp_path):
    """A key pair in files, as both tools read it."""
    key = keys.generate(request.param)
    (tmp_path / "key").write_text(keys.private_pem(key))
    (tmp_path / "key.pub").write_text(keys.public_pem(key.public_key()))
    return key


@pytest.fixture
def folder(tmp_path):
    for name, content in FILES.items():
        path = tmp_path / "fraud" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "fraud"


def tool(folder, verb, *arguments):
    """Run the tool on the folder; its exit code, and all that it wrote."""
    command = [program(), verb, "key", "fraud", "--signature", "fraud.sig", *arguments]
    ran = subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, timeout=60, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def test_the_public_tool_verifies_our_bundle_and_refuses_a_changed_file(signer, folder, tmp_path):
    (tmp_path / "fraud.sig").write_bytes(oms.sign_folder(folder, signer))
    code, said = tool(folder, "verify", "--public_key", "key.pub")
    assert code == 0, said
    (folder / "model.onnx").write_bytes(b"weightt")
    code, said = tool(folder, "verify", "--public_key", "key.pub")
    assert code != 0
    assert "model.onnx" in said


def test_we_verify_the_public_tool_s_bundle_and_refuse_a_changed_file(signer, folder, tmp_path):
    code, said = tool(folder, "sign", "--private_key", "key")
    assert code == 0, said
    bundle, root = (tmp_path / "fraud.sig").read_bytes(), keys.generate()
    policy = TrustPolicy.first(NOW).with_key(signer.public_key(), "anna", ["signer"], since=NOW, until=None, now=NOW)
    trust = Trust(sign_policy(policy, [root]), [root.public_key()], NOW)
    trust.package(bundle, NOW, folder)  # the tool lists files in an order of its own
    (folder / "model.onnx").write_bytes(b"weightt")
    with pytest.raises(SignatureError, match=r"changed_file: .*model\.onnx"):
        trust.package(bundle, NOW, folder)
