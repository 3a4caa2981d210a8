# ruff: noqa: S607
"""`make release`: what it writes and tags, and when it refuses; in a repository of its own."""

from __future__ import annotations

import datetime
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
import release  # noqa: E402

CARGO = '[workspace.package]\nversion = "0.1.0"\n\n[workspace.dependencies]\nserde = { version = "1" }\n'
CHANGELOG = "# Changelog\n\n## Unreleased\n\n- Faster.\n\n## 0.1.0 (2026-01-01)\n\n- First.\n"


def test_only_the_workspace_s_version_changes() -> None:
    changed = release.with_version(CARGO, "0.2.0")
    assert changed == CARGO.replace('"0.1.0"', '"0.2.0"')


def test_the_unreleased_section_gets_version_and_date_and_an_empty_one_takes_its_place() -> None:
    changelog, text = release.dated(CHANGELOG, "0.2.0", datetime.date(2026, 11, 17))
    assert text == "- Faster."
    assert "## Unreleased\n\n## 0.2.0 (2026-11-17)\n\n- Faster.\n\n## 0.1.0 (2026-01-01)" in changelog


def test_a_changelog_that_says_nothing_is_refused() -> None:
    with pytest.raises(release.NotReadyError, match="nothing under Unreleased"):
        release.dated(CHANGELOG.replace("- Faster.\n", ""), "0.2.0", datetime.date(2026, 11, 17))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(release, "stale_claims", list)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/lib.rs").write_text("")
    (tmp_path / "Cargo.toml").write_text('[package]\nname = "made"\nversion = "0.1.0"\nedition = "2024"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    monkeypatch.chdir(tmp_path)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ada@example.com")
    for command in (["cargo", "generate-lockfile", "--offline"], ["git", "init", "-q", "-b", "main"], ["git", "add", "."]):
        subprocess.run(command, check=True, capture_output=True)
    subprocess.run(["git", "commit", "-qm", "first"], check=True)
    return tmp_path


def test_a_release_is_committed_and_tagged_with_its_changes(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release.main(["0.2.0"]) == 0
    assert "git push --follow-tags" in capsys.readouterr().out
    assert 'version = "0.2.0"' in (repository / "Cargo.toml").read_text()
    assert 'version = "0.2.0"' in (repository / "Cargo.lock").read_text()
    tag = subprocess.run(["git", "tag", "-n9", "v0.2.0"], check=True, capture_output=True, text=True).stdout
    assert "- Faster." in tag
    assert subprocess.run(["git", "status", "--porcelain"], check=True, capture_output=True).stdout == b""


@pytest.mark.parametrize(
    ("arguments", "spoil", "says"),
    [
        ([], None, "VERSION=0.2.0"),
        (["two"], None, "VERSION=0.2.0"),
        (["0.2.0"], ["sh", "-c", "echo >> CHANGELOG.md"], "commit or stash"),
        (["0.2.0"], ["git", "switch", "-qc", "side"], "branch 'side'"),
        (["0.2.0"], ["git", "tag", "v0.2.0"], "exists already"),
    ],
)
def test_what_is_not_ready_is_refused_and_nothing_changes(
    repository: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], spoil: list[str] | None, says: str
) -> None:
    if spoil:
        subprocess.run(spoil, check=True)
    before = (repository / "Cargo.toml").read_text()
    assert release.main(arguments) == 1
    assert says in capsys.readouterr().out
    assert (repository / "Cargo.toml").read_text() == before


def test_claims_that_were_not_measured_on_this_code_are_refused_with_their_command(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = ["make claim-tails: no whole run within 150 commits; newest: 2026-01-01T00:00:00Z"]
    monkeypatch.setattr(release, "stale_claims", lambda: old)
    assert release.main(["0.2.0"]) == 1
    assert old[0] in capsys.readouterr().out
    assert (repository / "Cargo.toml").read_text().count("0.1.0") == 1


def test_every_suite_of_claims_without_a_record_is_named(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(repository)
    assert any("make claim-skeleton" in one for one in release.stale_claims())
