"""Keys: the three curves, PEM as OMS has it, and clear words for files that hold something else."""

import base64
import hashlib
import re

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from flyball.errors import SignatureError, UsageError
from flyball.signing import keys


@pytest.mark.parametrize("curve", keys.CURVES)
def test_a_key_is_the_same_after_it_was_written_and_read(tmp_path, curve):
    key = keys.generate(curve)
    (tmp_path / "key").write_text(keys.private_pem(key))
    read = keys.load_private(tmp_path / "key")
    assert keys.curve_of(read.public_key()) == curve
    public = keys.load_public(keys.public_pem(key.public_key()))
    assert keys.hint(public) == keys.hint(read.public_key())


def test_the_hint_is_the_digest_of_the_pem_text_with_its_last_newline():
    key = keys.generate().public_key()
    text = keys.public_pem(key)
    assert text.endswith("-----END PUBLIC KEY-----\n")
    assert keys.hint(key) == hashlib.sha256(text.encode()).hexdigest()


def test_an_unknown_curve_is_wrong_usage():
    with pytest.raises(UsageError, match="unknown curve 'P-128'"):
        keys.generate("P-128")


def test_an_encrypted_key_is_opened_with_the_password_of_the_environment(tmp_path, monkeypatch):
    key = keys.generate()
    sealed = serialization.BestAvailableEncryption(b"open sesame")
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, sealed)
    (tmp_path / "key").write_bytes(pem)
    monkeypatch.delenv("FLYBALL_KEY_PASSWORD", raising=False)
    with pytest.raises(UsageError) as caught:
        keys.load_private(tmp_path / "key")
    assert caught.value.next_step == "give its password in FLYBALL_KEY_PASSWORD"
    monkeypatch.setenv("FLYBALL_KEY_PASSWORD", "wrong")
    with pytest.raises(UsageError, match="password is wrong"):
        keys.load_private(tmp_path / "key")
    monkeypatch.setenv("FLYBALL_KEY_PASSWORD", "open sesame")
    assert keys.hint(keys.load_private(tmp_path / "key").public_key()) == keys.hint(key.public_key())


@pytest.mark.parametrize("content", ["", "key", keys.public_pem(keys.generate().public_key())])
def test_a_file_that_is_no_private_key_is_named_with_what_to_do(tmp_path, content):
    (tmp_path / "key").write_text(content)
    with pytest.raises(UsageError, match=r"is not a private key|is a public key") as caught:
        keys.load_private(tmp_path / "key")
    assert "flyball key new" in caught.value.next_step


def test_private_keys_of_other_kinds_are_refused(tmp_path):
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    for key in (ed25519.Ed25519PrivateKey.generate(), ec.generate_private_key(ec.SECP256K1())):
        (tmp_path / "key").write_bytes(key.private_bytes(*plain))
        with pytest.raises(UsageError, match=re.escape("P-256, P-384, P-521")):
            keys.load_private(tmp_path / "key")


def test_a_file_of_public_keys_has_one_after_the_other(tmp_path):
    pair = [keys.generate(curve).public_key() for curve in ("P-256", "P-521")]
    (tmp_path / "roots.pub").write_text("\n".join(map(keys.public_pem, pair)))
    assert [keys.hint(key) for key in keys.load_publics(tmp_path / "roots.pub")] == [keys.hint(key) for key in pair]


@pytest.mark.parametrize("content", ["", "key\n", keys.public_pem(keys.generate().public_key()) + "more"])
def test_a_file_that_is_not_made_of_public_keys_alone_is_refused(tmp_path, content):
    (tmp_path / "roots.pub").write_text(content)
    with pytest.raises(UsageError, match="not a file of public keys"):
        keys.load_publics(tmp_path / "roots.pub")


def test_a_file_that_is_far_too_large_for_keys_is_not_read_to_its_end(tmp_path):
    (tmp_path / "key").write_bytes(b"x" * 70_000)
    with pytest.raises(UsageError, match="too large"):
        keys.load_private(tmp_path / "key")


def test_a_key_with_a_compressed_point_has_another_text_and_is_refused():
    compressed = (
        keys.generate().public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint)
    )
    prefix = bytes.fromhex("3039301306072a8648ce3d020106082a8648ce3d030107032200")
    text = base64.b64encode(prefix + compressed).decode()
    pem = f"-----BEGIN PUBLIC KEY-----\n{text[:64]}\n{text[64:]}\n-----END PUBLIC KEY-----\n"
    with pytest.raises(SignatureError, match="malformed: a public key is not written as OMS writes it"):
        keys.load_public(pem)
