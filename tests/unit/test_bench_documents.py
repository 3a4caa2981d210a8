"""Scenarios and contracts: read from files that people write, and told whole where something is wrong."""

import json
import re
from pathlib import Path

import pytest

from flyball.bench.allowed_values import in_words, keys, schema_at
from flyball.bench.documents import read_contract, read_scenario, scenario_names
from flyball.bench.scenario import Contract, Scenario
from flyball.errors import ConfigRefusedError

ROOT = Path(__file__).parents[2]
GOOD = {"scenario": "s", "model": {"make": "fraud-gbdt"}, "slo": {"p99_ms": 5}, "steady": {"rate_per_s": 10}}
CONTRACT = {"contract": "c", "model": "fraud", "rate_per_s": 100, "p99_ms": 5}


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes a text or a document into the working folder and gives its name there."""
    monkeypatch.chdir(tmp_path)

    def write(document, name="slow.yaml"):
        (tmp_path / name).write_text(document if isinstance(document, str) else json.dumps(document))
        return name

    return write


def refused(path, read=read_scenario):
    with pytest.raises(ConfigRefusedError) as caught:
        read(path)
    return caught.value


def told(path, read=read_scenario):
    return [str(fault) for fault in refused(path, read).faults]


@pytest.mark.parametrize("name", ["fraud-gbdt", "fraud-mlp-12mb", "vision-cnn-int8"])
def test_a_built_in_scenario_is_read_by_its_name_and_says_what_it_stands_for(name):
    scenario = read_scenario(name)
    assert scenario.scenario == name == scenario.model.make
    text = (ROOT / f"python/flyball/bench/scenarios/{name}.yaml").read_text()
    assert text.startswith("# ")
    assert scenario.about


def test_the_published_scenarios_are_all_there_is():
    assert scenario_names() == ["fraud-gbdt", "fraud-mlp-12mb", "vision-cnn-int8"]


def test_an_unknown_name_lists_the_known_ones_and_guesses():
    error = refused("fraud-gdbt")
    assert "built in: fraud-gbdt, fraud-mlp-12mb, vision-cnn-int8" in error.message
    assert error.next_step == "did you mean fraud-gbdt?"
    assert refused("zzz").next_step == "for a file, include its suffix:  zzz.yaml"
    assert error.code == "scenario_refused"


@pytest.mark.parametrize("name", ["s.yaml", "s.yml", "s.json", "./s"])
def test_what_has_a_suffix_or_a_folder_is_a_file(written, name):
    written(GOOD, name)
    assert read_scenario(name).scenario == "s"


def test_a_file_that_is_not_there_is_told_by_its_name(written):
    assert "cannot read no.yaml: No such file" in refused("no.yaml").message


def test_json_with_tabs_is_json(written):
    assert read_scenario(written(json.dumps(GOOD, indent="\t"), "s.json")).steady.rate_per_s == 10


def test_all_faults_are_told_at_once_with_file_and_line(written):
    written(
        """\
scenario: slow
model:
  mak: fraud-gbdt
slo: {p99_ms: 5, p99_ms: 6}
arrivals: [1]

steady:
  rate_per_s: -3
  repeats: many
