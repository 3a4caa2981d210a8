"""`make triton-backend` without its sources: it names what is missing and how to get it, and builds nothing."""

import sys

import pytest

from bench.peers import triton_backend
from flyball.errors import UsageError


@pytest.mark.parametrize("lacking", [*triton_backend.TRITON, "onnxruntime"])
def test_a_folder_that_lacks_a_source_is_told_which_and_how_to_get_it(tmp_path, monkeypatch, lacking):
    for path in triton_backend._NEEDED:
        if path.parts[0] != lacking:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).touch()
    monkeypatch.setattr(sys, "argv", ["triton_backend", str(tmp_path)])
    monkeypatch.setattr(triton_backend, "_run", pytest.fail)
    with pytest.raises(UsageError, match=rf"has no {lacking}/[^,]*\n") as told:
        triton_backend.main()
    assert "--branch r24.10" in str(told.value.next_step)


def test_without_a_folder_it_says_what_to_clone(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["triton_backend", ""])
    with pytest.raises(UsageError, match="TRITON_SOURCES names no folder") as told:
        triton_backend.main()
    assert "onnxruntime_backend backend core common" in str(told.value.next_step)
