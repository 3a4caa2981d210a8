"""Our client against a real server: what does not fit is one error in plain words, and large inputs travel in pieces."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import flyball
from tests.support.serving import PATIENCE_MS, Server
from tests.support.shop import CARDS, FIELDS, MANY, MATRIX, NAMES, SCHEMES, by_column, served
from tests.support.wire import Http


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The same behind a limit of 64 KiB for bodies."""
    yield from served(tmp_path_factory.mktemp("narrow"), "--http-max-input-size", "65536")


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
