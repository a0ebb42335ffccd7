//! What entries say of each other: a time holds in every entry that its schedule is in, a bound and `infeasible` in every
//! entry within. And the conflict test: no bound may lie above the time of a schedule that it covers.

use super::{Entry, Status};

impl Entry {
    /// Takes a time if it is better.
    pub(super) fn learn_time(&mut self, from: &Self) {
        let better = from.time.is_some_and(|time| self.time.is_none_or(|known| time < known));
        if better {
            (self.time, self.peak, self.schedule) = (from.time, from.peak, from.schedule.clone());
            (self.found_by, self.found_seconds) = (from.found_by.clone(), from.found_seconds);
            self.stamp(from);
        }
    }

    /// Takes a bound, or that there is no schedule, if it says more.
    pub(super) fn learn_bound(&mut self, from: &Self) {
        let none = from.status == Status::Infeasible && self.status != Status::Infeasible;
        if !none && (self.status == Status::Infeasible || from.bound <= self.bound) {
            return;
        }
        if none {
            self.status = Status::Infeasible;
        }
        (self.bound, self.bound_by) = (from.bound, from.bound_by.clone());
        self.bound_seconds = from.bound_seconds;
        self.stamp(from);
    }

    /// The stamp is that of the newest of what an entry has learned.
    fn stamp(&mut self, from: &Self) {
        if from.timestamp > self.timestamp {
            (self.revision, self.timestamp) = (from.revision.clone(), from.timestamp.clone());
        }
    }

    /// What the time of an entry refutes of a bound, or of there being no schedule, in words.
    pub(super) fn refutes(&self, said: &Self) -> Option<String> {
        let time = self.time?;
        let claim = match (said.status, said.bound) {
            (Status::Infeasible, _) => "that there is no schedule".to_owned(),
            (_, Some(bound)) if bound > time => format!("that nothing is faster than {bound}"),
            _ => return None,
        };
        Some(format!(
            "{} {} at {}: {} says {claim}, {} found {time}",
            self.instance,
            self.class_name(),
            self.budget,
            said.bound_by,
            self.found_by
        ))
    }

    /// Forgets who proved what.
    fn forget_bound(&mut self) {
        (self.bound, self.bound_by, self.bound_seconds) = (None, String::new(), None);
        self.status = Status::Open;
    }
}

/// The entries of each instance, as ranges of a sorted list.
fn groups(entries: &mut [Entry]) -> impl Iterator<Item = &mut [Entry]> {
    entries.chunk_by_mut(|a, b| a.instance_hash == b.instance_hash)
}

/// Lets every time count wherever its schedule is one.
pub(super) fn spread_times(entries: &mut [Entry]) {
    entries.sort_by(|a, b| super::key(a).cmp(&super::key(b)));
    for group in groups(entries) {
        let known = group.to_vec();
        for entry in group {
            let holds = |from: &&Entry| {
                entry.class.contains(&from.class) && from.peak.is_some_and(|peak| peak <= entry.budget_size)
            };
            if let Some(best) = known.iter().filter(holds).min_by_key(|from| (from.time.is_none(), from.time)) {
                entry.learn_time(best);
            }
        }
    }
}

/// Lets everything that is proved count wherever it holds, judges each entry, and returns what was refuted: that is
/// forgotten.
pub(super) fn settle(entries: &mut [Entry]) -> Vec<String> {
    spread_times(entries);
    let mut refuted = Vec::new();
    for entry in entries.iter_mut() {
        if let Some(words) = entry.refutes(entry) {
            refuted.push(words);
            entry.forget_bound();
        }
    }
    for group in groups(entries) {
        let known = group.to_vec();
        for entry in group {
            for from in &known {
                if entry.is_within(from) {
                    entry.learn_bound(from);
                }
            }
            entry.judge();
        }
    }
    refuted
}

#[cfg(test)]
pub mod tests {
    use remat_core::format::{MemoryUnit, TimeUnit};
    use remat_formulations::Class;

    use super::*;
    use crate::harness::best::CLASSES;

    /// An entry of which nothing is known.
    pub fn entry(class: Class, budget: u64) -> Entry {
        Entry {
            instance: "net".into(),
            instance_hash: "0".into(),
            class,
            budget: budget.to_string(),
            budget_size: budget,
            status: Status::Open,
            time: None,
            peak: None,
            bound: None,
            gap: None,
            found_by: String::new(),
            found_seconds: None,
            bound_by: String::new(),
            bound_seconds: None,
            time_unit: TimeUnit::Ns,
            memory_unit: MemoryUnit::Bytes,
            revision: String::new(),
            timestamp: String::new(),
            schedule: String::new(),
        }
    }

