"""The other verbs in this process: what they print for people and for machines, and how they fail."""

import json
import re
import sys
from pathlib import Path

import fake_native
import pytest
import typer
from v2_server import V2Server, refusal

import flyball
from flyball.cli import app as cli

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def native(monkeypatch):
    monkeypatch.setitem(sys.modules, "flyball._native", None)
    return fake_native.install()


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


def test_inspect_shows_signature_batching_and_latencies(run, tmp_path):
    model = tmp_path / "m.onnx"
    model.write_bytes(b"x")
    code, out, _ = run("inspect", str(model))
    assert code == 0
    for words in (
        "ai.onnx 17",
        "[any, 12]",
        "batching off",
        "rows influence each other",
        "9.10 µs",
        "2.10 ms",
        "flyball serve",
    ):
        assert words in out


def test_inspect_prints_the_same_facts_as_json(run, tmp_path):
    model = tmp_path / "m.onnx"
    model.write_bytes(b"x")
    code, out, _ = run("inspect", str(model), "--json")
    assert code == 0
    assert json.loads(out)["batching"] == {"on": False, "reason": "rows influence each other"}


def test_an_error_is_one_line_without_a_traceback(run):
    code, out, errors = run("inspect", "none.onnx")
    assert (code, out) == (3, "")
    assert errors == "Refused: cannot read none.onnx: No such file or directory\n"


def test_an_error_is_json_where_json_was_asked_for(run):
    code, _, errors = run("inspect", "none.onnx", "--json")
    assert code == 3
    assert json.loads(errors)["code"] == "model_refused"


def test_doctor_names_what_is_missing_and_the_command_that_grants_it(run):
    code, out, _ = run("doctor")
    assert code == 0
    assert re.search(r"right: memlock +no +RLIMIT_MEMLOCK is 8 MB +ulimit -l unlimited", out)
    assert "4 in the affinity mask (0-2,5), quota of 1.5 cores: 2 lanes" in out
    assert "This machine can serve." in out


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


def test_demo_without_its_extra_is_one_line_with_the_pip_command(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    code, _, errors = run("demo")
    assert code == 2
    assert "pip install 'flyball[demo]'" in errors


def test_version_is_one_line(run, monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda name: "1.2.3")
    assert run("--version") == (0, "flyball 1.2.3\n", "")


def test_the_public_names_are_all_there(monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda name: "1.2.3")
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
