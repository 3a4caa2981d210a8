"""`flyball bench` as a person meets it: one command to a report, and every way in which it can end early."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from flyball.bench.record import BenchRecord
from tests.support import serving
from tests.support.serving import Server, until

Model = Callable[[str], Path]

SCENARIO = """
scenario: small
model: {{path: {model}, name: linear}}
payloads: {{count: 50}}
connections: 4
slo: {{p99_ms: 500}}
steady: {{rate_per_s: 200, repeats: 2, window_s: {window_s}}}
concurrency: {{connections: [1, 2], window_s: 0.2}}
"""


@pytest.fixture
def scenario(model: Model, tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO.format(model=model("linear"), window_s=0.3))
    return path


def bench(*words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [*serving.flyball(), "bench", *(str(word) for word in words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, check=False)


def record_of(folder: Path) -> BenchRecord:
    (path,) = (folder / "bench/results").glob("*.json")
    return BenchRecord.read(path)


@pytest.mark.timeout(240)
def test_one_command_ends_with_table_page_plots_and_a_record_that_gives_the_same_report_again(
    scenario: Path, tmp_path: Path
) -> None:
    done = bench("--scenario", scenario, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    record = record_of(tmp_path)
    assert (record.status, record.partial_reason) == ("complete", None)
    assert record.model.digest is not None
    assert record.overhead is not None
    assert record.floor is not None
    assert [window.phase for window in record.windows] == ["steady"] * 2 + ["concurrency"] * 2
    assert all(window.result.mismatched == 0 and window.result.answered > 0 for window in record.windows)
    assert all(window.server is not None and window.server.whole.count > 0 for window in record.windows)
    results = tmp_path / "bench/results"
    assert len(list(results.glob("*.html"))) == 1
    assert list(results.glob("*.png")), "at least one, however busy the machine is"
    again = bench("--from", next(results.glob("*.json")), folder=tmp_path)
    table = done.stdout[done.stdout.index("small ·") :]
    assert again.returncode == 0, again.stderr
    assert again.stdout.split("Raw data")[0].strip() == table.split("Raw data")[0].strip()


@pytest.mark.timeout(240)
def test_a_server_elsewhere_is_measured_over_each_protocol(
    start: Callable[..., Server], scenario: Path, tmp_path: Path
) -> None:
    text = scenario.read_text()
    for protocol in ("http-binary", "grpc"):
        scenario.write_text(f"{text}protocol: {protocol}\n")
        model = text.split("path: ")[1].split(",")[0]
        server = start(*serving.flyball(), "serve", model, "--listen", "127.0.0.1:0")
        done = bench(
            "--scenario", scenario, "--url", server.url, "--json", folder=tmp_path / protocol_folder(tmp_path, protocol)
        )
        assert done.returncode == 0, done.stderr
        shown = json.loads(done.stdout)
        assert BenchRecord.read(tmp_path / protocol / shown["record"]).windows[0].result.answered > 0


def protocol_folder(folder: Path, protocol: str) -> str:
    (folder / protocol).mkdir()
    return protocol


def test_a_bad_scenario_is_refused_with_every_fault_and_its_line(scenario: Path, tmp_path: Path) -> None:
    scenario.write_text(
        scenario.read_text().replace("rate_per_s: 200", "rate_per_s: -3").replace("connections: 4", "conections: 4")
    )
    done = bench("--scenario", scenario, folder=tmp_path)
    assert done.returncode == 3
    assert "small.yaml:5" in done.stderr
    assert "did you mean" in done.stderr
    assert "small.yaml:7" in done.stderr
    assert not (tmp_path / "bench").exists()


def test_a_server_that_is_not_there_is_told_at_once_and_leaves_nothing(scenario: Path, tmp_path: Path) -> None:
    done = bench("--scenario", scenario, "--url", f"http://127.0.0.1:{serving.free_port()}", folder=tmp_path)
    assert done.returncode == 5
    assert "cannot reach" in done.stderr
    assert not (tmp_path / "bench").exists()


@pytest.mark.timeout(240)
def test_a_server_that_dies_half_way_leaves_what_was_measured_marked_as_partial(
    start: Callable[..., Server], model: Model, scenario: Path, tmp_path: Path
) -> None:
    scenario.write_text(SCENARIO.format(model=model("linear"), window_s=3))
    server = start(*serving.flyball(), "serve", model("linear"), "--listen", "127.0.0.1:0")
    command = [*serving.flyball(), "bench", "--scenario", str(scenario), "--url", server.url]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        results = tmp_path / "bench/results"
        until("a first window", lambda: any(BenchRecord.read(path).windows for path in results.glob("*.json")))
        server.kill()
        out, errors = running.communicate(timeout=200)
    assert running.returncode == 5, errors
    assert "connect refused" in errors
    assert "marked as partial" in errors
    assert "PARTIAL" in out.upper()
    record = record_of(tmp_path)
    assert record.status == "partial"
    assert "connect refused" in (record.partial_reason or "")
    assert record.windows[-1].result.ended_early
    assert record.windows[0].result.answered > 0


@pytest.mark.timeout(240)
def test_a_gate_passes_a_kept_contract_and_refuses_a_broken_one_with_the_figure(
    start: Callable[..., Server], model: Model, tmp_path: Path
) -> None:
    server = start(*serving.flyball(), "serve", model("linear"), "--listen", "127.0.0.1:0")
    contract = tmp_path / "slo.yaml"
    text = "contract: c\nmodel: linear\nrate_per_s: 500\nwindow_s: 1.5\nrepeats: 2\nconnections: 4\nerror_budget: 0.01\n"
    contract.write_text(f"{text}p99_ms: 900\n")
    kept = bench("gate", contract, "--url", server.url, folder=tmp_path)
    assert kept.returncode == 0, kept.stderr
    assert "is kept" in kept.stdout
    contract.write_text(f"{text}p99_ms: 0.001\n")
    broken = bench("gate", contract, "--url", server.url, folder=tmp_path)
    assert broken.returncode == 4
    assert "p99 is" in broken.stderr
    assert "limit 1.00 µs" in broken.stderr


@pytest.mark.timeout(240)
def test_two_models_are_compared_in_turn_and_two_loads_cannot_be(model: Model, tmp_path: Path) -> None:
    path = model("linear")
    done = bench("compare", path, path, "--repeats", 12, "--seconds", 0.2, "--connections", 2, "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    record = record_of(tmp_path)
    order = [window.subject[0] for window in record.windows]
    assert "".join(order) == "ABBA" * 6
    assert {figure["name"] for figure in json.loads(done.stdout)["figures"]} == {"p50", "p99", "rate"}
    mixed = bench("compare", path, "some.json", folder=tmp_path)
    assert mixed.returncode == 2
    assert "only be compared with another record" in mixed.stderr


LIMITS = """
decision: limits
owner: risk@example.com
purpose: rules alone
input:
  amount: {type: float, min: 0}
