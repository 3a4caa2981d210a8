"""Reports from synthetic records: the figures are the right ones, doubts are told, and nothing leaves its place."""

import base64
import io
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from flyball.bench.record import BenchRecord
from flyball.bench.report import print_report, report_document, summarise, write_page, write_plots
from flyball.bench.report.drawing import PAPER, drawing
from flyball.bench.report.plots import plots_of
from flyball.bench.table import latency, latency_span, percent
from flyball.errors import MissingExtraError
from tests.support.bench_records import full_record, kept, latencies, record, scenario, server_side, window

PEERS = ("flyball", "triton", "mlserver", "fastapi", "ray-serve", "bentoml", "litserve", "kserve")
LIMIT = "the generator was busy 98 % of the time"
HOSTILE = "<script>alert(1)</script><img src=https://example.com/x.png>"


def terminal(found, width=100, path=None):
    out = io.StringIO()
    print_report(found, Console(file=out, width=width, highlight=False), path)
    return out.getvalue()


def row(text, name):
    """The cells of a subject's first line in the first table that has one."""
    line = next(line for line in text.splitlines() if line.startswith(f"{name} "))
    return re.split(r"\s{2,}", line.strip())


def page(found, folder):
    return write_page(found, folder / "page.html").read_text()


class Tags(HTMLParser):
    """All tags of a page with their attributes, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module", autouse=True)
def few_draws():
    """How well the intervals hold is tested elsewhere; here they only have to be there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flyball.statistics.resampling._DRAWS", 50)
        patch.setattr("flyball.statistics.resampling._DRAWS_AT_ONCE", 50)
        yield


@pytest.fixture(scope="module")
def full():
    """Intervals take a while, so they are made once."""
    return summarise(full_record(("flyball", "fastapi")))


@pytest.fixture(scope="module")
def full_page(full, tmp_path_factory):
    return page(full, tmp_path_factory.mktemp("page"))


def steady(name="flyball", repeats=3, **given):
    return [window(name, repeat=repeat, **given) for repeat in range(repeats)]


def test_the_headline_has_the_percentiles_of_all_windows_together():
    # 97 % at 1 ms, 2.7 % at 9 ms, the rest at 40 ms: p50 and p95, p99, p99.9 and max are known without any arithmetic.
    given = np.repeat([1000.0, 9000.0, 40_000.0], [9700, 270, 30])
    found = record(steady(latency_us=np.random.default_rng(1).permutation(given)), rates_kept=[kept()])
    cells = row(terminal(found), "flyball")
    assert cells == ["flyball", "12,400 /s", "1.00 ms", "1.00 ms", "9.00 ms", "40.0 ms", "40.0 ms", "—", "—"]


def test_intervals_stand_below_their_figures():
    found = record(steady(), rates_kept=[kept()])
    told = report_document(found)["subjects"][0]["latency_us"]["p50"]
    assert told["low"] <= told["value"] <= told["high"]
    lines = terminal(found).splitlines()
    below = lines[next(place for place, line in enumerate(lines) if line.startswith("flyball ")) + 1]
    assert "11,780–13,020" in below
    assert latency_span(told["value"], told["low"], told["high"]) in below


def test_eight_subjects_with_errors_fit_into_a_hundred_columns():
    found = full_record(PEERS)
    lines = terminal(found).splitlines()
    assert max(map(len, lines)) <= 100
    assert [name for name in PEERS if not any(line.startswith(f"{name} ") for line in lines)] == []


def test_the_title_tells_how_it_was_measured():
    first = terminal(record(steady()), width=160).splitlines()[0]
    assert first == (
        "fraud-gbdt · REST JSON · open loop, Poisson · 3 × 2 s · 2 cores (shared with the generator) · dist build"
    )


