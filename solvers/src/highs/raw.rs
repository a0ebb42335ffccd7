//! The one place that calls into HiGHS: a safe handle whose every return code is looked at.
//!
//! A rejected option silently leaves the default in force, so every setter returns an error then.

use std::ffi::{CString, c_int, c_void};
use std::ptr;

use highs_sys as ffi;
use highs_sys::HighsInt;

use crate::backend::SolverError;
use crate::highs::callback::{Hooks, trampoline};
use crate::model::{Kind, Model, RowBlock};
use crate::outcome::{Linear, Size};

/// Id of the backend.
pub const ID: &str = "highs";

/// A live instance of HiGHS. Stays on the thread that made it: HiGHS's task scheduler is per thread.
pub struct Handle {
    pointer: *mut c_void,
    columns: usize,
    rows: usize,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the pointer came from Highs_create and is destroyed once. Resetting the scheduler
        // lets the next instance on this thread use another number of threads.
        unsafe {
            ffi::Highs_destroy(self.pointer);
            ffi::Highs_resetGlobalScheduler(1);
        }
    }
}

/// A length as HiGHS wants it.
fn int(length: usize) -> HighsInt {
    HighsInt::try_from(length).expect("models index in 31 bits")
}

fn text(what: &str) -> CString {
    CString::new(what).expect("option names and values hold no NUL")
}

impl Handle {
    /// A new instance; silent, unless logs are wanted.
    pub fn new() -> Result<Self, SolverError> {
        // SAFETY: no arguments.
        let pointer = unsafe { ffi::Highs_create() };
        let mut handle = Self { pointer, columns: 0, rows: 0 };
        handle.set_bool("output_flag", crate::log::wanted())?;
        Ok(handle)
    }

    fn check(status: HighsInt, what: impl FnOnce() -> String) -> Result<(), SolverError> {
        if status == ffi::STATUS_OK {
            return Ok(());
        }
        Err(SolverError::Rejected { solver: ID, what: what(), status })
    }

    /// Sets a Boolean option.
    pub fn set_bool(&mut self, name: &str, value: bool) -> Result<(), SolverError> {
        let option = text(name);
        // SAFETY: a live instance and a NUL-terminated string.
        let status = unsafe { ffi::Highs_setBoolOptionValue(self.pointer, option.as_ptr(), HighsInt::from(value)) };
        Self::check(status, || format!("option {name}={value}"))
    }

    /// Sets a whole-number option; numbers beyond 31 bits become the largest.
    pub fn set_int(&mut self, name: &str, value: u64) -> Result<(), SolverError> {
        let option = text(name);
        let number = HighsInt::try_from(value).unwrap_or(HighsInt::MAX);
        // SAFETY: a live instance and a NUL-terminated string.
        let status = unsafe { ffi::Highs_setIntOptionValue(self.pointer, option.as_ptr(), number) };
        Self::check(status, || format!("option {name}={value}"))
    }

    /// Sets a real-number option.
    pub fn set_double(&mut self, name: &str, value: f64) -> Result<(), SolverError> {
        let option = text(name);
        // SAFETY: a live instance and a NUL-terminated string.
        let status = unsafe { ffi::Highs_setDoubleOptionValue(self.pointer, option.as_ptr(), value) };
        Self::check(status, || format!("option {name}={value}"))
    }

    /// Sets a text option.
    pub fn set_text(&mut self, name: &str, value: &str) -> Result<(), SolverError> {
        let (option, words) = (text(name), text(value));
        // SAFETY: a live instance and NUL-terminated strings.
        let status = unsafe { ffi::Highs_setStringOptionValue(self.pointer, option.as_ptr(), words.as_ptr()) };
        Self::check(status, || format!("option {name}={value}"))
    }

