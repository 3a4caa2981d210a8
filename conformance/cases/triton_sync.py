"""tritonclient's blocking clients: behaviour that both protocols share."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from conformance.case import case
from conformance.cases.speaking import (
    both_outputs,
    client_of,
    connected,
    listed,
    outputs,
    refused,
    simple_inputs,
    tensor,
    told,
)
from conformance.cases.tensors import BEST, NUMBERS, SCORES, WORDS, A, B, added, encoded, same

if TYPE_CHECKING:
    from conformance.addresses import Addresses

REAL = {
    "binary_tensor_data",
    "classification",
    "model_configuration",
    "model_repository",
    "parameters",
    "schedule_policy",
    "statistics",
    "system_shared_memory",
}
NO_CUDA = "CUDA shared memory: models run on the CPU here, so there is no device memory to share"
NO_TRACE = "trace settings: spans and stage times are Prometheus metrics here, and OpenTelemetry's way is the collector's"
NO_LOGGING = "log settings: the level is a line of the server's configuration, and logs are JSON lines on stderr"


@case()
def the_server_is_live_and_ready(addresses: Addresses) -> None:
    with connected(addresses) as client:
        assert client.is_server_live()
        assert client.is_server_ready()


@case()
def a_model_and_its_version_are_ready_and_an_unknown_one_is_not(addresses: Addresses) -> None:
    with connected(addresses) as client:
        assert client.is_model_ready("simple")
        assert client.is_model_ready("simple", "1")
        assert not client.is_model_ready("simple", "9")
        assert not client.is_model_ready("nobody")


@case()
def the_server_advertises_the_extensions_that_are_real(addresses: Addresses) -> None:
    with connected(addresses) as client:
        described = client.get_server_metadata(**told(addresses))
    assert described["name"]
    assert described["version"]
    found = set(described["extensions"])
    assert found >= REAL, f"missing: {sorted(REAL - found)}"
    assert not found & {"cuda_shared_memory", "sequence", "trace", "logging"}, f"{sorted(found)}"


@case()
def a_server_without_shared_memory_does_not_advertise_it(addresses: Addresses) -> None:
    with connected(addresses, addresses.closed) as client:
        assert "system_shared_memory" not in client.get_server_metadata(**told(addresses))["extensions"]


@case()
def a_models_metadata_names_its_tensors(addresses: Addresses) -> None:
    with connected(addresses) as client:
        described = client.get_model_metadata("simple", **told(addresses))
    assert described["name"] == "simple"
    assert described["versions"] == ["1"]
    assert described["platform"] == "onnxruntime_onnx"
    tensors = [(item["name"], item["datatype"], [int(size) for size in item["shape"]]) for item in described["inputs"]]
    assert sorted(tensors) == [("INPUT0", "INT32", [-1, 16]), ("INPUT1", "INT32", [-1, 16])]
    assert sorted(item["name"] for item in described["outputs"]) == ["OUTPUT0", "OUTPUT1"]


@case()
def metadata_of_an_unknown_model_or_version_is_refused(addresses: Addresses) -> None:
    with connected(addresses) as client:
        assert refused(lambda: client.get_model_metadata("nobody"))[0] == "NOT_FOUND"
        assert refused(lambda: client.get_model_metadata("simple", "9"))[0] == "NOT_FOUND"


@case()
def a_models_configuration_says_how_it_batches(addresses: Addresses) -> None:
    with connected(addresses) as client:
        answer = client.get_model_config("simple", **told(addresses))
    config = answer.get("config", answer)
    assert config["name"] == "simple"
    assert int(config["max_batch_size"]) > 1
    assert "dynamic_batching" in config
    assert sorted((item["name"], item["data_type"]) for item in config["input"]) == [
        ("INPUT0", "TYPE_INT32"),
        ("INPUT1", "TYPE_INT32"),
    ]
    assert [int(size) for size in config["output"][0]["dims"]] == [16]


@case()
def an_answer_has_every_output_by_default(addresses: Addresses) -> None:
    with connected(addresses) as client:
        added(both_outputs(client.infer("simple", simple_inputs(addresses))))


@case()
def a_version_can_be_named(addresses: Addresses) -> None:
    with connected(addresses) as client:
        added(both_outputs(client.infer("simple", simple_inputs(addresses), model_version="1")))


@case()
def several_rows_come_back_in_their_order(addresses: Addresses) -> None:
    a, b = (np.concatenate([array * factor for factor in range(5)]) for array in (A, B))
    with connected(addresses) as client:
        added(both_outputs(client.infer("simple", simple_inputs(addresses, a, b))), a, b)


@case()
def numbers_of_every_type_come_back_bit_for_bit(addresses: Addresses) -> None:
    with connected(addresses) as client:
        for datatype, array in NUMBERS.items():
            result = client.infer(f"identity_{datatype.lower()}", [tensor(addresses, "INPUT0", array, datatype)])
            same(result.as_numpy("OUTPUT0"), array)


@case()
def brain_floats_come_back(addresses: Addresses) -> None:
    with connected(addresses) as client:
        floats = np.array([[0.5, -2.0, 3.0e38]], ml_dtypes.bfloat16)
        same(client.infer("identity_bf16", [tensor(addresses, "INPUT0", floats, "BF16")]).as_numpy("OUTPUT0"), floats)


@case()
def not_a_number_and_infinities_come_back(addresses: Addresses) -> None:
    odd = np.array([[np.nan, np.inf, -np.inf, -0.0]], np.float32)
    with connected(addresses) as client:
        same(client.infer("identity_fp32", [tensor(addresses, "INPUT0", odd)]).as_numpy("OUTPUT0"), odd)


@case()
def strings_come_back(addresses: Addresses) -> None:
    with connected(addresses) as client:
        result = client.infer("identity_bytes", [tensor(addresses, "INPUT0", WORDS)])
        same(encoded(result.as_numpy("OUTPUT0")), encoded(WORDS))


@case()
def outputs_can_be_chosen(addresses: Addresses) -> None:
    with connected(addresses) as client:
        result = client.infer("simple", simple_inputs(addresses), outputs=outputs(addresses, "OUTPUT1"))
    same(result.as_numpy("OUTPUT1"), A - B)
    assert result.as_numpy("OUTPUT0") is None


@case()
def the_requests_id_is_in_the_answer(addresses: Addresses) -> None:
    with connected(addresses) as client:
        answer = client.infer("simple", simple_inputs(addresses), request_id="mine-1").get_response(**told(addresses))
    assert answer["id"] == "mine-1"
    assert (answer["model_name"], answer["model_version"]) == ("simple", "1")


@case()
def priority_timeout_and_parameters_of_ones_own_are_taken(addresses: Addresses) -> None:
    with connected(addresses) as client:
        result = client.infer(
            "simple",
            simple_inputs(addresses),
            priority=1,
            timeout=20_000_000,
            parameters={"tenant": "a", "attempt": 3, "dry": True},
        )
        added(both_outputs(result))


@case()
def a_timeout_that_cannot_be_kept_is_told(addresses: Addresses) -> None:
    with connected(addresses) as client:
        status, _ = refused(lambda: client.infer("simple", simple_inputs(addresses), timeout=1))
    assert status == "DEADLINE_EXCEEDED", status


@case()
def many_requests_may_be_in_flight(addresses: Addresses) -> None:
    more: dict[str, Any] = {"concurrency": 8} if addresses.flavour == "http" else {}
    with connected(addresses, **more) as client:
        if addresses.flavour == "http":
            results = [client.async_infer("simple", simple_inputs(addresses, A + n)) for n in range(64)]
            answers = [result.get_result() for result in results]
        else:
            came: queue.Queue[tuple[Any, Any]] = queue.Queue()
            for n in range(64):
                client.async_infer(
                    "simple",
                    simple_inputs(addresses, A + n),
                    request_id=str(n),
                    callback=lambda result, error: came.put((result, error)),
                )
            pairs = [came.get(timeout=20) for _ in range(64)]
            assert not [error for _, error in pairs if error]
            answers = sorted((result for result, _ in pairs), key=lambda result: int(result.get_response().id))
    for n, answer in enumerate(answers):
        added(both_outputs(answer), A + n)


@case()
def the_best_classes_come_with_their_labels(addresses: Addresses) -> None:
    with connected(addresses) as client:
        asked = outputs(addresses, "SCORES", class_count=3)
        found = client.infer("classifier", [tensor(addresses, "FEATURES", SCORES)], outputs=asked).as_numpy("SCORES")
    assert encoded(found).ravel().tolist() == [text.encode() for text in BEST], f"{found.tolist()}"


@case()
def classes_without_labels_come_with_their_numbers(addresses: Addresses) -> None:
    with connected(addresses) as client:
        asked = outputs(addresses, "OUTPUT0", class_count=2)
        found = client.infer("identity_fp32", [tensor(addresses, "INPUT0", SCORES)], outputs=asked).as_numpy("OUTPUT0")
    assert encoded(found).ravel().tolist() == [b"0.900000:1", b"0.800000:3"], f"{found.tolist()}"


@case()
def compressed_requests_and_answers_are_the_same_answers(addresses: Addresses) -> None:
    with connected(addresses) as client:
        for algorithm in ("gzip", "deflate"):
            if addresses.flavour == "http":
                more = {"request_compression_algorithm": algorithm, "response_compression_algorithm": algorithm}
            else:
                more = {"compression_algorithm": algorithm}
            wide = np.zeros((1, 4096), np.float32)
            same(client.infer("identity_fp32", [tensor(addresses, "INPUT0", wide)], **more).as_numpy("OUTPUT0"), wide)


@case()
def eight_mebibytes_travel_both_ways(addresses: Addresses) -> None:
    wide = np.random.default_rng(1).random((1, 2**21), np.float32)
    with connected(addresses) as client:
        same(client.infer("identity_fp32", [tensor(addresses, "INPUT0", wide)]).as_numpy("OUTPUT0"), wide)


@case()
def a_wrong_type_shape_name_or_count_of_inputs_is_refused(addresses: Addresses) -> None:
    wrong = {
        "type": [tensor(addresses, "INPUT0", A.astype(np.int64)), tensor(addresses, "INPUT1", B)],
        "shape": [tensor(addresses, "INPUT0", A[:, :5]), tensor(addresses, "INPUT1", B)],
        "name": [tensor(addresses, "INPUT7", A), tensor(addresses, "INPUT1", B)],
        "count": [tensor(addresses, "INPUT0", A)],
    }
    with connected(addresses) as client:
        for what, inputs in wrong.items():
            status, text = refused(lambda inputs=inputs: client.infer("simple", inputs))  # type: ignore[misc]
            assert status == "INVALID_ARGUMENT", what
            assert text, what


@case()
def an_unknown_output_model_or_version_is_refused(addresses: Addresses) -> None:
    inputs = simple_inputs(addresses)
    with connected(addresses) as client:
        asked = outputs(addresses, "OUTPUT7")
        assert refused(lambda: client.infer("simple", inputs, outputs=asked))[0] == "INVALID_ARGUMENT"
        assert refused(lambda: client.infer("nobody", inputs))[0] == "NOT_FOUND"
        assert refused(lambda: client.infer("simple", inputs, model_version="9"))[0] == "NOT_FOUND"


@case()
def statistics_count_what_was_asked(addresses: Addresses) -> None:
    with connected(addresses) as client:

        def seen() -> dict[str, int]:
            (found,) = client.get_inference_statistics("spare", **told(addresses))["model_stats"]
            success = found.get("inference_stats", {}).get("success", {})
            assert found["name"] == "spare"
            assert found["version"] == "1"
            return {
                "inferences": int(found.get("inference_count", 0)),
                "executions": int(found.get("execution_count", 0)),
                "successes": int(success.get("count", 0)),
                "ns": int(success.get("ns", 0)),
            }

        before = seen()
        for _ in range(3):
            client.infer("spare", simple_inputs(addresses, np.repeat(A, 2, 0), np.repeat(B, 2, 0)))
        after = seen()
    grown = {key: after[key] - before[key] for key in before}
    assert grown["inferences"] == 6, f"{grown}"
    assert grown["successes"] == 3, f"{grown}"
    assert grown["executions"] == 3, f"{grown}"
    assert grown["ns"] > 0


@case()
def statistics_split_queue_and_compute_and_tell_batches(addresses: Addresses) -> None:
    with connected(addresses) as client:
        client.infer("simple", simple_inputs(addresses))
        (found,) = client.get_inference_statistics("simple", "1", **told(addresses))["model_stats"]
    for part in ("queue", "compute_input", "compute_infer", "compute_output"):
        assert int(found["inference_stats"][part]["count"]) > 0, part
    assert int(found["inference_stats"]["compute_infer"]["ns"]) > 0
    assert int(found["last_inference"]) > 1_700_000_000_000
    assert any(int(batch["batch_size"]) == 1 for batch in found["batch_stats"])


@case()
def statistics_of_every_model_come_without_a_name_and_of_none_with_an_unknown_one(addresses: Addresses) -> None:
    with connected(addresses) as client:
        found = client.get_inference_statistics(**told(addresses))["model_stats"]
        assert {"simple", "classifier"} <= {model["name"] for model in found}
        assert refused(lambda: client.get_inference_statistics("nobody"))[0] in ("NOT_FOUND", "INVALID_ARGUMENT")


@case()
def the_repositorys_index_lists_the_models(addresses: Addresses) -> None:
    with connected(addresses) as client:
        index = listed(client.get_model_repository_index(**told(addresses)), "models")
    found = {item["name"]: (item["version"], item["state"]) for item in index}
    assert found["simple"] == ("1", "READY")


@case()
def a_model_is_unloaded_and_loaded_again(addresses: Addresses) -> None:
    with connected(addresses) as client:
        client.unload_model("spare")
        assert not client.is_model_ready("spare")
        assert refused(lambda: client.infer("spare", simple_inputs(addresses)))[0] in ("NOT_FOUND", "UNAVAILABLE")
        client.load_model("spare")
        assert client.is_model_ready("spare")
        added(both_outputs(client.infer("spare", simple_inputs(addresses))))
        assert refused(lambda: client.load_model("nobody"))[0] in ("NOT_FOUND", "INVALID_ARGUMENT")


@case()
def a_server_without_model_control_refuses_to_load_and_unload(addresses: Addresses) -> None:
    with connected(addresses, addresses.closed) as client:
        assert refused(lambda: client.unload_model("spare"))[0] == "UNIMPLEMENTED"
        assert refused(lambda: client.load_model("spare"))[0] == "UNIMPLEMENTED"
        assert client.is_model_ready("spare")


@case()
def a_plugin_may_add_headers(addresses: Addresses) -> None:
    from tritonclient.http.auth import BasicAuth

    with connected(addresses) as client:
        client.register_plugin(BasicAuth("user", "password"))
        added(both_outputs(client.infer("simple", simple_inputs(addresses), headers={"x-trace": "1"})))


@case()
def one_client_may_be_used_for_many_requests_and_inputs(addresses: Addresses) -> None:
    inputs = [client_of(addresses).InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
    with connected(addresses) as client:
        for n in range(20):
            inputs[0].set_data_from_numpy(A + n)
            inputs[1].set_data_from_numpy(B)
            added(both_outputs(client.infer("simple", inputs)), A + n)


@case(skipped=NO_CUDA)
def a_region_of_device_memory_is_registered(addresses: Addresses) -> None: ...


@case(skipped=NO_TRACE)
def trace_settings_are_read_and_changed(addresses: Addresses) -> None: ...


@case(skipped=NO_LOGGING)
def log_settings_are_read_and_changed(addresses: Addresses) -> None: ...
