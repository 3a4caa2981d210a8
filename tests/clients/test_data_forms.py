"""Whatever form the same data has, over HTTP and gRPC, a model and a decision give the same answers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import flyball
from tests.support.shop import CARDS, GAPS, INDEX, MANY, MATRIX, NAMES, NAN, by_column


def polars() -> Any:
    return pytest.importorskip("polars")


def plain_matrix(rows: list[list[Any]]) -> np.ndarray[Any, Any]:
    return np.array(rows, object)


MODEL_FORMS: dict[str, Callable[[list[list[Any]]], Any]] = {
    "dict": lambda rows: {"x": rows},
    "list": lambda rows: rows,
    "tuple": lambda rows: tuple(tuple(row) for row in rows),
    "NumPy float32": lambda rows: plain_matrix(rows).astype(np.float32),
    "NumPy float64": lambda rows: plain_matrix(rows).astype(np.float64),
    "NumPy object": plain_matrix,
    "pandas": lambda rows: pd.DataFrame(rows, columns=NAMES, index=INDEX),
    "pandas with its own missing values": lambda rows: pd.DataFrame(rows, columns=NAMES, index=INDEX).astype("Float64"),
    "Polars": lambda rows: polars().DataFrame(rows, schema=NAMES, orient="row"),
    "Series": lambda rows: {"x": pd.Series([[NAN if cell is None else cell for cell in row] for row in rows])},
    "Series of Polars": lambda rows: {"x": polars().Series(rows)},
    "generator": lambda rows: (row for row in rows),
    "Arrow table": lambda rows: pa.table(dict(zip(NAMES, zip(*rows, strict=True), strict=True))),
    "Arrow array": lambda rows: {"x": pa.array([[NAN if cell is None else cell for cell in row] for row in rows])},
}
FRAMES = {"pandas", "pandas with its own missing values", "Polars", "Arrow table"}


DECISION_FORMS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "list": lambda rows: rows,
    "tuple": tuple,
    "generator": lambda rows: (row for row in rows),
    "dict of lists": by_column,
    "dict of iterators": lambda rows: {name: iter(column) for name, column in by_column(rows).items()},
    "NumPy object": lambda rows: {name: np.array(column, object) for name, column in by_column(rows).items()},
    "NumPy float64": lambda rows: by_column(rows) | {"amount": np.array([row["amount"] for row in rows])},
    "NumPy float32": lambda rows: by_column(rows) | {"amount": np.array([row["amount"] for row in rows], np.float32)},
    "Series": lambda rows: {name: pd.Series(column) for name, column in by_column(rows).items()},
    "Series as rows": lambda rows: [pd.Series(row) for row in rows],
    "pandas": lambda rows: pd.DataFrame(rows, index=INDEX),
    "pandas with its own missing values": lambda rows: pd.DataFrame(rows, index=INDEX).convert_dtypes(),
    "Polars": lambda rows: polars().DataFrame(rows),
    "Arrow table": pa.Table.from_pylist,
}


def arrays_of(answer: Any) -> np.ndarray[Any, Any]:
    """The two columns of `linear`'s answer, whatever form it has."""
    columns = [answer["y"][:, 0], answer["y"][:, 1]] if isinstance(answer, dict) else [answer["y[0]"], answer["y[1]"]]
    return np.stack([np.asarray(column) for column in columns], axis=1)


@pytest.mark.parametrize("rows", [MATRIX, GAPS], ids=["whole", "with missing values"])
@pytest.mark.parametrize("form", MODEL_FORMS)
def test_a_model_answers_the_same_data_in_any_form_with_the_same_bits(
    client: flyball.Client, form: str, rows: list[list[Any]]
) -> None:
    wanted = client.infer("linear", {"x": np.array(rows, np.float32)})["y"]
    answer = client.infer("linear", MODEL_FORMS[form](rows))
    np.testing.assert_array_equal(arrays_of(answer), wanted)
    assert arrays_of(answer).dtype == np.float32
    assert isinstance(answer, dict) == (form not in FRAMES)


@pytest.mark.parametrize("form", DECISION_FORMS)
def test_a_decision_is_the_same_for_the_same_rows_in_any_form(client: flyball.Client, form: str) -> None:
    given = DECISION_FORMS[form](CARDS)
    answer = client.decide("plain", given)
    frame = form in FRAMES
    assert isinstance(answer, flyball.DecidedRows) == (not frame)
    rows = client.decide_rows("plain", DECISION_FORMS[form](CARDS)) if frame else answer
    one_by_one = [client.decide("plain", card) for card in CARDS[:2]]
    assert [row.decided and (row.decided.outcome, row.decided.score, row.decided.reasons) for row in rows] == [
        *((decided.outcome, decided.score, decided.reasons) for decided in one_by_one),
        None,
    ]
    assert [fault.path for fault in rows[2].fault.faults] == ["amount"]
    if frame:
        shown = (
            answer.to_pydict()
            if form == "Arrow table"
            else answer.to_dict(**({} if form == "Polars" else {"orient": "list"}))
        )
        assert list(shown["outcome"])[:2] == [decided.outcome for decided in one_by_one]
        assert list(shown["score"])[:2] == [decided.score for decided in one_by_one]
        assert "amount" in list(shown["fault"])[2]


def test_one_row_may_be_a_dict_or_a_series(client: flyball.Client) -> None:
    by_dict, by_series = client.decide("plain", CARDS[0]), client.decide("plain", pd.Series(CARDS[0]))
    assert (by_dict.outcome, by_dict.score) == (by_series.outcome, by_series.score)


@pytest.mark.parametrize("missing", [None, NAN, np.float32("nan"), pd.NA, pd.NaT], ids=repr)
def test_a_missing_value_is_a_missing_field(client: flyball.Client, missing: object) -> None:
    given, absent = client.decide("plain", CARDS[0] | {"mcc": missing}), dict(CARDS[0])
    del absent["mcc"]
    assert given.score == client.decide("plain", absent).score
    with pytest.raises(flyball.InvalidInputError) as caught:
        client.decide("plain", CARDS[0] | {"amount": missing})
    assert [(fault.path, fault.found) for fault in caught.value.faults] == [("amount", None)]


def test_pandas_keeps_its_index(client: flyball.Client) -> None:
    cards, rows = pd.DataFrame(CARDS, index=INDEX), pd.DataFrame(MATRIX, columns=NAMES, index=INDEX)
    assert client.decide("plain", cards).index.tolist() == INDEX
    assert client.infer("linear", rows).index.tolist() == INDEX
    assert cards.join(client.decide("plain", cards)).loc[10, "outcome"] == "review"


@pytest.mark.parametrize("library", ["pandas", "Polars", "Arrow"])
def test_columns_with_the_names_of_the_inputs_are_one_tensor_each(client: flyball.Client, library: str) -> None:
    made = {"pandas": pd.DataFrame, "Polars": lambda columns: polars().DataFrame(columns), "Arrow": pa.table}[library]
    answer = client.infer("many", made(MANY))
    assert type(answer) is type(made(MANY))
    wanted = client.infer("many", MANY)
    for name, array in wanted.items():
        assert np.asarray(answer[name]).tolist() == array.ravel().tolist()


def test_texts_go_in_and_come_out(client: flyball.Client) -> None:
    answer = client.infer("strings", pd.DataFrame({"x": ["red", "grün"]}))
    assert answer.to_dict("list") == {"word": ["rouge", "vert ↔ grün"], "number": [1, 2]}
