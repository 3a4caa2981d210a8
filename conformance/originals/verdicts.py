"""Why cases of the suites do not pass: what differs on purpose, and what does not apply here.

Each reason names its cases exactly, by suite; a case that passes has none. What differs has a line in the guide,
which is its reason. Must not know how cases run.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.case import FAIL, PASS, Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DIFFERS, NOT_APPLICABLE = "differs", "not applicable"
GUIDE = Path(__file__).resolve().parents[2] / "docs/guides/from-triton.md"

_DIFFERENCES: dict[str, dict[str, tuple[str, ...]]] = {
    "with two faults": {"input_validation": ("test_input_string_shape_validation",)},
    "for the index, a load or an unload with a body above 64 KiB": {"http": ("test_repository_index_deeply_nested_json",)},
    "with a negative dimension": {"http": ("test_negative_dimensions",)},
    "with both `Content-Length` and `Transfer-Encoding`": {"http": ("test_content_encoding_chunked_manually",)},
    "with a body in very many chunks": {
        "http": (
            "test_chunked_infer_rejected_over_max_chunks",
            "test_chunked_infer_over_max_chunks_reject_with_bounded_rss_growth",
        ),
    },
    "to register shared memory that does not exist": {"grpc": ("test_register_system_shared_memory, aio",)},
    "for a model or version that is no longer in the repository": {
        "lifecycle": ("test_dynamic_model_load_unload", "test_dynamic_version_load_unload"),
    },
    "for a model that a change of the repository made unservable": {
        "lifecycle": ("test_multiple_model_repository_polling",),
    },
    "to load a model with `file:` parameters": {
        "http": ("test_load_oversized_file_parameter",),
        "lifecycle": ("test_file_override",),
        "examples": ("simple_grpc_model_control",),
        "cpp_client": ("GRPC/ClientTest/0.LoadWithFileOverride", "HTTP/ClientTest/0.LoadWithFileOverride"),
    },
    "to load and unload a model, from many clients at once": {
        "lifecycle": ("test_concurrent_same_model_load_unload_stress",),
    },
}
"""By the first cell of the guide's line, which has the reason."""
_ELSEWHERE: dict[str, dict[str, tuple[str, ...]]] = {
    "ensembles: serve the steps separately": {
        "infer": (
            "test_ensemble_mix_platform",
            "test_ensemble_mix_type",
            "test_ensemble_mix_ensemble",
            "test_ensemble_mix_batch_nobatch",
            "test_ensemble_label_lookup",
        ),
        "lifecycle": (
            "test_model_control",
            "test_multiple_model_repository_control_startup_models",
            "test_model_repository_index",
        ),
        "cpp_client": ("ensemble_image_client",),
    },
    "the generate extension: an ONNX model gives one answer to one request": {
        "http": (
            "test_generate, generate",
            "test_generate_with_all_inputs, generate",
            "test_request_id, generate",
            "test_generate_stream, generate",
            "test_streaming, generate",
            "test_missing_inputs, generate",
            "test_invalid_input_types, generate",
            "test_json_dtype_size_expansion_exceeds_limit_error, generate",
            "test_duplicate_inputs, generate",
            "test_generate_stream_response_error, generate",
            "test_race_condition, generate",
            "test_one_response, generate",
            "test_zero_response, generate",
            "test_many_response, generate",
            "test_complex_schema, generate",
            "test_close_connection_during_streaming, generate",
            "test_parameters, generate",
            "test_0_dimension_output, generate",
            "test_json_dtype_size_expansion_exceeds_limit_error",
        ),
    },
    "models that give several answers to a request: an ONNX model gives one": {
        "examples": ("simple_grpc_custom_repeat",),
        "cpp_client": ("simple_grpc_custom_repeat",),
    },
    "trace settings: OpenTelemetry's way is the collector's": {
        "http": ("test_update_trace_settings, aio", "test_get_trace_settings, aio"),
        "grpc": ("test_update_trace_settings, aio", "test_get_trace_settings, aio"),
        "cpp_client": tuple(
            f"{protocol}TraceTest.{protocol}{act}TraceSettings"
            for protocol in ("HTTP", "GRPC")
            for act in ("Update", "Clear")
        ),
    },
    "a test of nginx in front of the server": {
        "http": ("test_client_call, nginx",),
        "grpc": ("test_client_call, nginx",),
    },
    "CUDA shared memory: models run on the CPU": {
        "grpc": ("test_register_cuda_shared_memory, aio",),
        "examples": ("simple_http_cudashm_client", "simple_grpc_cudashm_client"),
    },
    "sequences: models are stateless": {
        "server_status": ("test_basic",),
        "examples": (
            "simple_http_sequence_sync_infer_client",
            "simple_grpc_sequence_sync_infer_client",
            "simple_grpc_sequence_stream_infer_client",
            "simple_grpc_aio_sequence_stream_infer_client",
        ),
        "cpp_client": (
            "simple_http_sequence_sync_infer_client",
            "simple_grpc_sequence_sync_infer_client",
            "simple_grpc_sequence_stream_infer_client",
        ),
    },
    "other backends: the case reads what only they do or report": {
        "grpc": ("test_simple_infer, plugin",),
        "server_status": ("test_infer_stats_no_model", "test_model_latest_infer"),
        "lifecycle": (
            "test_load_same_model_different_platform",
            "test_concurrent_model_load",
            "test_concurrent_model_load_speedup",
            "test_load_new_model_version",
            "test_model_config_overwite",
            "test_model_availability_on_reload, grpc",
            "test_model_availability_on_reload, http",
        ),
    },
    "the names of PyTorch's outputs": {
        "shared_memory": ("test_large_shm_register_offset, http", "test_large_shm_register_offset, grpc"),
    },
    "Triton's verbose log and the debug delays of its test builds": {
        "request_cancellation": (
            "test_grpc_async_infer_cancellation_at_step_start",
            "test_grpc_async_infer_response_complete_during_cancellation",
            "test_grpc_async_infer_cancellation_before_finish_0",
            "test_grpc_async_infer_cancellation_before_finish_1",
            "test_grpc_async_infer_cancellation_before_response_complete_and_process_after_final_response",
        ),
    },
}


