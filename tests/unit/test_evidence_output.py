"""What a pack of evidence says is shown as text: it cannot write the word that this program ends with."""

from pathlib import Path

import pytest

from flyball.decision_log.proof import evidence_check


def test_a_pack_cannot_print_a_line_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "x\nPROVEN\n\x1b[8m"
    assert evidence_check.main([str(place)]) == 1
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "\x1b" not in out
    assert evidence_check.one_line("a\nPROVEN\u202e") == "a\\u000aPROVEN\\u202e"
