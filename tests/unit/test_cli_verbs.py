"""The verbs in this process: what they print for people and for machines, and how they fail.

`flyball serve` is here only as far as it ends before a server starts; the rest of it is in tests/e2e.
"""

import json
import re
import sys
from pathlib import Path

import pytest
import typer

import flyball
from flyball.cli import app as cli
from flyball.cli import starting_server
from flyball.documents.snapshot import BatchWait, Limits, Slo, read
from flyball.native import boundary, server_documents
from flyball.native import machine as native_machine
from flyball.native import models as native_models
from tests.support.v2_server import V2Server, refusal

ROOT = Path(__file__).parents[2]


@pytest.fixture
def server():
    with V2Server() as running:
        running.metadata["inputs"] = [{"name": "input", "datatype": "FP32", "shape": [-1, 2]}]
        yield running


def test_inspect_shows_opsets_free_dimensions_and_latencies(run, model):
    path = model("linear")
    code, out, _ = run("inspect", str(path))
    assert code == 0
    for words in ("ai.onnx 17", "ai.onnx.ml 3", "producer flyball-tests", "[any, 4]", "[any, 2]", "batching on"):
        assert words in out
    assert re.search(r"^ +64( +[\d.]+ (?:µs|ms)){3}$", out, re.MULTILINE), out
    assert out.endswith(f"Next:  flyball serve {path}\n")


def test_inspect_gives_the_reason_why_requests_cannot_share_a_run(run, model):
    code, out, _ = run("inspect", str(model("int8")))
    assert code == 0
    reason = native_models.inspect(model("int8")).batching.reason
    assert reason
    assert f"batching off: {reason}" in out


@pytest.mark.parametrize(
    ("name", "finding"),
    [
        ("lightgbm_two", "native trees: 10,000 rows bit-equal to ONNX Runtime 1."),
        ("lightgbm_forest", "native trees do not support it: operator 'ArrayFeatureExtractor' of domain 'ai.onnx.ml'"),
    ],
)
def test_inspect_shows_the_proof_of_native_trees_or_what_they_do_not_support(run, name, finding):
    path = ROOT / "tests" / "golden" / "trees" / f"{name}.onnx"
    assert finding in run("inspect", str(path))[1]
    native = native_models.inspect(path).native
    assert native
    assert native.on == (name == "lightgbm_two")
    assert finding in native.finding


def test_inspect_counts_one_node_and_shows_an_opset_domain_once(run, tmp_path):
    from onnx import TensorProto, helper

    from tests.support import onnx_models

    shape = ["n", 2]
    ends = [onnx_models.value(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    twice = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 4), helper.make_opsetid("ai.onnx.ml", 3)]
    nodes = [helper.make_node("Neg", ["x"], ["y"])]
    path = onnx_models.save(tmp_path / "one.onnx", nodes, ends[:1], ends[1:], opset=twice)
    code, out, _ = run("inspect", str(path))
    assert code == 0
    assert "   1 node   " in out
    assert "opset ai.onnx 17, ai.onnx.ml 3   " in out
    shown = json.loads(run("inspect", str(path), "--json")[1])["opset"]
    assert shown == [{"domain": "ai.onnx", "version": 17}, {"domain": "ai.onnx.ml", "version": 3}]


def test_inspect_times_no_more_rows_than_it_was_asked_for(run, model):
    code, out, _ = run("inspect", str(model("linear")), "--batch-rows-max", "4", "--json")
    assert code == 0
    assert max(item["rows"] for item in json.loads(out)["latency"]) == 4


def test_an_error_is_one_line_without_a_traceback(run):
    code, out, errors = run("inspect", "none.onnx")
    assert (code, out) == (3, "")
    assert re.fullmatch(r"Refused: cannot read none\.onnx: no such file\n  flyball inspect MODEL\.onnx\n", errors)


def test_an_error_is_json_where_json_was_asked_for(run):
    code, _, errors = run("inspect", "none.onnx", "--json")
    assert code == 3
    assert json.loads(errors)["code"] == "model_refused"


def test_doctor_tells_what_the_extension_found(run):
    code, out, _ = run("doctor", "--json")
    assert code == 0
    report = json.loads(out)
    assert report["able_to_serve"] is True
    found = {item["name"]: item for item in report["findings"]}
    assert found["native extension"]["found"].startswith(f"{native_machine.build_info().version} ")
    assert re.fullmatch(r"[\d.]+ GB, (no limit|limit of .+)", found["memory"]["found"])
    for right in native_machine.machine().rights:
        assert found[f"right: {right.name}"]["good"] is right.granted
        assert found[f"right: {right.name}"]["fix"] == ("" if right.granted else right.grant)


