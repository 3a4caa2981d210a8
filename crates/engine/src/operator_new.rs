//! C++'s `operator new` and `operator delete` for ONNX Runtime, with counting.
//!
//! Texts of string tensors and containers inside kernels then count towards a run's memory, too. These
//! replace libstdc++'s and use malloc and free like those, so that either may free a block.
//!
//! Effective where this program's symbols precede libstdc++'s: in `flyballd`, whose linker exports them
//! (`build.rs`), and in Python once `prefer` has made the extension's symbols visible. Elsewhere, as in unit
//! tests, such memory is not counted.

use crate::allocator;
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

/// C++'s own, which throws if there is no memory.
pub(crate) type OperatorNew = unsafe extern "C-unwind" fn(usize) -> *mut c_void;

static THROWING: OnceLock<OperatorNew> = OnceLock::new();

/// Puts these before libstdc++'s if needed; call it before ONNX Runtime is loaded.
pub(crate) fn prefer() {
    // SAFETY: looks up the file of a function of ours, and makes that file's symbols visible to libraries
    // loaded later. The file is already loaded; an executable is not found this way, and does not need it.
    unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        let own = _Znwm as *const c_void;
        if libc::dladdr(own, &raw mut found) != 0 && !found.dli_fname.is_null() {
            libc::dlopen(found.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_GLOBAL);
        }
        // Referenced, so that the linker keeps them.
        std::hint::black_box([_ZdlPv as *const c_void, _ZdaPv as *const c_void, _Znam as *const c_void]);
        std::hint::black_box([_ZdlPvm as *const c_void, _ZdaPvm as *const c_void]);
    }
}

/// The function that throws; none if the library's is hidden.
pub(crate) fn throwing(library: &libloading::Library) -> Option<OperatorNew> {
    // The Itanium C++ ABI's name of `operator new(size_t)`. Looked up in the library, it is the one that the
    // library was linked with.
    const NAME: &CStr = c"_Znwm";
    // SAFETY: the ABI fixes this signature.
    let found = unsafe { library.get::<OperatorNew>(NAME.to_bytes_with_nul()) }.ok().map(|symbol| *symbol)?;
    Some(*THROWING.get_or_init(|| found))
}

/// Throws C++'s `std::bad_alloc`.
///
/// # Safety
///
/// The exception leaves through the caller, which must have nothing to drop, to C++ frames.
pub(crate) unsafe fn throw(operator_new: OperatorNew) -> *mut c_void {
    // More than any allocator has. SAFETY: the function accepts any number.
    unsafe { operator_new(usize::MAX / 2 + 1) }
}

/// The bytes of a block with malloc's header: a map of small nodes is a third headers.
///
/// # Safety
///
/// The block is malloc's, and not freed.
unsafe fn held(block: *mut c_void) -> usize {
    const HEADER_BYTES: usize = size_of::<usize>();
    // SAFETY: as above.
    unsafe { libc::malloc_usable_size(block) + HEADER_BYTES }
}

/// # Safety
/// As C++'s.
#[unsafe(no_mangle)]
#[expect(unreachable_pub, reason = "C++ calls it: the ABI's name of operator new")]
pub unsafe extern "C-unwind" fn _Znwm(size: usize) -> *mut c_void {
    if allocator::take(size) {
        // SAFETY: any size; C++ requires a unique block for zero bytes, too.
        let block = unsafe { libc::malloc(size.max(1)) };
        if !block.is_null() {
            // SAFETY: malloc's own block.
            allocator::took(unsafe { held(block) });
            return block;
        }
    }
    match THROWING.get() {
        // SAFETY: nothing to drop here, and C++ alone calls this.
        Some(operator_new) => unsafe { throw(*operator_new) },
        // Before the library is loaded no run is limited: memory is exhausted.
        None => std::process::abort(),
    }
}

/// # Safety
/// As C++'s.
#[unsafe(no_mangle)]
#[expect(unreachable_pub, reason = "C++ calls it: the ABI's name of operator new[]")]
pub unsafe extern "C-unwind" fn _Znam(size: usize) -> *mut c_void {
    // SAFETY: the same.
    unsafe { _Znwm(size) }
}

/// # Safety
/// As C++'s.
#[unsafe(no_mangle)]
#[expect(unreachable_pub, reason = "C++ calls it: the ABI's name of operator delete")]
pub unsafe extern "C" fn _ZdlPv(block: *mut c_void) {
    if !block.is_null() {
        // SAFETY: C++ frees what came from malloc, here or in libstdc++.
        allocator::gave(unsafe { held(block) });
        // SAFETY: as above, and once.
        unsafe { libc::free(block) };
    }
}

/// # Safety
/// As C++'s.
#[unsafe(no_mangle)]
#[expect(unreachable_pub, reason = "C++ calls it: the ABI's name of operator delete[]")]
pub unsafe extern "C" fn _ZdaPv(block: *mut c_void) {
    // SAFETY: the same.
    unsafe { _ZdlPv(block) }
}

/// # Safety
/// As C++'s.
#[unsafe(no_mangle)]
#[expect(unreachable_pub, reason = "C++ calls it: the ABI's name of the sized operator delete")]
pub unsafe extern "C" fn _ZdlPvm(block: *mut c_void, _size: usize) {
    // SAFETY: the same.
    unsafe { _ZdlPv(block) }
}

/// # Safety
/// As C++'s.
#[unsafe(no_mangle)]
#[expect(unreachable_pub, reason = "C++ calls it: the ABI's name of the sized operator delete[]")]
pub unsafe extern "C" fn _ZdaPvm(block: *mut c_void, _size: usize) {
    // SAFETY: the same.
    unsafe { _ZdlPv(block) }
}
