"""Our client against a real server: whatever form the same data has, over HTTP and gRPC, the answers are equal."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import flyball
from tests.support import serving
from tests.support.decision_folders import plain, plain_rows
from tests.support.onnx_models import GOOD
from tests.support.serving import PATIENCE_MS, Server
from tests.support.wire import Http, metrics

SCHEMES = ["http", "grpc"]
NAN = float("nan")
MATRIX = [[0.1, 2.0, -3.5, 4.0], [1e-7, 0.0, 5.0, 6.25], [7.0, 8.0, 9.0, 1e6]]
GAPS = [[0.1, None, -3.5, 4.0], [1e-7, 0.0, None, 6.25], [7.0, 8.0, 9.0, None]]
NAMES = ["a", "b", "c", "d"]
INDEX = [30, 10, 20]
MANY = {"amounts": [[0.5, 1.0, 2.0], [3.0, 4.0, 5.5]], "count": [1, 2], "known": [True, False]}
CARDS: list[dict[str, Any]] = [
    {"card_id": "c-1", "amount": 12.5, "currency": "EUR", "country": "DE", "mcc": 5411},
    {"card_id": "c-2", "amount": 1200.0, "currency": "USD", "country": "FR", "mcc": None},
    {"card_id": "c-3", "amount": -1.0, "currency": "USD", "country": "FR", "mcc": 7},
]
FIELDS = list(CARDS[0])


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


def by_column(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in FIELDS}


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


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Models and a decision on one server."""
    yield from served(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The same behind a limit of 64 KiB for bodies."""
    yield from served(tmp_path_factory.mktemp("narrow"), "--http-max-input-size", "65536")


def served(folder: Path, *more: str) -> Iterator[Server]:
    models = [str(GOOD[name](folder)) for name in ("linear", "many", "strings", "free_axis")]
    command = [*serving.flyball(), "serve", *models, "--decision", str(plain(folder)), "--listen", "127.0.0.1:0", *more]
    with serving.serving(command) as server:
        yield server


@pytest.fixture(params=SCHEMES)
def client(request: pytest.FixtureRequest, shop: Server) -> Iterator[flyball.Client]:
    with flyball.Client(f"{request.param}://{shop.address}", deadline_ms=PATIENCE_MS) as made:
        yield made


def connections(server: Server) -> float:
    return metrics(server).sum("flyball_connections")


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


@pytest.mark.parametrize(
    ("model", "given", "words"),
    [
        ("linear", {"X_": MATRIX}, r"unexpected inference input 'X_'; .* takes x FP32 \[-1,4\].*; did you mean 'x'\?"),
        ("many", pd.DataFrame(MANY).rename(columns={"amounts": "amonts"}), "column 'amonts'.*mean 'amounts'"),
        ("linear", pd.DataFrame(MATRIX)[[0, 1]], r"the frame has 2 columns \(0, 1\); model 'linear' takes x FP32 \[-1,4\]"),
        ("linear", [[1, 2, 3]], r"unexpected shape for input 'x' for model 'linear'. Expected \[-1,4\], got \[1,3\]"),
        ("linear", [["a", "b", "c", "d"]], r"input 'x': cannot convert the values to FP32: 'a' at \[0, 0\]"),
        ("linear", pd.DataFrame(MATRIX, columns=NAMES).assign(b="DE"), "column 'b': .* FP32: 'DE' at row 0"),
        ("many", MATRIX, "values without a name; model 'many' takes amounts"),
        ("many", {"count": [1.5]}, "input 'count': cannot convert the values to INT64: 1.5 at row 0"),
        ("linear", pd.DataFrame(MATRIX, columns=NAMES).iloc[:0], "has no rows"),
        ("linear", {}, "no inputs given"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_model_is_one_error_with_what_it_takes(
    client: flyball.Client, model: str, given: Any, words: str
) -> None:
    with pytest.raises(flyball.InvalidInputError, match=words):
        client.infer(model, given)


def test_a_shape_is_refused_in_the_server_s_own_words(client: flyball.Client, shop: Server) -> None:
    with pytest.raises(flyball.InvalidInputError) as ours:
        client.infer("linear", [[1, 2, 3]])
    with Http(shop) as connection:
        data = {"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}
        theirs = connection.post("/v2/models/linear/infer", {"inputs": [data]})
    assert ours.value.message == theirs.error


def test_columns_that_no_row_can_be_decided_with_are_one_error(client: flyball.Client) -> None:
    frame = pd.DataFrame(CARDS).rename(columns={"country": "contry"})
    with pytest.raises(flyball.InvalidInputError, match="did you mean 'country'") as caught:
        client.decide("plain", frame)
    assert [fault.path for fault in caught.value.faults] == ["contry", "country"]
    with pytest.raises(flyball.InvalidInputError, match="currency: is 'no column'"):
        client.decide("plain", {name: column for name, column in by_column(CARDS).items() if name != "currency"})


def test_columns_of_different_lengths_and_frames_without_rows_are_refused(client: flyball.Client) -> None:
    with pytest.raises(flyball.InvalidInputError, match="different lengths: card_id 2, amount 1"):
        client.decide("plain", {"card_id": ["a", "b"], "amount": [1.0]})
    with pytest.raises(flyball.InvalidInputError, match="no rows given"):
        client.decide("plain", pd.DataFrame(CARDS).iloc[:0])


def test_a_hundred_thousand_rows_are_answered_as_each_alone(client: flyball.Client) -> None:
    rows = np.random.default_rng(3).normal(size=(100_000, 4))
    answer = client.infer("linear", pd.DataFrame(rows, columns=NAMES))
    assert answer.shape == (100_000, 2)
    for at in (0, 8191, 8192, 99_999):
        assert answer.iloc[at].tolist() == client.infer("linear", rows[at : at + 1])["y"][0].tolist()


def test_thousands_of_rows_are_decided_in_their_order(client: flyball.Client) -> None:
    frame = pd.DataFrame(
        {name: [f"c-{at}" if name == "card_id" else CARDS[at % 2][name] for at in range(3000)] for name in FIELDS}
    )
    answer = client.decide("plain", frame)
    assert answer["id"].nunique() == 3000
    assert answer["outcome"].tolist() == [client.decide("plain", CARDS[at]).outcome for at in (0, 1)] * 1500


@pytest.mark.parametrize("scheme", SCHEMES)
def test_requests_that_are_too_large_for_the_server_are_halved(narrow: Server, shop: Server, scheme: str) -> None:
    rows = np.random.default_rng(3).normal(size=(10_000, 4)).astype(np.float32)
    cards = [dict(CARDS[0], card_id="c" * 500 + str(at)) for at in range(300)]
    with flyball.Client(f"{scheme}://{narrow.address}", deadline_ms=PATIENCE_MS) as client:
        answer, decided = client.infer("linear", rows)["y"], client.decide("plain", cards)
        with pytest.raises(flyball.InvalidInputError, match="body_bytes_max") as caught:
            client.infer("free_axis", {"x": rows})  # the server does not batch it, so its rows stay together
    assert caught.value.code == "body_too_large"
    with flyball.Client(shop.url, deadline_ms=PATIENCE_MS) as client:
        np.testing.assert_array_equal(answer, client.infer("linear", rows)["y"])
    assert [row.decided and row.decided.outcome for row in decided] == [decided[0].decided.outcome] * 300


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_thousand_decisions_in_flight_on_one_loop_keep_their_order_and_their_errors(shop: Server, scheme: str) -> None:
    rows = plain_rows(1000)
    with flyball.Client(shop.url, deadline_ms=PATIENCE_MS) as client:
        wanted = client.decide("plain", rows)

    async def ask() -> list[Any]:
        async with flyball.AsyncClient(f"{scheme}://{shop.address}", deadline_ms=PATIENCE_MS, connections_max=16) as client:
            return await asyncio.gather(*(client.decide("plain", row) for row in rows), return_exceptions=True)

    before = connections(shop)
    answers = asyncio.run(ask())
    for answer, row in zip(answers, wanted, strict=True):
        if row.decided is None:
            assert isinstance(answer, flyball.InvalidInputError)
            assert [fault.path for fault in answer.faults] == [fault.path for fault in row.fault.faults]
        else:
            assert (answer.outcome, answer.score) == (row.decided.outcome, row.decided.score)
    serving.until("its connections are closed", lambda: connections(shop) <= before)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_cancelled_decisions_leave_a_client_that_works_and_no_connection(shop: Server, scheme: str) -> None:
    async def cancel() -> list[Any]:
        async with flyball.AsyncClient(f"{scheme}://{shop.address}", deadline_ms=PATIENCE_MS, connections_max=4) as client:
            tasks = [asyncio.create_task(client.decide("plain", CARDS[0])) for _ in range(200)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return await asyncio.gather(*(client.decide("plain", CARDS[0]) for _ in range(20)))

    before = connections(shop)
    assert {decided.outcome for decided in asyncio.run(cancel())} == {"reject"}
    serving.until("its connections are closed", lambda: connections(shop) <= before)


def test_the_asynchronous_client_takes_and_gives_frames_too(shop: Server) -> None:
    async def ask() -> tuple[Any, Any]:
        async with flyball.AsyncClient(shop.url, deadline_ms=PATIENCE_MS) as client:
            frame = pd.DataFrame(MATRIX, columns=NAMES, index=INDEX)
            return await client.infer("linear", frame), await client.decide("plain", pd.DataFrame(CARDS, index=INDEX))

    answer, decided = asyncio.run(ask())
    with flyball.Client(shop.url, deadline_ms=PATIENCE_MS) as client:
        pd.testing.assert_frame_equal(answer, client.infer("linear", pd.DataFrame(MATRIX, columns=NAMES, index=INDEX)))
    assert decided["outcome"].tolist()[:2] == ["reject", "review"]
