//! Finds and opens `libonnxruntime`.
//!
//! Python passes the path of the wheel's library (found without importing it); `flyballd` uses
//! `ORT_DYLIB_PATH` or searches next to its executable. Nothing is downloaded or linked at build time.

use crate::{MemoryBudget, allocator, division, log, memory, operator_new};
use ort::environment::Environment;
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The oldest supported ONNX Runtime: from here on its loader confines external data to the model's directory
/// for models loaded from bytes too.
const MINOR_OLDEST: u32 = 27;

#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    #[error(
        "no ONNX Runtime library found: set ORT_DYLIB_PATH to libonnxruntime.so (pip install onnxruntime provides one, \
         in onnxruntime/capi), or put it next to flyballd"
    )]
    NotFound,
    #[error("cannot load {path} as ONNX Runtime: {cause}", path = path.display())]
    Unloadable { path: PathBuf, cause: String },
    #[error(
        "ONNX Runtime {found} is too old: 1.{MINOR_OLDEST} or newer is needed (pip install -U onnxruntime)"
    )]
    TooOld { found: String },
    #[error("this process already runs ONNX Runtime from {0}; it cannot load a second library")]
    OtherLoaded(PathBuf),
}

/// The one ONNX Runtime of this process. Clones share it.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) environment: Environment,
    path: Arc<PathBuf>,
    version: Arc<str>,
    /// Whether sessions may use our allocator.
    pub(crate) counted: bool,
    pub(crate) memory: MemoryBudget,
}

/// ONNX Runtime allows one environment in a process, so the first open wins and later ones share it.
static OPENED: Mutex<Option<Runtime>> = Mutex::new(None);

impl Runtime {
    pub fn open(path: &Path) -> Result<Runtime, LibraryError> {
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = opened.as_ref() {
            if runtime.path.as_path() == path {
                return Ok(runtime.clone());
            }
            return Err(LibraryError::OtherLoaded(runtime.path.to_path_buf()));
        }
        let runtime = Runtime::open_first(path)?;
        *opened = Some(runtime.clone());
        Ok(runtime)
    }

    fn open_first(path: &Path) -> Result<Runtime, LibraryError> {
        let unloadable = |cause: String| LibraryError::Unloadable { path: path.to_owned(), cause };
        let version = library_version(path).map_err(unloadable)?;
        let minor = version.split('.').nth(1).and_then(|part| part.parse::<u32>().ok()).unwrap_or(0);
        if minor < MINOR_OLDEST {
            return Err(LibraryError::TooOld { found: version });
        }
        memory::tune();
        operator_new::prefer();
        division::catch_traps();
        let environment = ort::init_from(path)
            .map_err(|error| unloadable(error.to_string()))?
            .with_name("flyball")
            .with_telemetry(false)
            .with_logger(Arc::new(|level, _category: &str, _id: &str, location: &str, message: &str| {
                log::receive(level, location, message);
            }))
            .build()
            .map_err(|error| unloadable(error.to_string()))?;
        environment.set_log_level(ort::logging::LogLevel::Warning);
        let counted =
            allocator::register(&environment, path).map_err(|error| unloadable(error.to_string()))?;
        if !counted {
            tracing::warn!(
                "this ONNX Runtime library hides C++'s operator new: the memory of runs is not limited; use the one that \
                 pip install onnxruntime provides"
            );
        }
        let (path, memory) = (Arc::new(path.to_owned()), MemoryBudget::UNLIMITED);
        Ok(Runtime { environment, path, version: version.into(), counted, memory })
    }

    /// The same runtime with a memory budget for its sessions' runs.
    pub fn within(self, memory: MemoryBudget) -> Runtime {
        Runtime { memory, ..self }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Such as `1.31.1`.
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// The search without Python: `ORT_DYLIB_PATH`, then `libonnxruntime.so*` next to the executable.
pub fn beside_executable() -> Result<PathBuf, LibraryError> {
    if let Some(path) = std::env::var_os("ORT_DYLIB_PATH").filter(|path| !path.is_empty()) {
        return Ok(PathBuf::from(path));
    }
    let executable = std::env::current_exe().map_err(|_| LibraryError::NotFound)?;
    let folder = executable.parent().ok_or(LibraryError::NotFound)?;
    let entries = std::fs::read_dir(folder).map_err(|_| LibraryError::NotFound)?;
    let is_library = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libonnxruntime.so"))
    };
    // The last by name is the most specific: libonnxruntime.so.1.31.1 rather than libonnxruntime.so.
    entries.flatten().map(|entry| entry.path()).filter(is_library).max().ok_or(LibraryError::NotFound)
}

fn library_version(path: &Path) -> Result<String, String> {
    // SAFETY: loading a library runs its initialisers. The operator chose the path, and the same library is
    // loaded permanently right after.
    let library = unsafe { libloading::Library::new(path) }.map_err(|error| error.to_string())?;
    // SAFETY: `OrtGetApiBase` has had this signature since ONNX Runtime 1.0.
    let base: libloading::Symbol<'_, unsafe extern "C" fn() -> *const ort::sys::OrtApiBase> =
        unsafe { library.get(b"OrtGetApiBase\0") }
            .map_err(|_| "it has no OrtGetApiBase, so it is not ONNX Runtime".to_owned())?;
    // SAFETY: the function takes nothing and returns a pointer to a static table, or null.
    let base = unsafe { base().as_ref() }.ok_or("OrtGetApiBase returned nothing")?;
    // SAFETY: the string is static, and null-terminated.
    let version = unsafe { CStr::from_ptr((base.GetVersionString)()) };
    Ok(version.to_string_lossy().into_owned())
}
