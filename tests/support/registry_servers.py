"""A server that follows a registry, with the admin API in a separate process, for the tests."""

import contextlib
import subprocess
from collections.abc import Iterator

from bench.claims.registry.trusted import write_key
from flyball.registry.remote.registry import RemoteRegistry
from tests.support import serving
from tests.support.registry_people import ADA, Desk
from tests.support.serving import Server


@contextlib.contextmanager
def following(desk: Desk) -> Iterator[tuple[Server, RemoteRegistry]]:
    """The server, and the registry as a deployer reaches it; leaving ends both."""
    publisher = desk.folder / "publisher.pem"
    write_key(publisher, desk.keys["publisher"])
    home, key = str(desk.home.folder), desk.registry.add_key("deploys", ["deployer"], actor=ADA)
    own = ["--publisher-key", str(publisher), "--state-folder", str(desk.folder / "state")]
    serve = [*serving.flyball(), "serve", "--registry", home, "--listen", "127.0.0.1:0", *own]
    admin = [*serving.flyball(), "admin", "--registry", home, "--listen", "127.0.0.1:0"]
    with (
        serving.serving(serve) as server,
        _listening(admin) as url,
        contextlib.closing(RemoteRegistry(url, key)) as remote,
    ):
        yield server, remote


@contextlib.contextmanager
def _listening(command: list[str]) -> Iterator[str]:
    """The URL that a process says it is ready at."""
    process = subprocess.Popen(command, env=serving.environment(), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        line = serving.Lines(process.stdout).wait_for(lambda line: line if line.startswith("ready ") else None, 20.0)
        assert line is not None, "the admin API did not get ready"
        yield line.split()[1]
    finally:
        process.terminate()
        process.wait(60)
