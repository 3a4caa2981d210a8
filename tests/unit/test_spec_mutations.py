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
    taken = 0
    for number, spec in enumerate(mutated(text, COUNT, seed=1)):
        try:
            Decision.from_yaml(spec, base=tmp_path).check()
            taken += 1
        except RefusedError as error:
            assert error.faults, f"spec {number}: {error}"
            assert all(fault.allowed for fault in error.faults), f"spec {number}: {error}"
    assert 0 < taken < COUNT / 2, "the mutations change too little, or everything"
