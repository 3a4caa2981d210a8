"""config.pbtxt as text-format protobuf: what parses, what is named as unknown, and that the messages are Triton's."""

import importlib
import sys

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from flyball.errors import MissingExtraError, ModelRefusedError
from flyball.triton import _model_config_pb2 as messages
from flyball.triton.config import CONFIG_BYTES_MAX, empty, read_config

WRITTEN = """
# A comment, and every way to write a message or a list.
name: "fraud"
platform: 'onnxruntime_onnx'
max_batch_size: 8
input [
  { name: "x" data_type: TYPE_FP32 dims: [ 4 ] },
  { name: "z", data_type: TYPE_STRING, dims: -1; optional: true }
]
output: < name: "y" data_type: TYPE_FP32 dims: 2 label_filename: "la" "bels.txt" >
dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100 }
parameters { key: "threads" value: { string_value: "1" } }
parameters: { key: "mode" value { string_value: "2" } }
instance_group [ { count: 2 kind: KIND_CPU } ]
"""


def test_a_configuration_as_people_write_it_parses():
    config = read_config(WRITTEN)
    message = config.message
    assert config.unknown == ()
    assert (message.name, message.platform, message.max_batch_size) == ("fraud", "onnxruntime_onnx", 8)
    assert [tensor.name for tensor in message.input] == ["x", "z"]
    assert (list(message.input[1].dims), message.input[1].optional) == ([-1], True)
    assert message.output[0].label_filename == "labels.txt"
    assert list(message.dynamic_batching.preferred_batch_size) == [4, 8]
    assert sorted(message.parameters) == ["mode", "threads"]


def test_a_batch_of_zero_is_told_from_none():
    assert read_config("max_batch_size: 0").states("max_batch_size")
    assert not read_config("").states("max_batch_size")
    assert not empty().states("dynamic_batching")


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("colour: 1", ("colour",)),
        ('colour { name: "x" inner { a: 1 } } size: [1, 2]', ("colour", "size")),
        ('colour: "a" "b" \'c\' name: "m"', ("colour",)),
        ("colour: [ { a: 1 }, { b: 2 } ] max_batch_size: 3", ("colour",)),
        ("colour < a: 1 > name: 'm'", ("colour",)),
        ("input { name: 'x' colour: RED } input { colour: BLUE; dims: 1 }", ("input.colour",)),
        ("input [ { colour: -1.5e3 }, { size: 1 } ]", ("input.colour", "input.size")),
        ("parameters { key: 'k' value { string_value: 'v' other: 1 } }", ("parameters.value.other",)),
        ("name: 'input { colour: 1 }' # size: 1", ()),
        ("dynamic_batching { } version_policy: { all { } }", ()),
    ],
)
def test_unknown_fields_are_named_and_the_rest_is_read(text, unknown):
    assert read_config(text).unknown == unknown


def test_what_stands_after_an_unknown_field_is_read():
    assert read_config('colour { a: [1, 2] b { c: "}" } } name: "m"').message.name == "m"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('name: "fraud', "line 1: "),
        ("name: 'm'\ninput [ { name: 'x' }", "line 2: "),
        ("\n\nmax_batch_size: many", "line 3: "),
        ("input { data_type: TYPE_FP8 }", 'Enum type "DataType" has no value named TYPE_FP8'),
        ("name: 'a' name: 'b'", "line 1: "),
        ("colour {" * 100_000, "nested too deeply"),
        ("input " + "{ input " * 50_000, "nested too deeply"),
        ("}", "line 1: "),
    ],
)
def test_a_broken_configuration_is_refused_with_its_line(text, told):
    with pytest.raises(ModelRefusedError, match=r"cannot parse config\.pbtxt: ") as caught:
        read_config(text)
    assert told in caught.value.message
    assert "flyball.triton" not in caught.value.message


