"""`make check` runs the tests of what changed: which ones these are."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import changed


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("python/flyball/registry/acts/rules.py", "flyball.registry.acts.rules"),
        ("python/flyball/client/__init__.py", "flyball.client"),
        ("tests/support/serving.py", "tests.support.serving"),
        ("bench/claims/report.py", "bench.claims.report"),
        ("docs/claims.md", None),
    ],
)
def test_a_file_is_known_by_the_name_that_tests_import(path: str, module: str | None) -> None:
    assert changed.imported_name(path) == module


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from flyball.registry.acts.rules import may", True),
        ("import flyball.registry.acts.rules", True),
        ("    from flyball.registry.acts import registry, rules", True),
        ("from flyball.registry.acts import registry", False),
        ("from flyball.registry.acts.rules_of_others import may", False),
        ("# from flyball.registry.acts import rules", False),
    ],
)
def test_an_import_of_a_module_is_found_in_each_form(line: str, found: bool) -> None:
    assert changed.imports(f"import os\n{line}\n", "flyball.registry.acts.rules") is found


def test_a_changed_module_and_a_changed_test_choose_their_tests() -> None:
    found = changed.tests_of(["tools/changed.py", "tests/unit/test_changed.py", "tests/e2e/test_drain.py"])
    assert found == ["tests/unit/test_changed.py"]
    assert "tests/unit/test_registry_rules.py" in changed.tests_of(["python/flyball/registry/acts/rules.py"])
