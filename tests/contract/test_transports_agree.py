"""One contract, every way in: the same cases through every tongue and every door give the same answers and the same faults.

The tables of tongues and doors are tests/support/transports.py's; a case joins by a line in `ANSWERS` or `FAULTS`.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from conformance.certificates import make_certificates
from conformance.models import make_models
from tests.support import onnx_models as makers
from tests.support import serving
from tests.support.onnx_models import Arrays, row
from tests.support.transports import DOORS, TEXTUAL, TONGUES, Ask, Got, Open
from tests.support.wire import assert_same

WAYS = [(tongue, door) for tongue in TONGUES for door in DOORS]
NAMES = [f"{tongue} over {door}" for tongue, door in WAYS]
every_way = pytest.mark.parametrize("way", WAYS, ids=NAMES)


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An identity of every element type."""
    made = make_models(tmp_path_factory.mktemp("identities"))
    return {name: path for name, path in made.items() if name.startswith("identity_")}


@pytest.fixture(scope="module")
def doors(
    model: Callable[[str], Path], identities: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Open]:
    """One server that listens everywhere and takes shared memory."""
    folder = tmp_path_factory.mktemp("doors")
    made, port, path = make_certificates(folder / "certificates"), serving.free_port(), folder / "house.sock"
    command = [*serving.flyball(), "serve", *(str(model(name)) for name in makers.GOOD)]
    command += [f"{name}={path}" for name, path in identities.items()]
    command += ["--listen", "127.0.0.1:0", "--listen", f"tls://127.0.0.1:{port}", "--listen", f"unix:{path}"]
    command += ["--tls-cert", str(made.server.certificate), "--tls-key", str(made.server.key), "--allow-shared-memory"]
    with serving.serving(command) as server:
        yield Open((server.host, server.port), path, ("localhost", port), made.authority.certificate)


def asked(doors: Open, way: tuple[str, str], ask: Ask) -> Got:
    tongue, door = way
    return TONGUES[tongue](DOORS[door](doors), ask)


def rows(model: str, count: int) -> Arrays:
    each = [row(model, seed) for seed in range(count)]
    return {name: np.concatenate([inputs[name] for inputs in each]) for name in each[0]}


ANSWERS = {
    "one float row": Ask("linear", row("linear", 1)),
    "many float rows": Ask("linear", rows("linear", 17)),
    "trees": Ask("gbdt", rows("gbdt", 5)),
    "whole numbers": Ask("int64", rows("int64", 3)),
    "strings": Ask("strings", rows("strings", 9)),
    "booleans": Ask("boolean", rows("boolean", 4)),
    "three inputs of three types": Ask("many", rows("many", 6)),
    "some outputs, in another order": Ask("many", rows("many", 2), outputs=("next", "mean")),
    "a version by number": Ask("linear", row("linear", 2), version="1"),
    "no batch axis": Ask("fixed_batch", row("fixed_batch", 1)),
    "a loop": Ask("looped", row("looped", 1)),
    "a deadline that can be kept": Ask("slow", row("slow", 1), timeout_us=20_000_000),
    "a high priority": Ask("linear", row("linear", 3), priority=1),
    "a low priority and a deadline": Ask("linear", row("linear", 4), timeout_us=20_000_000, priority=7),
}


@every_way
@pytest.mark.parametrize("ask", ANSWERS.values(), ids=ANSWERS.keys())
def test_every_way_in_gives_the_same_answer(
    doors: Open, reference: Callable[[str, Arrays], Arrays], ask: Ask, way: tuple[str, str]
) -> None:
    wanted = reference(ask.model, ask.inputs)
    got = asked(doors, way, ask)
    assert got.fault is None
    assert_same(got.outputs, {output: wanted[output] for output in ask.outputs or wanted})
    assert list(got.outputs) == list(ask.outputs or wanted)
    assert (got.id, got.model) == (ask.id, (ask.model, "1"))


