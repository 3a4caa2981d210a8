//! Recognises files that are often mistaken for ONNX models, by their first bytes.
//!
//! None of them is read any further: some formats execute code when read.

use super::refusal::Finding;

const PICKLE: &str = "pickle and joblib run code when they are read, so flyball never reads them; convert the model where it was \
                      trained: skl2onnx.to_onnx, onnxmltools.convert_lightgbm or convert_xgboost";
const TORCH: &str = "it runs code when it is read, so flyball never reads it; export it where it was trained: torch.onnx.export";
const KERAS: &str = "convert it where it was trained: model.export(…, format=\"onnx\") or tf2onnx";
const ARCHIVE: &str = "unpack it, and give the .onnx file inside";
const WEIGHTS: &str = "it has weights and no graph; export the model itself: torch.onnx.export or optimum";
const TREES: &str = "convert it where it was trained: onnxmltools.convert_lightgbm, convert_xgboost, or CatBoost's \
                     save_model(…, format=\"onnx\")";
const ENGINE: &str = "it was compiled for one runtime; give the ONNX file that it was made from";
const PROGRAM: &str = "give the .onnx file";
const POINTER: &str = "fetch the file itself:  git lfs pull";
const PAGE: &str = "the download failed; fetch the file again";

/// (offset, bytes, format, advice). The longer of two with the same start comes first.
const MAGIC: &[(usize, &[u8], &str, &str)] = &[
    (0, b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19", "a PyTorch file (pickle)", TORCH),
    (0, b"\x80\x02", "a pickle", PICKLE),
    (0, b"\x80\x03", "a pickle", PICKLE),
    (0, b"\x80\x04", "a pickle", PICKLE),
    (0, b"\x80\x05", "a pickle", PICKLE),
    (0, b"ccopy_reg\n", "a pickle", PICKLE),
    (0, b"(dp0\n", "a pickle", PICKLE),
    (0, b"x\x01", "a file compressed by zlib, as joblib writes them", PICKLE),
    (0, b"x\x5e", "a file compressed by zlib, as joblib writes them", PICKLE),
    (0, b"x\x9c", "a file compressed by zlib, as joblib writes them", PICKLE),
    (0, b"x\xda", "a file compressed by zlib, as joblib writes them", PICKLE),
    (0, b"PK\x05\x06", "an empty zip archive", ARCHIVE),
    (0, b"\x1f\x8b", "a gzip file", ARCHIVE),
    (0, b"\x28\xb5\x2f\xfd", "a zstd file", ARCHIVE),
    (0, b"\xfd7zXZ\x00", "an xz file", ARCHIVE),
    (0, b"BZh", "a bzip2 file", ARCHIVE),
    (0, b"\x04\x22\x4d\x18", "an lz4 file", ARCHIVE),
    (257, b"ustar", "a tar archive", ARCHIVE),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes them", KERAS),
    (0, b"\x93NUMPY", "an array of NumPy", WEIGHTS),
    (0, b"GGUF", "a GGUF file", WEIGHTS),
    (0, b"lmgg", "a GGML file", WEIGHTS),
    (0, b"tjgg", "a GGML file", WEIGHTS),
    // Flatbuffers: the zeros are of the offset before. An ONNX file may have a producer's name there.
    (2, b"\0\0TFL3", "a TensorFlow Lite model", KERAS),
    (2, b"\0\0ORTM", "a model in ONNX Runtime's own format", ENGINE),
    (0, b"ftrt", "a TensorRT engine", ENGINE),
    (0, b"CBM1", "a CatBoost model", TREES),
    (0, b"binf", "an XGBoost model", TREES),
    (0, b"tree\nversion=", "a LightGBM model", TREES),
    (0, b"{\"learner\"", "an XGBoost model", TREES),
    (0, b"{L", "an XGBoost model", TREES),
    (0, b"\x7fELF", "a program or a library", PROGRAM),
    (0, b"MZ", "a program or a library", PROGRAM),
    (0, b"version https://git-lfs", "a pointer of Git LFS", POINTER),
    (0, b"<?xml", "an XML file", PAGE),
    (0, b"<!DOCTYPE", "a web page", PAGE),
    (0, b"<!doctype", "a web page", PAGE),
    (0, b"<html", "a web page", PAGE),
];

/// The format of a file, if its start reveals it.
pub(super) fn foreign(bytes: &[u8]) -> Option<Finding> {
    let begins = |(at, magic, _, _): &&(usize, &[u8], &str, &str)| {
        bytes.get(*at..).is_some_and(|rest| rest.starts_with(magic))
    };
    if let Some(&(_, _, found, advice)) = MAGIC.iter().find(begins) {
        return Some(Finding::Foreign { found, advice });
    }
    zip(bytes).or_else(|| safetensors(bytes)).or_else(|| text(bytes))
}

/// A model starts with keys and lengths, some of which are not characters.
fn text(bytes: &[u8]) -> Option<Finding> {
    const LOOKED_AT: usize = 64;
    let start = &bytes[..bytes.len().min(LOOKED_AT)];
    let text = start.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    text.then_some(Finding::Foreign { found: "a text file", advice: PROGRAM })
}

/// The names inside reveal the archive's format.
fn zip(bytes: &[u8]) -> Option<Finding> {
    if !bytes.starts_with(b"PK\x03\x04") {
        return None;
    }
    const LOOKED_AT: usize = 64 << 10;
    let start = &bytes[..bytes.len().min(LOOKED_AT)];
    let names = |name: &[u8]| start.windows(name.len()).any(|window| window == name);
    let (found, advice) = if names(b"data.pkl") {
        ("a PyTorch file (a zip archive with a pickle inside)", TORCH)
    } else if names(b"model.weights.h5") {
        ("a Keras model (a zip archive)", KERAS)
    } else if names(b".npy") {
        ("arrays of NumPy (a zip archive)", WEIGHTS)
    } else {
        ("a zip archive", ARCHIVE)
    };
    Some(Finding::Foreign { found, advice })
}

/// The length of a JSON header, then the header.
fn safetensors(bytes: &[u8]) -> Option<Finding> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let header = rest.get(..length)?;
    let found = header.starts_with(b"{\"").then_some("a safetensors file")?;
    Some(Finding::Foreign { found, advice: WEIGHTS })
}