def test_the_floor_the_generator_the_host_and_the_way_back_are_told(full):
    text = terminal(full, width=200, path=Path("results/r.json"))
    assert row(text, "bare ONNX")[1:] == ["31,000 /s", "31.0 µs", "—", "44.0 µs"]
    assert "The generator adds p50 42.0 µs, p99 90.0 µs at 1,000/s; highest rate 61,000/s" in text
    assert "Imaginary CPU" in text
    last = text.splitlines()[-1]
    assert last == "Raw data: results/r.json    Again:  flyball bench --from results/r.json"


def test_a_window_at_the_generators_limit_is_never_shown_as_the_servers(tmp_path):
    limited = window(latency_us=np.full(4000, 77_700.0), repeat=2, bottleneck=LIMIT)
    swept = window(phase="curve", latency_us=np.full(2000, 66_600.0), bottleneck=LIMIT)
    found = record([*steady(repeats=2), limited, swept])
    document = report_document(found)
    assert document["subjects"][0]["windows_left_out"] == 1
    assert document["subjects"][0]["latency_us"]["max"]["value"] < 10_000
    assert document["curve"][0]["p99_us"] is None
    for text in (terminal(found), Tags(page(found, tmp_path)).text):
        assert "77.7 ms" not in text
        assert "66.6 ms" not in text
        assert LIMIT in " ".join(text.split())


def test_a_subject_without_any_believable_window_has_no_figures():
    found = record([*steady("a", bottleneck=LIMIT), *steady("b")], subjects=("a", "b"))
    text = terminal(found)
    assert set(row(text, "a")[1:]) == {"—"}
    assert latency(report_document(found)["subjects"][1]["latency_us"]["p50"]["value"]) in row(text, "b")


def test_points_at_the_generators_limit_are_hollow_and_apart():
    points = [
        window(phase="curve", rate_per_s=rate, bottleneck=LIMIT if rate > 2500 else None) for rate in (1000, 2000, 3000)
    ]
    summary = summarise(record(points))
    with drawing():
        (plot,) = plots_of(summary)
        lines = plot.draw(summary).axes[0].lines
    hollow = [line for line in lines if line.get_markerfacecolor() == PAPER and len(line.get_xdata())]
    joined = [line for line in lines if line.get_linestyle() == "-" and len(line.get_xdata()) > 1]
    assert {tuple(line.get_xdata()) for line in hollow} == {(3000.0,)}
    assert [tuple(line.get_xdata()) for line in joined if line.get_marker() == "o"] == [(1000.0, 2000.0)]


def test_a_partial_record_is_marked_on_every_surface(tmp_path):
    found = record(steady(), status="partial", partial_reason="fastapi: connect refused")
    mark = "PARTIAL: fastapi: connect refused"
    assert terminal(found).startswith(mark)
    assert mark in Tags(page(found, tmp_path)).text
    assert report_document(found)["status"] == "partial"
    summary = summarise(found)
    with drawing():
        for plot in plots_of(summary):
            assert mark in [text.get_text() for text in plot.figure(summary).texts]


def test_a_complete_record_is_not_marked_as_partial(full, full_page):
    assert "PARTIAL" not in terminal(full) + full_page


def test_a_record_without_any_window_still_gives_every_report(tmp_path):
    found = record(subjects=(), status="partial", partial_reason="the server did not become ready")
    assert "Nothing was measured" in terminal(found)
    assert "Nothing was measured" in page(found, tmp_path)
    assert write_plots(found, tmp_path, "x") == []


def test_the_page_asks_for_nothing_from_outside(full_page):
    tags = Tags(full_page).tags
    sources = [attrs[key] for _, attrs in tags for key in ("src", "href", "srcset", "data", "action") if key in attrs]
    assert sources
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in tags}
    assert "@import" not in full_page
    assert "url(" not in full_page
    for source in sources:
        inside = base64.b64decode(source.partition(",")[2]).decode()
        assert set(re.findall(r'href="(.)', inside)) <= {"#"}
        assert "<script" not in inside


