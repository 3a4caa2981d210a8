"""Why cases of the suites do not pass: what differs on purpose, and what does not apply here.

Keys are `suite` and a pattern of its cases; a case that passes needs no entry. Must not know how cases run.
"""

from __future__ import annotations

import dataclasses
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from conformance.case import FAIL, PASS, Row

if TYPE_CHECKING:
    from collections.abc import Iterable

DIFFERS, NOT_APPLICABLE = "differs", "not applicable"

_ENSEMBLES = "ensembles: serve the steps separately"
_BACKENDS = "other backends: the case reads what only they do or report"
_PARTS = "a load with `config` or `file:` parameters: what is served comes from files whose digests were checked"
_LAST_GOOD = "a model that can no longer be served keeps its last good state"
_UNKNOWN = "a removed model or version is unknown, not unavailable"
_CONFIG_NAME = "`--model-config-name`: one configuration for each model"
_OTHER_INPUT = "both inputs are wrong; Triton reports the one that its hash map has first, flyball the first of the request"
_LOADS_OFF = "a load where loads are off: UNIMPLEMENTED, since clients retry UNAVAILABLE"
_NO_REGION = "shared memory that does not exist: INVALID_ARGUMENT, since the request is wrong, not the server"
_TOO_LARGE = "a body above the limit: 413 instead of 400"
_CHUNKS = "chunks are bounded by the body's bytes, not by their number"
_RIGHTS = "`--http-restricted-api`: rights of callers instead, by token or certificate"
_TRACES = "trace settings: OpenTelemetry's way is the collector's"
_GENERATE = "the generate extension: an ONNX model gives one answer to one request"
_SEQUENCES = "sequences: models are stateless"
_CUDA = "CUDA shared memory: models run on the CPU"
_NGINX = "a test of nginx in front of the server"

_DIFFERENCES: dict[tuple[str, str], str] = {
    ("input_validation", "test_input_string_shape_validation"): _OTHER_INPUT,
    ("http", "test_default_limit_*"): _TOO_LARGE,
    ("http", "test_large_*"): _TOO_LARGE,
    ("http", "test_loading_large_invalid_model"): _TOO_LARGE,
    ("http", "test_repository_index_deeply_nested_json"): _TOO_LARGE,
    ("http", "test_negative_dimensions"): "a negative dimension: 400 instead of 500",
    ("http", "test_load_oversized_file_parameter"): _PARTS,
    ("http", "test_chunked_infer_*over_max_chunks*"): _CHUNKS,
    ("http", "test_*, restricted"): _RIGHTS,
    ("grpc", "test_*, restricted"): _RIGHTS,
    ("grpc", "test_load_model, aio"): _LOADS_OFF,
    ("grpc", "test_unload_model, aio"): _LOADS_OFF,
    ("grpc", "test_register_system_shared_memory, aio"): _NO_REGION,
    ("lifecycle", "test_dynamic_model_load_unload"): _UNKNOWN,
    ("lifecycle", "test_dynamic_version_load_unload"): _UNKNOWN,
    ("lifecycle", "test_multiple_model_repository_polling"): _LAST_GOOD,
    ("lifecycle", "test_config_override"): _PARTS,
    ("lifecycle", "test_file_override*"): _PARTS,
    ("lifecycle", "test_model_config_overwite"): _PARTS,
    ("lifecycle", "test_*_custom_config"): _CONFIG_NAME,
    ("examples", "simple_*_model_control"): _PARTS,
}
_ELSEWHERE: dict[tuple[str, str], str] = {
    ("infer", "test_ensemble_*"): _ENSEMBLES,
    ("http", "test_*, generate"): _GENERATE,
    ("http", "test_json_dtype_size_expansion_exceeds_limit_error"): _GENERATE,
    ("http", "test_*_trace_settings, aio"): _TRACES,
    ("http", "test_client_call, nginx"): _NGINX,
    ("grpc", "test_*_trace_settings, aio"): _TRACES,
    ("grpc", "test_register_cuda_shared_memory, aio"): _CUDA,
    ("grpc", "test_simple_infer, plugin"): _BACKENDS,
    ("grpc", "test_client_call, nginx"): _NGINX,
    ("server_status", "test_basic"): _SEQUENCES,
    ("server_status", "test_infer_stats_no_model"): _BACKENDS,
    ("server_status", "test_model_latest_infer"): _BACKENDS,
    ("shared_memory", "test_large_shm_register_offset, *"): "the names of PyTorch's outputs",
    ("examples", "simple_*_sequence_*"): _SEQUENCES,
    ("examples", "simple_*_cudashm_client"): _CUDA,
    ("examples", "simple_grpc_custom_repeat"): "models that give several answers to a request: an ONNX model gives one",
    ("lifecycle", "test_model_control"): _ENSEMBLES,
    ("lifecycle", "test_multiple_model_repository_control_startup_models"): _ENSEMBLES,
    ("lifecycle", "test_model_repository_index"): _ENSEMBLES,
    ("lifecycle", "test_load_same_model_different_platform"): _BACKENDS,
    ("lifecycle", "test_concurrent_model_load"): _BACKENDS,
    ("lifecycle", "test_concurrent_model_load_speedup"): _BACKENDS,
    ("lifecycle", "test_load_new_model_version"): _BACKENDS,
    ("lifecycle", "test_model_availability_on_reload, *"): _BACKENDS,
}


def judged(rows: Iterable[Row]) -> list[Row]:
    """The rows with their final verdicts: a failed case that is argued differs, or does not apply."""
    found = []
    for row in rows:
        verdict, reason = row.verdict, row.reason
        if verdict == FAIL:
            for other, table in ((DIFFERS, _DIFFERENCES), (NOT_APPLICABLE, _ELSEWHERE)):
                argued = _argument(table, row)
                if argued is not None:
                    verdict, reason = other, argued
        found.append(dataclasses.replace(row, verdict=verdict, reason=reason))
    return found


def argued_in_vain(rows: Iterable[Row]) -> list[Row]:
    """Cases that pass although an entry says that they do not."""
    return [row for row in rows if row.verdict == PASS and _argument(_DIFFERENCES | _ELSEWHERE, row) is not None]


def _argument(table: dict[tuple[str, str], str], row: Row) -> str | None:
    matching = (why for (suite, case), why in table.items() if suite == row.group and fnmatchcase(row.what, case))
    return next(matching, None)
