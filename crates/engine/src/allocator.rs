//! The allocator of ONNX Runtime's sessions: counts and limits each run's memory.
//!
//! It replaces ONNX Runtime's arenas, which have no limit for each run and never return memory. A session is
//! run by one thread at a time and has no threads of its own, so a thread's allocations during a run belong
//! to that run. Tensors and the kernels' scratch memory come from here; texts and C++ containers come from
//! `operator_new.rs`, which counts them here.

use crate::memory::{self, MemoryBudget};
use crate::operator_new::{self, OperatorNew};
use ort::AsPointer;
use ort::environment::Environment;
use ort::sys::{OrtAllocator, OrtAllocatorType, OrtMemType, OrtMemoryInfo};
use std::cell::Cell;
use std::ffi::c_void;
use std::path::Path;
use std::ptr::null_mut;

/// ONNX Runtime's kernels need their vectors aligned to a cache line.
const ALIGNMENT: usize = 64;

/// Why a run got no more memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// It would have exceeded its own limit with this many bytes.
    Run { wanted: u64 },
    /// The whole process is at its limit.
    Process,
}

/// The memory of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunMemory {
    pub(crate) peak_bytes: u64,
    pub(crate) denied: Option<Denied>,
}

/// The current run on this thread.
struct Run {
    budget: Cell<MemoryBudget>,
    used: Cell<u64>,
    peak: Cell<u64>,
    denied: Cell<Option<Denied>>,
}

thread_local! {
    static RUN: Run = const {
        Run {
            budget: Cell::new(MemoryBudget::UNLIMITED),
            used: Cell::new(0),
            peak: Cell::new(0),
            denied: Cell::new(None),
        }
    };
}

/// Runs `work` within a budget and returns its memory use. Loads are not limited here: they are checked as a
/// whole.
pub(crate) fn within<T>(budget: MemoryBudget, work: impl FnOnce() -> T) -> (T, RunMemory) {
    RUN.with(|run| {
        run.budget.set(budget);
        run.used.set(0);
        run.peak.set(0);
        run.denied.set(None);
        let done = work();
        run.budget.set(MemoryBudget::UNLIMITED);
        (done, RunMemory { peak_bytes: run.peak.get(), denied: run.denied.get() })
    })
}

impl Run {
    fn take(&self, bytes: u64) -> Result<(), Denied> {
        let (budget, used) = (self.budget.get(), self.used.get());
        let wanted = used.saturating_add(bytes);
        if wanted > budget.run_bytes_max {
            return Err(Denied::Run { wanted });
        }
        // Once for each mebibyte: many small blocks add up to a large one.
        if wanted / memory::LARGE_BYTES > used / memory::LARGE_BYTES && !budget.has_room(bytes) {
            return Err(Denied::Process);
        }
        Ok(())
    }
}

/// Whether the current run, if any, may have this many more bytes.
pub(crate) fn take(bytes: usize) -> bool {
    RUN.with(|run| match run.take(bytes as u64) {
        Ok(()) => true,
        Err(denied) => {
            run.denied.set(Some(denied));
            false
        }
    })
}

pub(crate) fn took(bytes: usize) {
    RUN.with(|run| {
        let used = run.used.get() + bytes as u64;
        run.used.set(used);
        run.peak.set(run.peak.get().max(used));
    });
}

pub(crate) fn gave(bytes: usize) {
    RUN.with(|run| run.used.set(run.used.get().saturating_sub(bytes as u64)));
}

/// The allocator table for ONNX Runtime comes first: the library knows nothing of the rest.
#[repr(C)]
struct Counting {
    table: OrtAllocator,
    info: *const OrtMemoryInfo,
    operator_new: OperatorNew,
}

