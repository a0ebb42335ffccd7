//! What a process group uses, as the system sees it: a limit on the worker's own process would not
//! count what the worker starts.

use std::time::Duration;

use nix::unistd::{Pid, SysconfVar, sysconf};

/// What the processes of a group have used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of all threads, and of children that were waited for.
    pub cpu: Duration,
    /// Resident memory now, over all processes.
    pub resident_bytes: u64,
}

/// The usage of a group; nothing of processes that are gone and were not waited for.
pub fn usage(group: Pid) -> Usage {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbered = processes.filter(|entry| entry.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit()));
    let texts = numbered.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    let mut total = Usage::default();
    for part in texts.filter_map(|text| of_process(&text, group)) {
        total.cpu += part.cpu;
        total.resident_bytes += part.resident_bytes;
    }
    total
}

/// What a `/proc/PID/stat` says, if the process is of the group (`proc(5)`: fields 5, 14 to 17, 24).
fn of_process(stat: &str, group: Pid) -> Option<Usage> {
    // The second field is a name in brackets that may hold anything, brackets included.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok());
    if field(5)? != u64::try_from(group.as_raw()).ok()? {
        return None;
    }
    let ticks: u64 = [14, 15, 16, 17].into_iter().filter_map(field).sum();
    let page = constant(SysconfVar::PAGE_SIZE, 4096);
    let cpu = Duration::from_millis(ticks.saturating_mul(1000) / constant(SysconfVar::CLK_TCK, 100));
    Some(Usage { cpu, resident_bytes: field(24)?.saturating_mul(page) })
}

fn constant(variable: SysconfVar, otherwise: u64) -> u64 {
    sysconf(variable).ok().flatten().and_then(|value| u64::try_from(value).ok()).unwrap_or(otherwise).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 1 42 42 0 -1 0 0 0 0 0 150 50 20 30 20 0 1 0 0 9000 3 0 0";
        let page = constant(SysconfVar::PAGE_SIZE, 4096);
        let ticks = constant(SysconfVar::CLK_TCK, 100);
        let expected = Usage { cpu: Duration::from_millis(250_000 / ticks), resident_bytes: 3 * page };
        assert_eq!(of_process(stat, Pid::from_raw(42)), Some(expected));
        assert_eq!(of_process(stat, Pid::from_raw(41)), None);
    }
}
