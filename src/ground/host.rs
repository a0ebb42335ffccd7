//! Facts about where and when a run took place, for the last columns of the records.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Hash of the sources that decide answers, of the locked dependencies and of the build's options.
pub const SOURCES: &str = env!("BENCH_SOURCES");

/// Facts that do not change during a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Host name, processor and number of logical cores.
    pub name: String,
    /// Revision of the checkout that the program runs in; `-dirty` with local changes, empty outside of one.
    pub git_revision: String,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// Kernel and its release.
    pub system: String,
}

impl Host {
    /// Asks the system; what it does not say stays empty.
    pub fn new(root: &Path) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let processor = model.map_or("unknown processor", |(_, name)| name.trim());
        // An empty path is the current folder to Rust, and an error to git.
        let root = if root.as_os_str().is_empty() { Path::new(".") } else { root };
        Self {
            name: format!("{}; {processor}; {} cores", host.trim(), cores()),
            git_revision: git_revision(root),
            memory_bytes: memory_bytes(),
            system: std::fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or(String::new(), |release| format!("{} {}", std::env::consts::OS, release.trim())),
        }
    }
}

/// Logical cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn memory_bytes() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    total.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
}

fn git_revision(root: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(arguments).stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(revision) = git(&["rev-parse", "--short=12", "HEAD"]) else { return String::new() };
    let changes = git(&["status", "--porcelain", "--untracked-files=no"]).unwrap_or_default();
    if changes.is_empty() { revision } else { format!("{revision}-dirty") }
}

/// The time now, `2026-11-21T10:09:08Z`.
pub fn timestamp() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format_timestamp(since.as_secs())
}

/// Seconds since 1970 as a date of the Gregorian calendar, in UTC (Hinnant's `civil_from_days`).
fn format_timestamp(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_know_leap_years() {
        assert_eq!(format_timestamp(0), "1970-01-01T00:00:00Z");
        assert_eq!(format_timestamp(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(format_timestamp(1_795_255_748), "2026-11-21T10:09:08Z");
    }
}
