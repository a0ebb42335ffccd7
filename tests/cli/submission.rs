//! What is handed to a cluster, with stand-ins for its commands: names and paths are data there, too.

use std::os::unix::fs::PermissionsExt;

use crate::batches::with_suite;
use crate::checkout::{Checkout, Done, rows};

/// `sbatch`, `squeue` and `scontrol` that write down what they are asked for, and know of no task, or where there is a file
/// `pending` of one that waits in every array. A file `most` says how many arrays are taken.
fn command(checkout: &Checkout, arguments: &[&str]) -> std::process::Command {
    let folder = checkout.path("bin");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, body) in [
        (
            "sbatch",
            "cd \"$(dirname \"$0\")\" || exit; touch asked; jobs=$(grep -c parsable asked)\n\
             [ \"$jobs\" -lt \"$(cat most 2>/dev/null || echo 99)\" ] || { echo 'no more' >&2; exit 1; }\n\
             printf '%s\\n' \"$@\" >>asked; echo $((jobs + 1))",
        ),
        (
            "squeue",
            "[ -e \"$(dirname \"$0\")/pending\" ] || exit 0\n\
             for word; do echo \"$word\" | sed -n s/^--name=//p | tr , '\\n' | sed 's/$/|2|PENDING/'; done",
        ),
        ("scontrol", "echo 'MaxArraySize = 10'"),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = checkout.command("");
    command.args(arguments).env("PATH", format!("{}:{}", folder.display(), std::env::var("PATH").unwrap()));
    command
}

#[test]
fn a_job_number_from_the_environment_stays_inside_of_the_run_directory() {
    let checkout = Checkout::new();
    let run = ["run", "--suite", "mini", "--methods", "store-all", "--instances", "counter", "--out", "a/b/out"];
    let submitted = command(&checkout, &[&run[..], &["--launcher", "slurm"]].concat()).output().unwrap();
    assert!(submitted.status.success(), "{}", String::from_utf8_lossy(&submitted.stderr));
    let mut task = command(&checkout, &["task", "a/b/out/slurm/0001/plan.json", "0"]);
    let done = task.env("SLURM_JOB_ID", "../../../../escaped").env("SLURM_RESTART_COUNT", "/../x").output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let parts: Vec<_> = std::fs::read_dir(checkout.path("a/b/out/parts")).unwrap().flatten().collect();
    assert_eq!(parts.len(), 1, "{parts:?}");
    assert!(parts[0].path().join("records.csv").is_file());
    checkout.ok("run --suite mini --methods store-all --instances counter --out a/b/out --resume");
    assert_eq!(rows(&checkout.path("a/b/out/records.csv")).len(), 1);
}

#[test]
fn a_path_with_slurms_own_symbols_is_what_it_says() {
    let checkout = Checkout::new();
    let run = ["run", "--suite", "mini", "--methods", "store-all", "--out", "out %j", "--launcher", "slurm"];
    let submitted = command(&checkout, &run).output().unwrap();
    assert!(submitted.status.success(), "{}", String::from_utf8_lossy(&submitted.stderr));
    let asked = std::fs::read_to_string(checkout.path("bin/asked")).unwrap();
    let output = asked.lines().find(|line| line.starts_with("--output=")).unwrap();
    assert!(output.ends_with("/out %%j/slurm/0001/%A_%a.out"), "{output}");
}

#[test]
fn a_search_that_waits_is_the_submitted_one_whatever_becomes_of_the_suite() {
    let checkout = with_suite("");
    let submit = |more: &str| {
        let words: Vec<_> = "run --suite both --launcher slurm".split(' ').chain(more.split_whitespace()).collect();
        let done = command(&checkout, &words).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    submit("");
    std::fs::write(checkout.path("bin/pending"), "").unwrap();
    let suite = checkout.path("instances/suites/both.toml");
    let (method, more) = ("[[max_batch.methods]]\n", "[[max_batch.methods]]\nid = \"chen-greedy\"\n");
    let text = std::fs::read_to_string(&suite).unwrap();
    std::fs::write(&suite, text.replace(method, &format!("{more}{method}"))).unwrap();
    submit("--resume");
    let searches = |batch: usize| -> Vec<String> {
        let plan = checkout.path(&format!("results/both/slurm/000{batch}/plan.json"));
        let plan: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(plan).unwrap()).unwrap();
        let methods = plan["tasks"].as_array().unwrap().iter().filter_map(|task| task[0]["searches"].get("methods"));
        methods.flat_map(|methods| methods.as_array().unwrap()).map(|method| method["id"].to_string()).collect()
    };
    assert_eq!((searches(1), searches(2)), (vec!["\"store-all\"".into()], vec!["\"chen-greedy\"".into()]));
    checkout.ok("task results/both/slurm/0001/plan.json 2");
    let part = std::fs::read_dir(checkout.path("results/both/parts")).unwrap().flatten().next().unwrap();
    let found = rows(&part.path().join("max-batch.csv"));
    assert_eq!((found.len(), found[0]["label"].as_str(), found[0]["largest"].as_str()), (1, "store-all", "3"));
}

