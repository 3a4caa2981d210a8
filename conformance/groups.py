"""The groups of the page, in order: their modules, environments and protocols."""

from __future__ import annotations

from dataclasses import dataclass

_SPELT = {"http": "HTTP", "grpc": "gRPC"}
CLIENTS, KSERVE, OURS = "tritonclient", "kserve", "ours"


@dataclass(frozen=True)
class Part:
    """One module, run for one protocol or for none in particular."""

    module: str
    flavour: str = ""


@dataclass(frozen=True)
class Group:
    """Cases of one client."""

    name: str
    environment: str
    parts: tuple[Part, ...]

    def row_text(self, what: str, part: Part) -> str:
        """A row's text, with its protocol if the group has both and the text names none."""
        flavours = {other.flavour for other in self.parts} - {""}
        if len(flavours) < 2 or not part.flavour or f"_{part.flavour}_" in what:
            return what
        return f"{what}, over {_SPELT[part.flavour]}"


def _parts(module: str, *flavours: str) -> tuple[Part, ...]:
    return tuple(Part(f"conformance.cases.{module}", flavour) for flavour in flavours or ("",))


GROUPS = (
    Group("tritonclient HTTP", CLIENTS, _parts("triton_sync", "http") + _parts("triton_http")),
    Group("tritonclient gRPC", CLIENTS, _parts("triton_sync", "grpc") + _parts("triton_grpc")),
    Group("tritonclient HTTP aio", CLIENTS, _parts("triton_aio", "http")),
    Group("tritonclient gRPC aio", CLIENTS, _parts("triton_aio", "grpc")),
    Group("tritonclient shared memory", CLIENTS, _parts("triton_memory", "http", "grpc")),
    Group("Triton's examples", CLIENTS, _parts("examples", "http", "grpc") + _parts("examples_grpc")),
    Group("perf_analyzer", OURS, _parts("perf")),
    Group("KServe SDK REST", KSERVE, _parts("kserve_rest")),
    Group("KServe SDK gRPC", KSERVE, _parts("kserve_grpc")),
    Group("curl", OURS, _parts("curl")),
)
