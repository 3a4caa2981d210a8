"""Online, offline and by hand: three ways to one decision agree on random rows, to the last bit of the score."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reference import agree, loan, loan_rows
from tests.support import command_line, serving
from tests.support.serving import Server

ROWS, WILD = 2_000, 500


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The decision with its model."""
    made = tmp_path_factory.mktemp("loan")
    shutil.copy(agree.SPEC, made / "loan.yaml")
    loan_rows.make_model(made / "loan.onnx")
    return made


@pytest.fixture(scope="module")
def reference(folder: Path) -> loan.Loan:
    return loan.Loan(folder / "loan.onnx")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    command = [*serving.flyball(), "serve", "--decision", str(folder / "loan.yaml"), "--listen", "127.0.0.1:0"]
    with serving.serving(command) as started:
        yield started


@pytest.mark.timeout(120)
def test_a_server_decides_as_the_reference_does(server: Server, reference: loan.Loan) -> None:
    rows = loan_rows.rows(ROWS, seed=1)
    wanted = reference.decide(rows)
    assert {one.outcome for one in wanted} == {"", *loan.OUTCOMES}, "the rows do not reach every outcome"
    assert agree.differences(wanted, agree.online(server.address, rows), agree.apart_online) == []


@pytest.mark.timeout(120)
def test_what_only_requests_can_hold_is_refused_as_the_reference_refuses_it(server: Server, reference: loan.Loan) -> None:
    rows = loan_rows.wild(WILD, seed=2)
    wanted = reference.decide(rows)
    assert agree.differences(wanted, agree.online(server.address, rows), agree.apart_online) == []


@pytest.mark.timeout(120)
def test_the_scorer_decides_as_the_reference_does(folder: Path, reference: loan.Loan, tmp_path: Path) -> None:
    rows = loan_rows.rows(ROWS, seed=3)
    source, out = loan_rows.write_jsonl(tmp_path / "rows.jsonl", rows), tmp_path / "scored.jsonl"
    ending = command_line.flyball("score", folder / "loan.yaml", "--data", source, "--out", out)
    assert ending.code == 0, ending.text
    assert agree.differences(reference.decide(rows), agree.offline(out), agree.apart_offline) == []
