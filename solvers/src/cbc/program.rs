//! Finding, starting, watching and, if need be, killing the program.
//!
//! Looked for in this order: the path in `BENCH_CBC`, where `scripts/setup.sh --tests` puts it, and `cbc` on the path.

use std::ffi::{CStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cache;
use crate::export::write_mps;
use crate::model::{Column, Model, Names, Numbered};

/// Where set-up puts it, below the cache folder of bench.
const PREBUILT: &str = "bench/cbc-2.935/bin/cbc";
/// Longest pause between two looks at a running program.
const PAUSE: Duration = Duration::from_millis(20);

/// The program.
pub struct Program {
    path: PathBuf,
    /// What it calls itself.
    pub version: String,
}

/// The program, looked for once; or where it was looked for in vain, and what would bring it.
pub static PROGRAM: LazyLock<Result<Program, String>> = LazyLock::new(Program::find);

/// A model, a start and places for the answers, in shared memory.
pub struct Call<'a> {
    program: &'a Program,
    columns: usize,
    model: File,
    start: Option<File>,
    /// The solution as text, whose first line says why CBC stopped.
    words: File,
    /// The solution in full precision.
    values: File,
}

/// How a process ended.
pub enum Exit {
    /// By itself.
    Itself(ExitStatus),
    /// It was killed here.
    Killed,
}

/// What became of a call.
pub struct Ended {
    /// How the process ended.
    pub exit: Exit,
    /// Whether it was stopped because of the flag.
    pub interrupted: bool,
    /// What it printed, to both streams.
    pub log: String,
    /// First line of the text of its solution.
    pub headline: String,
    /// Values of the columns, if it wrote them.
    pub values: Option<Vec<f64>>,
}

impl Program {
    fn find() -> Result<Self, String> {
        let places = places();
        for path in &places {
            let output = Command::new(path).arg("-quit").stdin(Stdio::null()).output().ok();
            let version = output.and_then(|output| version_in(&String::from_utf8_lossy(&output.stdout)));
            if let Some(version) = version {
                return Ok(Self { path: path.clone(), version });
            }
        }
        let tried: Vec<_> = places.iter().map(|path| path.display().to_string()).collect();
        Err(format!(
            "CBC is not installed (scripts/setup.sh --tests, or the system's package coinor-cbc, or BENCH_CBC); looked for {}",
            tried.join(", ")
        ))
    }

    /// Whether it tightens bounds before it solves, as the version of 2026 does: where bounds come closer to a point round by
    /// round without end, it calls the model infeasible.
    fn propagates(&self) -> bool {
        !self.version.starts_with("CBC 2.")
    }

    /// Writes a model and a start to where the program will read them.
    ///
    /// # Errors
    /// There is no room for them.
    pub fn prepare(&self, model: &Model, start: Option<&[f64]>) -> io::Result<Call<'_>> {
        let mut written = BufWriter::new(shared(c"model")?);
        write_mps(&mut written, model, &Numbered, &[])?;
        let start = start.map(|values| {
            let mut written = BufWriter::new(shared(c"start")?);
            // The head is passed over, and so are the positions.
            writeln!(written, "Stopped - objective value {}", model.objective(values))?;
            for (at, value) in values.iter().enumerate().filter(|(_, value)| **value != 0.0) {
                writeln!(written, "{at} {} {value} 0", Numbered.column(Column::from_index(at)))?;
            }
            written.into_inner().map_err(io::IntoInnerError::into_error)
        });
        Ok(Call {
            program: self,
            columns: model.columns(),
            model: written.into_inner().map_err(io::IntoInnerError::into_error)?,
            start: start.transpose()?,
            words: shared(c"words")?,
            values: shared(c"values")?,
        })
    }
}

/// A file without a place on a disk, which a child process inherits.
fn shared(name: &CStr) -> io::Result<File> {
    Ok(File::from(memfd_create(name, MFdFlags::empty()).map_err(io::Error::from)?))
}

