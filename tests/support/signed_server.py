"""A server that watches a signed snapshot, for the tests: what it was given, what it says, and which model answers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime

from tests.support import onnx_models
from tests.support.onnx_models import row
from tests.support.serving import Server
from tests.support.signers import Office
from tests.support.wire import Http

Json = dict[str, Any]


def answer_of(path: Path) -> bytes:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found: bytes = session.run(["y"], row("linear", 7))[0].tobytes()
    return found


class Desk:
    """A server that watches a snapshot, and two models for it that answer differently."""

    def __init__(self, folder: Path, start: Callable[..., Server], program: list[str], *more: str) -> None:
        self.office = Office(folder)
        self.first = onnx_models.linear(folder, "first", seed=1)
        self.second = onnx_models.linear(folder, "second", seed=2)
        self.snapshot = folder / "snapshot"
        self.generation = 0
        self.good = self.office.deployment("fraud", 1, self.first)
        index = self.publish(self.good)
        flags = ["--listen", "127.0.0.1:0", "--watch", *self.office.flags, *more]
        self.command = [*program, "--snapshot", str(index), *flags]
        self._start = start
        self.server = start(*self.command)

    def restart(self) -> None:
        self.server = self._start(*self.command)

    def publish(self, *documents: Json, **wishes: Any) -> Path:
        self.generation += 1
        return self.office.write(self.snapshot, self.generation, list(documents), **wishes)

    def deployments(self) -> Json:
        with Http(self.server) as connection:
            reply = connection.get("/v1/deployments")
        assert reply.status == 200
        page: Json = reply.json
        return page

    def applied(self, model: Path) -> bool:
        """Whether the last snapshot was taken, and this model serves."""
        return self.deployments()["generation"] == self.generation and self.serves(model)

    def states(self) -> list[tuple[str, str]]:
        """The state and the version of each line, which is empty where it is not known."""
        return [(line["state"], line["version"] or "") for line in self.deployments()["deployments"]]

    def refusal(self) -> str | None:
        """Why the last snapshot, or what it asks for, is refused; none where it is not, or not yet."""
        page = self.deployments()
        lines = [line for line in page["deployments"] if line["state"] == "refused"]
        late = [line for line in lines if line["generation"] == self.generation]
        return page["refused"] or (late[0]["reason"] if late else None)

    def serves(self, model: Path) -> bool:
        with Http(self.server) as connection:
            return connection.infer("fraud", row("linear", 7))["y"].tobytes() == answer_of(model)