def test_doctor_names_what_is_missing_and_the_command_that_grants_it(run, monkeypatch):
    # Rights, quota and cores are those of the machine that runs the tests, so a machine that lacks some is told here.
    missing = server_documents.Right(
        name="affinity", granted=False, why="lanes cannot be pinned", grant="taskset -c 0-3 flyball"
    )
    lacking = {"cpus": [0, 1, 2, 5], "cpu_quota": 1.5, "lanes": 2, "rights": [missing]}
    lacking |= {"memory_bytes": 8_000_000_000, "memory_limit_bytes": 2_000_000_000}
    machine = native_machine.machine().model_copy(update=lacking)
    monkeypatch.setattr(native_machine, "machine", lambda: machine)
    code, out, _ = run("doctor")
    assert code == 0
    assert re.search(r"right: affinity +no +lanes cannot be pinned +taskset -c 0-3 flyball", out)
    assert "4 in the affinity mask (0-2,5), quota of 1.5 cores: 2 lanes" in out
    assert re.search(r"memory +yes +8.00 GB, limit of 2.00 GB", out)
    assert "This machine can serve." in out


def test_doctor_prints_only_the_library_where_it_was_asked_for(run):
    assert run("doctor", "--ort-path") == (0, f"{boundary.ort_library()}\n", "")
    assert json.loads(run("doctor", "--ort-path", "--json")[1]) == {"ort_path": str(boundary.ort_library())}


def test_doctor_warns_of_a_debug_build(run, monkeypatch):
    # `make build` makes a release build, so only the one fact is changed that a debug build would tell otherwise.
    debug = native_machine.build_info().model_copy(update={"debug_assertions": True})
    monkeypatch.setattr(native_machine, "build_info", lambda: debug)
    code, out, _ = run("doctor")
    assert code == 0
    assert re.search(r"optimised build +no +debug build: not for measurements +make build", out)


def test_doctor_says_that_a_machine_without_onnxruntime_cannot_serve(run, monkeypatch, tmp_path):
    monkeypatch.setenv("ORT_DYLIB_PATH", str(tmp_path / "none"))
    code, out, _ = run("doctor", "--json")
    report = json.loads(out)
    assert code == 1
    assert report["able_to_serve"] is False
    assert [item["name"] for item in report["findings"] if item["needed"] and not item["good"]] == ["ONNX Runtime"]


@pytest.mark.parametrize(
    "text",
    [
        '{"input": [[1, 2], [3, 4]]}',
        "[[1, 2], [3, 4]]",
        '{"inputs": [{"name": "input", "datatype": "FP32", "shape": [2, 2], "data": [1, 2, 3, 4]}]}',
        "amount,hour\n1,2\n3,4\n",
        "\ufeffamount,hour\r\n1,2\r\n\r\n3,4\r\n",
    ],
)
def test_predict_takes_json_and_csv(run, server, text):
    code, out, errors = run("predict", "m", "--url", server.url, "--json", stdin=text)
    assert (code, errors) == (0, "")
    assert json.loads(out) == {"input": [[1.0, 2.0], [3.0, 4.0]]}


def test_predict_prints_a_table_with_a_line_for_each_row(run, server, tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("a,b\n1,2.5\n3,4\n")
    code, out, _ = run("predict", "m", str(file), "--url", server.url)
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines == [["row", "input[0]", "input[1]"], ["0", "1", "2.5"], ["1", "3", "4"]]


def test_predict_takes_csv_columns_named_after_the_inputs(run, server):
    server.metadata["inputs"] = [
        {"name": "country", "datatype": "BYTES", "shape": [-1, 1]},
        {"name": "amount", "datatype": "FP32", "shape": [-1]},
    ]
    code, out, _ = run("predict", "m", "--url", server.url, "--json", stdin="amount,note,country\n1.5,x,DE\n2,y,FR\n")
    assert code == 0
    assert json.loads(out) == {"country": [["DE"], ["FR"]], "amount": [1.5, 2.0]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the input is empty"),
        ("{", "not JSON"),
        ('{"other": [1]}', "no input 'other'; its inputs are input"),
        ('{"input": [["x"]]}', "cannot convert the values to FP32"),
        ('{"inputs": [{"name": "input"}]}', "needs name, datatype, shape and data"),
        ('{"inputs": [{"name": "input", "datatype": "FP32", "shape": [3], "data": [1]}]}', "input 'input'"),
        ("a,b\n", "no rows"),
        ("a,b\n1\n", "line 2"),
        ("a,b\n1,x\n", "cannot convert the values to FP32"),
        ("1,2\n3,4\n", "the first line of the CSV is all numbers; it must be a header"),
        ("1,2\n", "the first line of the CSV is all numbers"),
        ("5\n", "the input is a single number, 5"),
        ('{"input": [[1, 2], [3]]}', "rows have different lengths"),
        ("[[1, 2], 3]", "rows have different lengths"),
    ],
)
def test_predict_refuses_what_it_cannot_read_with_3(run, server, text, words):
    code, _, errors = run("predict", "m", "--url", server.url, stdin=text)
    assert code == 3
    assert errors.startswith("Refused: ")
    assert words in errors