def test_the_page_can_be_read_by_everyone(full_page):
    tags = Tags(full_page).tags
    assert ("html", {"lang": "en"}) in tags
    assert all(len(attrs["alt"]) > 20 for tag, attrs in tags if tag == "img")
    assert all("scope" in attrs for tag, attrs in tags if tag == "th")
    assert "prefers-color-scheme: dark" in full_page


def test_the_page_has_the_whole_record_of_how_it_was_made(full, full_page):
    text = Tags(full_page).text
    for fact in ("Imaginary CPU", "avx512f", "performance", "sha256:3f9c", "sha256:77aa", "seed 11", "rustc 1.93.0", "kvm"):
        assert fact in text
    assert "flyball bench --scenario fraud-gbdt" in text
    assert "p99_ms: 5.0" in text
    assert f"All {len(full.record.windows)} windows" in text


def test_words_from_elsewhere_are_escaped_on_the_page(tmp_path):
    hurt = steady(mismatched=2, first_problem=HOSTILE, errors=[{"reason": HOSTILE, "count": 2}])
    told = {"name": HOSTILE, "note": HOSTILE}
    hurt = [each.model_copy(update={"subject": HOSTILE}) for each in hurt]
    found = record(hurt, subjects=[told], scenario=scenario(about=HOSTILE), command=["flyball", HOSTILE])
    text = page(found, tmp_path)
    assert HOSTILE not in text
    assert "<script" not in text
    assert Tags(text).text.count(HOSTILE) > 5
    assert {attrs["src"][:11] for tag, attrs in Tags(text).tags if tag == "img"} == {"data:image/"}


def test_names_that_mean_something_to_a_renderer_are_shown_as_they_are(tmp_path):
    names = ["[red]a[/red]", "$x^", "_c"]
    found = record([each for name in names for each in steady(name, repeats=2)], subjects=names)
    text = terminal(found)
    assert all(name in text for name in names)
    assert write_plots(found, tmp_path, "x")


def test_every_plot_is_a_png_of_some_size(full, tmp_path):
    paths = write_plots(full, tmp_path / "new", "run")
    names = ["kept", "percentiles", "rate", "timeline", "stages", "concurrency", "memory"]
    assert [path.name for path in paths] == [f"run-{name}.png" for name in names]
    for path in paths:
        data = path.read_bytes()
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        assert len(data) > 15_000


def test_plots_without_data_are_left_out(tmp_path):
    assert [path.name for path in write_plots(record(steady()), tmp_path, "x")] == ["x-percentiles.png", "x-timeline.png"]


def test_a_record_from_its_file_gives_the_same_report(full, full_page, tmp_path):
    full.record.write(tmp_path / "r.json")
    again = summarise(BenchRecord.read(tmp_path / "r.json"))
    assert terminal(again) == terminal(full)
    assert page(again, tmp_path) == full_page
    assert json.dumps(report_document(again), allow_nan=False) == json.dumps(report_document(full), allow_nan=False)


def test_a_summary_made_once_serves_as_well_as_its_record():
    found = record(steady())
    assert report_document(summarise(found)) == report_document(found)
    assert terminal(summarise(found)) == terminal(found)


