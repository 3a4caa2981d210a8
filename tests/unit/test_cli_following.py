"""`flyball serve --registry`: what it asks for, and what a server without a registry is spared."""

from pathlib import Path

import pytest

from flyball.cli.app import application
from flyball.cli.follow import follower_of
from flyball.errors import UsageError
from flyball.signing import keys
from tests.support.registry_people import Desk


def test_a_publisher_key_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--registry needs --publisher-key") as error:
        follower_of(tmp_path, None, None, tmp_path / "state", None)
    assert error.value.next_step is not None
    assert "--publisher-key" in error.value.next_step


def test_an_environment_that_the_registry_has_not_is_told_and_those_that_it_has(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (tmp_path / "publisher.pem").write_text(keys.private_pem(desk.keys["publisher"]))
    follower = follower_of(desk.home.folder, "prod", tmp_path / "publisher.pem", tmp_path / "state", None)
    with pytest.raises(UsageError, match=r"(?s)no environment 'prod'.*dev, staging, production"):
        follower.read()


def test_a_key_that_is_no_publisher_s_is_told_before_anything_starts(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (tmp_path / "ada.pem").write_text(keys.private_pem(desk.keys["ada"]))
    follower = follower_of(desk.home.folder, "staging", tmp_path / "ada.pem", tmp_path / "state", None)
    with pytest.raises(UsageError, match=r"(?s)not a publisher's key.*trust add .*ada\.pub .*--role publisher"):
        follower.read()


def test_a_registry_stands_alone_and_its_deployments_have_their_own_terms(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (tmp_path / "publisher.pem").write_text(keys.private_pem(desk.keys["publisher"]))
    named = ["serve", "--registry", str(desk.home.folder), "--publisher-key", str(tmp_path / "publisher.pem")]
    with pytest.raises(UsageError, match="give one source to serve"):
        application()([*named, "--state-folder", str(tmp_path / "one"), "model.onnx"], standalone_mode=False)
    with pytest.raises(UsageError, match="do not apply to --registry"):
        application()([*named, "--state-folder", str(tmp_path / "two"), "--deadline-ms", "5"], standalone_mode=False)


def test_a_follower_tells_the_server_whom_to_trust_and_what_it_is_for(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (tmp_path / "publisher.pem").write_text(keys.private_pem(desk.keys["publisher"]))
    follower = follower_of(desk.home.folder, "staging", tmp_path / "publisher.pem", tmp_path / "state", None)
    try:
        follower.read()
        assert follower.settings["environment"] == "staging"
        assert Path(follower.settings["trust_root"]).read_text() == desk.home.trust_root.read_text()
        assert Path(follower.settings["trust_policy"]).read_bytes() == desk.home.trust.read_bytes()
    finally:
        follower.end()
