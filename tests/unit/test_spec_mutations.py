"""Specs that are nearly right are taken whole, or refused with a path and a fix; nothing else ever comes of them."""

import shutil
from pathlib import Path

import pytest

from flyball.errors import RefusedError
from flyball.spec import Decision
from tests.reference import agree, loan_rows
from tests.reference.mutations import mutated

COUNT = 300


@pytest.mark.timeout(120)
def test_a_mutated_spec_is_taken_or_refused_with_path_and_fix(tmp_path: Path) -> None:
    shutil.copy(agree.SPEC, tmp_path / "loan.yaml")
    loan_rows.make_model(tmp_path / "loan.onnx")
    text = (tmp_path / "loan.yaml").read_text()
    refusals = {number: refused(spec, tmp_path) for number, spec in enumerate(mutated(text, COUNT, seed=1))}
    unsaid = {number: str(error) for number, error in refusals.items() if error and not told_well(error)}
    assert unsaid == {}
    assert 0 < sum(error is None for error in refusals.values()) < COUNT / 2, "they change too little, or everything"


def refused(spec: str, base: Path) -> RefusedError | None:
    try:
        Decision.from_yaml(spec, base=base).check()
    except RefusedError as error:
        return error
    return None


def told_well(error: RefusedError) -> bool:
    return bool(error.faults) and all(fault.allowed for fault in error.faults)
