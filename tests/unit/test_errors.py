"""The tree of errors: stable codes, exit codes of the specification, and the three mappings into it."""

import json

import pytest

from flyball import errors
from flyball.errors import FlyballError, from_grpc, from_http, from_native

# kind, HTTP status, Retry-After, gRPC status, exit code: the table of crates/core/src/fault.rs
KINDS = [
    ("malformed_request", 400, None, "INVALID_ARGUMENT", 3),
    ("invalid_input", 400, None, "INVALID_ARGUMENT", 3),
    ("model_not_found", 404, None, "NOT_FOUND", 3),
    ("version_not_found", 404, None, "NOT_FOUND", 3),
    ("model_not_ready", 503, None, "UNAVAILABLE", 5),
    ("body_timeout", 408, None, "DEADLINE_EXCEEDED", 6),
    ("unsupported", 415, None, "UNIMPLEMENTED", 3),
    ("not_offered", 501, None, "UNIMPLEMENTED", 3),
    ("unauthenticated", 401, None, "UNAUTHENTICATED", 3),
    ("forbidden", 403, None, "PERMISSION_DENIED", 3),
    ("caller_limited", 429, 2.0, "RESOURCE_EXHAUSTED", 7),
    ("decision_not_found", 404, None, "NOT_FOUND", 3),
    ("key_conflict", 409, None, "ALREADY_EXISTS", 3),
    ("fields_invalid", 422, None, "INVALID_ARGUMENT", 3),
    ("feature_unavailable", 503, None, "UNAVAILABLE", 5),
    ("guard_violated", 500, None, "INTERNAL", 8),
    ("record_failed", 503, None, "UNAVAILABLE", 5),
    ("in_flight_full", 503, 1.0, "RESOURCE_EXHAUSTED", 7),
    ("lane_full", 503, 1.0, "RESOURCE_EXHAUSTED", 7),
    ("client_gone", 499, None, "CANCELLED", 5),
    ("deadline_passed", 504, None, "DEADLINE_EXCEEDED", 6),
    ("answer_not_representable", 422, None, "FAILED_PRECONDITION", 3),
    ("answer_too_large", 422, None, "FAILED_PRECONDITION", 3),
    ("run_memory_exceeded", 422, None, "FAILED_PRECONDITION", 3),
    ("memory_full", 503, 1.0, "RESOURCE_EXHAUSTED", 7),
    ("run_failed", 500, None, "INTERNAL", 8),
    ("panicked", 500, None, "INTERNAL", 8),
]


@pytest.mark.parametrize(("kind", "status", "retry_after_s", "grpc_status", "exit_code"), KINDS)
def test_every_surface_maps_a_kind_to_the_same_class(kind, status, retry_after_s, grpc_status, exit_code):
    native = from_native(json.dumps({"code": kind, "message": "m", "exit_code": exit_code}))
    http = from_http(status, "m", retry_after_s)
    grpc = from_grpc(grpc_status, "m")
    assert type(native) is type(http) is type(grpc)
    assert native.exit_code == exit_code
    assert native.code == kind
    assert http.message == grpc.message == "m"


def test_an_overloaded_server_tells_when_to_come_back():
    error = from_http(503, "full", 1.5)
    assert isinstance(error, errors.OverloadedError)
    assert error.retry_after_s == 1.5


def test_an_unknown_native_code_is_classed_by_its_exit_code():
    error = from_native('{"code": "zipmap_output", "message": "m", "exit_code": 3}')
    assert isinstance(error, errors.RefusedError)
    assert error.code == "zipmap_output"


def test_native_faults_are_kept_with_path_and_allowed():
    faults = [{"path": "a.b[0]", "is": 7, "allowed": "1 to 3"}]
    error = from_native(json.dumps({"code": "snapshot_refused", "message": "m", "exit_code": 3, "faults": faults}))
    assert [fault.document() for fault in error.faults] == faults
    assert "a.b[0]: is 7, allowed: 1 to 3" in str(error)


def test_native_text_that_is_no_json_stays_readable():
    assert str(from_native("thread panicked")) == "thread panicked"
    assert str(from_native("[1]")) == "[1]"


def test_an_unknown_status_is_ours_to_explain_only_from_500_on():
    assert from_http(418, "teapot").exit_code == 1
    assert from_http(599, "").exit_code == 8
    assert "599" in str(from_http(599, ""))


def test_codes_and_exit_codes_are_those_of_the_specification():
    classes = [FlyballError]
    for kind in classes:
        classes += [one for one in kind.__subclasses__() if one.__module__.startswith("flyball")]
    assert {kind.exit_code for kind in classes} == {1, 2, 3, 4, 5, 6, 7, 8}
    assert len({kind.code for kind in classes}) == len(classes)


def test_the_next_step_is_the_last_line():
    error = errors.UsageError("no", next_step="do this:  x")
    assert str(error).splitlines() == ["no", "  do this:  x"]
