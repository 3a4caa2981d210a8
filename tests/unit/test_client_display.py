"""Clients and answers are short in a shell, and tables in a notebook, in which no text of an answer is markup."""

import asyncio

import pytest

from flyball import AsyncClient, Client, Decided, DecidedRow, DecidedRows, InvalidInputError, ModelMetadata
from flyball.client import Reason, TensorMetadata, UsedRemedy

EVIL = "<script>alert('1') & more</script>"
PLAIN = Decided("id-1", "card", "pass")
WHOLE = Decided(
    "id-2", "card", "review", score=0.41234567, reasons=(Reason("R02", "amount", "amount", 0.3), Reason("R11")),
    remedy=UsedRemedy("deadline_passed", "queue", "rules"),
)  # fmt: skip
FAULT = InvalidInputError("1 field is invalid")


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (PLAIN, "<Decided card: pass>"),
        (WHOLE, "<Decided card: review, score 0.4123, reasons R02, R11, remedy rules>"),
        (DecidedRow("7", WHOLE, None), "<DecidedRow 7: review, score 0.4123, reasons R02, R11, remedy rules>"),
        (DecidedRow("8", None, FAULT), "<DecidedRow 8: not decided: 1 field is invalid>"),
        (DecidedRow("9", None, InvalidInputError("m" * 99)), f"<DecidedRow 9: not decided: {'m' * 60}…>"),
        (
            ModelMetadata("m", ("1",), "p", (TensorMetadata("x", "FP32", (-1, 4)),), (TensorMetadata("y", "INT64", (-1,)),)),
            "<ModelMetadata m: x FP32 [-1,4] → y INT64 [-1]>",
        ),
    ],
)
def test_an_answer_is_one_short_line(value, wanted):
    assert repr(value) == wanted


def test_a_client_shows_its_server_and_whether_it_is_closed_but_never_its_key():
    client, other = Client("http://h:1", api_key="secret"), AsyncClient("http://h:1", api_key="secret")
    assert [repr(client), repr(other)] == ["<Client http://h:1>", "<AsyncClient http://h:1>"]
    client.close()
    asyncio.run(other.close())
    assert [repr(client), repr(other)] == ["<Client http://h:1, closed>", "<AsyncClient http://h:1, closed>"]


def test_a_decision_is_a_table_with_outcome_score_and_reasons():
    html = WHOLE._repr_html_()
    for part in ("<th>outcome</th><th>score</th><th>reasons</th>", "<td>review</td><td>0.4123</td><td>R02 amount; R11</td>"):
        assert part in html


def test_rows_are_a_table_with_their_ids_and_faults():
    rows = DecidedRows([DecidedRow("a", PLAIN, None), DecidedRow("b", None, FAULT)])
    html = rows._repr_html_()
    assert "<td>a</td><td>pass</td><td></td><td></td>" in html
    assert "<td>b</td><td>not decided</td><td></td><td>1 field is invalid</td>" in html
    assert rows[1]._repr_html_().count("<tr>") == 2
    assert rows == list(rows)


def test_a_long_answer_shows_its_first_rows_and_says_how_many_follow():
    html = DecidedRows([DecidedRow(str(index), PLAIN, None) for index in range(100)])._repr_html_()
    assert html.count("<tr>") == 21
    assert html.endswith("<p>80 more rows</p>")


def test_no_text_of_an_answer_becomes_markup():
    decided = Decided("i", "d", EVIL, reasons=(Reason(EVIL, EVIL),))
    rows = DecidedRows([DecidedRow(EVIL, decided, None), DecidedRow(EVIL, None, InvalidInputError(EVIL))])
    for html in (decided._repr_html_(), rows._repr_html_()):
        assert "<script>" not in html
        assert "&lt;script&gt;" in html
