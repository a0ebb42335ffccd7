//! Finding, loading and calling `libortools`: the only unsafe code of this backend.
//!
//! Looked for in this order: the path in `BENCH_ORTOOLS` (the library, a folder with it, or a virtual
//! environment), the virtual environment of `scripts/ortools-venv.sh`, and the package `ortools` of the
//! `python3` on the path. The wheel's library finds its own dependencies when loaded by absolute path.

use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use crate::cache;

type NewEnvironment = unsafe extern "C" fn() -> *mut c_void;
type OnEnvironment = unsafe extern "C" fn(*mut c_void);
type SolveInterruptible =
    unsafe extern "C" fn(*mut c_void, *const c_void, c_int, *const c_void, c_int, *mut *mut c_void, *mut c_int);

/// The loaded library.
pub struct Library {
    new_environment: NewEnvironment,
    destroy_environment: OnEnvironment,
    stop_search: OnEnvironment,
    solve: SolveInterruptible,
    /// Last, so that the functions never outlive it.
    _handle: libloading::Library,
}

/// The library, looked for once; or where it was looked for in vain, and what would bring it.
pub static LIBRARY: LazyLock<Result<Library, String>> = LazyLock::new(Library::find);

/// An environment of the library, which may be told to stop from another thread.
struct Environment<'a> {
    library: &'a Library,
    raw: *mut c_void,
}

// SAFETY: the library's environment is an atomic flag and a time limit made to be stopped from other threads.
unsafe impl Sync for Environment<'_> {}

impl Drop for Environment<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `new_environment` and destroyed once, after the solve that used it has returned.
        unsafe { (self.library.destroy_environment)(self.raw) }
    }
}

unsafe extern "C" {
    fn free(memory: *mut c_void);
}

impl Library {
    fn find() -> Result<Self, String> {
        let mut tried = Vec::new();
        for place in places() {
            match library_in(&place).map(|path| Self::load(&path)) {
                Some(Ok(library)) => return Ok(library),
                Some(Err(error)) => tried.push(format!("{} ({error})", place.display())),
                None => tried.push(place.display().to_string()),
            }
        }
        Err(missing(&tried))
    }

    fn load(path: &Path) -> Result<Self, libloading::Error> {
        // SAFETY: loading runs the library's initialisers, which is what loading OR-Tools means; the
        // signatures are those of ortools/sat/c_api/cp_solver_c.h.
        unsafe {
            let handle = libloading::Library::new(path)?;
            Ok(Self {
                new_environment: *handle.get::<NewEnvironment>(b"SolveCpNewEnv\0")?,
                destroy_environment: *handle.get::<OnEnvironment>(b"SolveCpDestroyEnv\0")?,
                stop_search: *handle.get::<OnEnvironment>(b"SolveCpStopSearch\0")?,
                solve: *handle.get::<SolveInterruptible>(b"SolveCpInterruptible\0")?,
                _handle: handle,
            })
        }
    }

    /// Solves a model; `stopped` is asked now and then whether to stop.
    pub fn solve(&self, model: &[u8], parameters: &[u8], stopped: &(dyn Fn() -> bool + Sync)) -> Vec<u8> {
        // SAFETY: takes nothing, returns an environment that is destroyed below.
        let environment = Environment { library: self, raw: unsafe { (self.new_environment)() } };
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (environment, done) = (&environment, &done);
            scope.spawn(move || environment.watch(done, stopped));
            let reply = environment.run(model, parameters);
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            reply
        })
    }
}

impl Environment<'_> {
    fn watch(&self, done: &std::sync::atomic::AtomicBool, stopped: &(dyn Fn() -> bool + Sync)) {
        let mut pause = Duration::from_micros(200);
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            if stopped() {
                // SAFETY: the environment lives until this scope ends.
                unsafe { (self.library.stop_search)(self.raw) };
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    fn run(&self, model: &[u8], parameters: &[u8]) -> Vec<u8> {
        let length = |bytes: &[u8]| c_int::try_from(bytes.len()).expect("models stay below two gigabytes");
        let (mut reply, mut reply_length) = (std::ptr::null_mut(), 0);
        // SAFETY: both buffers live through the call and their lengths are theirs; the reply is allocated
        // with malloc, copied, and freed once.
        unsafe {
            (self.library.solve)(
                self.raw,
                model.as_ptr().cast(),
                length(model),
                parameters.as_ptr().cast(),
                length(parameters),
                &raw mut reply,
                &raw mut reply_length,
            );
            let bytes = if reply.is_null() {
                Vec::new()
            } else {
                std::slice::from_raw_parts(reply.cast::<u8>(), usize::try_from(reply_length).unwrap_or(0)).to_vec()
            };
            free(reply);
            bytes
        }
    }
}

/// The library that would be loaded, without loading it.
///
/// # Errors
/// Where it was looked for in vain, and what would bring it.
pub fn find() -> Result<PathBuf, String> {
    let places = places();
    let found = places.iter().find_map(|place| library_in(place));
    found.ok_or_else(|| missing(&places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>()))
}

/// The version of a library, as the wheel that it belongs to says, or else its file name.
pub fn version(path: &Path) -> String {
    let packages = path.ancestors().nth(3).and_then(|folder| std::fs::read_dir(folder).ok());
    let mut names =
        packages.into_iter().flatten().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let of_wheel = |name: String| Some(name.strip_prefix("ortools-")?.strip_suffix(".dist-info")?.to_owned());
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    names.find_map(of_wheel).unwrap_or(file)
}

fn missing(tried: &[String]) -> String {
    format!(
        "OR-Tools is not installed (scripts/setup.sh --ortools, or pip install ortools and BENCH_ORTOOLS); looked in {}",
        if tried.is_empty() { "no place at all".into() } else { tried.join(", ") }
    )
}

/// Where it may be, in the order of looking.
fn places() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os("BENCH_ORTOOLS") {
        return vec![named.into()];
    }
    let venv = cache().map(|cache| cache.join("remat-ortools/venv"));
    venv.into_iter().chain(place_of_python()).collect()
}

/// Where `python3` has the package.
fn place_of_python() -> Option<PathBuf> {
    // Not from the current folder, which Python puts first: what lies beside an instance is no library of ours.
    let program = "import sys; sys.path = [p for p in sys.path if p]; import importlib.util as u; \
                   s = u.find_spec('ortools'); print(s.submodule_search_locations[0] if s else '')";
    let output = Command::new("python3").args(["-c", program]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let place = String::from_utf8(output.ok()?.stdout).ok()?;
    let place = place.trim();
    (!place.is_empty()).then(|| place.into())
}

/// The library in a place: the file itself, or the one in a package, a wheel's folder or an environment.
fn library_in(place: &Path) -> Option<PathBuf> {
    if place.is_file() {
        return Some(place.to_owned());
    }
    let mut folders = vec![place.to_owned(), place.join(".libs"), place.join("ortools/.libs")];
    for entry in std::fs::read_dir(place.join("lib")).into_iter().flatten().flatten() {
        folders.push(entry.path().join("site-packages/ortools/.libs"));
    }
    let is_library = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("libortools.") && (name.contains(".so") || name.contains(".dylib"))
    };
    let files = folders.into_iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    files.map(|entry| entry.path()).find(is_library)
}
