"""The pages say what the code says: stages, faults, metrics, claims and links are compared with their sources."""

import ast
import re
from pathlib import Path

import pytest

from tests.support.onnx_models import row
from tests.support.serving import REPOSITORY, Server
from tests.support.wire import Http, Raw, metrics, settled

DOCS = REPOSITORY / "docs"
PAGES = [*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md"), *REPOSITORY.glob("examples/*/*.md")]


def read(path: str) -> str:
    return (REPOSITORY / path).read_text()


def stages_of_the_code() -> list[str]:
    """The labels in crates/core/src/stage.rs, in the order of its list."""
    return re.findall(r'\w+ => "(\w+)"', read("crates/core/src/stage.rs"))


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
    from flyball.decision_log.read.columns import COLUMNS
    from flyball.decision_log.read.views import JOINED, VIEWS

    page = read("docs/reference/decision-records.md")
    written = re.findall(r"^\| `(\w+)` \| ([A-Z]+) \| (.+) \|$", page, re.MULTILINE)
    assert written == [*((column.name, column.type, column.about) for column in COLUMNS), *JOINED]
    views = page.partition("## Tables for SQL")[2].partition("### ")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", views, re.MULTILINE)) == VIEWS


def test_the_reasons_of_the_trust_page_are_the_closed_list() -> None:
    from flyball.signing.reasons import Reason

    table = read("docs/reference/trust.md").partition("## Reasons")[2]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(Reason)


def limits_of_signing() -> dict[str, int]:
    """The numbers among the constants of `crates/signing`; `DEPTH_MAX` is of JSON in one file and of folders in another."""
    found: dict[str, int] = {"i32": 2**31 - 1}
    for file in ("dsse", "manifest", "policy", "release", "fields", "folder"):  # those before that others refer to
        source = read(f"crates/signing/src/{file}.rs")
        for name, text in re.findall(r"const (\w+_MAX): (?:usize|u64) = (.+);", source):
            value = text.replace("i32::MAX", "i32").replace(" as u64", "")
            found[f"{file}.{name}"] = found[name] = eval(value, {}, found)  # noqa: S307 - our own source
    return found


def test_the_limits_of_the_trust_page_are_those_of_the_code() -> None:
    most = limits_of_signing()
    page = read("docs/reference/trust.md")
    sizes = dict(re.findall(r"^\| (package|release|trust policy|index) \| .* \| (\d+ [KM]iB) \|$", page, re.MULTILINE))
    bytes_max = [most[f"{what}_BYTES_MAX"] for what in ("BUNDLE", "RELEASE", "TRUST", "INDEX")]
    units = {"KiB": 1024, "MiB": 1024 * 1024}
    assert [int(size.split()[0]) * units[size.split()[1]] for size in sizes.values()] == bytes_max
    for words in (
        f"1 to {most['SIGNATURES_MAX']} signatures",
        f"No more than {most['fields.DEPTH_MAX']} levels",
        f"versions and serials are 1 to {most['NUMBER_MAX']}",
        f"`keys` | {most['KEYS_MAX']:,} at most",
        f"`revoked` | {most['REVOKED_MAX']:,} at most",
        f"`minimum` | {most['MINIMUMS_MAX']:,} names at most",
        f"0 to {most['APPROVALS_MAX']} |",
        f"more than {most['FILES_MAX']:,} `too_large`",
        f"more than {most['folder.DEPTH_MAX']} levels deep or has more than {most['ENTRIES_MAX']:,} entries",
        f"`subject` | 1 to {most['SUBJECTS_MAX']} packages",
        f"`environments` | 1 to {most['ENVIRONMENTS_MAX']}",
    ):
        assert words in page, words


def test_the_admin_api_s_page_has_every_route_and_every_status() -> None:
    from flyball.control.admin.app import admin_app

    page = read("docs/reference/admin-api.md")
    document = admin_app(None).openapi()  # type: ignore[arg-type]
    statuses = set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            shown = f"`GET {path}" if method == "get" else f"| `{path}"
            assert shown in page, f"docs/reference/admin-api.md lacks {method} {path}"
            statuses |= {status for status in operation["responses"] if int(status) >= 400}
    written = re.findall(r"^\| (\d{3}(?:, \d{3})*) \| ", page, re.MULTILINE)
    assert {status for row in written for status in row.split(", ")} == statuses


def test_the_admin_api_s_page_has_the_one_table_of_roles() -> None:
    from flyball.registry.acts.interface import ROLES, ROLES_OF

    table = read("docs/reference/admin-api.md").partition("## Who calls")[2].partition("## Questions")[0]
    rows = re.findall(r"^\| (`.+?) \|(.+)\|$", table, re.MULTILINE)
    found = {}
    for acts, marks in rows:
        allowed = frozenset(role for role, mark in zip(ROLES, marks.split("|"), strict=True) if mark.strip() == "yes")
        found.update(dict.fromkeys(re.findall(r"`(\w+)`", acts), allowed))
    assert found == {act: roles for act, roles in ROLES_OF.items() if act not in ("read", "events", "verify")}


def test_the_registry_s_guide_has_every_key_of_registry_yaml() -> None:
    from flyball.registry.home import RegistrySettings

    table = read("docs/guides/registry.md").partition("## registry.yaml")[2]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(RegistrySettings.model_fields)


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/glossary.md"])
def test_every_file_that_a_map_of_the_code_names_is_there(page: str) -> None:
    """Pages name a file of a crate as `journal/src/writer.rs`, or by its last parts where the text says which crate."""
    roots = ("bench/claims", "crates", "python", "tests", "tools")
    files = [f"/{path.relative_to(REPOSITORY)}" for root in roots for path in (REPOSITORY / root).rglob("*.*")]
    named = set(re.findall(r"`([\w/]+\.(?:rs|py))`", read(page)))
    assert named
    assert [name for name in sorted(named) if not any(file.endswith("/" + name) for file in files)] == []


def test_the_python_rooms_of_architecture_md_name_exactly_the_packages_that_each_imports() -> None:
    rows = re.findall(r"^\| `python/flyball/([^|]*)\|[^|]*\|([^|]*)\|", read("ARCHITECTURE.md"), re.MULTILINE)
    named = {
        room.removesuffix(".py"): set(re.findall(r"[\w]+", uses))
        for rooms, uses in rows
        for room in re.findall(r"\w+(?:\.py)?", rooms)
        if room not in ("errors.py", "cli")  # the lowest room uses none, the highest may use all
    }
    assert named == {room: packages_imported_by(room) for room in named}
    folders = {path.parent.name for path in (REPOSITORY / "python/flyball").glob("*/__init__.py")}
    assert set(named) == folders - {"cli"}


def packages_imported_by(room: str) -> set[str]:
    """The other packages of flyball that a package imports when it runs, at the top of a module or inside a function."""
    found = set()
    for path in (REPOSITORY / "python/flyball" / room).rglob("*.py"):
        tree = ast.parse(path.read_text())
        for_types = [
            node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        ]
        skipped = {id(inner) for node in for_types for inner in ast.walk(node)}
        modules = [
            node.module for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module and id(node) not in skipped
        ]  # fmt: skip
        found |= {module.split(".")[1] for module in modules if module.startswith("flyball.")}
    return found - {room, "_native"}
