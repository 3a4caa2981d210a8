"""tritonclient's HTTP client: JSON data, mixed bodies, bodies built and parsed by hand, TLS."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import numpy as np
import tritonclient.http

from conformance.case import case
from conformance.cases.speaking import both_outputs, connected, refused
from conformance.cases.tensors import NUMBERS, WORDS, A, B, added, encoded, same

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from conformance.addresses import Addresses
    from conformance.cases.tensors import Array


def given(name: str, array: Array, datatype: str, *, binary: bool) -> Any:
    return tritonclient.http.InferInput(name, list(array.shape), datatype).set_data_from_numpy(array, binary_data=binary)


def simple_inputs(*binary: bool) -> list[Any]:
    pairs = zip(("INPUT0", "INPUT1"), (A, B), binary, strict=True)
    return [given(name, array, "INT32", binary=as_binary) for name, array, as_binary in pairs]


def trusting(addresses: Addresses, *shown: str) -> Callable[[], ssl.SSLContext]:
    """What makes a context that trusts the run's authority and shows these files."""

    def made() -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=addresses.authority)
        if shown:
            context.load_cert_chain(*shown)
        return context

    return made


@case()
def numbers_travel_as_json(addresses: Addresses) -> None:
    with connected(addresses.with_flavour("http")) as client:
        for datatype, array in NUMBERS.items():
            if datatype != "FP16":
                asked = [tritonclient.http.InferRequestedOutput("OUTPUT0", binary_data=False)]
                inputs = [given("INPUT0", array, datatype, binary=False)]
                result = client.infer(f"identity_{datatype.lower()}", inputs, outputs=asked)
                same(result.as_numpy("OUTPUT0"), array)


@case()
def half_precision_as_json_is_refused(addresses: Addresses) -> None:
    body = b'{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP16","data":[0.5]}]}'
    with connected(addresses.with_flavour("http")) as client:
        reply = client._post("v2/models/identity_fp16/infer", body, None, None)
    assert reply.status_code == 400, f"{reply.status_code}"


@case()
def strings_travel_as_json(addresses: Addresses) -> None:
    with connected(addresses.with_flavour("http")) as client:
        asked = [tritonclient.http.InferRequestedOutput("OUTPUT0", binary_data=False)]
        result = client.infer("identity_bytes", [given("INPUT0", WORDS, "BYTES", binary=False)], outputs=asked)
    same(encoded(result.as_numpy("OUTPUT0")), encoded(WORDS))


@case()
def one_request_may_mix_json_and_binary(addresses: Addresses) -> None:
    with connected(addresses.with_flavour("http")) as client:
        for first, second in ((True, False), (False, True)):
            added(both_outputs(client.infer("simple", simple_inputs(first, second))))


@case()
def one_answer_may_mix_json_and_binary(addresses: Addresses) -> None:
    asked = [
        tritonclient.http.InferRequestedOutput("OUTPUT0", binary_data=False),
        tritonclient.http.InferRequestedOutput("OUTPUT1", binary_data=True),
    ]
    with connected(addresses.with_flavour("http")) as client:
        result = client.infer("simple", simple_inputs(True, True), outputs=asked)
    added(both_outputs(result))
    assert "data" in result.get_output("OUTPUT0")
    assert result.get_output("OUTPUT1")["parameters"]["binary_data_size"] == 64


@case()
def a_body_can_be_made_and_read_without_a_client(addresses: Addresses) -> None:
    http = tritonclient.http.InferenceServerClient
    body, length = http.generate_request_body(simple_inputs(True, True))
    with connected(addresses.with_flavour("http")) as client:
        headers = {"Inference-Header-Content-Length": str(length)}
        reply = client._post("v2/models/simple/infer", body, headers, None)
        assert reply.status_code == 200
        content = reply.read()
    result = http.parse_response_body(content, header_length=int(reply.get("Inference-Header-Content-Length")))
    added(both_outputs(result))


@case()
def query_parameters_and_headers_of_ones_own_are_ignored(addresses: Addresses) -> None:
    with connected(addresses.with_flavour("http")) as client:
        assert client.is_server_live(query_params={"test_1": 1, "test_2": 2})
        result = client.infer("simple", simple_inputs(True, True), headers={"x": "1"}, query_params={"y": "2"})
        added(both_outputs(result))


@case()
def bytes_that_are_no_text_come_back_as_they_went(addresses: Addresses) -> None:
    sent = np.array([[b"\xff\xfe", b"\x80 plain"]], dtype=object)
    with connected(addresses.with_flavour("http")) as client:
        result = client.infer("identity_bytes", [given("INPUT0", sent, "BYTES", binary=True)])
        same(result.as_numpy("OUTPUT0"), sent)


@case()
def a_connection_may_be_encrypted(addresses: Addresses) -> None:
    with connected(
        addresses.with_flavour("http"), addresses.tls, ssl=True, ssl_context_factory=trusting(addresses)
    ) as client:
        assert client.is_server_ready()
        added(both_outputs(client.infer("simple", simple_inputs(True, True))))


@case()
def a_caller_may_show_a_certificate(addresses: Addresses) -> None:
    trust = trusting(addresses, addresses.caller_certificate, addresses.caller_key)
    with connected(addresses.with_flavour("http"), addresses.mutual_tls, ssl=True, ssl_context_factory=trust) as client:
        added(both_outputs(client.infer("simple", simple_inputs(True, True))))


@case()
def a_caller_without_a_certificate_is_turned_away_where_one_is_required(addresses: Addresses) -> None:
    with connected(
        addresses.with_flavour("http"), addresses.mutual_tls, ssl=True, ssl_context_factory=trusting(addresses)
    ) as client:
        try:
            client.is_server_live()
        except ssl.SSLCertVerificationError:  # ours to trust, not the server's refusal
            raise
        except OSError:
            return
    raise AssertionError("it was let in")


@case()
def a_refusal_says_why(addresses: Addresses) -> None:
    with connected(addresses.with_flavour("http")) as client:
        status, text = refused(lambda: client.infer("nobody", simple_inputs(True, True)))
    assert status == "NOT_FOUND"
    assert "nobody" in text