EXTREMES = {
    "UINT8": np.array([[0, 255]], np.uint8),
    "UINT16": np.array([[0, 65535]], np.uint16),
    "UINT32": np.array([[0, 2**32 - 1]], np.uint32),
    "UINT64": np.array([[0, 2**64 - 1]], np.uint64),
    "INT8": np.array([[-128, 127]], np.int8),
    "INT16": np.array([[-32768, 32767]], np.int16),
    "INT32": np.array([[-(2**31), 2**31 - 1]], np.int32),
    "FP64": np.array([[0.1, 5e-324]], np.float64),
    "FP16": np.array([[0.1, 6e-8]], np.float16),
    "BYTES": np.array([["", "grün\n🦊"]], object),
}


SAYABLE = [(datatype, way) for datatype in EXTREMES for way in WAYS if way[0] not in TEXTUAL.get(datatype, ())]


@pytest.mark.parametrize(
    ("datatype", "way"), SAYABLE, ids=[f"{datatype} as {' over '.join(way)}" for datatype, way in SAYABLE]
)
def test_every_element_type_comes_back_as_it_went(doors: Open, datatype: str, way: tuple[str, str]) -> None:
    got = asked(doors, way, Ask(f"identity_{datatype.lower()}", {"INPUT0": EXTREMES[datatype]}))
    assert got.fault is None
    assert_same(got.outputs, {"OUTPUT0": EXTREMES[datatype]})


@every_way
def test_an_infinity_travels_in_every_form(
    doors: Open, reference: Callable[[str, Arrays], Arrays], way: tuple[str, str]
) -> None:
    ask = Ask("infinite", {"x": np.zeros((1, 1), np.float32)})
    assert_same(asked(doors, way, ask).outputs, reference("infinite", ask.inputs))


@every_way
def test_rows_without_elements_come_back(doors: Open, way: tuple[str, str]) -> None:
    nothing = np.zeros((3, 0), np.float32)
    assert_same(asked(doors, way, Ask("identity_fp32", {"INPUT0": nothing})).outputs, {"OUTPUT0": nothing})


ONE = np.ones((1, 4), np.float32)
FAULTS = {
    "wrong datatype": ("INVALID_ARGUMENT", Ask("linear", {"x": ONE.astype(np.int64)})),
    "wrong shape": ("INVALID_ARGUMENT", Ask("linear", {"x": np.ones((1, 5), np.float32)})),
    "wrong rank": ("INVALID_ARGUMENT", Ask("linear", {"x": np.ones(4, np.float32)})),
    "no rows": ("INVALID_ARGUMENT", Ask("linear", {"x": np.ones((0, 4), np.float32)})),
    "unknown input": ("INVALID_ARGUMENT", Ask("linear", {"z": ONE})),
    "one input too many": ("INVALID_ARGUMENT", Ask("linear", {"x": ONE, "z": ONE})),
    "missing input": ("INVALID_ARGUMENT", Ask("many", {"amounts": np.ones((1, 3), np.float32)})),
    "inputs of different row counts": (
        "INVALID_ARGUMENT",
        Ask("many", {**rows("many", 2), "count": np.ones((1, 1), np.int64)}),
    ),
    "two rows where one is taken": ("INVALID_ARGUMENT", Ask("fixed_batch", {"x": np.ones((2, 4), np.float32)})),
    "unknown output": ("INVALID_ARGUMENT", Ask("linear", {"x": ONE}, outputs=("q",))),
    "unknown model": ("NOT_FOUND", Ask("nobody", {"x": ONE})),
    "unknown version": ("NOT_FOUND", Ask("linear", {"x": ONE}, version="9")),
    "a deadline that is over": ("DEADLINE_EXCEEDED", Ask("linear", {"x": ONE}, timeout_us=1)),
    "a run that fails": ("INTERNAL", Ask("gather", {"x": np.array([[99]], np.int64)})),
}


@every_way
@pytest.mark.parametrize(("status", "ask"), FAULTS.values(), ids=FAULTS.keys())
def test_every_way_in_gives_the_same_fault_in_the_same_words(
    doors: Open, status: str, ask: Ask, way: tuple[str, str]
) -> None:
    wanted = asked(doors, WAYS[0], ask).fault
    assert wanted
    assert wanted[0] == status
    assert asked(doors, way, ask).fault == wanted
