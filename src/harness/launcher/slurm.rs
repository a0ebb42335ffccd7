//! Slurm's commands: `sbatch` to submit, `squeue` and `scontrol` to ask. Arrays are told apart by their
//! names, which are chosen before they are submitted.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use super::batch::{self, Batch};
use crate::ground::failure::Failure;
use crate::ground::size::Size;
use crate::ground::text::shell;

/// What an array's tasks ask of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Partition; the cluster's own default if none is named.
    pub partition: Option<String>,
    /// Wall minutes of a task.
    pub minutes: Option<u64>,
    /// Memory of a task.
    pub memory: Option<Size>,
    /// CPUs of a task.
    pub cpus_per_task: usize,
    /// Tasks that run at the same time, at most.
    pub most_at_once: Option<usize>,
    /// Further options of sbatch.
    pub options: Vec<String>,
}

/// What has become of a task, as far as Slurm remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits for its turn, or to be begun again.
    Queued,
    /// It runs.
    Running,
    /// It has ended, in Slurm's own word for how.
    Ended(String),
}

impl State {
    fn parse(word: &str) -> Self {
        match word {
            "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD" | "RESV_DEL_HOLD"
            | "SPECIAL_EXIT" => Self::Queued,
            "RUNNING" | "COMPLETING" | "SIGNALING" | "STAGE_OUT" | "STOPPED" | "SUSPENDED" | "RESIZING" => {
                Self::Running
            }
            other => Self::Ended(other.into()),
        }
    }
}

/// The states of tasks, by the name of their array and their index in it.
#[derive(Default)]
pub struct States(HashMap<(String, usize), State>);

impl States {
    /// The state of a task of a batch, where Slurm knows it.
    pub fn of(&self, batch: &Batch, task: usize) -> Option<&State> {
        let (name, index) = batch.place(task)?;
        self.0.get(&(name.to_owned(), index))
    }
}

/// The states of the tasks of some batches; Slurm forgets tasks a while after their end.
///
/// # Errors
/// Slurm cannot be asked.
pub fn states(batches: &[Batch]) -> Result<States, Failure> {
    let names: Vec<_> = batches.iter().flat_map(|batch| &batch.arrays).map(|array| array.name.as_str()).collect();
    if names.is_empty() {
        return Ok(States::default());
    }
    let mut command = Command::new("squeue");
    command.args(["--noheader", "--array", "--states=all", "--format=%j|%K|%T"]);
    let text = run(command.arg(format!("--name={}", names.join(","))))?;
    Ok(States(text.lines().filter_map(parse_line).collect()))
}

fn parse_line(line: &str) -> Option<((String, usize), State)> {
    let mut fields = line.trim().split('|');
    let (name, index, state) = (fields.next()?, fields.next()?, fields.next()?);
    Some(((name.into(), index.parse().ok()?), State::parse(state)))
}

/// Tasks that one array may hold.
///
/// # Errors
/// Slurm cannot be asked.
pub fn most_per_array() -> Result<usize, Failure> {
    let text = run(Command::new("scontrol").args(["show", "config"]))?;
    let value = text.lines().find_map(|line| line.trim().strip_prefix("MaxArraySize")?.split_once('='));
    let most = value.and_then(|(_, value)| value.trim().parse::<usize>().ok());
    most.filter(|&most| most > 0).ok_or_else(|| {
        Failure::failed("this cluster allows no job arrays (scontrol show config: MaxArraySize); ask its keepers")
    })
}

/// Submits every array of a batch; adds the jobs' numbers.
///
/// # Errors
/// Slurm refuses; arrays that were submitted before stay.
pub fn submit(results: &Path, batch: &Batch, request: &Request, jobs: &mut Vec<String>) -> Result<(), Failure> {
    let script = write_script(results, batch)?;
    let logs = pattern(&script)?;
    for array in &batch.arrays {
        let most = request.most_at_once.map_or(String::new(), |most| format!("%{most}"));
        let mut command = Command::new("sbatch");
        command.args(["--parsable", "--requeue", "--open-mode=append"]);
        command.arg(format!("--job-name={}", array.name));
        command.arg(format!("--array=0-{}{most}", array.count - 1));
        command.arg(format!("--output={logs}"));
        command.arg(format!("--cpus-per-task={}", request.cpus_per_task));
        command.args(request.partition.as_ref().map(|partition| format!("--partition={partition}")));
        command.args(request.minutes.map(|minutes| format!("--time={minutes}")));
        command.args(request.memory.map(|memory| format!("--mem={}K", memory.0.div_ceil(1024))));
        command.args(&request.options);
        let answer = run(command.arg(&script).arg(array.first.to_string()))?;
        // `number`, or `number;cluster`.
        jobs.push(answer.trim().split(';').next().unwrap_or_default().to_owned());
    }
    Ok(())
}

/// The script that every task runs, with the first task of its array as its argument.
fn write_script(results: &Path, batch: &Batch) -> Result<std::path::PathBuf, Failure> {
    let absolute = |path: &Path| std::path::absolute(path).map_err(Failure::failed);
    let path = absolute(&batch::folder(results, batch.number).join("task.sh"))?;
    let program = std::env::current_exe().map_err(Failure::failed)?;
    let plan = absolute(&batch::plan_path(results, batch.number))?;
    let text = format!(
        "#!/bin/sh\nexec {} task {} \"$((SLURM_ARRAY_TASK_ID + $1))\"\n",
        shell(&program.to_string_lossy()),
        shell(&plan.to_string_lossy()),
    );
    std::fs::write(&path, text).map_err(Failure::cannot("write", &path))?;
    Ok(path)
}

/// Where the tasks of an array print, beside their script, as sbatch wants it: `%` begins a replacement symbol there, and
/// a backslash switches all of them off.
fn pattern(script: &Path) -> Result<String, Failure> {
    let folder = script.parent().unwrap_or(script).to_string_lossy().into_owned();
    if folder.contains('\\') {
        return Err(Failure::input(format!(
            "{folder}: sbatch takes no backslash in a path; choose another with --out"
        )));
    }
    Ok(format!("{}/%A_%a.out", folder.replace('%', "%%")))
}

/// Runs a command of Slurm's and returns what it prints.
fn run(command: &mut Command) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| {
        Failure::input(format!(
            "{name} cannot be started: {error}; --launcher slurm needs Slurm's commands and a cluster to talk to"
        ))
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(Failure::failed(format!("{name} refuses: {words}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_squeue_prints_is_understood() {
        let running = (("bench-a-1".to_owned(), 17), State::Running);
        assert_eq!(parse_line("bench-a-1|17|RUNNING\n"), Some(running));
        assert_eq!(parse_line("b|0|PENDING").map(|(_, state)| state), Some(State::Queued));
        assert_eq!(parse_line("b|0|NODE_FAIL").map(|(_, state)| state), Some(State::Ended("NODE_FAIL".into())));
        // A job that is no array.
        assert_eq!(parse_line("b|N/A|RUNNING"), None);
    }

    #[test]
    fn what_slurm_would_replace_in_a_path_is_kept_from_it() {
        let pattern = |path: &str| pattern(Path::new(path)).ok();
        assert_eq!(pattern("/a %j/%%/task.sh").as_deref(), Some("/a %%j/%%%%/%A_%a.out"));
        assert_eq!(pattern("/a\\b/task.sh"), None);
    }
}