@pytest.mark.parametrize("module", ["matplotlib", "jinja2", "yaml"])
def test_a_missing_extra_is_told_with_the_command_that_installs_it(module, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'flyball\[bench\]'"):
        page(record(steady(repeats=1)), tmp_path)


def test_a_quantile_with_too_few_answers_beyond_is_a_dash_with_a_note():
    text = terminal(record(steady(repeats=1, count=4000)))
    assert row(text, "flyball")[5] == "—"
    assert "p99.9 not shown: fewer than 10 answers beyond" in text
    assert "not shown" not in terminal(record(steady(repeats=3, count=4000)))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"host": {"steal_share": 0.071, "load_1m": 2.0}},
            "CPU steal above 3.0 % in 3 of 3 windows, at most 7.1 %",
        ),
        ({"warmup": {"used_s": 3.0, "steady": False}}, "not steady at the end of warm-up in 3 of 3 windows"),
        ({"latency_us": np.linspace(200.0, 900.0, 4000)}, "not steady in 3 of 3 windows: p50 rose by"),
        ({"ended_early": "stopped"}, "a window (steady) ended early: stopped"),
        ({"mismatched": 2, "first_problem": "p is 0.1, not 0.2"}, "6 wrong answers: p is 0.1, not 0.2"),
        ({"refused": 40}, "0.99 % of requests had no correct answer: 120 × 503 lane_full"),
        ({"past_deadline": 400, "plan": {"deadline_ms": 20}}, "10 % of the answers came after the deadline of 20 ms"),
    ],
)
def test_what_to_doubt_is_told(given, told):
    assert told in terminal(record(steady(**given)), width=300)


def on_machine(**changes):
    """A steady record of the synthetic machine, whose server has a core of its own, with changes."""
    found = record(steady(repeats=1))
    machine = found.machine.model_copy(update={"server_cpus": [0], "generator_cpus": [1], **changes})
    return found.model_copy(update={"machine": machine})


def test_nothing_to_doubt_is_no_warning():
    assert report_document(on_machine())["warnings"] == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"generator_cpus": [0, 1]}, "the generator shares cores with the server (0)"),
        ({"governor": "powersave"}, "the frequency governor is powersave"),
        ({"cgroup_cpu_quota": 0.5}, "the cgroup limits 2 to the time of 0.5 cores"),
    ],
)
def test_what_is_wrong_with_the_machine_is_a_warning_on_every_surface(changes, told, tmp_path):
    found = on_machine(**changes)
    (warning,) = report_document(found)["warnings"]
    assert warning.startswith(told)
    assert f"Warning: {warning}" in terminal(found, width=300)
    assert warning in Tags(page(found, tmp_path)).text


def test_a_virtual_machine_is_a_note_that_stands_once():
    text = terminal(on_machine(virtualisation="virtual machine (KVM)"), width=300)
    assert text.count("\nMeasured on a virtual machine (KVM): repeat on your own machine") == 1
    assert "Measured on" not in terminal(on_machine(virtualisation=None), width=300)


def test_errors_have_a_column_only_where_there_are_any():
    assert "errors" not in terminal(record(steady()))
    assert "0.99 %" in row(terminal(record(steady(refused=40))), "flyball")


def test_waiting_that_closed_loops_hide_is_told():
    sent = latencies(4000, 200.0)
    due = sent + np.where(np.arange(4000) < 400, 50_000.0, 0.0)
    text = terminal(record(steady(latency_us=due, service_us=sent)), width=200)
    assert re.search(r"counted from the actual send, as in a closed loop, p99 would be \d{3} µs instead of 5\d\.\d ms", text)


def test_the_gap_between_server_and_client_is_the_difference_of_their_means():
    sent = np.full(4000, 160.0)
    found = record(steady(latency_us=sent + 50.0, service_us=sent, server=server_side()))
    (told,) = report_document(found)["breakdowns"]
    assert told["walk"]["mean_us"] == pytest.approx(79.0)
    assert told["gap_us"] == pytest.approx(131.0, rel=0.01)
    assert told["waited_us"] == pytest.approx(50.0, rel=0.01)
    text = terminal(found)
    assert row(text, "network, kernel, client")[2] == "39 %"
    assert row(text, "server, the whole walk")[1] == "79.0 µs"


def test_a_stage_that_only_some_requests_pass_adds_its_share_to_the_mean():
    view = server_side(4000)
    view["stages"][6] |= {"count": 1000, "mean_us": 164.0}  # one run in four requests
    (told,) = report_document(record(steady(server=view)))["breakdowns"]
    infer = next(stage for stage in told["stages"] if stage["stage"] == "infer")
    assert (infer["mean_us"], infer["adds_us"]) == pytest.approx((164.0, 41.0))


