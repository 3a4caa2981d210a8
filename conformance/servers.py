"""The two servers of a run: one with every option on, one with the defaults. Must not know the requests."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from conformance.addresses import Addresses
from conformance.certificates import make_certificates
from conformance.models import LABELS, make_models
from flyball.bench.process import Process
from flyball.documents.snapshot import ModelSource, compile_models
from flyball.native.boundary import ort_library

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def serving(flyballd: Path, folder: Path) -> Iterator[Addresses]:
    """Both servers, ready; leaving stops them."""
    made_models = make_models(folder / "models")
    sources = [ModelSource(name, path, labels=LABELS.get(name, {})) for name, path in made_models.items()]
    index = compile_models(sources).write(folder / "snapshot")
    made = make_certificates(folder / "certificates")
    tls, mutual, unix = _free_port(), _free_port(), folder / "open.sock"
    identity = {"tls_cert": str(made.server.certificate), "tls_key": str(made.server.key)}
    everything = {
        **identity,
        "listen": ["127.0.0.1:0", f"tls://127.0.0.1:{tls}", f"unix:{unix}"],
        "allow_model_control": True,
        "allow_shared_memory": True,
    }
    closed = {
        **identity,
        "listen": ["127.0.0.1:0", f"tls://127.0.0.1:{mutual}"],
        "tls_client_ca": str(made.authority.certificate),
    }
    with ExitStack() as stack:
        addresses = []
        for name, settings in (("open", everything), ("closed", closed)):
            config = folder / f"{name}.json"
            config.write_text(json.dumps(settings))
            command = [str(flyballd), "--unsigned", "allow", "--snapshot", str(index), "--config", str(config)]
            server = stack.enter_context(Process(command, environment={"ORT_DYLIB_PATH": str(ort_library())}))
            addresses.append(server.url.removeprefix("http://"))
        yield Addresses(
            open=addresses[0],
            closed=addresses[1],
            tls=f"localhost:{tls}",
            mutual_tls=f"localhost:{mutual}",
            socket=str(unix),
            authority=str(made.authority.certificate),
            caller_certificate=str(made.caller.certificate),
            caller_key=str(made.caller.key),
        )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