def test_predict_takes_a_header_of_numbers_where_they_are_the_inputs_names(run, server):
    server.metadata["inputs"] = [{"name": "0", "datatype": "FP32", "shape": [-1]}]
    code, out, _ = run("predict", "m", "--url", server.url, "--json", stdin="0,1\n7,8\n")
    assert code == 0
    assert json.loads(out) == {"0": [7.0]}


def test_predict_prints_numbers_that_json_lacks_as_strings(run, server):
    text = '{"input": [["NaN", "Infinity"], ["-Infinity", 1.5]]}'
    code, out, _ = run("predict", "m", "--url", server.url, "--json", stdin=text)
    assert code == 0
    assert json.loads(out, parse_constant=pytest.fail) == {"input": [["NaN", "Infinity"], ["-Infinity", 1.5]]}


def test_predict_that_ran_out_of_time_names_its_own_option(run, server):
    server.script.append(refusal(504, "too late"))
    code, _, errors = run("predict", "m", "--url", server.url, stdin="[[1, 2]]")
    assert code == 6
    assert "--deadline-ms" in errors


@pytest.mark.parametrize(("status", "code"), [(404, 3), (503, 5), (504, 6), (500, 8)])
def test_predict_exits_by_the_servers_refusal(run, server, status, code):
    server.script.append(refusal(status, "the text"))
    got, _, errors = run("predict", "m", "--url", server.url, stdin="[[1, 2]]")
    assert got == code
    assert "the text" in errors


def test_predict_without_a_server_exits_with_5_and_the_next_command(run, monkeypatch):
    monkeypatch.setattr(starting_server, "WAIT_S", 0)
    code, _, errors = run("predict", "m", "--url", "http://127.0.0.1:1", stdin="[[1]]")
    assert code == 5
    assert "flyball serve MODEL.onnx" in errors


def test_snapshot_writes_what_serve_and_flyballd_read(run, model, tmp_path):
    path = model("linear")
    code, out, errors = run("snapshot", str(path), f"card={path}", "--out", str(tmp_path / "s"), "--generation", "7")
    assert (code, errors) == (0, "")
    bundle = read(tmp_path / "s/index.json")
    assert bundle.faults() == []
    assert bundle.parsed_index().generation == 7
    assert [deployment.name for deployment in bundle.deployments()] == ["linear", "card"]
    for entry in bundle.parsed_index().deployments:
        assert f"{entry.name}   {entry.digest}\n" in out
    assert out.endswith(f"Next:  flyballd --unsigned allow --snapshot {tmp_path / 's/index.json'}\n")


FLAGS = {
    "--deadline-ms": 50,
    "--batch-rows-max": 8,
    "--batch-size": 4,
    "--batch-window-ms": 2,
    "--queue-wait-ms-max": 20,
}


def test_snapshot_gives_its_flags_to_every_model(run, model, tmp_path):
    path, flags = str(model("linear")), [str(word) for pair in FLAGS.items() for word in pair]
    code, _, errors = run("snapshot", path, f"card={path}", "--out", str(tmp_path), *flags)
    assert (code, errors) == (0, "")
    for deployment in read(tmp_path / "index.json").deployments():
        assert deployment.limits == Limits(batch_rows_max=8, queue_wait_ms_max=20)
        assert deployment.slo == Slo(deadline_ms=50)
        assert deployment.batch == BatchWait(size=4, window_ms=2)


@pytest.mark.parametrize("verb", [("serve",), ("snapshot", "--out", "s")], ids=lambda verb: verb[0])
def test_flags_for_models_are_refused_together_by_their_own_names(run, verb):
    code, out, errors = run(*verb, "m.onnx", *(f"{flag}=-1" for flag in FLAGS))
    assert (code, out) == (2, "")
    assert "limits" not in errors
    assert "null" not in errors
    for flag in FLAGS:
        assert f"  {flag}: -1 is not valid; allowed: a whole number, " in errors
    assert errors.endswith(f"  see the usage:  flyball {verb[0]} --help\n")


