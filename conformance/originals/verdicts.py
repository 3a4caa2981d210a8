"""Why cases of the suites do not pass: what differs on purpose, and what does not apply here.

Each reason names its cases exactly, by suite, and a part of the text with which they fail: a case that fails with another
text fails. What differs has a line in the guide, which is its reason. Must not know how cases run.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.case import FAIL, PASS, Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Cases = Mapping[str, Mapping[str, Mapping[str, tuple[str, ...]]]]

DIFFERS, NOT_APPLICABLE, NOT_BUILT = "differs", "not applicable", "not built here"
NOT_RUN = "not run: the runner has no step for it"
GUIDE = Path(__file__).resolve().parents[2] / "docs/guides/from-triton.md"

_DIFFERENCES: Cases = {
    "with two faults": {
        "input_validation": {"string elements for inference input 'INPUT1'": ("test_input_string_shape_validation",)},
    },
    "for the index, a load or an unload with a body above 64 KiB": {
        "http": {"400 != 413": ("test_repository_index_deeply_nested_json",)},
    },
    "with a negative dimension": {"http": {"500 != 400": ("test_negative_dimensions",)}},
    "with both `Content-Length` and `Transfer-Encoding`": {
        "http": {"400 Client Error": ("test_content_encoding_chunked_manually",)},
    },
    "with a body in very many chunks": {
        "http": {
            "exceeds maximum of 65536 non-empty chunks": (
                "test_chunked_infer_rejected_over_max_chunks",
                "test_chunked_infer_over_max_chunks_reject_with_bounded_rss_growth",
            ),
        },
    },
    "to register shared memory that does not exist": {
        "grpc": {"INVALID_ARGUMENT": ("test_register_system_shared_memory, aio",)},
    },
    "for a model or version that is no longer in the repository": {
        "lifecycle": {
            "is not found; serving": ("test_dynamic_model_load_unload",),
            "version 1 is not found; it has": ("test_dynamic_version_load_unload",),
        },
    },
    "for a model that a change of the repository made unservable": {
        "lifecycle": {"unexpected error True is not false": ("test_multiple_model_repository_polling",)},
    },
    "for a model whose configuration is missing or invalid": {
        "lifecycle": {"has no available versions": ("test_parse_error_no_model_config",)},
    },
    "to load a model with `file:` parameters": {
        "http": {"500 != 501": ("test_load_oversized_file_parameter",)},
        "lifecycle": {"is not offered": ("test_file_override",)},
        "examples": {"got status='StatusCode.UNIMPLEMENTED'": ("simple_grpc_model_control",)},
        "cpp_client": {
            "is not offered": ("GRPC/ClientTest/0.LoadWithFileOverride", "HTTP/ClientTest/0.LoadWithFileOverride"),
        },
    },
    "to load and unload models, from many clients at once": {
        "lifecycle": {
            "Concurrent loading speedup not observed": ("test_concurrent_model_load_speedup",),
        },
    },
    "for an ensemble": {
        "infer": {
            "has no attribute 'test_ensemble": (
                "test_ensemble_mix_platform",
                "test_ensemble_mix_type",
                "test_ensemble_mix_ensemble",
                "test_ensemble_mix_batch_nobatch",
                "test_ensemble_label_lookup",
            ),
        },
        "lifecycle": {
            "unexpected error False is not true": (
                "test_model_control",
                "test_model_control_ensemble",
                "test_multiple_model_repository_control_startup_models",
                "test_model_repository_index",
            ),
            "ensemble_zero_1_float32": ("test_shutdown_ensemble", "test_concurrent_model_load_unload"),
        },
        "request_cancellation": {"True is not false": ("test_ensemble_scheduler_request_cancellation",)},
        "cpp_client": {"ensemble": ("ensemble_image_client",)},
    },
    "for `/generate` or `/generate_stream`": {
        "http": {"400 != 404": ("test_json_dtype_size_expansion_exceeds_limit_error",)},
    },
    "with headers that match `--http-header-forward-pattern`": {
        "parameters": {
            "200 != 400": ("test_headers_reserved_rejected",),
        },
    },
    "on an open connection, after the server was told to stop": {
        "lifecycle": {"Connection refused": ("test_shutdown_with_live_connection",)},
    },
    "to a server whose repository does not exist": {
        "lifecycle": {
            "--model-repository: xyzx is not a folder": ("test_parse_error_noexit",),
        },
    },
}
"""By the first cell of the guide's line, which has the reason, then by suite and by what the case says when it fails."""
_ELSEWHERE: Cases = {
    "its model, mock_llm, is of the Python backend": {
        "http": {
            NOT_RUN: tuple(
                f"test_{case}, generate_endpoint_test"
                for case in (
                    "generate",
                    "generate_with_all_inputs",
                    "request_id",
                    "generate_stream",
                    "streaming",
                    "missing_inputs",
                    "invalid_input_types",
                    "json_dtype_size_expansion_exceeds_limit_error",
                    "duplicate_inputs",
                    "generate_stream_response_error",
                    "race_condition",
                    "one_response",
                    "zero_response",
                    "many_response",
                    "complex_schema",
                    "close_connection_during_streaming",
                    "parameters",
                    "0_dimension_output",
                )
            ),
        },
    },
    "its model, of the Python backend, returns the parameters and headers of a request": {
        "parameters": {
            "'NoneType' object has no attribute 'astype'": (
                "test_params",
                "test_headers",
                "test_grpc_header_forward_pattern_case_sensitive",
            ),
        },
    },
    "models that give several answers to a request: an ONNX model gives one": {
        "examples": {"repeat_int32": ("simple_grpc_custom_repeat",)},
        "cpp_client": {"does not contain results for output name 'OUT'": ("simple_grpc_custom_repeat",)},
    },
    "trace settings: OpenTelemetry's way is the collector's": {
        "http": {"not offered": ("test_update_trace_settings, aio", "test_get_trace_settings, aio")},
        "grpc": {"not offered": ("test_update_trace_settings, aio", "test_get_trace_settings, aio")},
        "cpp_client": {
            "trac": tuple(
                f"{protocol}TraceTest.{protocol}{act}TraceSettings"
                for protocol in ("HTTP", "GRPC")
                for act in ("Update", "Clear")
            ),
        },
    },
    "a test of nginx in front of the server": {
        "http": {"onnect": ("test_client_call, nginx",)},
        "grpc": {"failed to connect": ("test_client_call, nginx",)},
    },
    "CUDA shared memory: models run on the CPU": {
        "grpc": {"CUDA shared memory is not offered": ("test_register_cuda_shared_memory, aio",)},
        "examples": {
            "unable to create cuda shared memory handle": ("simple_http_cudashm_client", "simple_grpc_cudashm_client")
        },
    },
    "GPUs: models run on the CPU": {"lifecycle": {NOT_RUN: ("test_model_reload_fail", "test_load_gpu_limit")}},
    "sequences: models are stateless": {
        "server_status": {"'sequence' not found": ("test_basic",)},
        "lifecycle": {NOT_RUN: ("test_shutdown_sequence", "test_concurrent_model_instance_load_sanity")},
        "request_cancellation": {
            NOT_RUN: (
                "test_sequence_batch_scheduler_backlog_request_cancellation",
                "test_direct_sequence_batch_scheduler_request_cancellation",
                "test_oldest_sequence_batch_scheduler_request_cancellation",
                "test_scheduler_streaming_request_cancellation",
                "test_state_reset_after_cancel, implicit_state_test",
            ),
        },
        "examples": {
            "stateless models": (
                "simple_http_sequence_sync_infer_client",
                "simple_grpc_sequence_sync_infer_client",
                "simple_grpc_sequence_stream_infer_client",
                "simple_grpc_aio_sequence_stream_infer_client",
            ),
        },
        "cpp_client": {
            "stateless models": (
                "simple_http_sequence_sync_infer_client",
                "simple_grpc_sequence_sync_infer_client",
                "simple_grpc_sequence_stream_infer_client",
            ),
        },
    },
    "other backends: the case reads what only they do or report": {
        "grpc": {"'client_plugin_test' is not found": ("test_simple_infer, plugin",)},
        "server_status": {
            "140 != 144": ("test_infer_stats_no_model",),
            "'tensorrt_plan' != 'onnxruntime_onnx'": ("test_model_latest_infer",),
        },
        "lifecycle": {
            "'onnxruntime_onnx' != 'tensorrt_plan'": ("test_load_same_model_different_platform",),
            "'onnxruntime_onnx' != 'python'": ("test_concurrent_model_load",),
            "0 != 1": ("test_load_new_model_version",),
            "only onnxruntime is supported": ("test_model_config_overwite",),
            "unexpected error True is not false": (
                "test_model_availability_on_reload, grpc",
                "test_model_availability_on_reload, http",
            ),
            NOT_RUN: ("test_concurrent_model_instance_load_speedup", "test_shutdown_while_background_unloading"),
        },
    },
    "the names of PyTorch's outputs": {
        "shared_memory": {
            "OUTPUT__0": ("test_large_shm_register_offset, http", "test_large_shm_register_offset, grpc"),
        },
    },
    "Triton's log and the debug delays of its test builds": {
        "client_timeout": {
            NOT_RUN: tuple(
                f"test_grpc_{call}, client_non_infer_timeout_test"
                for call in (
                    "server_live",
                    "is_server_ready",
                    "is_model_ready",
                    "get_server_metadata",
                    "get_model_metadata",
                    "get_model_config",
                    "model_repository_index",
                    "load_model",
                    "unload_model",
                    "get_inference_statistics",
                    "update_trace_settings",
                    "get_trace_settings",
                    "update_log_settings",
                    "get_log_settings",
                    "get_system_shared_memory_status",
                    "register_system_shared_memory",
                    "unregister_system_shared_memory",
                    "get_cuda_shared_memory_status",
                    "register_cuda_shared_memory",
                    "unregister_cuda_shared_memory",
                )
            ),
        },
        "request_cancellation": {
            NOT_RUN: (
                "test_grpc_async_infer_cancellation_at_step_start",
                "test_grpc_async_infer_response_complete_during_cancellation",
                "test_grpc_async_infer_cancellation_before_finish_0",
                "test_grpc_async_infer_cancellation_before_finish_1",
                "test_grpc_async_infer_cancellation_before_response_complete_and_process_after_final_response",
            ),
        },
    },
}


@dataclasses.dataclass(frozen=True, slots=True)
class Argument:
    """Why a case does not pass, and a part of what it then says."""

    verdict: str
    reason: str
    says: str


def _by_case(verdict: str, reasons: Cases) -> dict[tuple[str, str], Argument]:
    return {
        (suite, case): Argument(verdict, reason, says)
        for reason, suites in reasons.items()
        for suite, failures in suites.items()
        for says, cases in failures.items()
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
"""By suite and case."""


def judged(rows: Iterable[Row]) -> list[Row]:
    """The rows with their final verdicts: a failed case that is argued, and fails as argued, differs or does not apply."""
    found = []
    for row in rows:
        argued = ARGUED.get((row.group, row.what))
        if row.verdict == FAIL and argued and argued.says in row.reason:
            found.append(dataclasses.replace(row, verdict=argued.verdict, reason=argued.reason))
        else:
            found.append(row)
    return found


def argued_in_vain(rows: Iterable[Row]) -> list[Row]:
    """Cases that pass although an entry says that they do not."""
    return [row for row in rows if row.verdict == PASS and (row.group, row.what) in ARGUED]