policy:
  outcomes: [pass, reject]
  rules:
    - {when: amount <= 100.0, then: pass}
    - {when: amount > 100.0, then: reject, reason: R1}
  reasons: {texts: {R1: above the limit}}
"""


@pytest.mark.timeout(240)
def test_two_servers_decisions_are_compared_with_rows_of_a_file(start: Callable[..., Server], tmp_path: Path) -> None:
    (tmp_path / "limits.yaml").write_text(LIMITS)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"amount": 10.0 * at}) + "\n" for at in range(20)))
    server = start(*serving.flyball(), "serve", "--decision", tmp_path / "limits.yaml", "--listen", "127.0.0.1:0")
    url = f"http://{server.address}"
    short = ("--repeats", 5, "--seconds", 0.2, "--connections", 2, "--model", "limits", "--protocol", "decision")
    done = bench("compare", url, url, *short, "--data", "rows.jsonl", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    windows = record_of(tmp_path).windows
    assert len(windows) == 10
    assert all(window.result.answered == window.result.sent > 0 for window in windows)
    assert {window.plan.path for window in windows} == {"/v1/decisions/limits"}
    without = bench("compare", url, url, *short, folder=tmp_path)
    assert without.returncode == 2
    assert "--data and --protocol decision are used together" in without.stderr
