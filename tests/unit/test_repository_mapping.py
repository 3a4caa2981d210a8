"""What each field of a configuration becomes: terms, versions and tensors by tables, and a note for every field."""

import pytest
from google.protobuf import text_format
from hypothesis import given

from flyball.documents.snapshot import BatchWait
from flyball.documents.snapshot.models import ClientShape
from flyball.errors import ModelRefusedError
from flyball.native.model_documents import DeclaredTensor, ModelFiles
from flyball.triton import _model_config_pb2 as messages
from flyball.triton import batching, mapping, tensors, versions
from flyball.triton.config import read_config
from flyball.triton.report import Notes
from tests.unit.test_repository_config import configurations

TIMEOUT = "default_timeout_microseconds"


def said(notes):
    return {note.field: note.text for note in notes if not note.mapped}


def mapped(notes):
    return {note.field: note.text for note in notes if note.mapped}


def terms_of(text):
    notes = Notes()
    return batching.terms_of(read_config(text), notes), notes


@pytest.mark.parametrize(
    ("text", "rows_max", "all_maps"),
    [
        ("", 64, True),
        ("max_batch_size: 0", 0, True),
        ("max_batch_size: 1", 1, True),
        ("max_batch_size: 8", 8, True),
        ("max_batch_size: 1024", 1024, True),
        ("max_batch_size: 4096", 1024, False),
    ],
)
def test_the_largest_batch_is_the_rows_of_a_run(text, rows_max, all_maps):
    terms, notes = terms_of(text)
    assert terms.limits.batch_rows_max == rows_max
    assert (said(notes) == {}) is all_maps


@pytest.mark.parametrize(
    ("batching", "wait", "exact"),
    [
        ("", None, True),
        ("preferred_batch_size: [ 4, 8 ]", None, True),
        ("max_queue_delay_microseconds: 5000", (8, 5), True),
        ("preferred_batch_size: [ 8, 4 ] max_queue_delay_microseconds: 1000", (4, 1), True),
        ("preferred_batch_size: [ 1, 4 ] max_queue_delay_microseconds: 1000", None, True),
        ("preferred_batch_size: [ 32 ] max_queue_delay_microseconds: 1000", (8, 1), True),
        ("preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 100", None, False),
        ("preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 499", None, False),
        ("preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 500", (4, 1), False),
        ("preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 2600", (4, 3), False),
        ("preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 18446744073709551615", (4, 1000), False),
    ],
)
def test_a_queue_delay_is_a_wait_of_whole_milliseconds_and_rounding_is_said(batching, wait, exact):
    terms, notes = terms_of(f"max_batch_size: 8 dynamic_batching {{ {batching} }}")
    assert terms.batch == (BatchWait(size=wait[0], window_ms=wait[1]) if wait else None)
    assert ("dynamic_batching.max_queue_delay_microseconds" not in said(notes)) is exact
    assert any(note.field.startswith("dynamic_batching") for note in notes)


def test_a_model_that_runs_one_row_never_waits():
    terms, _ = terms_of("max_batch_size: 1 dynamic_batching { max_queue_delay_microseconds: 5000 }")
    assert (terms.batch, terms.limits.batch_rows_max) == (None, 1)


def test_without_a_largest_batch_a_wait_is_for_the_default_rows():
    terms, _ = terms_of("dynamic_batching { max_queue_delay_microseconds: 5000 }")
    assert terms.batch == BatchWait(size=64, window_ms=5)


@pytest.mark.parametrize(
    ("policy", "limits", "differs"),
    [
        ("default_timeout_microseconds: 20000 allow_timeout_override: true", {"queue_wait_ms_max": 20}, set()),
        ("default_timeout_microseconds: 9 allow_timeout_override: true", {"queue_wait_ms_max": 1}, {TIMEOUT}),
        ("default_timeout_microseconds: 20000", {"queue_wait_ms_max": 20}, {"allow_timeout_override"}),
        ("max_queue_size: 16 allow_timeout_override: true", {"in_flight_max": 16}, set()),
        ("max_queue_size: 4294967295 allow_timeout_override: true", {"in_flight_max": 65536}, set()),
        ("timeout_action: DELAY default_timeout_microseconds: 5 allow_timeout_override: true", {}, {"timeout_action"}),
    ],
)  # fmt: skip
def test_a_queue_policy_is_limits_of_the_queue(policy, limits, differs):
    terms, notes = terms_of(f"dynamic_batching {{ default_queue_policy {{ {policy} }} }}")
    stated = terms.limits.model_dump(include=set(limits))
    assert stated == limits
    assert terms.limits.model_dump(exclude=set(limits)) == terms_of("")[0].limits.model_dump(exclude=set(limits))
    assert {field.rpartition(".")[2] for field in said(notes)} == differs


