"""What a verb does not need it does not import: most of the time that a short command takes is spent there.

Each verb runs to its end in a process of its own, which then says what it has loaded.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flyball.signing import keys
from tests.support import decision_folders, journal_folders, registry_homes

HEAVY = (
    "alembic", "cryptography", "duckdb", "fastapi", "flyball._native", "flyball.bench", "flyball.control",
    "flyball.decision.spec", "google.protobuf", "grpc", "numpy", "obstore", "onnx", "onnxruntime", "pandas", "psycopg",
    "pyarrow", "pydantic", "rich", "sqlalchemy", "sqlalchemy.dialects.postgresql", "urllib3", "uvicorn", "yaml",
)  # fmt: skip
PROGRAM = """
import json, sys
from flyball.cli import main
try:
    main()
finally:
    sys.stderr.write("\\n" + json.dumps([name for name in {heavy!r} if name in sys.modules]))
"""


def loaded_by(*words: str | Path, code: int = 0) -> set[str]:
    """The heavy ones among the modules that the verb left behind."""
    command = [sys.executable, "-c", PROGRAM.format(heavy=HEAVY), *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == code, ended.stderr
    return set(json.loads(ended.stderr.splitlines()[-1]))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a registry that has a version, a log, a decision and a public key."""
    folder = tmp_path_factory.mktemp("start")
    house = registry_homes.make(folder)
    with house.opened() as registry:
        house.approved(registry)
    journal_folders.filled(folder / "journal", [2])
    decision_folders.plain(folder)
    (folder / "ada.pub").write_text(keys.public_pem(house.private("ada").public_key()))
    return folder


def test_help_and_version_load_nothing_that_they_do_not_print_with() -> None:
    assert loaded_by("--help") == {"rich"}
    assert loaded_by("--version") == set()


@pytest.mark.parametrize("verb", ["status", "registry list", "registry show fraud@1", "registry history fraud"])
def test_a_registry_is_read_without_what_changes_it(place: Path, verb: str) -> None:
    loaded = loaded_by(*verb.split(), "--registry", place / "registry")
    assert loaded <= {"sqlalchemy", "pydantic", "yaml", "rich", "cryptography", "flyball._native"}
    assert "sqlalchemy" in loaded


def test_a_registry_behind_http_needs_no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYBALL_REGISTRY_KEY", "fb_any")
    loaded = loaded_by("registry", "list", "--registry", "http://127.0.0.1:1", code=5)
    assert loaded <= {"pydantic", "rich", "urllib3"}


def test_a_key_is_shown_by_cryptography_alone(place: Path) -> None:
    assert loaded_by("key", "show", place / "ada.pub") <= {"cryptography", "pydantic"}


def test_a_decision_is_checked_without_a_registry_or_arrays(place: Path) -> None:
    loaded = loaded_by("check", place / "plain.yaml")
    assert loaded <= {"flyball._native", "flyball.decision.spec", "pydantic", "rich", "yaml"}
    assert "flyball._native" in loaded


def test_a_log_is_verified_without_what_queries_need(place: Path) -> None:
    assert loaded_by("decisions", "verify", "--journal-folder", place / "journal") <= {"flyball._native", "pydantic", "rich"}


def test_a_log_is_queried_without_a_registry(place: Path) -> None:
    loaded = loaded_by("decisions", "query", "--journal-folder", place / "journal")
    assert not loaded & {
        "sqlalchemy",
        "cryptography",
        "flyball.decision.spec",
        "flyball.control",
        "flyball.bench",
        "urllib3",
    }
    assert "duckdb" in loaded
