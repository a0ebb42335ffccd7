//! Why a command ends without success, and the exit code that says so.

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use remat_core::io::FileError;
use thiserror::Error;

/// Exit code of a command that a signal stopped.
pub const INTERRUPTED: u8 = 130;

/// A failed command: one line for people, one code for scripts.
#[derive(Debug, Error)]
pub enum Failure {
    /// The arguments or the files that they name are not usable: exit code 2.
    #[error("{0}")]
    Input(String),
    /// The work was done or begun, and something failed: exit code 1.
    #[error("{0}")]
    Failed(String),
    /// Stopped by a signal: exit code 130.
    #[error("{0}")]
    Interrupted(String),
}

impl Failure {
    /// Bad usage or input.
    pub fn input(message: impl Display) -> Self {
        Self::Input(message.to_string())
    }
    /// Something failed.
    pub fn failed(message: impl Display) -> Self {
        Self::Failed(message.to_string())
    }
    /// What an error of an action on a path becomes where something failed: `PATH: cannot ACTION: ERROR`.
    pub fn cannot<E: Display>(action: &str, path: &Path) -> impl Fn(E) -> Self + Copy {
        move |error| Self::failed(format!("{}: cannot {action}: {error}", path.display()))
    }
    /// What an error becomes where a file that was named cannot be read.
    pub fn unreadable<E: Display>(path: &Path) -> impl Fn(E) -> Self + Copy {
        move |error| Self::at(path)(format!("cannot read: {error}"))
    }
    /// What an error about a file that was named becomes: `PATH: ERROR`.
    pub fn at<E: Display>(path: &Path) -> impl Fn(E) -> Self + Copy {
        move |error| Self::input(format!("{}: {error}", path.display()))
    }
    /// A file that cannot be written; one whose name is of no known kind is bad usage.
    pub fn writing(error: FileError) -> Self {
        match error {
            FileError::Extension { .. } => Self::input(error),
            _ => Self::failed(error),
        }
    }
    /// The exit code, as documented in `bench --help`.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Failed(_) => 1,
            Self::Input(_) => 2,
            Self::Interrupted(_) => INTERRUPTED,
        })
    }
}

/// Files are read from the command line's arguments; a file that cannot be *written* goes through [`Failure::writing`].
impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::input(error)
    }
}
