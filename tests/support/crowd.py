"""Busy neighbour connections that verify every answer.

While a test does something else to the server, the crowd keeps it batching and notices any wrong answer.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator

from tests.support.onnx_models import Arrays, row
from tests.support.serving import Server, until
from tests.support.wire import Http, assert_same, binary_request, from_binary, infer_path

ROWS = 24


class Crowd:
    """Counts what its connections asked, and keeps the first problem."""

    def __init__(self, connections: int) -> None:
        self.connections = connections
        self.stop = threading.Event()
        self.answers = [0] * connections
        self.problem: BaseException | None = None

    @property
    def answered(self) -> int:
        return sum(self.answers)

    def wait_for_more(self, answers_each: int = 2) -> None:
        """Until every connection got some more answers from now on."""
        wanted = [count + answers_each for count in self.answers]
        until(
            "every neighbour is answered",
            lambda: self.problem or all(is_ >= want for is_, want in zip(self.answers, wanted, strict=True)) or None,
        )

    def check(self) -> None:
        if self.problem is not None:
            raise AssertionError("a neighbour noticed") from self.problem


@contextlib.contextmanager
def crowd(server: Server, model: str, reference: Callable[[str, Arrays], Arrays], connections: int = 16) -> Iterator[Crowd]:
    """Keeps `connections` busy with different rows of a model, over the binary extension, for a `with` block."""
    rows = [row(model, 5000 + seed) for seed in range(ROWS)]
    pairs = [(binary_request(inputs), reference(model, inputs)) for inputs in rows]
    people = Crowd(connections)
    threads = [
        threading.Thread(target=_ask, args=(people, place, server, model, pairs), daemon=True)
        for place in range(connections)
    ]
    for thread in threads:
        thread.start()
    try:
        people.wait_for_more()
        yield people
        people.wait_for_more()
    finally:
        people.stop.set()
        for thread in threads:
            thread.join(10)
    people.check()


def _ask(people: Crowd, place: int, server: Server, model: str, pairs: list[tuple[tuple[bytes, int], Arrays]]) -> None:
    try:
        with Http(server) as connection:
            turn = place
            while not people.stop.is_set():
                (body, length), wanted = pairs[turn % len(pairs)]
                headers = {"Inference-Header-Content-Length": str(length)}
                reply = connection.request("POST", infer_path(model), body, headers)
                assert reply.status == 200, (reply.status, reply.body)
                assert_same(from_binary(reply), wanted)
                people.answers[place] += 1
                turn += people.connections + 1
    except BaseException as problem:  # handed to the test's own thread
        people.problem = people.problem or problem