    /// Hands a model over.
    pub fn pass(&mut self, model: &Model) -> Result<(), SolverError> {
        let integrality: Vec<HighsInt> = model
            .kinds
            .iter()
            .map(|kind| match kind {
                Kind::Continuous => ffi::VAR_TYPE_CONTINUOUS,
                Kind::Integer => ffi::VAR_TYPE_INTEGER,
            })
            .collect();
        (self.columns, self.rows) = (model.columns(), model.rows.len());
        // SAFETY: every array has the length that is passed: columns, rows (starts one more, of which
        // HiGHS reads the first `rows`), terms. HiGHS copies them.
        let status = unsafe {
            ffi::Highs_passMip(
                self.pointer,
                int(self.columns),
                int(self.rows),
                int(model.nonzeros()),
                ffi::MATRIX_FORMAT_ROW_WISE,
                ffi::OBJECTIVE_SENSE_MINIMIZE,
                model.offset,
                model.costs.as_ptr(),
                model.lower.as_ptr(),
                model.upper.as_ptr(),
                model.rows.lower.as_ptr(),
                model.rows.upper.as_ptr(),
                model.rows.starts.as_ptr(),
                model.rows.columns.as_ptr(),
                model.rows.values.as_ptr(),
                integrality.as_ptr(),
            )
        };
        tolerated(status, || "the model".into())
    }

    /// Adds rows.
    pub fn add_rows(&mut self, rows: &RowBlock) -> Result<(), SolverError> {
        self.rows += rows.len();
        // SAFETY: every array has the length that is passed; HiGHS copies them.
        let status = unsafe {
            ffi::Highs_addRows(
                self.pointer,
                int(rows.len()),
                rows.lower.as_ptr(),
                rows.upper.as_ptr(),
                int(rows.values.len()),
                rows.starts.as_ptr(),
                rows.columns.as_ptr(),
                rows.values.as_ptr(),
            )
        };
        tolerated(status, || format!("{} more rows", rows.len()))
    }

    /// Gives a vector to start from.
    pub fn set_start(&mut self, values: &[f64]) -> Result<(), SolverError> {
        assert_eq!(values.len(), self.columns, "starts are checked before they come here");
        // SAFETY: one value per column; null for what is not given.
        let status =
            unsafe { ffi::Highs_setSolution(self.pointer, values.as_ptr(), ptr::null(), ptr::null(), ptr::null()) };
        tolerated(status, || "a feasible start".into())
    }

    /// Forgets vectors and bases of earlier runs.
    pub fn forget(&mut self) -> Result<(), SolverError> {
        // SAFETY: a live instance.
        let status = unsafe { ffi::Highs_clearSolver(self.pointer) };
        tolerated(status, || "to forget the last run".into())
    }

    /// Presolves, for its sizes only.
    pub fn presolve(&mut self) -> Option<Size> {
        // SAFETY: a live instance.
        let status = unsafe { ffi::Highs_presolve(self.pointer) };
        if status == ffi::STATUS_ERROR {
            return None;
        }
        let size = |number: HighsInt| usize::try_from(number).unwrap_or(0);
        // SAFETY: a live instance that has presolved.
        unsafe {
            Some(Size {
                rows: size(ffi::Highs_getPresolvedNumRow(self.pointer)),
                columns: size(ffi::Highs_getPresolvedNumCol(self.pointer)),
                nonzeros: size(ffi::Highs_getPresolvedNumNz(self.pointer)),
            })
        }
    }

    /// Solves, with callbacks into `hooks` while it does. Limits count from here.
    pub fn run(&mut self, hooks: &mut Hooks<'_, '_>) -> HighsInt {
        let data = ptr::from_mut(hooks).cast::<c_void>();
        // SAFETY: `hooks` outlives the run, and the callbacks are stopped before this returns.
        unsafe {
            ffi::Highs_zeroAllClocks(self.pointer);
            ffi::Highs_setCallback(self.pointer, Some(trampoline), data);
            for kind in Hooks::KINDS {
                ffi::Highs_startCallback(self.pointer, kind as c_int);
            }
            let status = ffi::Highs_run(self.pointer);
            for kind in Hooks::KINDS {
                ffi::Highs_stopCallback(self.pointer, kind as c_int);
            }
            ffi::Highs_setCallback(self.pointer, None, ptr::null_mut());
            status
        }
    }

