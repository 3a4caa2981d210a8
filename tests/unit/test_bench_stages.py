"""The server's own view between two scrapes: held against the values that went in, and against a running server."""

import contextlib
import re
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from flyball.bench.stages import mean_batch_rows, metrics, scrape, server_side
from flyball.errors import FlyballError
from tests.support.onnx_models import row
from tests.support.serving import REPOSITORY
from tests.support.wire import Http, settled

# As the server's own: nine to the octave, from 1 µs to 0.27 s.
EDGES_S = [1.024e-6 * 2 ** (place / 9) for place in range(163)]


def page(**series):
    """What the server prints: `model__stage`, or `model` for whole walks, with the seconds that were recorded."""
    lines = []
    for name, recorded in series.items():
        model, _, stage = name.partition("__")
        family = "flyball_stage_seconds" if stage else "flyball_request_seconds"
        labels = f'model="{model}",version="1"' + (f',stage="{stage}"' if stage else "")
        seconds = np.asarray(recorded)
        if (seconds > 128e-9).any():
            lines += [f'{family}_bucket{{{labels},le="{edge:.12f}"}} {(seconds < edge).sum()}' for edge in EDGES_S]
        lines.append(f'{family}_bucket{{{labels},le="+Inf"}} {len(seconds)}')
        lines += [f"{family}_sum{{{labels}}} {seconds.sum():.9f}", f"{family}_count{{{labels}}} {len(seconds)}"]
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def answering(status, body=b"", address=("127.0.0.1", 0), kind=HTTPServer):
    """A server that gives one answer to every GET."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words):
            pass

    with kind(address, Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield server.server_address
        finally:
            server.shutdown()


def test_quantiles_between_two_readings_are_those_of_what_came_between():
    random = np.random.default_rng(1)
    then, between = random.lognormal(-7, 0.1, 500), random.lognormal(-9, 0.5, 5000)
    seen = server_side(page(fraud=then), page(fraud=[*then, *between]), "fraud").whole
    assert (seen.stage, seen.count) == ("whole", 5000)
    assert seen.mean_us == pytest.approx(between.mean() * 1e6, rel=1e-6)
    # A bucket is 8 % wide, and the line inside it is nearly right.
    assert seen.p50_us == pytest.approx(np.quantile(between, 0.50) * 1e6, rel=0.02)
    assert seen.p99_us == pytest.approx(np.quantile(between, 0.99) * 1e6, rel=0.04)


def test_stages_stand_in_the_order_of_the_page_and_only_the_model_s_own_count():
    text = page(fraud=[1e-3], fraud__queue=[2e-4], fraud__infer=[7e-4], fraud2=[1.0], fraud2__infer=[1.0])
    seen = server_side("", text, "fraud")
    assert [stage.stage for stage in seen.stages] == ["queue", "infer"]
    assert [stage.mean_us for stage in seen.stages] == pytest.approx([200, 700])
    assert seen.whole.count == 1


def test_versions_of_a_model_count_together():
    first, second = page(fraud=[1e-4] * 10), page(fraud=[1e-3] * 10).replace('version="1"', 'version="2"')
    seen = server_side("", first + second, "fraud").whole
    assert seen.count == 20
    assert seen.p50_us == pytest.approx(100, rel=0.09)
    assert seen.p99_us == pytest.approx(1000, rel=0.09)


def test_a_stage_that_began_to_take_time_only_now_is_not_counted_from_its_start():
    """Its earlier page has no edge but +Inf, which must not read as none below the edges."""
    before, after = page(m=[1e-3], m__record=[5e-8] * 900), page(m=[1e-3] * 2, m__record=[5e-8] * 900 + [1e-3] * 100)
    (record,) = server_side(before, after, "m").stages
    assert record.count == 100
    assert record.p50_us == pytest.approx(1000, rel=0.09)


def test_a_stage_that_takes_no_time_is_told_by_its_mean():
    (stage,) = server_side("", page(m=[1e-3], m__policy=[4e-8] * 10), "m").stages
    assert (stage.count, stage.p50_us, stage.p99_us) == (10, pytest.approx(0.04), pytest.approx(0.04))


def test_below_the_first_edge_no_quantile_is_made_up_above_the_mean():
    (stage,) = server_side("", page(m=[1e-3], m__admit=[2e-7] * 10), "m").stages
    assert stage.p50_us == stage.p99_us == pytest.approx(0.2)


def test_what_lies_beyond_the_last_edge_is_told_as_that_edge():
    assert server_side("", page(m=[5.0]), "m").whole.p50_us == pytest.approx(EDGES_S[-1] * 1e6)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("", "process_cpu_seconds_total 3\n"),
        (page(m=[1e-3]), page(m=[1e-3])),
        (page(m=[1e-3] * 9), page(m=[1e-3])),
    ],
    ids=["no page", "another server's page", "nothing came", "the server was started anew"],
)
def test_where_there_is_nothing_to_tell_nothing_is_told(before, after):
    assert server_side(before, after, "m") is None


def test_the_mean_batch_is_that_between_two_readings():
    before = 'flyball_batch_rows_sum{model="a"} 10\nflyball_batch_rows_count{model="a"} 10\n'
    after = (
        'flyball_batch_rows_bucket{model="a",le="1"} 10\nflyball_batch_rows_sum{model="a"} 50\n'
        'flyball_batch_rows_count{model="a"} 15\nflyball_batch_rows_sum{model="ab"} 99\n'
    )
    assert mean_batch_rows(before, after, "a") == 8.0
    assert mean_batch_rows(after, after, "a") is None
    assert mean_batch_rows("", after, "a") == 50 / 15


def test_a_running_server_tells_all_stages_and_reads_the_same_by_another_parser(house):
    stages = re.findall(r'=> "(\w+)"', (REPOSITORY / "crates/core/src/stage.rs").read_text())
    before = scrape(house.url)
    received = settled(house)["received"]
    with Http(house) as connection:
        for _ in range(20):
            connection.infer("linear", row("linear", 1))
    settled(house, received + 20)
    after = scrape(house.url)
    seen = server_side(before, after, "linear")
    assert [stage.stage for stage in seen.stages] == stages
    assert {stage.count for stage in seen.stages} == {seen.whole.count} == {20}
    assert sum(stage.mean_us for stage in seen.stages) == pytest.approx(seen.whole.mean_us, rel=1e-3)
    assert seen.mean_batch_rows == 1.0
    parsed = {
        (sample.labels["stage"], sample.name): sample.value
        for family in text_string_to_metric_families(after)
        if family.name == "flyball_stage_seconds"
        for sample in family.samples
        if sample.labels["model"] == "linear" and "le" not in sample.labels
    }
    since_start = server_side("", after, "linear")
    for stage in since_start.stages:
        assert stage.count == parsed[stage.stage, "flyball_stage_seconds_count"]
        assert stage.mean_us * stage.count == pytest.approx(parsed[stage.stage, "flyball_stage_seconds_sum"] * 1e6)


def test_a_server_without_metrics_gives_an_empty_scrape_and_no_exception(tmp_path):
    with answering(404) as (host, port):
        assert scrape(f"http://{host}:{port}") == ""
    assert scrape(f"http://{host}:{port}") == ""  # refused now
    assert scrape(f"unix:{tmp_path}/none.sock") == ""
    assert scrape("http://name.invalid:1") == ""


def test_a_server_that_speaks_something_else_gives_an_empty_scrape():
    class Rude(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(65536)
            self.request.sendall(b"\x00\x00\x12\x04 not HTTP\r\n\r\n")

    with socketserver.TCPServer(("127.0.0.1", 0), Rude) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert scrape(f"grpc://127.0.0.1:{server.server_address[1]}") == ""


def test_metrics_that_must_be_there_are_missed_with_a_reason():
    with answering(404) as (host, port), pytest.raises(FlyballError, match="/metrics answered 404"):
        metrics(f"http://{host}:{port}")
    with pytest.raises(FlyballError, match="cannot read"):
        metrics(f"http://{host}:{port}")


def test_a_unix_socket_and_a_grpc_address_are_read_too(tmp_path):
    class UnixServer(socketserver.UnixStreamServer):
        server_name, server_port = "local", 0

        def get_request(self):
            request, _ = super().get_request()
            return request, ("local", 0)

    with answering(200, b"page 1\n", f"{tmp_path}/s.sock", UnixServer) as path:
        assert scrape(f"unix:{path}") == "page 1\n"
    with answering(200, b"page 2\n") as (host, port):
        assert scrape(f"grpc://{host}:{port}") == "page 2\n"
