"""The rows that a model is optimised with: what is taken of a file, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flyball.errors import (
    RefusedError,
    UsageError,
)
from flyball.models.optimize.rows import ROWS_MAX, read_rows
from flyball.models.optimize.subject import subject_of
from flyball.native.model_runs import Model
from tests.support.small_network import network


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"y": np.zeros((3, 8))}, "lacks x, label"),
        ({"x": np.zeros((3, 8)), "label": np.zeros(2)}, "the same number"),
        ({"x": np.zeros((0, 8)), "label": np.zeros(0)}, "one or more"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    model = network(tmp_path)
    np.savez(tmp_path / "rows.npz", **arrays)
    with pytest.raises(RefusedError, match=words):
        read_rows(tmp_path / "rows.npz", subject_of(model), Model(model).facts.inputs, labels="label")


def test_labels_of_words_and_of_gaps_are_refused_with_the_way_forward(tmp_path: Path) -> None:
    model = network(tmp_path)
    for labels, words in ((np.array(["yes", "no", "no"]), "must be numbers"), (np.array([0, 1, np.nan]), "is missing")):
        np.savez(tmp_path / "rows.npz", x=np.zeros((3, 8), dtype=np.float32), label=labels)
        with pytest.raises(RefusedError, match=words):
            read_rows(tmp_path / "rows.npz", subject_of(model), Model(model).facts.inputs, labels="label")


def test_of_too_many_rows_some_are_taken_from_all_over_the_file(tmp_path: Path) -> None:
    model = network(tmp_path)
    rows = np.repeat(np.arange(ROWS_MAX * 2, dtype=np.float32)[:, None], 8, axis=1)
    np.savez(tmp_path / "rows.npz", x=rows)
    reused = read_rows(tmp_path / "rows.npz", subject_of(model), Model(model).facts.inputs).inputs["x"][:, 0]
    assert (len(reused), reused[0], reused[-1]) == (ROWS_MAX, 0.0, ROWS_MAX * 2 - 1)


def test_a_pickle_inside_an_array_file_is_not_opened(tmp_path: Path) -> None:
    model = network(tmp_path)
    np.savez(tmp_path / "rows.npz", x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(RefusedError, match="cannot read"):
        read_rows(tmp_path / "rows.npz", subject_of(model), Model(model).facts.inputs)


def test_a_file_of_columns_feeds_a_model_without_the_label_and_the_segment(tmp_path: Path) -> None:
    model = network(tmp_path)
    head = [*(f"c{index}" for index in range(8)), "label", "where"]
    lines = [",".join(head)] + [
        ",".join([*(str(index + row) for index in range(8)), str(row % 2), "north"]) for row in range(5)
    ]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    inputs = Model(model).facts.inputs
    rows = read_rows(tmp_path / "rows.csv", subject_of(model), inputs, labels="label", segments="where")
    assert rows.inputs["x"].shape == (5, 8)
    assert rows.names == head[:8]
    assert rows.labels is not None
    assert rows.labels.tolist() == [0, 1, 0, 1, 0]
    with pytest.raises(RefusedError, match="has no column 'lable'"):
        read_rows(tmp_path / "rows.csv", subject_of(model), inputs, labels="lable")


def test_a_folder_without_a_decision_is_told_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no decision\.yaml"):
        subject_of(tmp_path)