@pytest.mark.parametrize(
    ("batching", "differs"),
    [
        ("priority_levels: 3 default_priority_level: 2", set()),
        ("priority_levels: 5", {"priority_levels"}),
        ("priority_levels: 2 default_priority_level: 1", {"default_priority_level"}),
        ("preserve_ordering: true", {"preserve_ordering"}),
        ("priority_queue_policy { key: 1 value { max_queue_size: 1 } }", {"priority_queue_policy"}),
    ],
)
def test_what_the_batcher_has_beyond_ours_is_said(batching, differs):
    _, notes = terms_of(f"dynamic_batching {{ {batching} }}")
    assert {field.rpartition(".")[2] for field in said(notes)} == differs


@pytest.mark.parametrize(
    ("policy", "present", "served"),
    [
        ("", [1], [1]),
        ("", [1, 3, 20], [20]),
        ("latest { num_versions: 2 }", [1, 3, 20], [3, 20]),
        ("latest { num_versions: 9 }", [1, 3], [1, 3]),
        ("latest { }", [1, 3], [3]),
        ("all { }", [2, 10, 1], [1, 2, 10]),
        ("specific { versions: [ 3, 1 ] }", [1, 2, 3], [1, 3]),
        ("specific { versions: [ 1, 7 ] }", [1, 2], [1]),
        ("all { }", list(range(1, 31)), list(range(15, 31))),
    ],
)
def test_the_version_policy_chooses_among_the_folders(policy, present, served):
    config = read_config(f"version_policy {{ {policy} }}" if policy else "")
    assert versions.chosen(config, present, Notes()) == served


@pytest.mark.parametrize(
    ("policy", "present", "reason"),
    [
        ("all { }", [], "no version folder"),
        ("specific { versions: 7 }", [1, 2], "found 1, 2"),
        ("all { }", [1, 20240131123000], "more than 9 digits"),
    ],
)
def test_a_model_without_a_version_that_can_be_served_is_refused(policy, present, reason):
    with pytest.raises(ModelRefusedError, match=reason):
        versions.chosen(read_config(f"version_policy {{ {policy} }}"), present, Notes())


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("specific { versions: [ 1, 7 ] }", "no folder for 7"),
        ("latest { }", "treated as 1"),
    ],
)
def test_what_a_version_policy_asks_for_in_vain_is_said(policy, words):
    notes = Notes()
    versions.chosen(read_config(f"version_policy {{ {policy} }}"), [1, 2], notes)
    assert words in " ".join(said(notes).values())


X = DeclaredTensor(name="x", datatype="FP32", shape=[-1, 4])
Y = DeclaredTensor(name="y", datatype="INT64", shape=[-1])
Z = DeclaredTensor(name="z", datatype="BYTES", shape=[-1, -1])
UNKNOWN = DeclaredTensor(name="u", datatype=None, shape=None)


def compared(text, inputs=(X,), outputs=(Y,), constants=()):
    files = ModelFiles(
        digest="",
        size_bytes=0,
        external_data=[],
        opset=[],
        producer="",
        nodes=0,
        inputs=inputs,
        outputs=outputs,
        optional_inputs=constants,
    )
    notes = Notes()
    config = read_config(text)
    tensors.optional_of(config, files, notes)
    return tensors.shapes_of(config, files, notes), notes


