//! How refusals start where Triton's clients and tests compare the text. Callers append what to do.
//!
//! Each function names the file of Triton's that has the words, in its repositories `core` and `server`.

/// `core/src/model_repository_manager/model_repository_manager.cc`
pub fn unknown_model(model: &str) -> String {
    format!("Request for unknown model: '{model}' is not found")
}

/// `core/src/model_repository_manager/model_lifecycle.cc`
pub fn unknown_version(model: &str, version: &str) -> String {
    format!("Request for unknown model: '{model}' version {version} is not found")
}

/// `core/src/model_repository_manager/model_lifecycle.cc`
pub fn no_versions(model: &str) -> String {
    format!("Request for unknown model: '{model}' has no available versions")
}

/// `core/src/server.cc`, for statistics
pub fn version_not_available(model: &str) -> String {
    format!("requested model version is not available for model '{model}'")
}

/// `core/src/model_repository_manager/model_repository_manager.cc`
pub fn no_such_folder(model: &str) -> String {
    format!("{FAILED_TO_LOAD}'{model}', failed to poll from model repository")
}

/// `core/src/model_repository_manager/model_repository_manager.cc`
pub const FAILED_TO_LOAD: &str = "failed to load ";

/// `core/src/server.cc`
pub const NO_MODEL_NAME: &str = "Model name cannot be empty. Please enter a valid name to deploy.";

/// `core/src/server.cc`
pub const UNSAFE_MODEL_NAME: &str = "model name must not contain path traversal characters";

/// `core/src/model_repository_manager/model_lifecycle.cc`
pub fn load_failed(model: &str) -> String {
    format!("load failed for model '{model}'")
}

/// `core/src/infer_request.cc`
pub fn missing_inputs<'n>(
    model: &str,
    (least, most): (usize, usize),
    got: impl ExactSizeIterator<Item = &'n str>,
    missing: impl Iterator<Item = &'n str>,
) -> String {
    let count = got.len();
    let wanted = if least == most {
        format!("{most} inputs")
    } else {
        format!("number of inputs between {least} and {most}")
    };
    format!(
        "expected {wanted} but got {count} inputs for model '{model}'. Got input(s) [{}], but missing required \
         input(s) [{}]. Please provide all required input(s).",
        quoted(got),
        quoted(missing)
    )
}

/// `core/src/infer_request.cc`
pub fn unexpected_input(model: &str, input: &str) -> String {
    format!("unexpected inference input '{input}' for model '{model}'")
}

/// `core/src/infer_request.cc`
pub fn unexpected_output(model: &str, output: &str) -> String {
    format!("unexpected inference output '{output}' for model '{model}'")
}

/// `core/src/infer_request.cc`
pub fn wrong_datatype(model: &str, input: &str, is: &str, wanted: &str) -> String {
    format!("inference input '{input}' data-type is '{is}', but model '{model}' expects '{wanted}'")
}

/// `core/src/infer_request.cc`
pub fn wrong_shape(model: &str, input: &str, wanted: &[i64], is: &[i64]) -> String {
    let (wanted, is) = (axes(wanted), axes(is));
    format!("unexpected shape for input '{input}' for model '{model}'. Expected {wanted}, got {is}")
}

/// `core/src/infer_request.cc`
pub fn wrong_byte_size(model: &str, input: &str, wanted: usize, is: usize) -> String {
    format!("input byte size mismatch for input '{input}' for model '{model}'. Expected {wanted}, got {is}")
}

/// `core/src/infer_request.cc`
pub fn too_few_strings(model: &str, input: &str, wanted: usize, is: usize) -> String {
    format!("expected {wanted} string elements for inference input '{input}' for model '{model}', got {is}")
}

/// `core/src/infer_request.cc`; it stops at the first element that is too many.
pub fn too_many_strings(model: &str, input: &str, wanted: usize) -> String {
    format!(
        "unexpected number of string elements {} for inference input '{input}' for model '{model}', expecting {wanted}",
        wanted + 1
    )
}

/// `server/src/http_server.cc` and `server/src/grpc/infer_handler.cc`, for parameters of requests
pub const RESERVED_PREFIX: &str = "triton_";

/// `server/src/http_server.cc` and `server/src/grpc/infer_handler.cc`; the first has not the parameter's name.
pub fn reserved_parameter(name: &str) -> String {
    format!(
        "parameter keys starting with '{RESERVED_PREFIX}' are reserved for Triton usage and should not be specified; \
         got '{name}'"
    )
}

/// `core/src/infer_request.cc`
pub fn output_twice(output: &str) -> String {
    format!("output '{output}' already exists in request")
}