def test_a_broken_line_is_quoted_up_to_a_bound():
    with pytest.raises(ModelRefusedError) as caught:
        read_config("name: " + "x" * 10_000)
    assert len(caught.value.message) < 400


def test_a_configuration_that_is_far_too_long_is_not_parsed():
    with pytest.raises(ModelRefusedError, match="longer than"):
        read_config("#" * (CONFIG_BYTES_MAX + 1))


def test_without_protobuf_the_error_gives_the_pip_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.protobuf.text_format", None)
    monkeypatch.delattr("google.protobuf.text_format", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'flyball\[triton\]'"):
        read_config("")


def fields(descriptor):
    """Number, name, type and kind of every field of a message and of those in it, by path."""
    found, seen, todo = {}, set(), [descriptor]
    while todo:
        message = todo.pop()
        if message.name in seen:
            continue
        seen.add(message.name)
        for field in message.fields:
            kind = field.message_type or field.enum_type
            values = sorted((v.name, v.number) for v in field.enum_type.values) if field.enum_type else None
            oneof = field.containing_oneof.name if field.containing_oneof else None
            oneof = None if oneof == "_max_batch_size" else oneof  # how protobuf keeps that a field is optional
            is_list = field.is_repeated
            found[message.name, field.name] = (field.number, field.type, is_list, kind and kind.name, values, oneof)
            if field.message_type:
                todo.append(field.message_type)
    return found


def test_the_messages_have_every_field_of_tritons_own_and_no_other():
    theirs = importlib.import_module("tritonclient.grpc.model_config_pb2").ModelConfig.DESCRIPTOR
    ours, their = fields(messages.ModelConfig.DESCRIPTOR), fields(theirs)
    for path, field in their.items():
        assert ours.get(path) == field, path
    # What their package of today does not have yet is in Triton's repository.
    assert {message for message, _ in ours.keys() - their.keys()} <= {
        "ModelConfig",
        "ModelEnsembling",
        "Step",
        "ModelMetrics",
    }


def scalars(field):
    if field.type == field.TYPE_STRING:
        return st.text(max_size=5)
    if field.type == field.TYPE_BOOL:
        return st.booleans()
    if field.type == field.TYPE_ENUM:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return st.floats(width=32, allow_nan=False)  # one that is not a number equals nothing, itself included
    return st.integers(0, 2**31 - 1)


@st.composite
def configurations(draw, descriptor=messages.ModelConfig.DESCRIPTOR, depth=0):
    """Any subset of the fields that there are, with any values, as the fields of a message."""
    fields = list(descriptor.fields)
    chosen = draw(st.lists(st.sampled_from(fields), unique_by=lambda field: field.name, max_size=4)) if fields else []
    found, oneofs = {}, set()
    for field in chosen:
        if field.containing_oneof:
            if field.containing_oneof.name in oneofs:
                continue
            oneofs.add(field.containing_oneof.name)
        inner = field.message_type
        if inner is not None and (depth > 3 or inner.GetOptions().map_entry):
            continue
        value = scalars(field) if inner is None else configurations(inner, depth + 1)
        found[field.name] = draw(st.lists(value, max_size=3)) if field.is_repeated else draw(value)
    return found


@given(configurations())
def test_any_subset_of_the_known_fields_parses_and_none_of_them_is_unknown(written):
    message = messages.ModelConfig(**written)
    for as_one_line in (True, False):
        config = read_config(text_format.MessageToString(message, as_one_line=as_one_line))
        assert config.message == message
        assert config.unknown == ()


@given(configurations(), st.sampled_from(["colour: 1", 'colour { a: "}" }', "colour: [ 1, 2 ]", "colour < b: X >"]))
def test_an_unknown_field_before_or_behind_any_others_is_named(written, colour):
    text = text_format.MessageToString(messages.ModelConfig(**written))
    for whole in (f"{colour}\n{text}", f"{text}\n{colour}"):
        config = read_config(whole)
        assert config.unknown == ("colour",)
        assert config.message == messages.ModelConfig(**written)