concurrency: {connections: [1, 0]}
"""
    )
    error = refused("slow.yaml")
    assert str(error).splitlines() == [
        "slow.yaml has 6 faults",
        "  slow.yaml:3  model.mak   is an unknown key; did you mean make?",
        "  slow.yaml:4  slo.p99_ms   is duplicated; first in line 4",
        "  slow.yaml:5  arrivals   is [1]; allowed: an object of kind, seed, burst, trace_file",
        "  slow.yaml:8  steady.rate_per_s   is -3; allowed: a number above 0, to 1000000",
        '  slow.yaml:9  steady.repeats   is "many"; allowed: a whole number, 1 to 100',
        "  slow.yaml:10  concurrency.connections[1]   is 0; allowed: a whole number, 1 to 10000",
        "  see docs/reference/scenario.md for every key",
    ]
    assert error.faults[3].document() == {
        "path": "steady.rate_per_s",
        "is": -3,
        "allowed": "a number above 0, to 1000000",
        "at": "slow.yaml:8",
        "text": "is -3; allowed: a number above 0, to 1000000",
    }


def test_a_missing_key_is_told_at_the_line_of_what_lacks_it(written):
    assert told(written("scenario: s\nmodel: {make: fraud-gbdt}\nslo: {p99_ms: 5}\nsteady:\n  repeats: 3\n")) == [
        "slow.yaml:4  steady.rate_per_s   is missing; allowed: a number above 0, to 1000000"
    ]


def test_a_rule_that_joins_keys_is_told_in_its_own_words(written):
    written("scenario: s\nmodel: {name: m}\nslo: {p99_ms: 5}\nsteady: {rate_per_s: 5}\n")
    assert told("slow.yaml") == ["slow.yaml:2  model   give one of make and path"]


@pytest.mark.parametrize(
    ("changes", "told_at"),
    [
        (
            {"arrivals": {"kind": "burst", "burst": {"burst_s": 2, "every_s": 2}}},
            "arrivals.burst.burst_s   burst_s (2) must be below every_s (2), or bursts never end; "
            "arrivals.burst.every_s is in line {every_s}",
        ),
        (
            {"arrivals": {"kind": "burst", "burst": {"burst_s": 3}}},
            "arrivals.burst.burst_s   burst_s (3) must be below every_s (2), or bursts never end",
        ),
        (
            {"arrivals": {"kind": "burst", "burst": {"times": 11}}, "steady": {"rate_per_s": 1_000_000}},
            "arrivals.burst.times   steady.rate_per_s × arrivals.burst.times is 11,000,000/s; allowed: to 10,000,000/s; "
            "steady.rate_per_s is in line {rate_per_s}",
        ),
        (
            {"arrivals": {"kind": "burst", "burst": {"times": 9}}, "curve": {"peak_per_s": 800_000}},
            "arrivals.burst.times   curve.peak_per_s × arrivals.burst.times is 10,800,000/s; allowed: to 10,000,000/s; "
            "curve.peak_per_s is in line {peak_per_s}",
        ),
        (
            {"arrivals": {"kind": "burst", "burst": {"times": 50}}, "soak": {"rate_per_s": 500_000}},
            "arrivals.burst.times   soak.rate_per_s × arrivals.burst.times is 25,000,000/s; allowed: to 10,000,000/s; "
            "soak.rate_per_s is in line {rate_per_s}",
        ),
        (
            {"slo": {"p99_ms": 1000}},
            "slo.p99_ms   timeout_ms (1000) must be above slo.p99_ms (1000), "
            "or unanswered requests would count as within the SLO",
        ),
        (
            {"timeout_ms": 5},
            "timeout_ms   timeout_ms (5) must be above slo.p99_ms (5), "
            "or unanswered requests would count as within the SLO; slo.p99_ms is in line {p99_ms}",
        ),
        ({"streams": 2}, "streams   streams above 1 need protocol: grpc"),
        (
            {"streams": 2, "protocol": "http"},
            "streams   streams above 1 need protocol: grpc; protocol is in line {protocol}",
        ),
        ({"curve": {}}, "curve   curve needs a search before it, or peak_per_s"),
        (
            {"arrivals": {"kind": "ramp"}, "search": {}},
            "arrivals.kind   arrivals of kind ramp have no single rate: search and curve need another kind; "
            "search is in line {search}",
        ),
    ],
)
def test_a_rule_that_joins_keys_names_them_with_their_lines(written, changes, told_at):
    text = json.dumps({**GOOD, **changes}, indent=1)
    # Of a key that stands more than once the last line counts: what a case changes comes after what is there.
    lines = {found[1]: number for number, line in enumerate(text.splitlines(), 1) if (found := re.match(r' *"(\w+)"', line))}
    key = told_at.partition("   ")[0].rpartition(".")[2]
    assert told(written(text, "s.json")) == [f"s.json:{lines[key]}  {told_at.format(**lines)}"]


@pytest.mark.parametrize(
    "changes",
    [
        {"arrivals": {"kind": "burst", "burst": {"times": 10, "burst_s": 1.9}}, "steady": {"rate_per_s": 1_000_000}},
        {"timeout_ms": 6},
        {"deadline_ms": 1},
        {"streams": 2, "protocol": "grpc"},
        {"curve": {"peak_per_s": 1_000_000, "shares": [10]}},
    ],
)
def test_what_just_keeps_a_rule_is_read(written, changes):
    assert read_scenario(written({**GOOD, **changes})).scenario == "s"


def test_a_contract_takes_several_streams_with_grpc_only(written):
    assert read_contract(written({**CONTRACT, "streams": 8, "protocol": "grpc"}, "slo.yaml")).streams == 8
    assert told(written("contract: c\nmodel: m\nrate_per_s: 9\np99_ms: 5\nstreams: 8\n", "slo.yaml"), read_contract) == [
        "slo.yaml:5  streams   streams above 1 need protocol: grpc"
    ]


def test_rules_that_join_keys_wait_until_each_key_is_right(written):
    faults = told(
        written("scenario: s\nmodel: {make: fraud-gbdt}\nslo: {p99_ms: 0}\ntimeout_ms: 1\nsoak: {rate_per_s: 5}\n")
    )
    assert faults == ["slow.yaml:3  slo.p99_ms   is 0; allowed: a number above 0, to 60000"]


@pytest.mark.parametrize(
    ("key", "rule"),
    [
        ("arrivals.burst.burst_s", "below `every_s`"),
        ("arrivals.burst.times", "10,000,000/s at most"),
        ("timeout_ms", "Above `slo.p99_ms`"),
        ("streams", "above 1 with `protocol: grpc` only"),
    ],
)
def test_the_reference_page_has_the_rules_that_join_keys(key, rule):
    page = (ROOT / "docs/reference/scenario.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith(f"| `{key}` |")]
    assert rows
    assert all(rule in row for row in rows)


def places(schema, root, prefix=()):
    for key in keys(schema):
        place = (*prefix, key)
        inner = schema_at(root, place)
        yield place, inner
        yield from places(inner, root, place)


def at_place(document, place, value):
    """A copy of a document with a value at a place; objects on the way are made."""
    head, *rest = place
    return {**document, head: at_place(document.get(head) or {}, rest, value) if rest else value}


@pytest.mark.parametrize(
    ("kind", "good", "read"), [(Scenario, GOOD, read_scenario), (Contract, CONTRACT, read_contract)], ids=["s", "c"]
)
def test_no_key_of_any_document_takes_a_value_of_another_type_or_answers_in_foreign_words(written, kind, good, read):
    root = kind.model_json_schema()
    seen = 0
    for place, schema in places(root, root):
        wrong = 5 if schema["type"] in ("string", "object", "array") else "5"
        faults = {fault.path: fault for fault in refused(written(at_place(good, place, wrong)), read).faults}
        fault = faults[".".join(place)]
        assert fault.text == f"is {json.dumps(wrong)}; allowed: {in_words(schema)}"
        seen += 1
    assert seen >= 17


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("scenario: s\nabout: &a [x]\nmodel: *a\n", 3, "aliases are not supported"),
        ("scenario: s\n---\nscenario: t\n", 2, "another document begins here"),
        ("scenario: s\nmodel: a: b\n", 2, "is not YAML: mapping values are not allowed here"),
        ("scenario: s\nabout: '\n", 3, "is not YAML"),
        ("scenario: s\nabout: \x01\n", 2, "U+0001"),
        ("a: " + "[" * 3000, 1, "is nested too deeply"),
    ],
    ids=["alias", "two", "syntax", "open quote", "control character", "deep"],
)
def test_what_is_no_document_is_refused_with_its_line(written, text, line, words):
    (fault,) = told(written(text))
    assert fault.startswith(f"slow.yaml:{line}  ")
    assert words in fault


@pytest.mark.parametrize("value", ["!!python/name:os.system ''", "!!binary aGk=", "!mine 5", "!!set {a, b}"])
def test_tags_are_refused_and_nothing_is_made_of_them(written, value):
    faults = told(written(f"scenario: s\nabout: {value}\n"))
    assert any(fault.startswith("slow.yaml:2  about   has the tag") for fault in faults)


def test_lists_are_no_keys(written):
    assert "slow.yaml:2  a key is a word, not a list or an object" in told(written("scenario: s\n[1]: 2\n"))


@pytest.mark.parametrize("text", ["", "# nothing\n", "[1]\n", "5\n"])
def test_a_document_of_another_form_is_told_what_its_keys_are(written, text):
    (fault,) = told(written(text))
    assert "allowed: an object of scenario, about, model" in fault


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e1", 10.0), ("+5", 5.0), (".5", 0.5), ("1.", 1.0)],
)
def test_numbers_are_those_of_yaml_1_2(written, text, value):
    document = f"scenario: s\nmodel: {{make: fraud-gbdt}}\nslo: {{p99_ms: 5}}\nsteady:\n  rate_per_s: {text}\n"
    assert read_scenario(written(document)).steady.rate_per_s == value


@pytest.mark.parametrize("text", ["on", "1:30", "0x10", "1_000", "true", "null", ".nan", ".inf", "1e400", "9" * 5000])
def test_what_is_no_number_in_yaml_1_2_is_none_here(written, text):
    document = f"scenario: s\nmodel: {{make: fraud-gbdt}}\nslo: {{p99_ms: 5}}\nsteady:\n  rate_per_s: {text}\n"
    (fault,) = told(written(document))
    assert fault.startswith("slow.yaml:5  steady.rate_per_s   is ")


def test_a_file_larger_than_a_mebibyte_is_refused(written):
    assert "limit of 1 MiB" in refused(written("#" * 2**20 + "\n")).message


def test_a_file_that_is_not_text_is_refused(tmp_path):
    (tmp_path / "s.yaml").write_bytes(b"scenario: \xff\n")
    assert "not text in UTF-8" in refused(str(tmp_path / "s.yaml")).message


def test_paths_in_a_document_are_relative_to_it(tmp_path):
    (tmp_path / "model.onnx").touch()
    (tmp_path / "rows.csv").touch()
    (tmp_path / "times.txt").touch()
    document = {
        **GOOD,
        "model": {"path": "model.onnx"},
        "payloads": {"source": "file", "file": "rows.csv"},
        "arrivals": {"kind": "trace", "trace_file": "times.txt"},
    }
    (tmp_path / "s.yaml").write_text(json.dumps(document))
    scenario = read_scenario(str(tmp_path / "s.yaml"))
    assert scenario.model.path == str(tmp_path / "model.onnx")
    assert scenario.payloads.file == str(tmp_path / "rows.csv")
    assert scenario.arrivals.trace_file == str(tmp_path / "times.txt")


def test_a_path_that_leads_nowhere_is_a_fault_beside_the_others(written):
    assert told(written("scenario: s\nmodel: {path: no.onnx}\nslo: {p99_ms: 0}\nsteady: {rate_per_s: 5}\n")) == [
        'slow.yaml:2  model.path   is "no.onnx"; file no.onnx does not exist',
        "slow.yaml:3  slo.p99_ms   is 0; allowed: a number above 0, to 60000",
    ]


def test_a_contract_is_read_and_refused_under_its_own_code(written):
    contract = read_contract(written(CONTRACT, "slo.yaml"))
    assert (contract.model, contract.p99_ms, contract.arrivals) == ("fraud", 5, "poisson")
    error = refused(written({**CONTRACT, "p99": 5}, "slo.yaml"), read_contract)
    assert error.code == "contract_refused"
    assert [fault.text for fault in error.faults] == ["is an unknown key; did you mean p99_ms?"]


def expected_rows(root, here, prefix=(), defaults=None):
    """Key, default and limit of each line that the page must have."""
    for key in keys(here):
        place = (*prefix, key)
        schema = schema_at(root, place)
        if key in here.get("required", ()):
            default, inner = "required", None
        else:
            value = (defaults or {}).get(key, here["properties"][key]["default"])
            inner = value if isinstance(value, dict) else None
            default = "by key" if inner is not None else f"`{json.dumps(value)}`"
        yield ".".join(place), default, in_words(schema)
        yield from expected_rows(root, schema, place, inner)


@pytest.mark.parametrize(("heading", "kind"), [("Scenario", Scenario), ("Contract", Contract)])
def test_the_reference_page_has_every_key_with_its_default_and_limit(heading, kind):
    page = (ROOT / "docs/reference/scenario.md").read_text()
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w.]+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)
    root = kind.model_json_schema()
    assert [(key, default, allowed) for key, _, default, allowed, _ in rows] == list(expected_rows(root, root))
    for key, unit, _, _, meaning in rows:
        suffix = re.search(r"_(per_s|ms|s)$", key)
        assert suffix is None or unit == {"per_s": "requests/s", "ms": "ms", "s": "s"}[suffix[1]], key
        assert meaning.endswith("."), key


def test_the_contract_that_the_page_shows_is_one(written):
    shown = re.search(r"```yaml\n(.*?)```", (ROOT / "docs/reference/scenario.md").read_text(), re.DOTALL)
    assert read_contract(written(shown[1], "slo.yaml")).rate_per_s == 2000
