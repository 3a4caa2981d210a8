"""What README and the journal's guide say a crash can take is what the defaults allow."""

import re

import pytest

from flyball.decision.spec.spec import Record
from tests.support.serving import REPOSITORY

SETTING = re.compile(r"^\| `(journal_\w+_ms\w*)` \| ms \| `(\d+)` \|", re.MULTILINE)


def default_ms(name: str) -> int:
    """From the reference, which a test of its own compares with the server's configuration."""
    return int(dict(SETTING.findall((REPOSITORY / "docs/reference/server-config.md").read_text()))[name])


def words(page: str) -> str:
    return " ".join((REPOSITORY / page).read_text().split())


def test_readme_says_what_the_default_can_lose_and_for_how_long() -> None:
    sync_s, loss_s = (default_ms(name) / 1000 for name in ("journal_sync_ms", "journal_loss_ms_max"))
    page = words("README.md")
    assert f"By default (`{Record().durability}`) an answer does not wait for its record" in page
    assert f"not yet synced: usually those of the last {sync_s:g} s, and never more than {loss_s:g} s" in page


def test_readme_says_that_sync_loses_nothing() -> None:
    page = words("README.md")
    assert "With `record: {durability: sync}` in the spec, an answer waits until its record is on disk" in page
    assert "neither a killed process nor a power cut loses the record of an answered decision" in page


@pytest.mark.parametrize("name", ["journal_sync_ms", "journal_loss_ms_max"])
def test_the_guide_has_the_defaults(name: str) -> None:
    assert f"`{name}` ({default_ms(name):,} ms)" in words("docs/guides/journal.md")
