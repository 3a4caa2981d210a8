"""The registry's verbs before they act: what their help pages teach, and what they say where a package is missing."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from flyball.cli import app as cli
from tests.support import registry_homes


def _verbs() -> list[tuple[str, Any]]:
    top = typer.main.get_command(cli.application()).commands
    named = ("register", "sign", "approve", "reject", "promote", "rollback", "revoke", "retire", "status", "admin")
    found = [(name, top[name]) for name in named]
    found += [(f"registry {name}", command) for name, command in top["registry"].commands.items() if name != "key"]
    return found + [(f"registry key {name}", one) for name, one in top["registry"].commands["key"].commands.items()]


@pytest.mark.parametrize(("name", "verb"), _verbs(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_help_page_teaches(name: str, verb: Any) -> None:
    text = verb.help or ""
    assert len(text.split()) >= 8, f"flyball {name} says too little"
    if any(parameter.param_type_name == "argument" for parameter in verb.params) and not name.startswith("registry key"):
        assert f"flyball {name}" in text or name in ("status", "registry list", "registry show"), f"{name} has no example"
    for parameter in verb.params:
        assert getattr(parameter, "help", None), f"flyball {name} does not say what {parameter.name} is"
    assert name == "admin" or any("--json" in parameter.opts for parameter in verb.params)


def python(program: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False, env=environment
    )


@pytest.mark.parametrize(
    ("package", "verb"),
    [("sqlalchemy", ["status"]), ("sqlalchemy", ["registry", "init", "nowhere"]), ("cryptography", ["status"]),
     ("fastapi", ["admin", "--listen", "127.0.0.1:0"])],
    ids=lambda value: value if isinstance(value, str) else value[0],
)  # fmt: skip
def test_a_package_that_is_missing_is_named_with_how_to_get_it(package: str, verb: list[str], tmp_path: Path) -> None:
    house = registry_homes.make(tmp_path)
    os.environ["FLYBALL_REGISTRY"] = str(house.home)
    words = ["flyball", *verb]
    try:
        ended = python(
            f"import sys; sys.modules[{package!r}] = None; sys.argv = {words}; from flyball.cli import main; main()"
        )
    finally:
        del os.environ["FLYBALL_REGISTRY"]
    assert ended.returncode == 2, ended.stderr
    assert package in ended.stderr
    assert "pip install 'flyball[registry]'" in ended.stderr