/// What a child that inherits a file calls it.
fn path_of(file: &File) -> OsString {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

impl Call<'_> {
    /// Runs the program until it ends, or until it is told to and then made to: at once where `interrupt` is set, and
    /// where it goes on after its time by more than a grace.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn run(
        mut self,
        options: &[(&str, String)],
        time: Option<Duration>,
        interrupt: Option<&AtomicBool>,
    ) -> io::Result<Ended> {
        let mut command = Command::new(&self.program.path);
        command.arg(path_of(&self.model));
        if let Some(time) = time {
            command.args(["-seconds", &time.as_secs_f64().to_string(), "-timeMode", "elapsed"]);
        }
        for (name, value) in options {
            command.arg(format!("-{name}")).arg(value);
        }
        if self.program.propagates() {
            command.args(["-boundPropMaxRounds", "3"]);
        }
        if let Some(start) = &self.start {
            command.arg("-mipStart").arg(path_of(start));
        }
        command.arg("-solve").arg("-solution").arg(path_of(&self.words));
        command.arg("-saveSolution").arg(path_of(&self.values)).arg("-quit");
        let (mut log, writer) = io::pipe()?;
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        // SAFETY: a system call that is allowed between fork and exec, and nothing else.
        unsafe { command.pre_exec(|| set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from)) };
        let mut child = command.spawn()?;
        // It holds the writing ends of the pipe, on which the reader below waits.
        drop(command);
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || listen(&mut log));
            let (exit, interrupted) = watch(&mut child, time, interrupt)?;
            let log = reader.join().unwrap_or_default();
            let headline = first_line(&mut self.words)?;
            let values = read_values(&mut self.values, self.columns);
            Ok(Ended { exit, interrupted, log, headline, values })
        })
    }
}

/// Waits for the program. Told to stop (by the signal of Ctrl-C) it still writes what it has; killed it does not.
fn watch(child: &mut Child, time: Option<Duration>, interrupt: Option<&AtomicBool>) -> io::Result<(Exit, bool)> {
    let began = Instant::now();
    let grace = |time: Duration, part: u32| time + time / part + Duration::from_millis(5000 / u64::from(part));
    let mut limits = time.map(|time| (grace(time, 40), grace(time, 16)));
    let mut pause = Duration::from_micros(200);
    let (mut told, mut interrupted) = (false, false);
    loop {
        if let Some(status) = child.try_wait()? {
            // Before its search it does not listen, and dies of the signal.
            let of_signal = told && status.signal() == Some(Signal::SIGINT as i32);
            return Ok((if of_signal { Exit::Killed } else { Exit::Itself(status) }, interrupted));
        }
        let now = began.elapsed();
        if !interrupted && interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            interrupted = true;
            limits = Some((now, grace(now, 16).min(now + Duration::from_millis(500))));
        }
        if limits.is_some_and(|(_, end)| now >= end) {
            child.kill()?;
            child.wait()?;
            return Ok((Exit::Killed, interrupted));
        }
        if !told && limits.is_some_and(|(warning, _)| now >= warning) {
            told = true;
            // Fails only where it is gone already.
            let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE);
    }
}

/// All that the program prints; passed on as it comes where solvers' logs are wanted.
fn listen(log: &mut impl Read) -> String {
    let (mut text, mut block) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = log.read(&mut block) {
        text.extend_from_slice(&block[..count]);
        if crate::log::wanted() {
            // A log that is full is no reason to stop.
            let _ = io::stdout().write_all(&block[..count]);
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn first_line(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut head = Vec::new();
    file.take(512).read_to_end(&mut head)?;
    Ok(String::from_utf8_lossy(&head).lines().next().unwrap_or_default().trim().to_owned())
}

/// The values of the columns from what `saveSolution` writes: the numbers of rows and of columns (32 bits each), the
/// objective, two numbers for each row, two for each column, of which the values of all columns come first.
fn read_values(file: &mut File, columns: usize) -> Option<Vec<f64>> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).ok()?;
    let count = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?) as usize);
    let rows = count(0)?;
    if count(4)? != columns {
        return None;
    }
    let begin = 16 + 2 * 8 * rows;
    let values = bytes.get(begin..begin + 8 * columns)?;
    Some(values.as_chunks().0.iter().map(|&chunk| f64::from_ne_bytes(chunk)).collect())
}

/// What the program calls itself in the first lines that it prints.
fn version_in(banner: &str) -> Option<String> {
    let first = banner.lines().next().filter(|line| line.contains("CBC"))?;
    let numbered = banner.lines().find_map(|line| line.strip_prefix("Version:"));
    let named = || first.split('—').next().unwrap_or(first).trim().to_owned();
    Some(numbered.map_or_else(named, |number| format!("CBC {}", number.trim())))
}

/// Where it may be, in the order of looking.
fn places() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os("BENCH_CBC") {
        return vec![named.into()];
    }
    cache().map(|cache| cache.join(PREBUILT)).into_iter().chain([PathBuf::from("cbc")]).collect()
}
