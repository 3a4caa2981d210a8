"""The verbs in this process: what they print for people and for machines, and how they fail.

`flyball serve` is here only as far as it ends before a server starts; the rest of it is in tests/e2e.
"""

import json
import re
import sys
from pathlib import Path

import pytest
import typer
from v2_server import V2Server, refusal

import flyball
from flyball import engine
from flyball.cli import app as cli
from flyball.snapshot import read

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*arguments, stdin=""):
        import io

        monkeypatch.setattr(sys, "argv", ["flyball", *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as caught:
            cli.main()
        out, errors = capsys.readouterr()
        return caught.value.code or 0, out, errors

    return call


@pytest.fixture
def server():
    with V2Server() as running:
        running.metadata["inputs"] = [{"name": "input", "datatype": "FP32", "shape": [-1, 2]}]
        yield running


def test_inspect_shows_opsets_free_dimensions_and_latencies(run, model):
    path = model("linear")
    code, out, _ = run("inspect", str(path))
    assert code == 0
    for words in ("ai.onnx 17", "ai.onnx.ml 3", "made by flyball-tests", "[any, 4]", "[any, 2]", "batching on"):
        assert words in out
    assert re.search(r"^ +64( +[\d.]+ (?:µs|ms)){3}$", out, re.MULTILINE), out
    assert out.endswith(f"Next:  flyball serve {path}\n")


def test_inspect_gives_the_reason_why_requests_cannot_share_a_run(run, model):
    code, out, _ = run("inspect", str(model("int8")))
    assert code == 0
    reason = engine.inspect(model("int8")).batching.reason
    assert reason
    assert f"batching off: {reason}" in out


def test_inspect_times_no_more_rows_than_it_was_asked_for(run, model):
    code, out, _ = run("inspect", str(model("linear")), "--rows-max", "4", "--json")
    assert code == 0
    assert max(item["rows"] for item in json.loads(out)["latency"]) == 4


def test_an_error_is_one_line_without_a_traceback(run):
    code, out, errors = run("inspect", "none.onnx")
    assert (code, out) == (3, "")
    assert re.fullmatch(r"Refused: cannot read none\.onnx: No such file or directory.*\n", errors)


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
    assert found["native extension"]["found"].startswith(f"{engine.build_info().version} ")
    for right in engine.machine().rights:
        assert found[f"right: {right.name}"]["good"] is right.granted
        assert found[f"right: {right.name}"]["mend"] == ("" if right.granted else right.grant)


def test_doctor_names_what_is_missing_and_the_command_that_grants_it(run, monkeypatch):
    # Rights, quota and cores are those of the machine that runs the tests, so a machine that lacks some is told here.
    missing = engine.Right(name="memlock", granted=False, why="RLIMIT_MEMLOCK is 8 MB", grant="ulimit -l unlimited")
    lacking = {"cpus": [0, 1, 2, 5], "cpu_quota": 1.5, "lanes": 2, "rights": [missing]}
    machine = engine.machine().model_copy(update=lacking)
    monkeypatch.setattr(engine, "machine", lambda: machine)
    code, out, _ = run("doctor")
    assert code == 0
    assert re.search(r"right: memlock +no +RLIMIT_MEMLOCK is 8 MB +ulimit -l unlimited", out)
    assert "4 in the affinity mask (0-2,5), quota of 1.5 cores: 2 lanes" in out
    assert "This machine can serve." in out


def test_doctor_warns_of_a_debug_build(run, monkeypatch):
    # `make build` makes a release build, so only the one fact is changed that a debug build would tell otherwise.
    debug = engine.build_info().model_copy(update={"debug_assertions": True})
    monkeypatch.setattr(engine, "build_info", lambda: debug)
    code, out, _ = run("doctor")
    assert code == 0
    assert re.search(r"optimised build +no +a debug build: do not measure with it +make build", out)


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
        ('{"input": [["x"]]}', "cannot be turned into FP32"),
        ('{"inputs": [{"name": "input"}]}', "needs name, datatype, shape and data"),
        ('{"inputs": [{"name": "input", "datatype": "FP32", "shape": [3], "data": [1]}]}', "input 'input'"),
        ("a,b\n", "no rows"),
        ("a,b\n1\n", "line 2"),
        ("a,b\n1,x\n", "cannot be turned into FP32"),
    ],
)
def test_predict_refuses_what_it_cannot_read_with_3(run, server, text, words):
    code, _, errors = run("predict", "m", "--url", server.url, stdin=text)
    assert code == 3
    assert errors.startswith("Refused: ")
    assert words in errors


@pytest.mark.parametrize(("status", "code"), [(404, 3), (503, 5), (504, 6), (500, 8)])
def test_predict_exits_by_the_servers_refusal(run, server, status, code):
    server.script.append(refusal(status, "the text"))
    got, _, errors = run("predict", "m", "--url", server.url, stdin="[[1, 2]]")
    assert got == code
    assert "the text" in errors


def test_predict_without_a_server_exits_with_5_and_the_next_command(run):
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
    assert out.endswith(f"Next:  flyballd --snapshot {tmp_path / 's/index.json'}\n")


def test_snapshot_prints_index_and_digests_as_json(run, model, tmp_path):
    code, out, _ = run("snapshot", str(model("linear")), "--out", str(tmp_path), "--json")
    assert code == 0
    entries = [entry.model_dump() for entry in read(tmp_path / "index.json").parsed_index().deployments]
    assert json.loads(out) == {"index": str(tmp_path / "index.json"), "deployments": entries}


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
    assert "either models or a snapshot" in errors


def test_serve_tells_flags_out_of_range_together(run, model):
    code, _, errors = run("serve", str(model("linear")), "--lanes", "0", "--listen", "nowhere")
    assert code == 3
    assert "lanes: is 0" in errors
    assert "listen[0]: is 'nowhere'" in errors


def test_demo_without_its_extra_is_one_line_with_the_pip_command(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    code, _, errors = run("demo")
    assert code == 2
    assert "pip install 'flyball[demo]'" in errors


def test_version_is_one_line_and_that_of_the_extension(run):
    assert run("--version") == (0, f"flyball {engine.build_info().version}\n", "")


def test_the_public_names_are_all_there():
    for name in flyball.__all__:
        assert getattr(flyball, name) is not None
    assert dir(flyball) == sorted(flyball.__all__)
    with pytest.raises(AttributeError):
        flyball.nothing  # noqa: B018 - the access is the test


def test_the_reference_page_names_every_verb_and_option():
    page = (ROOT / "docs/reference/cli.md").read_text()
    group = typer.main.get_command(cli.app)
    for name, command in group.commands.items():
        part = page.partition(f"## flyball {name}\n")[2].partition("\n## ")[0]
        assert part, f"docs/reference/cli.md lacks flyball {name}"
        for parameter in command.params:
            for option in getattr(parameter, "opts", []):
                if option.startswith("--") and option != "--help":
                    assert f"`{option}" in part, f"docs/reference/cli.md lacks {option} of flyball {name}"
