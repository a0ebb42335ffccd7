//! Answers of a run in flight, kept on the disk as they come. Should the harness itself be killed, the resumed run asks
//! only for what is not answered: rows are written when the process that answers has ended, for only then is its usage
//! known, and a process may answer many budgets over hours.
//!
//! A file per run: a line that says of what, then the messages of each of its workers behind an empty line, without the
//! schedules of progress.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::execute::{Conditions, since_begun};
use super::job::{AnswerDocument, Message, Point, ProgressDocument};
use super::logs;
use super::plan::{Run, RunBudget};

/// Name of the folder within that of the results.
pub const FOLDER: &str = "unfinished";

/// What was answered before for a budget.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The answer.
    pub answer: AnswerDocument,
    /// What the process that answered knew when.
    pub trace: Vec<Point>,
}

/// Where the answers of a run are kept.
pub struct Journal {
    file: File,
    budgets: Vec<Option<u64>>,
}

/// A message about a budget.
#[derive(Serialize, Deserialize)]
struct Line {
    budget: Option<u64>,
    message: Message,
}

impl Journal {
    /// Begins to keep the answers of a run; nothing where the file cannot be written, which is no reason not to run.
    pub fn open(folder: &Path, run: &Run, budgets: &[RunBudget], conditions: &Conditions) -> Option<Self> {
        let path = path(folder, run);
        std::fs::create_dir_all(path.parent()?).ok()?;
        // What another question left is of no use.
        let fresh = answers(&path, run, conditions).is_none();
        let mut file = OpenOptions::new().create(true).append(!fresh).write(true).truncate(fresh).open(&path).ok()?;
        // Two ends of lines, as a kill may have torn the last one.
        let head = if fresh { head(run, conditions) } else { "\n".into() };
        writeln!(file, "{head}").ok()?;
        Some(Self { file, budgets: budgets.iter().map(|budget| budget.bytes).collect() })
    }

    /// Keeps a message if it is about a budget.
    pub fn note(&self, message: &Message) {
        let (index, message) = match message {
            Message::Answer(answer) => (answer.index, Message::Answer(answer.clone())),
            Message::Progress(progress) => {
                let point = progress.point.clone();
                let document = ProgressDocument { index: progress.index, point, schedule: None };
                (progress.index, Message::Progress(Box::new(document)))
            }
            _ => return,
        };
        let Some(&budget) = self.budgets.get(index) else { return };
        let Ok(line) = serde_json::to_string(&Line { budget, message }) else { return };
        // A full disk costs what would be kept, and the row says so where it is written.
        let _ = (&self.file).write_all(format!("{line}\n").as_bytes());
    }
}

/// What is known of the budgets of a run from a process that was killed together with the harness.
pub fn kept(folder: &Path, run: &Run, conditions: &Conditions) -> BTreeMap<Option<u64>, Kept> {
    let text = answers(&path(folder, run), run, conditions).unwrap_or_default();
    text.split("\n\n").flat_map(of_process).collect()
}

/// What one process answered.
fn of_process(text: &str) -> Vec<(Option<u64>, Kept)> {
    let (mut traces, mut answers) = (BTreeMap::<_, Vec<Point>>::new(), BTreeMap::new());
    // The last line may be torn.
    for Line { budget, message } in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
        match message {
            Message::Progress(progress) => traces.entry(progress.index).or_default().push(progress.point),
            Message::Answer(answer) => drop(answers.insert(answer.index, (budget, *answer))),
            _ => {}
        }
    }
    let given: Vec<f64> = answers.values().filter_map(|(_, answer)| answer.given_after).collect();
    let kept = answers.into_iter().map(|(index, (budget, answer))| {
        let trace = since_begun(traces.remove(&index).unwrap_or_default(), &given);
        (budget, Kept { answer, trace })
    });
    kept.collect()
}

/// Forgets a run whose rows are written.
pub fn forget(folder: &Path, run: &Run) {
    let path = path(folder, run);
    // Both hold other runs, mostly.
    let _ = std::fs::remove_file(&path);
    let _ = path.parent().map(std::fs::remove_dir);
    let _ = std::fs::remove_dir(folder);
}

fn path(folder: &Path, run: &Run) -> PathBuf {
    logs::path(folder, run).with_extension("jsonl")
}

/// Says of what the answers are: all that decides a row but its budget.
fn head(run: &Run, conditions: &Conditions) -> String {
    let any = RunBudget { text: String::new(), bytes: None };
    conditions.key(run, &any).replace('\n', " ")
}

/// The messages about this very run; none where there are none.
fn answers(path: &Path, run: &Run, conditions: &Conditions) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let (first, rest) = text.split_once('\n')?;
    (first == head(run, conditions)).then(|| rest.to_owned())
}