@pytest.mark.parametrize("verb", [("serve",), ("snapshot", "--out", "s")], ids=lambda verb: verb[0])
def test_a_batch_larger_than_a_run_names_the_flag_that_allows_it(run, verb):
    code, _, errors = run(*verb, "m.onnx", "--batch-size", "65", "--batch-window-ms", "1")
    assert code == 2
    assert "--batch-size: 65 is not valid; allowed: at most --batch-rows-max, which is 64" in errors


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [(("--batch-size", "4"), "add  --batch-window-ms 1"), (("--batch-window-ms", "1"), "add  --batch-size 4")],
)
def test_a_batch_needs_both_of_its_flags(run, flags, wanted):
    code, _, errors = run("serve", "m.onnx", *flags)
    assert code == 2
    assert errors.endswith(f"  {wanted}\n")


def test_serve_takes_no_flags_for_models_beside_a_snapshot(run):
    code, _, errors = run("serve", "--snapshot", "index.json", "--deadline-ms", "5")
    assert code == 2
    assert "its deployments define deadline, batch and queue" in errors


def test_snapshot_prints_index_and_digests_as_json(run, model, tmp_path):
    code, out, _ = run("snapshot", str(model("linear")), "--out", str(tmp_path), "--json")
    assert code == 0
    entries = [entry.model_dump() for entry in read(tmp_path / "index.json").parsed_index().deployments]
    assert json.loads(out) == {"index": str(tmp_path / "index.json"), "deployments": entries}


@pytest.mark.parametrize("out", ["/proc/nowhere/s", "file/s", "file"])
def test_snapshot_to_a_place_that_cannot_be_written_is_refused_in_one_line(run, model, monkeypatch, tmp_path, out):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    code, shown, errors = run("snapshot", str(model("linear")), "--out", out)
    assert (code, shown) == (3, "")
    assert re.match(rf"Refused: cannot write the snapshot to {out}: .+\n  name a folder", errors)


@pytest.mark.parametrize("name", ["truncated", "external_outside"])
def test_snapshot_writes_nothing_for_a_model_that_is_refused(run, model, tmp_path, name):
    code, out, errors = run("snapshot", str(model("linear")), str(model(name)), "--out", str(tmp_path / "s"))
    assert (code, out) == (3, "")
    assert errors.startswith("Refused: ")
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    "arguments",
    [("m.onnx",), ("--out", "s"), ("m.onnx", "--out", "s", "--generation", "0"), ("a/m.onnx", "b/m.onnx", "--out", "s")],
    ids=["no folder", "no model", "generation 0", "one name twice"],
)
def test_wrong_usage_of_snapshot_exits_with_2(run, arguments):
    assert run("snapshot", *arguments)[0] == 2


def test_serve_takes_models_or_a_snapshot_and_not_both(run):
    code, _, errors = run("serve", "m.onnx", "--snapshot", "index.json")
    assert code == 2
    assert "give one source to serve" in errors


def test_serve_tells_flags_out_of_range_together(run, model):
    code, _, errors = run("serve", str(model("linear")), "--lanes", "0", "--listen", "nowhere")
    assert code == 2
    assert "--lanes: 0 is not valid; allowed: a whole number, 1 to 256" in errors
    assert "--listen: 'nowhere' is not valid" in errors
    assert "null" not in errors


def test_serve_refuses_a_name_without_a_file(run):
    code, _, errors = run("serve", "x=")
    assert code == 2
    assert "'x=' has no path after the '='" in errors


@pytest.mark.parametrize("verb", [("serve",), ("inspect",), ("snapshot", "--out", "s")], ids=lambda verb: verb[0])
def test_a_refusal_names_the_file(run, model, monkeypatch, tmp_path, verb):
    monkeypatch.chdir(tmp_path)
    Path("text.onnx").write_text("hello")
    good = [] if verb == ("inspect",) else [str(model("linear"))]
    code, out, errors = run(*verb, *good, "text.onnx")
    assert (code, out) == (3, "")
    assert errors.startswith("Refused: text.onnx: not an ONNX model")