    fn found(time: u64, peak: u64, entry: Entry) -> Entry {
        Entry { time: Some(time), peak: Some(peak), found_by: "m".into(), ..entry }
    }

    fn proved(bound: u64, entry: Entry) -> Entry {
        Entry { bound: Some(bound), bound_by: "b".into(), ..entry }
    }

    const FIXED: Class = CLASSES[0].1;

    #[test]
    fn a_schedule_counts_in_wider_classes_and_in_every_budget_that_it_fits() {
        let mut entries = [
            found(9, 4, entry(FIXED, 8)),
            entry(FIXED, 5),
            entry(FIXED, 3),
            entry(Class::ALL, 8),
            entry(Class::ALL, 3),
        ];
        assert_eq!(settle(&mut entries), Vec::<String>::new());
        let times: Vec<_> = entries.iter().map(|entry| (entry.class == FIXED, entry.budget_size, entry.time)).collect();
        let known = [(true, 3, None), (true, 5, Some(9)), (true, 8, Some(9)), (false, 3, None), (false, 8, Some(9))];
        assert_eq!(times, known);
    }

    #[test]
    fn a_bound_counts_in_narrower_classes_and_in_smaller_budgets() {
        let mut entries = [entry(FIXED, 3), entry(FIXED, 8), entry(Class::ALL, 3), proved(7, entry(Class::ALL, 8))];
        settle(&mut entries);
        assert!(entries.iter().all(|entry| entry.bound == Some(7)));
        let mut entries = [proved(7, entry(FIXED, 3)), entry(FIXED, 8), entry(Class::ALL, 3)];
        settle(&mut entries);
        assert_eq!(entries.map(|entry| entry.bound), [Some(7), None, None]);
    }

    #[test]
    fn that_there_is_no_schedule_counts_likewise() {
        let none = Entry { status: Status::Infeasible, bound_by: "b".into(), ..entry(Class::ALL, 5) };
        let mut entries = [entry(FIXED, 3), entry(FIXED, 8), none];
        settle(&mut entries);
        assert_eq!(entries.map(|entry| entry.status), [Status::Infeasible, Status::Open, Status::Infeasible]);
    }

    #[test]
    fn a_schedule_refutes_a_bound_above_it_and_that_there_is_none() {
        let mut entries = [found(6, 3, entry(FIXED, 3)), proved(7, entry(Class::ALL, 8))];
        let refuted = settle(&mut entries);
        assert_eq!(refuted, ["net all schedules at 8: b says that nothing is faster than 7, m found 6"]);
        assert_eq!((entries[1].time, entries[1].bound, entries[1].status), (Some(6), None, Status::Open));
        let none = Entry { status: Status::Infeasible, ..proved(0, entry(FIXED, 5)) };
        let mut entries = [found(6, 3, entry(FIXED, 3)), Entry { bound: None, ..none }];
        assert_eq!(settle(&mut entries).len(), 1);
        assert_eq!(entries[1].status, Status::Open);
    }

    #[test]
    fn a_millionth_is_solved_and_more_is_open() {
        let status = |time, bound| {
            let mut entries = [proved(bound, found(time, 1, entry(FIXED, 3)))];
            settle(&mut entries);
            entries[0].status
        };
        assert_eq!(status(1_000_001, 1_000_000), Status::Solved);
        assert_eq!(status(1_000_002, 1_000_000), Status::Open);
        assert_eq!(status(7, 7), Status::Solved);
    }

    #[test]
    fn the_stamp_is_that_of_the_newest() {
        let at = |timestamp: &str, entry: Entry| Entry { timestamp: timestamp.into(), ..entry };
        let mut entries = [at("2026-02", found(9, 3, entry(FIXED, 3))), at("2026-01", proved(7, entry(FIXED, 8)))];
        settle(&mut entries);
        assert_eq!((entries[0].bound, entries[0].timestamp.as_str()), (Some(7), "2026-02"));
        entries[0].learn_bound(&at("2026-03", proved(8, entry(FIXED, 8))));
        assert_eq!((entries[0].bound, entries[0].timestamp.as_str()), (Some(8), "2026-03"));
    }

    #[test]
    fn nothing_ever_gets_worse() {
        let mut best = proved(5, found(9, 3, entry(FIXED, 3)));
        best.judge();
        let mut known = best.clone();
        known.learn_time(&found(10, 2, entry(FIXED, 3)));
        known.learn_bound(&proved(4, entry(FIXED, 3)));
        assert_eq!(known, best);
        known.learn_time(&found(8, 2, entry(FIXED, 3)));
        known.learn_bound(&proved(6, entry(FIXED, 3)));
        assert_eq!((known.time, known.bound), (Some(8), Some(6)));
    }
}