@pytest.mark.parametrize(("grows", "told"), [(True, ": it grows"), (False, ": no growth shown")])
def test_memory_that_grows_is_told_from_memory_that_scatters(grows, told):
    scatter = np.random.default_rng(3).integers(-50_000, 50_000, 120)
    samples = [{"at_s": at, "memory_bytes": 60_000_000 + int(off) + at * 20_000 * grows} for at, off in enumerate(scatter)]
    text = terminal(record([window(phase="soak", memory=samples)]), width=160)
    assert told in text
    assert ("+72" in text) == grows


def test_a_contract_gives_its_name_and_its_promise():
    contract = {"contract": "payments", "model": "fraud", "rate_per_s": 2000.0, "p99_ms": 5.0}
    text = terminal(record(steady(phase="gate"), scenario=None, contract=contract), width=160)
    assert text.startswith("payments · REST JSON · open loop, Poisson · 3 × 2 s")
    assert "The contract: p99 ≤ 5 ms at 2,000/s, errors ≤ 0.10 %." in text


def pairs(repeats, slower, **given):
    closed = {"arrivals": {"kind": "closed"}}
    sides = (("A", 200.0), ("B", 200.0 * slower))
    return [
        window(name, "compare", median_us=us, repeat=repeat, plan=closed, seed=place, **given)
        for repeat in range(repeats)
        for place, (name, us) in enumerate(sides)
    ]


@pytest.mark.parametrize(("slower", "told"), [(1.0, "no difference shown between A and B"), (1.2, "B differs from A")])
def test_a_comparison_says_what_is_shown(slower, told):
    text = terminal(record(pairs(6, slower, count=1000), subjects=("A", "B"), scenario=None), width=200)
    assert text.startswith("fraud, A against B · REST JSON · closed loop, 32 connections · 6 × 0.5 s")
    assert told in text


def test_a_comparison_leaves_out_pairs_that_the_generator_limited(tmp_path):
    limited = [each.model_copy(update={"repeat": 9}) for each in pairs(1, 1.2, count=1000)]
    limited[1] = limited[1].model_copy(update={"result": limited[1].result.model_copy(update={"bottleneck": LIMIT})})
    found = summarise(record([*pairs(5, 1.2, count=1000), *limited], subjects=("A", "B"), scenario=None))
    assert found.comparison.windows == 5
    assert found.comparison.summary in Tags(page(found, tmp_path)).text


def test_too_few_pairs_are_no_comparison():
    found = record(pairs(2, 1.5, count=1000), subjects=("A", "B"), scenario=None)
    assert "No comparison: a comparison needs 5 windows per side, found 2" in terminal(found)


def test_a_search_without_a_result_tells_why():
    nothing = {"rate_per_s": None, "low_per_s": None, "high_per_s": None, "estimates_per_s": []}
    found = {"subject": "flyball", "note": "p99 ≤ 5 ms is not kept at any rate", **nothing}
    text = terminal(record(steady(), rates_kept=[found]))
    assert row(text, "flyball")[1] == "—"
    assert "flyball: p99 ≤ 5 ms is not kept at any rate" in text


@pytest.mark.parametrize(
    ("share", "told"), [(0.0, "0 %"), (0.00075, "0.075 %"), (0.0123, "1.2 %"), (0.0999, "10 %"), (1.0, "100 %"), (None, "—")]
)
def test_shares_have_two_figures(share, told):
    assert percent(share) == told


def test_an_interval_keeps_the_unit_of_its_figure():
    assert latency_span(990.0, 950.0, 1020.0) == "950–1020"
    assert latency_span(1210.0, 990.0, 1250.0) == "0.99–1.25"
    assert latency(-3.2) == "−3.20 µs"