/// `server/src/http_server.cc`
pub fn too_many_elements(input: &str, shape: &[i64]) -> String {
    let shape = axes(shape);
    format!(
        "invalid shape for input '{input}': shape {shape} causes total element count to exceed maximum size of {}",
        i64::MAX
    )
}

/// `server/src/http_server.cc`
pub fn byte_size_overflow(input: &str) -> String {
    format!("byte size overflow for input '{input}'")
}

/// `server/src/http_server.cc`
pub fn json_too_large(is: u64, max: usize) -> String {
    format!(
        "request JSON size of {is} bytes exceeds the maximum allowed input size of {max} bytes. Use --http-max-input-size to \
         increase the limit."
    )
}

/// `server/src/http_server.cc`, for bodies that are not JSON
pub const EXCEEDS: &str = "exceeds the maximum allowed value";

/// `server/src/http_server.cc`
pub fn nested_too_deep(max: usize) -> String {
    format!("JSON nesting depth exceeds maximum allowed limit ({max})")
}

/// `server/src/http_server.cc`
pub fn raw_inputs(model: &str, inputs: usize) -> String {
    format!(
        "Raw request must only have 1 input (found 1) to be deduced but got {inputs} inputs in '{model}' model configuration"
    )
}

/// `server/src/http_server.cc`
pub fn raw_text_shape(input: &str) -> String {
    format!("For BYTE datatype raw input '{input}', the model must have input shape [1]")
}

/// `server/src/http_server.cc`
pub fn raw_free_axes(input: &str) -> String {
    format!(
        "The shape of the raw input '{input}' can not be deduced because there are more than one variable-sized dimension"
    )
}

/// `server/src/classification.cc`
pub fn no_classes(datatype: &str) -> String {
    format!("class result not available for output due to unsupported type '{datatype}'")
}

/// `server/src/classification.cc`
pub const TOO_MANY_SCORES: &str = "classification output tensor too large";

/// gRPC's own word for its status, which clients look for.
pub const DEADLINE: &str = "Deadline Exceeded";

/// `core/src/server.cc`
pub const NO_MODEL_CONTROL: &str = "explicit model load / unload is not allowed if polling is enabled";

/// `server/src/shared_memory_manager.cc`
pub const SHARED_MEMORY_DISABLED: &str = "Client shared memory is disabled";

/// `server/src/shared_memory_manager.cc`
pub fn unknown_region(region: &str) -> String {
    format!("Unable to find system shared memory region: '{region}'")
}

/// `server/src/shared_memory_manager.cc`
pub fn region_taken(region: &str) -> String {
    format!("shared memory region '{region}' already in manager")
}

/// `server/src/shared_memory_manager.cc`
pub fn region_refused(region: &str) -> String {
    format!("failed to register shared memory region '{region}': invalid args")
}

/// `server/src/shared_memory_manager.cc`
pub fn reserved_key(region: &str, key: &str, prefix: &str) -> String {
    format!(
        "cannot register shared memory region '{region}' with key '{key}' as the key contains the reserved prefix '{prefix}'"
    )
}

/// `server/src/shared_memory_manager.cc`
pub fn invalid_key(region: &str, key: &str) -> String {
    format!("cannot register shared memory region '{region}' - invalid shm key '{key}'")
}

/// `server/src/shared_memory_manager.cc`
pub fn invalid_offset(region: &str) -> String {
    format!("Invalid offset for shared memory region: '{region}'")
}

/// `server/src/shared_memory_manager.cc`
pub fn invalid_range(region: &str) -> String {
    format!("Invalid offset + byte size for shared memory region: '{region}'")
}

/// `server/src/shared_memory_manager.cc`
pub fn range_overflow(region: &str, offset: u64, bytes: u64) -> String {
    format!(
        "Integer overflow detected: byte_size ({bytes}) + offset ({offset}) exceeds maximum value ({}) for region '{region}'",
        u64::MAX
    )
}

fn quoted<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.map(|name| format!("'{name}'")).collect::<Vec<_>>().join(",")
}

fn axes(shape: &[i64]) -> String {
    format!("[{}]", shape.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_written_without_spaces() {
        assert_eq!(
            missing_inputs("m", (3, 3), ["a"].into_iter(), ["b", "c"].into_iter()),
            "expected 3 inputs but got 1 inputs for model 'm'. Got input(s) ['a'], but missing required input(s) ['b','c']. \
             Please provide all required input(s)."
        );
        assert_eq!(
            wrong_shape("m", "x", &[-1, 16], &[1, 15]),
            "unexpected shape for input 'x' for model 'm'. Expected [-1,16], got [1,15]"
        );
    }
}
