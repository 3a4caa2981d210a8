"""The runner of Triton's own suites: which cases it finds, how it judges them, and the section that it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conformance.case import FAIL, PASS, Row
from conformance.originals import __main__ as originals
from conformance.originals import languages, run, section
from conformance.originals.languages import LANGUAGES, missing
from conformance.originals.run import cases_of
from conformance.originals.stand_ins import add_sub, constant, identity, stand_in
from conformance.originals.step import Step, Suite
from conformance.originals.suites import SUITES
from conformance.originals.verdicts import ARGUED, DIFFERS, NOT_APPLICABLE, NOT_BUILT, NOT_RUN, argued_in_vain, judged
from flyball.native.models import model_files

SUITE = """
class First(Base):
    def setUp(self): ...
    if True:
        def test_b(self): ...
    def test_a(self): ...

class Second(Base):
    async def test_c(self): ...
    def helper(self): ...
"""
ROWS = [
    Row("infer", "test_raw_uuu", PASS),
    Row("lifecycle", "test_shutdown_sequence", FAIL, NOT_RUN),
    Row("lifecycle", "test_file_override", FAIL, "a load with 'file:1/model.onnx' is not offered"),
    Row("infer", "test_raw_sss", FAIL, "a | b"),
]


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ((), ["First.test_b", "First.test_a", "Second.test_c"]),
        (("Second",), ["Second.test_c"]),
        (("First.test_a",), ["First.test_a"]),
    ],
)
def test_cases_are_found_in_the_order_of_their_file(tmp_path: Path, chosen: tuple[str, ...], found: list[str]) -> None:
    (tmp_path / "suite.py").write_text(SUITE)
    assert cases_of(tmp_path / "suite.py", chosen) == found


def test_the_tests_of_a_program_are_those_it_lists(tmp_path: Path) -> None:
    assert languages.tests_of("model::parses: test\nfails: test\nslow: benchmark\n\n2 tests, 1 benchmark\n") == [
        "model::parses",
        "fails",
    ]
    listing = "Running main()\nHTTPTest.\n  Infer\n  Load  # comment\nGRPC/Test.  # TypeParam = int\n  Infer/0\n"
    assert languages.tests_of(listing) == ["HTTPTest.Infer", "HTTPTest.Load", "GRPC/Test.Infer/0"]
    (tmp_path / "client.tests").write_text("HTTPTest.Infer\nHTTPTest.Load\n")
    assert run.tests_in(tmp_path / "client.tests", ()) == ["client.HTTPTest.Infer", "client.HTTPTest.Load"]
    assert run.tests_in(tmp_path / "client.tests", ("*.Infer*",)) == ["client.HTTPTest.Infer"]


def test_a_client_whose_sources_are_missing_says_which(tmp_path: Path) -> None:
    assert "common" in (missing("go_client", tmp_path / "client") or "")
    (tmp_path / "common" / "protobuf").mkdir(parents=True)
    for name, language in LANGUAGES.items():
        assert missing(name, tmp_path / "client") == f"TRITON_CLIENT_DIR has no folder {language.sources[0]}"


def test_a_failed_case_is_argued_or_fails_and_one_that_passes_needs_no_argument() -> None:
    rows = judged(ROWS)
    assert [row.verdict for row in rows] == [PASS, NOT_APPLICABLE, DIFFERS, FAIL]
    assert section.passed_share(rows) == pytest.approx(1 / 3)
    assert argued_in_vain(rows) == []
    assert judged([Row("lifecycle", "test_file_override", FAIL, "the server did not start: exit 1")])[0].verdict == FAIL
    passed = Row("lifecycle", "test_file_override", PASS)
    assert argued_in_vain(judged([passed])) == [passed]


def test_every_argument_names_a_suite_and_one_case_exactly() -> None:
    assert {suite for suite, _ in ARGUED} <= {suite.name for suite in SUITES}
    assert not [case for _, case in ARGUED if set(case) & set("*?[]")]


def test_no_argument_excuses_a_server_that_does_not_start_a_timeout_or_a_failed_import() -> None:
    failures = ("the server did not start: exit 1", "no result within 180 s", "ModuleNotFoundError: No module named 'x'")
    assert not [case for case, argument in ARGUED.items() if any(argument.says in failure for failure in failures)]


def test_a_case_that_no_step_selects_counts(tmp_path: Path) -> None:
    (tmp_path / "suite.py").write_text(SUITE)
    (tmp_path / "other.py").write_text("class Third:\n    def test_d(self): ...\n")
    step = Step("suite.py", lambda _: None, cases=("First",))
    assert list(run.not_run(Suite("infer", "L0_infer", (step,)), tmp_path)) == [
        Row("infer", "test_d, other", FAIL, NOT_RUN),
        Row("infer", "test_c", FAIL, NOT_RUN),
    ]
    example = Step("example.py", lambda _: None, arguments="-v")
    assert list(run.not_run(Suite("examples", "images", (example,)), tmp_path)) == []


def test_a_suite_that_cannot_be_built_is_a_row_that_counts_nowhere() -> None:
    rows = [*judged(ROWS), Row("go_client", "build", NOT_BUILT, "go is missing")]
    text = section.section(rows, "abc")
    assert "| go_client | not built here | | | | |" in text
    assert "| **all** | 4 | 1 | 1 | 1 | 1 |" in text
    assert "| go_client | `build` | not built here | go is missing |" in text
    assert section.passed_share(rows) == section.passed_share(judged(ROWS))


def test_what_a_suite_of_the_client_repository_lacks_is_named(tmp_path: Path) -> None:
    qa, client = tmp_path / "server/qa", tmp_path / "client"
    assert originals._lacks("infer", qa, client) is None
    assert str(client) in (originals._lacks("examples", qa, client) or "")
    (client / "src").mkdir(parents=True)
    assert "docs/examples" in (originals._lacks("examples", qa, client) or "")
    for folder in ("docs/examples/model_repository", "src/test/models"):
        (tmp_path / "server" / folder).mkdir(parents=True)
    assert originals._lacks("examples", qa, client) is None
    assert "common" in (originals._lacks("go_client", qa, client) or "")


def test_a_record_of_an_older_form_or_of_a_development_build_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "compat.json"
    monkeypatch.setattr(originals, "RECORD", record)
    rows = [{"group": "infer", "what": "test_raw_uuu", "verdict": PASS, "reason": ""}]
    for commit, form, found in (
        ("abc", {"rows": rows}, {}),
        ("development", {"suites": {"infer": rows}}, {}),
        ("abc", {"suites": {"infer": rows}}, {"infer": [ROWS[0]]}),
    ):
        record.write_text(json.dumps({"commit": commit, **form}))
        assert originals._recorded(commit) == found


def test_the_section_is_the_end_of_the_page_and_is_replaced_alone() -> None:
    text = section.section(judged(ROWS), "abc")
    assert "| infer | 2 | 1 | 0 | 0 | 1 |" in text
    assert "| lifecycle | 2 | 0 | 1 | 1 | 0 |" in text
    assert "| **all** | 4 | 1 | 1 | 1 | 1 |" in text
    assert r"| infer | `test_raw_sss` | fail | a \| b |" in text
    page = section.replaced("# Conformance\n\nrows\n", text)
    assert page.startswith("# Conformance\n\nrows\n\n## Triton's own test suites\n")
    assert section.replaced(page, text) == page
    assert section.kept(page) == text
    assert section.kept("# Conformance\n") == ""


def test_every_suite_has_steps_and_a_name_of_its_own() -> None:
    assert len({suite.name for suite in SUITES}) == len(SUITES)
    assert all(suite.steps for suite in SUITES)


@pytest.mark.parametrize(("nodes", "seconds"), [(identity, 0), (add_sub, 0), (add_sub, 0.01), (constant(1.0), 0)])
def test_a_stand_in_has_the_tensors_of_the_configuration(tmp_path: Path, nodes: object, seconds: float) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    kind = "TYPE_INT32" if seconds else "TYPE_FP32"
    outputs = ["c"] if nodes not in (identity, add_sub) else ["c", "d"]
    tensors = [("input", "a"), ("input", "b"), *(("output", name) for name in outputs)]
    described = "".join(f'{role} [{{ name: "{name}" data_type: {kind} dims: [ 2 ] }}]\n' for role, name in tensors)
    (folder / "config.pbtxt").write_text(f'name: "m"\nbackend: "python"\nmax_batch_size: 4\n{described}')
    stand_in(folder, nodes, seconds=seconds)  # type: ignore[arg-type]
    files = model_files(folder / "1" / "model.onnx")
    assert [tensor.name for tensor in files.inputs] == ["a", "b"]
    assert 'backend: "onnxruntime"' in (folder / "config.pbtxt").read_text()


def test_a_failed_test_of_googletest_says_why() -> None:
    said = (
        "[ RUN      ] HTTP/ClientTest/0.Load\n/src/cc_client_test.cc:71: Failure\nValue of: err.IsOk()\n  Actual: false\n"
        "failed to load: not offered\n[  FAILED  ] HTTP/ClientTest/0.Load (3 ms)\n\n 1 FAILED TEST\n"
    )
    assert run._line(said) == "Value of: err.IsOk() Actual: false failed to load: not offered"
    assert run._line("ok\nAssertionError: 1 != 2\nFAILED (failures=1)\n") == "AssertionError: 1 != 2"
