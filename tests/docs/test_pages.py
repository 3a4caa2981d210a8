"""The pages say what the code says: stages, faults, metrics, claims and links are compared with their sources."""

import re
from pathlib import Path

import pytest
from models import row
from serving import REPOSITORY, Server
from wire import Http, Raw, metrics, settled

DOCS = REPOSITORY / "docs"
PAGES = [*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md"), *REPOSITORY.glob("examples/*/*.md")]


def read(path: str) -> str:
    return (REPOSITORY / path).read_text()


def stages_of_the_code() -> list[str]:
    """The labels in crates/core/src/stage.rs, in the order of its match."""
    return re.findall(r'Stage::\w+ => "(\w+)"', read("crates/core/src/stage.rs"))


def test_the_headings_of_the_walk_are_the_stages_of_the_code() -> None:
    headings = re.findall(r"^## (?:\d+\. )?(\w+)$", read("docs/life-of-a-request.md"), re.MULTILINE)
    assert headings == stages_of_the_code()


def test_the_stage_labels_of_the_metrics_are_the_stages_of_the_code(house: Server) -> None:
    with Http(house) as connection:
        connection.infer("linear", row("linear", 1))
    settled(house)
    assert metrics(house).labels("flyball_stage_seconds_count", "stage") == set(stages_of_the_code())


def test_the_errors_page_has_the_one_table() -> None:
    rows = re.findall(r'row\("(\w+)",\s*(\d+), G::(\w+),\s*(\d+), \w+,\s*(\w+)\)', read("crates/core/src/fault.rs"))
    assert rows
    written = re.findall(
        r"^\| `(\w+)` \| (\d+) \| `([A-Z_]+)` \| (\d) \| (\w+) \|", read("docs/reference/errors.md"), re.MULTILINE
    )
    code = [(kind, http, _upper_snake(grpc), exit_, outcome.lower()) for kind, http, grpc, exit_, outcome in rows]
    assert written == code


@pytest.mark.parametrize(
    ("sent", "status"),
    [(b"GET\r\n\r\n", 400), (b"GET /v2 HTTP/1.1\r\nx: " + b"y" * 140_000 + b"\r\n\r\n", 431)],
    ids=["400", "431"],
)
def test_what_http_itself_refuses_has_the_empty_body_that_the_errors_page_says(
    house: Server, sent: bytes, status: int
) -> None:
    assert "with an empty one" in read("docs/reference/errors.md")
    with Raw(house) as raw:
        raw.send(sent)
        reply = raw.reply()
    # A server that closes on bytes it did not read resets the connection, and the reset may overtake its answer.
    assert reply is not None or status == 431
    assert reply is None or (reply.status, reply.body) == (status, b"")


def _upper_snake(camel: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", camel).upper()


def test_every_metric_that_is_shown_is_described_and_the_other_way_round(house: Server) -> None:
    with Http(house) as connection:
        connection.infer("linear", row("linear", 1))
        connection.post("/v2/models/nobody/infer", b"{}")
        shown = set(re.findall(r"^# TYPE (\w+) ", connection.get("/metrics").body.decode(), re.MULTILINE))
    described = set(re.findall(r"^\| `(flyball_\w+)", read("docs/reference/metrics.md"), re.MULTILINE))
    assert shown == described


def test_every_command_of_the_claims_page_exists() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", read("Makefile"), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)`", read("docs/claims.md")))
    assert named
    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_inside_the_repository_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_columns_of_decision_records_are_those_of_the_code() -> None:
    from flyball.decisions.columns import COLUMNS
    from flyball.decisions.views import JOINED, VIEWS

    page = read("docs/reference/decision-records.md")
    written = re.findall(r"^\| `(\w+)` \| ([A-Z]+) \| (.+) \|$", page, re.MULTILINE)
    assert written == [*((column.name, column.type, column.about) for column in COLUMNS), *JOINED]
    views = page.partition("## Tables for SQL")[2].partition("### ")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", views, re.MULTILINE)) == VIEWS