@pytest.mark.parametrize(
    "text",
    [
        'max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 dims: 4 }',
        'input { name: "x" data_type: TYPE_FP32 dims: [ -1, 4 ] }',
        'input { name: "x" }',
        'max_batch_size: 8 output { name: "y" data_type: TYPE_INT64 }',
    ],
)
def test_tensors_as_the_model_has_them_map(text):
    shapes, notes = compared(text)
    assert (shapes, said(notes)) == ({}, {})
    assert len(mapped(notes)) == 1


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        ('input { name: "x" data_type: TYPE_FP64 }', 'input "x" data_type', "FP64 differs from the model's FP32"),
        ('input { name: "x" dims: [ -1, 5 ] }', 'input "x" dims', "[-1, 5] differs from the model's [-1, 4]"),
        ('input { name: "x" dims: [ -1, -1 ] }', 'input "x" dims', "[-1, -1] differs from the model's [-1, 4]"),
        ('input { name: "x" dims: 4 }', 'input "x" dims', "[4] differs from the model's [-1, 4]"),
        ('max_batch_size: 2 input { name: "x" dims: [ -1, 4 ] }', 'input "x" dims', "[-1, 4] after the batch axis differs"),
        ('input { name: "x" optional: true }', 'input "x" optional', "no default"),
        ('input { name: "x" allow_ragged_batch: true }', 'input "x" allow_ragged_batch', "are not batched"),
    ],
)
def test_tensors_that_are_not_the_models_are_said(text, field, words):
    shapes, notes = compared(text)
    assert words in said(notes)[field]
    assert shapes == {}


@pytest.mark.parametrize(
    ("text", "name", "client", "model"),
    [
        ('max_batch_size: 2 input { name: "x" dims: [ 2, 2 ] reshape { shape: 4 } }', "x", [-1, 2, 2], [-1, 4]),
        ('input { name: "x" dims: [ 1, -1, 4 ] reshape { shape: [ -1, 4 ] } }', "x", [1, -1, 4], [-1, 4]),
        ('max_batch_size: 2 output { name: "y" dims: 1 reshape { } }', "y", [-1, 1], [-1]),
        ('input { name: "x" dims: [ 3, 4 ] }', "x", [3, 4], [3, 4]),
    ],
)
def test_dims_that_reshape_or_narrow_what_the_model_has_are_the_clients_shapes(text, name, client, model):
    shapes, notes = compared(text, outputs=(DeclaredTensor(name="y", datatype="INT64", shape=[-1]),))
    assert shapes == {name: ClientShape(client=client, model=model)}
    assert said(notes) == {}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("rows", "axes"), [("", []), ("max_batch_size: 2 ", [-1])])
def test_a_format_is_the_layout_of_an_image_input(layout, rows, axes):
    inputs = (DeclaredTensor(name="x", datatype="FP32", shape=[*axes, 3, 2, 4]),)
    shapes, notes = compared(f'{rows}input {{ name: "x" dims: [ 3, 2, 4 ] format: FORMAT_{layout} }}', inputs=inputs)
    assert shapes == {"x": ClientShape(client=[*axes, 3, 2, 4], model=[*axes, 3, 2, 4], layout=layout)}
    assert said(notes) == {}
    assert layout in mapped(notes)['input "x" format']


def test_a_format_needs_three_axes():
    with pytest.raises(ModelRefusedError, match=r'input "x": format FORMAT_NCHW needs dims of 3 axes, not 2'):
        compared('input { name: "x" dims: [ -1, 4 ] format: FORMAT_NCHW }')


@pytest.mark.parametrize("reshape", ["[ 5 ]", "[ -1, 4 ]", "[ ]"])
def test_a_reshape_to_other_elements_refuses_the_model(reshape):
    with pytest.raises(ModelRefusedError, match=r'input "x": reshape .* must have as many elements and free axes'):
        compared(f'max_batch_size: 2 input {{ name: "x" dims: [ 2, 2 ] reshape {{ shape: {reshape} }} }}')


def test_a_constant_that_the_configuration_names_is_an_input_with_a_default():
    scale = DeclaredTensor(name="scale", datatype="FP32", shape=[-1, 1])
    text = 'max_batch_size: 8 input [ { name: "x" dims: 4 }, { name: "scale" dims: 1 optional: true } ]'
    shapes, notes = compared(text, constants=[scale])
    assert shapes == {}
    assert 'input "scale" optional' not in said(notes)
    with pytest.raises(ModelRefusedError, match="an input with a default cannot have a reshape"):
        compared('input { name: "scale" dims: [ 1, 1 ] reshape { shape: [ 1 ] } }', constants=[scale])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('input { name: "w" }', 'input "w": the model has no such input; it has x'),
        ('output { name: "v" }', 'output "v": the model has no such output; it has y'),
    ],
)
def test_a_tensor_that_the_model_does_not_have_refuses_it(text, words):
    with pytest.raises(ModelRefusedError) as caught:
        compared(text)
    assert caught.value.message == words