@pytest.mark.parametrize(
    ("arguments", "words", "step"),
    [
        (("frob",), "no such command 'frob'", "see the usage:  flyball --help"),
        (("serve", "--frob"), "no such option: --frob", "see the usage:  flyball serve --help"),
        (
            ("predict",),
            "missing argument MODEL: the model's name on the server",
            "for example:  flyball predict fraud rows.csv",
        ),
        (
            ("inspect", "m.onnx", "--batch-rows-max", "x"),
            "--batch-rows-max: 'x' is not a whole number from 1 to 1024",
            "see the usage:  flyball inspect --help",
        ),
    ],
)
def test_wrong_usage_is_told_like_every_other_error(run, arguments, words, step):
    code, out, errors = run(*arguments)
    assert (code, out) == (2, "")
    first, second = errors.splitlines()
    assert first.startswith(f"Error: {words}")
    assert second == f"  {step}"
    code, out, errors = run(*arguments, "--json")
    assert (code, out) == (2, "")
    assert json.loads(errors)["code"] == "usage"


def test_flyball_alone_shows_its_help_and_nothing_else(run):
    code, out, errors = run()
    assert code == 2
    assert "inspect" in out + errors
    assert "Error" not in out + errors


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_what_the_system_refuses_is_one_line(run, monkeypatch, more):
    def fail():
        raise PermissionError(13, "Permission denied", "/some/where")

    monkeypatch.setattr(native_machine, "build_info", fail)
    code, out, errors = run("doctor", *more)
    assert (code, out) == (3, "")
    assert errors.count("\n") <= 2
    assert "/some/where: permission denied" in errors


def test_demo_without_its_extra_is_one_line_with_the_pip_command(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    code, _, errors = run("demo")
    assert code == 2
    assert "pip install 'flyball[demo]'" in errors


def test_version_is_one_line_and_that_of_the_extension(run):
    assert run("--version") == (0, f"flyball {native_machine.build_info().version}\n", "")


def test_the_public_names_are_all_there():
    for name in flyball.__all__:
        assert getattr(flyball, name) is not None
    assert dir(flyball) == sorted(flyball.__all__)
    with pytest.raises(AttributeError):
        flyball.nothing  # noqa: B018 - the access is the test


def test_the_reference_page_has_the_one_table_of_exit_codes():
    row = re.compile(r"^\| (\d+) \| ", re.MULTILINE)
    page = (ROOT / "docs/reference/cli.md").read_text()
    assert [int(code) for code in row.findall(page)] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 130]
    assert not row.findall((ROOT / "docs/reference/errors.md").read_text())


def _has(text, option):
    """Whether the text names the option, and not only a longer one that begins with it."""
    return re.search(rf"`{option}(?![\w-])", text) is not None


def test_the_reference_page_names_every_verb_and_option():
    page = (ROOT / "docs/reference/cli.md").read_text()
    group = typer.main.get_command(cli.application())
    for name, command in group.commands.items():
        part = page.partition(f"## flyball {name}\n")[2].partition("\n## ")[0]
        assert part, f"docs/reference/cli.md lacks flyball {name}"
        for parameter in command.params:
            for option in getattr(parameter, "opts", []):
                if option.startswith("--") and option != "--help":
                    assert _has(part, option), f"docs/reference/cli.md lacks {option} of flyball {name}"


def test_the_reference_page_names_every_verb_and_option_of_the_decision_log():
    page = (ROOT / "docs/reference/cli.md").read_text()
    part = page.partition("## flyball decisions\n")[2].partition("\n## ")[0]
    group = typer.main.get_command(cli.application()).commands["decisions"]
    for name, command in group.commands.items():
        assert f"`flyball decisions {name}" in part, f"docs/reference/cli.md lacks flyball decisions {name}"
        shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
        options = {option for parameter in shown for option in getattr(parameter, "opts", [])}
        for option in sorted(option for option in options if option.startswith("--") and option != "--help"):
            assert _has(part, option), f"docs/reference/cli.md lacks {option} of flyball decisions {name}"


def test_the_reference_page_names_every_verb_and_option_of_the_registry():
    page = (ROOT / "docs/reference/cli.md").read_text()
    part = page.partition("## flyball registry\n")[2].partition("\n## ")[0]
    group = typer.main.get_command(cli.application()).commands["registry"]
    verbs = {**group.commands, **{f"key {name}": one for name, one in group.commands["key"].commands.items()}}
    for name, command in verbs.items():
        if name == "key":
            continue
        row = next((line for line in part.splitlines() if line.startswith(f"| `flyball registry {name}")), None)
        assert row, f"docs/reference/cli.md lacks flyball registry {name}"
        options = {option for parameter in command.params for option in getattr(parameter, "opts", [])}
        for option in sorted(option for option in options if option.startswith("--")):
            if option not in ("--help", "--registry", "--json"):
                assert _has(row, option), f"docs/reference/cli.md lacks {option} of flyball registry {name}"
