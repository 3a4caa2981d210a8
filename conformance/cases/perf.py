"""perf_analyzer, run to completion with short windows over every protocol and transport, with the server's statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.claims.tools import perf_figures
from conformance.case import case

if TYPE_CHECKING:
    from conformance.addresses import Addresses

# Windows of a fifth of a second: long enough to count, too short to quote.
SHORT = ["--measurement-interval", "200", "--max-trials", "3", "--stability-percentage", "900"]
SERVER_SIDE = ("Server Queue", "Server Compute Input", "Server Compute Infer", "Server Compute Output")


def perf(addresses: Addresses, *asked: str, model: str = "simple", url: str = "") -> dict[str, str]:
    """The figures of a run; fails where it does not run to its end."""
    figures = perf_figures(url or addresses.open, model, *SHORT, *asked, seconds=50)
    assert float(figures["Inferences/Second"]) > 0, f"{figures}"
    return figures


def server_side(figures: dict[str, str]) -> None:
    """The server's own numbers are there, and the model took its time."""
    missing = [name for name in SERVER_SIDE if not figures.get(name)]
    assert not missing, f"{missing} of {figures}"
    assert sum(float(figures[name]) for name in SERVER_SIDE) > 0, f"{figures}"


@case()
def over_http(addresses: Addresses) -> None:
    server_side(perf(addresses, "-i", "http", "--percentile", "99"))


@case()
def over_grpc(addresses: Addresses) -> None:
    server_side(perf(addresses, "-i", "grpc", "--percentile", "99"))


@case()
def over_grpc_streams(addresses: Addresses) -> None:
    server_side(perf(addresses, "-i", "grpc", "--streaming"))


@case()
def over_http_with_shared_memory(addresses: Addresses) -> None:
    server_side(perf(addresses, "-i", "http", "--shared-memory", "system", "--percentile", "99"))


@case()
def over_grpc_with_shared_memory(addresses: Addresses) -> None:
    server_side(perf(addresses, "-i", "grpc", "--shared-memory", "system", "--percentile", "99"))


@case()
def with_its_asynchronous_interface(addresses: Addresses) -> None:
    perf(addresses, "-i", "http", "--async", "--concurrency-range", "4")
    perf(addresses, "-i", "grpc", "--async", "--concurrency-range", "4")


@case()
def with_several_callers_and_rows(addresses: Addresses) -> None:
    perf(addresses, "-i", "grpc", "--concurrency-range", "2:4:2", "-b", "4")


@case()
def at_a_fixed_rate(addresses: Addresses) -> None:
    perf(addresses, "-i", "http", "--request-rate-range", "200", "--request-distribution", "poisson")


@case()
def with_compression(addresses: Addresses) -> None:
    perf(addresses, "-i", "grpc", "--grpc-compression-algorithm", "gzip")


@case()
def with_strings_and_a_free_axis(addresses: Addresses) -> None:
    perf(addresses, "-i", "http", "--shape", "INPUT0:4", "--string-length", "8", model="identity_bytes")


@case()
def over_an_encrypted_connection(addresses: Addresses) -> None:
    perf(addresses, "-i", "http", "--ssl-https-ca-certificates-file", addresses.authority, url=f"https://{addresses.tls}")
