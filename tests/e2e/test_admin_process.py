"""`flyball admin` as an operator has it: a process with one line on stdout, a log on stderr, TLS, and signals."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flyball.errors import UnauthenticatedError, UnreachableError
from flyball.registry.acts.interface import Actor
from flyball.registry.remote.registry import RemoteRegistry
from tests.support import command_line, onnx_models, registry_homes, serving
from tests.support.certificates import Authority
from tests.support.serving import Lines

READY = re.compile(r"^ready (https?://127\.0\.0\.1:\d+) registry=(.+)$")


class Admin:
    """The process, from its ready line on."""

    def __init__(self, home: Path, *more: str | Path) -> None:
        command = [*serving.flyball(), "admin", "--registry", str(home), "--listen", "127.0.0.1:0", *map(str, more)]
        self.process = subprocess.Popen(
            command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.process.stdout
        assert self.process.stderr
        self.stdout, self.log = Lines(self.process.stdout), Lines(self.process.stderr)
        ready = self.stdout.wait_for(READY.match, serving.START_S)
        assert ready, self.process.kill()
        self.url = ready[1]

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(serving.STOP_S)
        self.log.join()
        return code


@pytest.fixture
def start() -> Iterator[Callable[..., Admin]]:
    running: list[Admin] = []

    def started(*arguments: str | Path) -> Admin:
        running.append(Admin(*arguments))  # type: ignore[arg-type]
        return running[-1]

    yield started
    for one in running:
        one.process.kill()
        one.process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_is_and_ends_well_when_it_is_told_to(
    tmp_path: Path, start: Callable[..., Admin], number: signal.Signals
) -> None:
    house = registry_homes.make(tmp_path)
    admin = start(house.home)
    remote = RemoteRegistry(admin.url, house.tokens["reader"])
    assert remote.head().sequence == 4
    assert admin.end(number) == 0
    with pytest.raises(UnreachableError):
        remote.head()


def test_over_tls_the_verbs_work_with_an_authority_of_one_s_own(
    tmp_path: Path, start: Callable[..., Admin], monkeypatch: pytest.MonkeyPatch
) -> None:
    house, authority = registry_homes.make(tmp_path), Authority(tmp_path)
    pair = authority.sign_server()
    admin = start(house.home, "--tls-cert", pair.cert, "--tls-key", pair.key)
    assert admin.url.startswith("https://")
    environment = {
        **os.environ, "FLYBALL_REGISTRY": admin.url, "FLYBALL_REGISTRY_KEY": house.tokens["deployer"],
        "FLYBALL_REGISTRY_CA": str(authority.cert),
    }  # fmt: skip
    model = onnx_models.linear(tmp_path, "model", seed=1)
    command = [*serving.flyball(), "register", "fraud", str(model), "--json"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["number"] == 1
    with pytest.raises(UnreachableError, match="certificate"):  # whoever does not know the authority says nothing to it
        RemoteRegistry(admin.url, house.tokens["reader"]).head()


def test_every_act_and_every_refusal_is_one_line_of_the_log(tmp_path: Path, start: Callable[..., Admin]) -> None:
    house = registry_homes.make(tmp_path)
    admin = start(house.home)
    with pytest.raises(UnauthenticatedError):
        RemoteRegistry(admin.url, "fb_wrong").head()
    RemoteRegistry(admin.url, house.tokens["deployer"]).register(house.package("fraud", 1), "fraud", actor=Actor("whoever"))
    RemoteRegistry(admin.url, house.tokens["reader"]).names()
    admin.end()
    lines = [fields for line in admin.log.all() if "method" in (fields := json.loads(line))]
    assert [(line["method"], line["status"], line["actor"]) for line in lines] == [
        ("GET", 401, None),
        ("POST", 200, "deployer"),
    ]
    assert house.tokens["deployer"] not in "".join(admin.log.all())


def test_it_lives_on_after_it_was_stopped_and_continued(tmp_path: Path, start: Callable[..., Admin]) -> None:
    house = registry_homes.make(tmp_path)
    admin = start(house.home)
    remote = RemoteRegistry(admin.url, house.tokens["reader"])
    serving.stop_and_continue(admin.process)
    assert remote.head().sequence == 4
    assert admin.process.poll() is None
    assert admin.end() == 0


def test_a_key_that_is_made_while_it_runs_is_valid_at_once(tmp_path: Path, start: Callable[..., Admin]) -> None:
    house = registry_homes.make(tmp_path)
    admin = start(house.home)
    made = command_line.flyball("registry", "key", "add", "late", "--role", "reader", "--registry", house.home)
    assert RemoteRegistry(admin.url, made.stdout[0]).whoami() == {"name": "late", "roles": ["reader"]}


def test_without_a_registry_it_does_not_start(tmp_path: Path) -> None:
    ended = command_line.flyball("admin", "--registry", tmp_path / "nowhere")
    assert (ended.code, ended.stdout) == (3, [])
    assert "flyball registry init" in ended.text


def test_beside_a_server_it_starts_and_stops_without_a_second_runtime(tmp_path: Path) -> None:
    house = registry_homes.make(tmp_path)
    program = (
        "import sys; from pathlib import Path; from flyball.cli.admin import late_listener;"
        f"listener = late_listener(Path({str(house.home)!r}), '127.0.0.1:0'); listener.start(); listener.stop();"
        "print('onnxruntime' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, "False\n"), ended.stderr
