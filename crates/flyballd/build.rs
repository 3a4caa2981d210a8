//! Exports the C++ allocation functions of `engine`, so that ONNX Runtime uses them instead of libstdc++'s.
#![forbid(unsafe_code)]

fn main() {
    let linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    for symbol in ["_Znwm", "_Znam", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm"].into_iter().filter(|_| linux) {
        println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol={symbol}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
