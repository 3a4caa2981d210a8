"""Specs, checks and reports are one line in a shell and a table in a notebook, in which no text of theirs is markup."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import flyball as fb
from flyball.decision_log.replay.compare import Class
from flyball.decision_log.replay.replay import Replay
from flyball.models.convert.compare import ComparisonResult, Rounded
from flyball.models.convert.conversion import Converted
from flyball.models.equivalence.comparison import compare
from tests.support.decision_folders import PLAIN, plain

FOUND = compare(np.array([0.1, 0.2, 0.3]), np.array([0.1, 0.2, 0.4]), bound=1e-5, kinds=["given", "given", "random"])
SAME = compare(np.array([0.1, 0.2]), np.array([0.1, 0.2]), bound=1e-5, kinds=["given"] * 2)


@pytest.fixture
def decision(tmp_path):
    return fb.Decision.load(plain(tmp_path))


def test_a_decision_says_how_large_it_is_and_what_comes_out(decision):
    assert repr(decision) == "<Decision plain: 5 fields, 1 feature, 4 transforms, 1 model; pass, review, reject>"
    assert repr(decision.spec) == repr(decision).replace("Decision", "Spec")


def test_a_decision_is_a_table_of_its_parts(decision):
    html = decision._repr_html_()
    assert html == decision.spec._repr_html_()
    for cells in (
        "<td>owner</td><td>tests@example.com</td>",
        "<td>features</td><td>large</td>",
        "<td>outcomes</td><td>pass &lt; 0.40, review &lt; 0.97, reject &gt;= 0.97</td>",
    ):
        assert cells in html


def test_no_text_of_a_decision_becomes_markup(tmp_path):
    spec = plain(tmp_path, PLAIN.replace("owner: tests@example.com", "owner: <script>alert(1)</script>"))
    html = fb.Decision.load(spec)._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_a_check_shows_the_stages_as_the_plan_does(decision):
    checked = decision.check()
    assert repr(checked) == "<Checked plain: valid; parse → route → features → tensor → infer → policy → respond>"
    html = checked._repr_html_()
    assert "<tr><td>parse</td><td>card_id: a text of at most 1024 bytes, required</td></tr><tr><td></td>" in html


def test_a_comparison_and_a_conversion_say_how_far_they_are_off():
    found, same = (ComparisonResult(one, Rounded(), []) for one in (FOUND, SAME))
    assert repr(found) == "<ComparisonResult 1 of 3 rows differ, off by at most 0.1, allowed 1e-05>"
    assert repr(Converted(Path("out"), same, {})) == "<Converted out: 2 rows equal, off by at most 0, allowed 1e-05>"
    html = Converted(Path("out"), found, {})._repr_html_()
    assert "<td>random</td><td>1</td><td>1</td><td>0.1</td>" in html
    assert "<td>all</td><td>3</td><td>1</td>" in html


def test_a_replay_counts_its_decisions():
    found = Replay(counts=Counter({Class.BIT_EXACT: 1200, Class.DIFFERS: 1}))
    assert repr(found) == "<Replay 1,201 decisions: 1,200 bit-exact, 1 differs>"
    assert "<td>bit-exact</td><td>1,200</td>" in found._repr_html_()
    assert repr(Replay()) == "<Replay 0 decisions: none>"
