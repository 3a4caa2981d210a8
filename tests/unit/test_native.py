"""What `flyball.native` does without the extension: finding the library, reading documents, and being the only door."""

import ast
import sys
from pathlib import Path

import pytest

from flyball.errors import UsageError
from flyball.native import boundary
from flyball.native.boundary import ort_library
from flyball.native.load_documents import LoadPlan
from flyball.native.server_documents import Ack

PACKAGE = Path(boundary.__file__).parents[1]


def test_the_library_is_the_installed_packages_own_and_is_found_without_importing_it(monkeypatch):
    monkeypatch.delenv("ORT_DYLIB_PATH", raising=False)
    before = "onnxruntime" in sys.modules
    path = ort_library()
    assert path.name.startswith("libonnxruntime.so.")
    assert path.parent.name == "capi"
    assert ("onnxruntime" in sys.modules) == before


def test_ort_dylib_path_wins(monkeypatch, tmp_path):
    library = tmp_path / "libonnxruntime.so"
    library.write_bytes(b"")
    monkeypatch.setenv("ORT_DYLIB_PATH", str(library))
    assert ort_library() == library


def test_ort_dylib_path_that_names_nothing_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("ORT_DYLIB_PATH", str(tmp_path / "none.so"))
    with pytest.raises(UsageError, match="not a file"):
        ort_library()


def test_without_onnxruntime_the_error_gives_the_pip_command(monkeypatch):
    monkeypatch.delenv("ORT_DYLIB_PATH", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'onnxruntime>=1\.30'"):
        ort_library()


def test_the_newest_of_several_libraries_is_taken(monkeypatch, tmp_path):
    monkeypatch.delenv("ORT_DYLIB_PATH", raising=False)
    (tmp_path / "capi").mkdir()
    for name in ("libonnxruntime.so.1.9.0", "libonnxruntime.so.1.31.1", "libonnxruntime_providers_shared.so"):
        (tmp_path / "capi" / name).write_bytes(b"")
    spec = type("Spec", (), {"submodule_search_locations": [str(tmp_path)]})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    assert ort_library().name == "libonnxruntime.so.1.31.1"


def test_a_document_that_tells_more_than_we_know_is_still_read():
    ack = Ack.model_validate({"name": "m", "digest": "d", "state": "refused", "reason": "r", "versions": [], "new": 1})
    assert ack.reason == "r"


def test_a_load_plan_has_every_key_of_the_boundary():
    plan = LoadPlan(url="http://h", model="m")
    keys = (
        "url model protocol connections streams threads arrivals duration_s warmup timeout_ms deadline_ms "
        "connection_wait_ms cpus path interval_s"
    )
    assert list(plan.model_dump()) == keys.split()


def test_only_modules_of_native_import_the_extension():
    importers = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if any("_native" in name for name in [*names, module]):
                importers.add(path.parent.name)
    assert importers == {"native"}