def test_a_scalar_has_one_element_for_clients():
    shapes, _ = compared('input { name: "u" dims: [ 1, 1 ] }', inputs=(UNKNOWN,))
    assert shapes["u"] == ClientShape(client=[1, 1], model=[])
    with pytest.raises(ModelRefusedError, match=r"dims \[2\] must have one element"):
        compared('input { name: "u" dims: 2 }', inputs=(UNKNOWN,))


def test_a_text_tensor_is_bytes_and_what_the_file_does_not_say_is_not_compared():
    text = 'input { name: "z" data_type: TYPE_STRING dims: [ 7, 1 ] } input { name: "u" data_type: TYPE_BF16 dims: 1 }'
    assert said(compared(text, inputs=(Z, UNKNOWN))[1]) == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('platform: "tensorrt_plan"', 'platform "tensorrt_plan": only onnxruntime_onnx is supported'),
        ('backend: "python"', 'backend "python": only onnxruntime is supported'),
        ('platform: "ensemble" ensemble_scheduling { step { model_name: "a" } }', "ensemble_scheduling: ensembles are not"),
        ("sequence_batching { }", "sequence_batching: no state is kept"),
        ("batch_input { kind: BATCH_ITEM_SHAPE }", "batch_input: "),
        ("batch_output { }", "batch_output: "),
    ],
)
def test_what_only_triton_can_run_is_refused_with_the_reason(text, reason):
    with pytest.raises(ModelRefusedError) as caught:
        mapping.identity(read_config(text), "m", Notes())
    assert caught.value.message.startswith(reason)


@pytest.mark.parametrize("text", ['platform: "onnxruntime_onnx"', 'backend: "onnxruntime"', 'name: "m"', ""])
def test_what_is_ours_maps(text):
    notes = Notes()
    mapping.identity(read_config(text), "m", notes)
    assert said(notes) == {}
    assert bool(mapped(notes)) is bool(text)


def test_a_name_that_is_not_the_folders_is_said():
    notes = Notes()
    mapping.identity(read_config('name: "n"'), "m", notes)
    assert 'it is served as "m"' in said(notes)["name"]


def test_a_note_says_which_parts_of_a_field_were_stated():
    notes = Notes()
    text = """instance_group [ { count: 2 }, { kind: KIND_GPU gpus: 0 } ] optimization { graph { level: 1 } }
        parameters { key: "b" value { } } parameters { key: "a" value { } } runtime: "r" colour { size: 1 }"""
    mapping.note_unmapped(read_config(text), notes)
    fields = ["runtime", "instance_group(count, gpus, kind)", "optimization(graph)", "parameters(a, b)", "colour"]
    assert sorted(said(notes)) == sorted(fields)


@given(configurations())
def test_every_field_that_a_configuration_states_has_a_note_or_is_the_reason_of_a_refusal(written):
    message = messages.ModelConfig(**written)
    config, notes = read_config(text_format.MessageToString(message)), Notes()
    stated = {field.name for field, _ in message.ListFields()}
    refusal = ""
    declared = {"inputs": (X,), "outputs": (Y,)}
    files = ModelFiles(
        digest="", size_bytes=0, external_data=[], opset=[], producer="", nodes=0, optional_inputs=[], **declared
    )
    try:
        mapping.identity(config, "m", notes)
        versions.chosen(config, [1, 2, 3], notes)
        tensors.shapes_of(config, files, notes)
        tensors.optional_of(config, files, notes)
    except ModelRefusedError as error:
        refusal = error.message
    if refusal:
        assert any(name in refusal for name in stated)
        return
    batching.terms_of(config, notes)
    mapping.note_unmapped(config, notes)
    noted = {note.field.split(" ")[0].split("(")[0].split(".")[0] for note in notes}
    # A policy that chooses nothing says nothing.
    silent = set() if message.version_policy.WhichOneof("policy_choice") else {"version_policy"}
    assert stated - silent <= noted
