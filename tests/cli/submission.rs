//! What is handed to a cluster, with stand-ins for its commands: names and paths are data there, too.

use std::os::unix::fs::PermissionsExt;

use crate::checkout::{Checkout, rows};

/// `sbatch`, `squeue` and `scontrol` that write down what they are asked for and know of no task.
fn command(checkout: &Checkout, arguments: &[&str]) -> std::process::Command {
    let folder = checkout.path("bin");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, body) in [
        ("sbatch", "printf '%s\\n' \"$@\" >>\"$(dirname \"$0\")/asked\"; echo 1"),
        ("squeue", ":"),
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