def _by_case(verdict: str, reasons: Mapping[str, Mapping[str, tuple[str, ...]]]) -> dict[tuple[str, str], tuple[str, str]]:
    return {
        (suite, case): (verdict, reason)
        for reason, suites in reasons.items()
        for suite, cases in suites.items()
        for case in cases
    }


def _in_the_guide(request: str) -> str:
    """What the guide says that flyball answers to such a request."""
    line = re.search(rf"^\| {re.escape(request)} \| [^|]+ \| ([^|]+) \|", GUIDE.read_text(), re.MULTILINE)
    if line is None:
        raise KeyError(f"{GUIDE.name} has no line for a request {request!r}")
    return f"a request {request}: {line[1].strip()}"


_differs = {_in_the_guide(request): cases for request, cases in _DIFFERENCES.items()}
ARGUED = _by_case(DIFFERS, _differs) | _by_case(NOT_APPLICABLE, _ELSEWHERE)
"""Verdict and reason by suite and case."""


def judged(rows: Iterable[Row]) -> list[Row]:
    """The rows with their final verdicts: a failed case that is argued differs, or does not apply."""
    found = []
    for row in rows:
        failed = row.verdict, row.reason
        argued = ARGUED.get((row.group, row.what), failed) if row.verdict == FAIL else failed
        found.append(dataclasses.replace(row, verdict=argued[0], reason=argued[1]))
    return found


def argued_in_vain(rows: Iterable[Row]) -> list[Row]:
    """Cases that pass although an entry says that they do not."""
    return [row for row in rows if row.verdict == PASS and (row.group, row.what) in ARGUED]
