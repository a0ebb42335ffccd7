//! Faults on purpose, so that tests really exercise what the harness does about them.
//!
//! Only the feature `faults` brings this: nothing in the environment changes what a plain build answers.
//!
//! A worker whose environment holds `BENCH_TEST_FAULT=METHOD:KIND` misbehaves when it runs that method.

use std::io::Write;

use remat_formulations::{Answer, Claimed, Progress, Reporter};

/// Name of the environment variable.
pub const VARIABLE: &str = "BENCH_TEST_FAULT";

/// A way to misbehave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Die by SIGABRT.
    Abort,
    /// Never return.
    Hang,
    /// Never return, unless the cluster has begun the task again.
    HangFirst,
    /// Report schedules and a bound, then never return.
    HangLate(u64),
    /// Use CPU time for ever, in two processes.
    Burn,
    /// Ask for more memory than there is.
    OutOfMemory,
    /// Panic.
    Panic,
    /// Write what is no message.
    Garbage,
    /// Leave out the schedule's first step.
    IllegalSchedule,
    /// Claim less time than the schedule takes.
    WrongClaim,
    /// Return no answer at all.
    NoAnswer,
    /// Panic at one budget, after those before it have their answers.
    PanicAt(u64),
    /// Never return from one budget, likewise.
    HangAt(u64),
}

/// The fault asked for, if it is for this method.
pub fn asked(method: &str) -> Option<Fault> {
    let value = std::env::var(VARIABLE).ok()?;
    let (id, kind) = value.split_once(':')?;
    let fault = match kind {
        "abort" => Fault::Abort,
        "hang" => Fault::Hang,
        "hang-first" => Fault::HangFirst,
        "hang-late" => Fault::HangLate(1),
        "hang-high" => Fault::HangLate(u64::MAX),
        "burn" => Fault::Burn,
        "oom" => Fault::OutOfMemory,
        "panic" => Fault::Panic,
        "garbage" => Fault::Garbage,
        "illegal" => Fault::IllegalSchedule,
        "claim" => Fault::WrongClaim,
        "silent" => Fault::NoAnswer,
        other => at_budget(other)?,
    };
    (id == method).then_some(fault)
}

/// `panic-at-BYTES`, `hang-at-BYTES`.
fn at_budget(kind: &str) -> Option<Fault> {
    let (what, bytes) = kind.rsplit_once('-')?;
    let bytes = bytes.parse().ok()?;
    match what {
        "panic-at" => Some(Fault::PanicAt(bytes)),
        "hang-at" => Some(Fault::HangAt(bytes)),
        _ => None,
    }
}

impl Fault {
    /// What happens before the method runs.
    ///
    /// # Panics
    /// If that is the fault.
    pub fn before(self) {
        match self {
            Self::Abort => std::process::abort(),
            Self::HangFirst if std::env::var_os("SLURM_RESTART_COUNT").is_some() => {}
            Self::Hang | Self::HangFirst => forever(),
            Self::Burn => burn(),
            Self::OutOfMemory => {
                let mut hoard: Vec<Vec<u8>> = Vec::new();
                loop {
                    hoard.push(Vec::with_capacity(1 << 40));
                }
            }
            Self::Panic => panic!("a panic on purpose"),
            Self::Garbage => {
                let _ = std::io::stdout().write_all(b"a line of garbage\n");
            }
            Self::IllegalSchedule
            | Self::WrongClaim
            | Self::NoAnswer
            | Self::HangLate(_)
            | Self::PanicAt(_)
            | Self::HangAt(_) => {}
        }
    }

    /// What happens to the answers.
    ///
    /// # Panics
    /// If that is the fault.
    pub fn spoil(self, answers: &mut Vec<Answer>, reporter: &dyn Reporter) {
        match self {
            Self::HangLate(bound) => {
                for (index, answer) in answers.drain(..).enumerate() {
                    if let (Some(schedule), Some(claimed)) = (answer.schedule, answer.claimed) {
                        reporter.report(index, Progress::incumbent(schedule, claimed).after(1));
                        reporter.report(index, Progress::bound(bound));
                    }
                }
                forever();
            }
            Self::NoAnswer => answers.clear(),
            Self::IllegalSchedule => {
                for schedule in answers.iter_mut().filter_map(|answer| answer.schedule.as_mut()) {
                    schedule.steps.remove(0);
                }
            }
            Self::WrongClaim => {
                for answer in answers {
                    answer.claimed = Some(Claimed { time: 0, peak_bytes: u64::MAX });
                }
            }
            Self::PanicAt(bytes) | Self::HangAt(bytes) => {
                let Some(at) = answers.iter().position(|answer| answer.budget == Some(bytes)) else { return };
                answers[..at].iter().enumerate().for_each(|(index, answer)| reporter.answer(index, answer));
                assert!(self != Self::PanicAt(bytes), "a panic on purpose at {bytes}");
                forever();
            }
            _ => {}
        }
    }
}

/// The child does most of the work: a limit on this process alone would not notice.
fn burn() -> ! {
    let child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
    // Without a shell this process is all that there is.
    let _ = child.map(|mut child| child.wait());
    loop {
        std::hint::spin_loop();
    }
}

fn forever() -> ! {
    loop {
        std::thread::sleep(std::time::Duration::from_secs(3600));
    }
}
