"""Arrays survive the journey to V2 tensors and back, for every datatype."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from flyball.errors import InvalidInputError, ServerFaultError
from flyball.rows.tensors import Tensor, as_array, datatype_of, decode, decode_data, encode

CODES = ["?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


@given(st.sampled_from(CODES).flatmap(lambda code: hnp.arrays(np.dtype(code), SHAPES)), st.sampled_from("<>"))
def test_numbers_come_back_bit_for_bit(array, order):
    sent = encode("x", array.astype(array.dtype.newbyteorder(order)))
    back = decode(sent)
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()


@given(hnp.arrays(object, SHAPES, elements=st.text(st.characters(codec="utf-8")), fill=st.nothing()))
def test_strings_come_back_as_strings(array):
    back = decode(encode("x", array))
    assert back.dtype == object
    assert back.shape == array.shape
    assert back.tolist() == array.tolist()


@given(st.lists(st.binary(), max_size=5))
def test_bytes_that_are_no_utf8_are_not_lost(items):
    array = np.empty(len(items), dtype=object)
    array[:] = items
    there = encode("x", array)
    assert encode("x", decode(there)).raw == there.raw


def test_a_unicode_array_travels_as_bytes():
    sent = encode("x", np.array([["ä", "bc"]]))
    assert (sent.datatype, sent.shape, sent.raw) == ("BYTES", (1, 2), b"\x02\x00\x00\x00\xc3\xa4\x02\x00\x00\x00bc")


def test_bfloat16_travels_and_comes_back_widened():
    array = np.array([1.5, -2.0, 3.140625], dtype=ml_dtypes.bfloat16)
    sent = encode("x", array)
    assert sent.datatype == "BF16"
    assert decode(sent).tolist() == [1.5, -2.0, 3.140625]


def test_an_answer_can_be_written_to():
    decode(encode("x", np.zeros(3, np.float32)))[0] = 1


def test_a_dtype_that_the_protocol_lacks_is_refused_with_those_that_it_has():
    with pytest.raises(InvalidInputError, match="complex128") as caught:
        datatype_of("x", np.zeros(1, np.complex128))
    assert "float32" in str(caught.value)


def test_an_object_array_may_hold_only_strings():
    with pytest.raises(InvalidInputError, match="a float in it"):
        encode("x", np.array(["a", 1.0], dtype=object))


@pytest.mark.parametrize(
    "tensor",
    [
        Tensor("y", "FP32", (2,), b"\0" * 7),
        Tensor("y", "FP31", (1,), b"\0" * 4),
        Tensor("y", "FP32", (-1,), b""),
        Tensor("y", "BYTES", (1,), b"\x05\0\0\0ab"),
        Tensor("y", "BYTES", (1,), b"\x05\0"),
        Tensor("y", "BYTES", (2,), b"\x00\0\0\0"),
    ],
)
def test_an_answer_that_does_not_add_up_is_the_servers_fault(tensor):
    with pytest.raises(ServerFaultError, match="cannot read the server's output 'y'"):
        decode(tensor)


@pytest.mark.parametrize("data", [[1, 2, 3, 4], [[1, 2], [3, 4]]])
def test_json_data_is_read_nested_or_flat(data):
    assert decode_data("y", "INT64", (2, 2), data).tolist() == [[1, 2], [3, 4]]


def test_json_strings_are_read_nested_or_flat():
    assert decode_data("y", "BYTES", (2, 1), [["a"], ["b"]]).tolist() == [["a"], ["b"]]


def test_json_data_that_does_not_fit_is_the_servers_fault():
    with pytest.raises(ServerFaultError):
        decode_data("y", "FP32", (3,), [1, 2])


@pytest.mark.parametrize("datatype", ["FP32", "BYTES"])
def test_rows_of_different_lengths_are_refused_in_plain_words(datatype):
    with pytest.raises(InvalidInputError, match="rows have different lengths"):
        as_array([["1", "2"], ["3"]], datatype)


def test_plain_lists_take_the_models_datatype():
    assert as_array([[1, 2]], "FP32").dtype == np.float32
    assert as_array(["a"], "BYTES").dtype == object
    with pytest.raises(InvalidInputError, match="cannot convert the values to INT64"):
        as_array(["x"], "INT64")