    /// Status of the model.
    pub fn model_status(&self) -> HighsInt {
        // SAFETY: a live instance.
        unsafe { ffi::Highs_getModelStatus(self.pointer) }
    }

    /// Objective of the current vector.
    pub fn objective(&self) -> f64 {
        // SAFETY: a live instance.
        unsafe { ffi::Highs_getObjectiveValue(self.pointer) }
    }

    /// Whether the current vector is feasible.
    pub fn has_feasible_vector(&self) -> bool {
        self.whole_info("primal_solution_status") == Some(ffi::SOLUTION_STATUS_FEASIBLE)
    }

    /// A whole number about the run.
    fn whole_info(&self, name: &str) -> Option<HighsInt> {
        let mut value: HighsInt = 0;
        let name = text(name);
        // SAFETY: a live instance, a NUL-terminated string and a place for the value.
        let known = unsafe { ffi::Highs_getIntInfoValue(self.pointer, name.as_ptr(), &raw mut value) };
        (known == ffi::STATUS_OK).then_some(value)
    }

    /// A real number about the run.
    pub fn info(&self, name: &str) -> Option<f64> {
        let mut value = f64::NAN;
        let name = text(name);
        // SAFETY: a live instance, a NUL-terminated string and a place for the value.
        let known = unsafe { ffi::Highs_getDoubleInfoValue(self.pointer, name.as_ptr(), &raw mut value) };
        (known == ffi::STATUS_OK && value.is_finite()).then_some(value)
    }

    /// Nodes of the run.
    pub fn nodes(&self) -> Option<u64> {
        let mut value = -1_i64;
        let name = text("mip_node_count");
        // SAFETY: a live instance, a NUL-terminated string and a place for the value.
        let known = unsafe { ffi::Highs_getInt64InfoValue(self.pointer, name.as_ptr(), &raw mut value) };
        u64::try_from(value).ok().filter(|_| known == ffi::STATUS_OK)
    }

    /// The current vector.
    pub fn values(&self) -> Vec<f64> {
        let mut values = vec![0.0; self.columns];
        self.solution(&mut values, None);
        values
    }

    /// Fills in the current vector and, where wanted, the multipliers of the rows.
    fn solution(&self, values: &mut [f64], multipliers: Option<&mut [f64]>) -> HighsInt {
        let multipliers = multipliers.map_or(ptr::null_mut(), <[f64]>::as_mut_ptr);
        // SAFETY: room for one value per column and one per row; null where nothing is wanted.
        unsafe {
            ffi::Highs_getSolution(self.pointer, values.as_mut_ptr(), ptr::null_mut(), ptr::null_mut(), multipliers)
        }
    }

    /// The current vector and the multipliers of the rows; none where there are no multipliers.
    pub fn linear(&self) -> Option<Linear> {
        self.whole_info("dual_solution_status").filter(|&status| status != ffi::SOLUTION_STATUS_NONE)?;
        let (mut values, mut multipliers) = (vec![0.0; self.columns], vec![0.0; self.rows]);
        let status = self.solution(&mut values, Some(&mut multipliers));
        let finite = values.iter().chain(&multipliers).all(|value| value.is_finite());
        (status == ffi::STATUS_OK && finite).then_some(Linear { values, multipliers })
    }

    /// Size of the model as it stands.
    pub fn size(&self) -> Size {
        // SAFETY: a live instance.
        let nonzeros = unsafe { ffi::Highs_getNumNz(self.pointer) };
        Size { rows: self.rows, columns: self.columns, nonzeros: usize::try_from(nonzeros).unwrap_or(0) }
    }
}

/// Models and starts may draw warnings (tiny coefficients dropped, say).
fn tolerated(status: HighsInt, what: impl FnOnce() -> String) -> Result<(), SolverError> {
    if status == ffi::STATUS_ERROR { Handle::check(status, what) } else { Ok(()) }
}

/// Version of HiGHS.
pub fn version() -> String {
    // SAFETY: no arguments; a static NUL-terminated string comes back.
    let version = unsafe { std::ffi::CStr::from_ptr(ffi::Highs_version()) };
    format!("HiGHS {}", version.to_string_lossy())
}