/// Registers the allocator for all sessions that use it; false if this library cannot report a failure.
pub(crate) fn register(environment: &Environment, library: &Path) -> ort::Result<bool> {
    let Some(operator_new) = throwing(library) else { return Ok(false) };
    let mut info: *mut OrtMemoryInfo = null_mut();
    let (kind, memory) = (OrtAllocatorType::OrtDeviceAllocator, OrtMemType::OrtMemTypeDefault);
    // SAFETY: the call fills the pointer, or returns a status that becomes the error.
    unsafe {
        let made = (ort::api().CreateCpuMemoryInfo)(kind, memory, &raw mut info);
        ort::Error::result_from_status(made)?;
    }
    // SAFETY: a table without functions; all that ONNX Runtime calls on its own are set below.
    let empty = unsafe { OrtAllocator::default() };
    let table = OrtAllocator {
        // SAFETY: the same calling convention. ONNX Runtime, which alone calls it, is C++ and expects exceptions of its
        // allocators; Rust never calls it through the table.
        Alloc: Some(unsafe {
            std::mem::transmute::<
                unsafe extern "C-unwind" fn(*mut OrtAllocator, usize) -> *mut c_void,
                unsafe extern "system" fn(*mut OrtAllocator, usize) -> *mut c_void,
            >(alloc)
        }),
        // SAFETY: as above.
        Reserve: Some(unsafe {
            std::mem::transmute::<
                unsafe extern "C-unwind" fn(*const OrtAllocator, usize) -> *mut c_void,
                unsafe extern "system" fn(*const OrtAllocator, usize) -> *mut c_void,
            >(reserve)
        }),
        Free: Some(free),
        Info: Some(info_of),
        ..empty
    };
    // Never freed: the environment uses it for the life of the process.
    let counting = Box::leak(Box::new(Counting { table, info, operator_new }));
    // SAFETY: environment and table are valid and stay so; the status becomes the error.
    unsafe {
        let registered =
            (ort::api().RegisterAllocator)(environment.ptr().cast_mut(), &raw mut counting.table);
        ort::Error::result_from_status(registered)?;
    }
    Ok(true)
}

fn throwing(library: &Path) -> Option<OperatorNew> {
    // SAFETY: the library is already loaded, so none of its initialisers runs.
    let library = unsafe { libloading::Library::new(library) }.ok()?;
    let found = operator_new::throwing(&library);
    std::mem::forget(library);
    found
}

/// Allocates, or throws C++'s `std::bad_alloc`.
///
/// Kernels write to the block without checking it, so a null would crash the process (1.31). ONNX Runtime
/// turns the exception into a failed run. It passes through no Rust frames but these, which have nothing to
/// drop.
unsafe extern "C-unwind" fn alloc(this: *mut OrtAllocator, size: usize) -> *mut c_void {
    if take(size) {
        // SAFETY: any size and a power of two.
        let block = unsafe { libmimalloc_sys::mi_malloc_aligned(size.max(1), ALIGNMENT) };
        if !block.is_null() {
            // SAFETY: the block is mimalloc's own.
            let bytes = unsafe { libmimalloc_sys::mi_usable_size(block) };
            took(bytes);
            memory::count_large(bytes as u64);
            return block;
        }
    }
    // SAFETY: ONNX Runtime passes back the table that it got, which is the first field; nothing is to be
    // dropped.
    unsafe { operator_new::throw((*this.cast::<Counting>()).operator_new) }
}

unsafe extern "C-unwind" fn reserve(this: *const OrtAllocator, size: usize) -> *mut c_void {
    // SAFETY: the same table, which `alloc` only reads.
    unsafe { alloc(this.cast_mut(), size) }
}

unsafe extern "system" fn free(_this: *mut OrtAllocator, block: *mut c_void) {
    if block.is_null() {
        return;
    }
    // SAFETY: ONNX Runtime frees what `alloc` returned, once; mimalloc accepts any thread.
    let bytes = unsafe {
        let bytes = libmimalloc_sys::mi_usable_size(block);
        libmimalloc_sys::mi_free(block);
        bytes
    };
    gave(bytes);
    memory::forget_large(bytes as u64);
}

unsafe extern "system" fn info_of(this: *const OrtAllocator) -> *const OrtMemoryInfo {
    // SAFETY: ONNX Runtime passes back the table that it got, which is the first field.
    unsafe { (*this.cast::<Counting>()).info }
}
