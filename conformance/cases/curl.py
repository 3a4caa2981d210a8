"""Plain curl: the bytes on the wire, for any client. Everything else is the standard library."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
import subprocess
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.case import case
from conformance.cases.tensors import BEST, SCORES, A, B

if TYPE_CHECKING:
    from conformance.addresses import Addresses

INFER = "/v2/models/simple/infer"
OCTETS = "Content-Type: application/octet-stream"


@dataclass(frozen=True)
class Reply:
    """An answer as curl printed it."""

    status: int
    version: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def curl(url: str, *arguments: str, body: bytes | None = None) -> Reply:
    """One call; the last answer's head and body."""
    program = shutil.which("curl")
    assert program, "curl is not installed"
    command = [program, "-sS", "-i", "--max-time", "20", *arguments, url]
    if body is not None:
        command += ["--data-binary", "@-", "-H", "Expect:"]
    done = subprocess.run(command, input=body, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    head, _, rest = done.stdout.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = {key.lower(): value.strip() for key, value in (line.split(":", 1) for line in lines[1:])}
    words = lines[0].split()
    return Reply(int(words[1]), words[0], headers, rest)


def simple_body(*, nested: bool = False, **more: Any) -> bytes:
    tensors = []
    for name, array in (("INPUT0", A), ("INPUT1", B)):
        values = array.tolist() if nested else array.ravel().tolist()
        tensors.append({"name": name, "shape": [1, 16], "datatype": "INT32", "data": values})
    return json.dumps({"id": "42", "inputs": tensors, **more}).encode()


def sums(answer: dict[str, Any]) -> None:
    found = {item["name"]: item["data"] for item in answer["outputs"]}
    assert found == {"OUTPUT0": (A + B).ravel().tolist(), "OUTPUT1": (A - B).ravel().tolist()}, f"{found}"


@case()
def health_has_the_bodies_that_others_have(addresses: Addresses) -> None:
    base = f"http://{addresses.open}"
    assert curl(f"{base}/v2/health/live").json == {"live": True}
    assert curl(f"{base}/v2/health/ready").json == {"ready": True}
    assert curl(f"{base}/v2/models/simple/ready").json == {"name": "simple", "ready": True}
    assert curl(f"{base}/v2/models/simple/versions/1/ready").status == 200
    assert curl(f"{base}/v2/models/nobody/ready").status == 404


@case()
def json_goes_in_flat_or_nested_and_comes_out(addresses: Addresses) -> None:
    for nested in (False, True):
        reply = curl(
            f"http://{addresses.open}{INFER}", "-H", "Content-Type: application/json", body=simple_body(nested=nested)
        )
        assert reply.status == 200, f"{reply}"
        assert reply.headers["content-type"] == "application/json"
        assert reply.json["id"] == "42"
        sums(reply.json)


@case()
def a_body_without_a_content_type_is_taken(addresses: Addresses) -> None:
    reply = curl(f"http://{addresses.open}{INFER}", "-H", "Content-Type:", body=simple_body())
    assert reply.status == 200, f"{reply}"


@case()
def the_binary_extension_goes_both_ways(addresses: Addresses) -> None:
    inputs = [
        {"name": name, "shape": [1, 16], "datatype": "INT32", "parameters": {"binary_data_size": 64}}
        for name in ("INPUT0", "INPUT1")
    ]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    length = f"Inference-Header-Content-Length: {len(head)}"
    reply = curl(f"http://{addresses.open}{INFER}", "-H", OCTETS, "-H", length, body=head + A.tobytes() + B.tobytes())
    assert reply.status == 200, f"{reply}"
    at = int(reply.headers["inference-header-content-length"])
    assert reply.headers["content-type"] == "application/octet-stream"
    assert [item["parameters"]["binary_data_size"] for item in json.loads(reply.body[:at])["outputs"]] == [64, 64]
    assert reply.body[at:] == (A + B).tobytes() + (A - B).tobytes()


@case()
def a_raw_binary_request_is_the_models_only_input(addresses: Addresses) -> None:
    values = struct.pack("<4f", 1, 2, 3, 4)
    url = f"http://{addresses.open}/v2/models/identity_fp32/infer"
    reply = curl(url, "-H", OCTETS, "-H", "Inference-Header-Content-Length: 0", body=values)
    assert reply.status == 200, f"{reply}"
    at = int(reply.headers["inference-header-content-length"])
    assert reply.body[at:] == values
    assert json.loads(reply.body[:at])["outputs"][0]["shape"] == [1, 4]


@case()
def a_raw_binary_request_for_a_model_with_two_inputs_is_refused(addresses: Addresses) -> None:
    reply = curl(f"http://{addresses.open}{INFER}", "-H", "Inference-Header-Content-Length: 0", body=A.tobytes())
    assert reply.status == 400, f"{reply}"
    assert reply.json["error"]


@case()
def a_header_length_beyond_the_body_is_refused(addresses: Addresses) -> None:
    for wrong in ("9999", "-1", "x", "99999999999999999999"):
        reply = curl(
            f"http://{addresses.open}{INFER}", "-H", f"Inference-Header-Content-Length: {wrong}", body=simple_body()
        )
        assert reply.status == 400, f"{wrong}: {reply}"
        assert reply.json["error"]


@case()
def compressed_bodies_are_taken(addresses: Addresses) -> None:
    for name, squeeze in (("gzip", gzip.compress), ("deflate", zlib.compress)):
        reply = curl(f"http://{addresses.open}{INFER}", "-H", f"Content-Encoding: {name}", body=squeeze(simple_body()))
        assert reply.status == 200, f"{name}: {reply}"
        sums(reply.json)


@case()
def an_encoding_that_nobody_offered_is_refused(addresses: Addresses) -> None:
    reply = curl(f"http://{addresses.open}{INFER}", "-H", "Content-Encoding: br", body=simple_body())
    assert reply.status in (400, 415), f"{reply}"


@case()
def large_answers_are_compressed_where_that_is_asked_for(addresses: Addresses) -> None:
    tensor = {"name": "INPUT0", "shape": [1, 4096], "datatype": "FP32", "data": [0.5] * 4096}
    body = json.dumps({"inputs": [tensor]}).encode()
    url = f"http://{addresses.open}/v2/models/identity_fp32/infer"
    plain = curl(url, body=body)
    assert "content-encoding" not in plain.headers
    for name, open_up in (("gzip", gzip.decompress), ("deflate", zlib.decompress)):
        reply = curl(url, "-H", f"Accept-Encoding: {name}", body=body)
        assert reply.headers.get("content-encoding") == name, f"{reply.headers}"
        assert len(reply.body) < len(plain.body) / 4
        assert open_up(reply.body) == plain.body


@case()
def what_is_not_there_is_404_and_a_wrong_verb_405(addresses: Addresses) -> None:
    base = f"http://{addresses.open}"
    for path in ("/v2/models/nobody", "/v2/nothing", "/v1/models/simple:predict", "/"):
        reply = curl(base + path)
        assert reply.status == 404, f"{path}: {reply.status}"
        assert reply.json["detail" if path.startswith("/v1") else "error"], path
    assert curl(f"{base}/v2/models/nobody/infer", body=simple_body()).status == 404
    for path, *verb in ((INFER, "-X", "GET"), ("/v2/health/live", "-X", "POST"), ("/v2/models/simple", "-X", "DELETE")):
        reply = curl(base + path, *verb)
        assert reply.status == 405, f"{path}: {reply.status}"
        assert reply.headers["allow"], path


@case()
def names_are_percent_decoded(addresses: Addresses) -> None:
    reply = curl(f"http://{addresses.open}/v2/models/simpl%65/infer", body=simple_body())
    assert reply.status == 200, f"{reply}"


@case()
def what_is_no_json_or_too_deep_is_400(addresses: Addresses) -> None:
    for body in (b"", b"{", b"[" * 100_000, b'{"inputs": 7}', b'{"inputs":[{"name":"INPUT0","shape":[-1,16]}]}'):
        reply = curl(f"http://{addresses.open}{INFER}", body=body)
        assert reply.status == 400, f"{body[:20]!r}: {reply.status}"
        assert list(reply.json) == ["error"]


@case()
def infinity_is_written_as_python_reads_it(addresses: Addresses) -> None:
    tensor = {"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "parameters": {"binary_data_size": 4}}
    head = json.dumps({"inputs": [tensor]}).encode()
    url = f"http://{addresses.open}/v2/models/identity_fp32/infer"
    length = f"Inference-Header-Content-Length: {len(head)}"
    reply = curl(url, "-H", length, body=head + struct.pack("<f", float("inf")))
    assert reply.status == 200, f"{reply}"
    assert reply.json["outputs"][0]["data"] == [float("inf")]


@case()
def classes_come_as_strings(addresses: Addresses) -> None:
    tensor = {"name": "FEATURES", "shape": [1, 8], "datatype": "FP32", "data": SCORES.ravel().tolist()}
    body = json.dumps({"inputs": [tensor], "outputs": [{"name": "SCORES", "parameters": {"classification": 3}}]}).encode()
    (output,) = curl(f"http://{addresses.open}/v2/models/classifier/infer", body=body).json["outputs"]
    assert (output["datatype"], output["shape"], output["data"]) == ("BYTES", [1, 3], BEST), f"{output}"


@case()
def statistics_configuration_and_index_have_their_paths(addresses: Addresses) -> None:
    base = f"http://{addresses.open}/v2"
    for path in ("/models/stats", "/models/simple/stats", "/models/simple/versions/1/stats"):
        assert curl(base + path).json["model_stats"][0]["inference_stats"], path
    for path in ("/models/simple/config", "/models/simple/versions/1/config"):
        assert curl(base + path).json["name"] == "simple", path
    assert {"name", "version", "state", "reason"} >= set(curl(f"{base}/repository/index", "-X", "POST").json[0])
    ready = curl(f"{base}/repository/index", body=b'{"ready": true}').json
    assert {item["state"] for item in ready} == {"READY"}


@case()
def http_2_needs_no_upgrade(addresses: Addresses) -> None:
    reply = curl(f"http://{addresses.open}{INFER}", "--http2-prior-knowledge", body=simple_body())
    assert (reply.status, reply.version) == (200, "HTTP/2"), f"{reply}"
    sums(reply.json)


@case()
def a_unix_socket_carries_http(addresses: Addresses) -> None:
    reply = curl(f"http://localhost{INFER}", "--unix-socket", addresses.socket, body=simple_body())
    assert reply.status == 200, f"{reply}"
    sums(reply.json)


@case()
def tls_carries_http_1_and_2(addresses: Addresses) -> None:
    for flag, version in (("--http1.1", "HTTP/1.1"), ("--http2", "HTTP/2")):
        reply = curl(f"https://{addresses.tls}{INFER}", "--cacert", addresses.authority, flag, body=simple_body())
        assert (reply.status, reply.version) == (200, version), f"{reply}"
        sums(reply.json)


@case()
def mutual_tls_takes_callers_with_a_certificate_only(addresses: Addresses) -> None:
    shown = ["--cert", addresses.caller_certificate, "--key", addresses.caller_key]
    url, trusted = f"https://{addresses.mutual_tls}{INFER}", ["--cacert", addresses.authority]
    assert curl(url, *trusted, *shown, body=simple_body()).status == 200
    try:
        curl(url, *trusted, body=simple_body())
    except AssertionError:
        return
    raise AssertionError("a caller without a certificate was let in")


@case()
def what_is_switched_off_says_so(addresses: Addresses) -> None:
    base = f"http://{addresses.closed}/v2"
    for path in ("/repository/models/simple/unload", "/systemsharedmemory/unregister"):
        reply = curl(base + path, "-X", "POST")
        assert reply.status == 501, f"{path}: {reply}"
        assert "--allow-" in reply.json["error"], path


@case()
def metrics_are_prometheus_text(addresses: Addresses) -> None:
    reply = curl(f"http://{addresses.open}/metrics")
    assert reply.status == 200
    assert b"\n# TYPE flyball_requests_total counter" in reply.body


@case()
def the_api_describes_itself(addresses: Addresses) -> None:
    described = curl(f"http://{addresses.open}/openapi.json")
    assert described.status == 200, f"{described.status}"
    assert "/v2/models/{model}/infer" in "".join(described.json["paths"]).replace("{model_name}", "{model}")