#[test]
fn arrays_that_are_refused_are_no_tasks() {
    let checkout = Checkout::new();
    let run = ["run", "--suite", "mini", "--launcher", "slurm", "--chunk", "1"];
    let refused = |most: &str, words: &str| {
        std::fs::create_dir_all(checkout.path("bin")).unwrap();
        std::fs::write(checkout.path("bin/most"), most).unwrap();
        let done: Done = command(&checkout, &run).output().unwrap().into();
        assert!(done.code == Some(1) && done.last_error() == words, "{}", done.stderr);
    };
    refused("0", "error: sbatch refuses: no more");
    assert!(!checkout.path("results/mini/slurm/0001").exists());
    // 12 runs in arrays of 10.
    refused("1", "error: sbatch refuses: no more; 1 job before it: 1");
    let plan = std::fs::read_to_string(checkout.path("results/mini/slurm/0001/plan.json")).unwrap();
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    assert_eq!((plan["tasks"].as_array().unwrap().len(), plan["arrays"].as_array().unwrap().len()), (10, 1));
}

#[test]
fn tasks_on_their_way_keep_other_limits_out() {
    let checkout = Checkout::new();
    // The third of each array waits.
    std::fs::create_dir_all(checkout.path("bin")).unwrap();
    std::fs::write(checkout.path("bin/pending"), "").unwrap();
    let run = |limit: &str, how: &[&str]| -> Done {
        let run = ["run", "--suite", "mini", "--launcher", "slurm", "--chunk", "1", "--time-limit", limit];
        command(&checkout, &[&run[..], how].concat()).output().unwrap().into()
    };
    let first = run("5", &[]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    for how in ["--resume", "--force"] {
        let done = run("50", &[how]);
        let words =
            "tasks that are queued or running have --time-limit 5 and 1 thread, and this run has --time-limit 50";
        assert!(done.code == Some(2) && done.last_error().contains(words), "{}", done.stderr);
        let done = run("5", &[how]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    }
}

#[test]
fn a_run_that_drops_rows_here_waits_for_the_tasks_of_a_cluster() {
    let checkout = Checkout::new();
    let run = |how: &[&str]| -> Done {
        let run = ["run", "--suite", "mini", "--methods", "store-all", "--no-plots"];
        command(&checkout, &[&run[..], how].concat()).output().unwrap().into()
    };
    let submitted =
        command(&checkout, &["run", "--suite", "mini", "--launcher", "slurm", "--chunk", "1"]).output().unwrap();
    assert!(submitted.status.success(), "{}", String::from_utf8_lossy(&submitted.stderr));
    std::fs::write(checkout.path("bin/pending"), "").unwrap();
    let refused = run(&["--force"]);
    assert!(refused.last_error().contains("are queued or running for this folder; cancel them"), "{}", refused.stderr);
    assert_eq!(refused.code, Some(2));
    std::fs::remove_file(checkout.path("bin/pending")).unwrap();
    let done = run(&["--force"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

#[test]
fn a_task_that_begins_again_leaves_out_what_has_been_taken_over() {
    let checkout = Checkout::new();
    let run =
        ["run", "--suite", "mini", "--methods", "store-all", "--out", "out", "--launcher", "slurm", "--chunk", "9"];
    let submitted: Done = command(&checkout, &run).output().unwrap().into();
    assert_eq!(submitted.code, Some(0), "{}", submitted.stderr);
    let task = |restart: &str| -> Done {
        let mut task = command(&checkout, &["task", "out/slurm/0001/plan.json", "0"]);
        task.env("SLURM_JOB_ID", "7").env("SLURM_RESTART_COUNT", restart).output().unwrap().into()
    };
    assert!(task("0").stderr.contains("2 rows"));
    checkout.ok("run --suite mini --methods store-all --out out --resume");
    assert!(!checkout.path("out/parts").exists());
    let again = task("1");
    assert!(again.stderr.contains("0 rows"), "{}", again.stderr);
    checkout.ok("run --suite mini --methods store-all --out out --resume");
    assert_eq!(std::fs::read_to_string(checkout.path("out/records.csv")).unwrap().lines().count(), 3);
}
