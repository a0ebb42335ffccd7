//! Sweeps on a cluster: a real Slurm of one node, with tasks that are cancelled, out of time, and lost.

use serde_json::Value;

use crate::best::add_library;
use crate::checkout::{Checkout, Done, rows};
use crate::cluster::{Cluster, impossible, wait_long};

/// A checkout and a cluster to run its suite on.
struct Site {
    checkout: Checkout,
    cluster: Cluster,
}

impl Site {
    fn ok(&self, arguments: &str) -> Done {
        let done: Done = self.cluster.command(&self.checkout, arguments).output().unwrap().into();
        assert_eq!(done.code, Some(0), "bench {arguments}\n{}", done.stderr);
        done
    }

    /// Submits the suite to a folder, with a method that hangs unless its task is begun again.
    fn submit_hanging(&self, folder: &str, more: &str) {
        let arguments = format!("run --suite mini --launcher slurm --out {folder} {more}");
        let mut command = self.cluster.command(&self.checkout, &arguments);
        let done: Done = command.env("BENCH_TEST_FAULT", "rotor-persistent:hang-first").output().unwrap().into();
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    }

    /// Queued, running, done, failed.
    fn counts(&self, folder: &str) -> [u64; 4] {
        let status = self.status(folder);
        ["queued", "running", "done", "failed"].map(|name| status[name].as_u64().unwrap())
    }

    fn status(&self, folder: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("status {folder} --format json")).stdout).unwrap()
    }

    fn wait_for(&self, folder: &str, counts: [u64; 4]) {
        wait_long(&format!("{folder} has {counts:?}"), || self.counts(folder) == counts);
    }

    /// `JOB_INDEX` of the tasks that Slurm knows in a state, of those whose jobs' names begin with `name`.
    fn tasks(&self, name: &str, state: &str) -> Vec<String> {
        let text = self.cluster.ask("squeue", &["-h", "-r", "--states=all", "-o", "%j %F_%K %T"]);
        let fields = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let wanted = fields.filter(|fields| fields[0].starts_with(name) && fields[2] == state);
        wanted.map(|fields| fields[1].to_owned()).collect()
    }

    /// What the names of a folder's jobs begin with.
    fn job_name(&self, folder: &str) -> String {
        let plan = std::fs::read_to_string(self.checkout.path(&format!("{folder}/slurm/0001/plan.json"))).unwrap();
        let plan: Value = serde_json::from_str(&plan).unwrap();
        plan["arrays"][0]["name"].as_str().unwrap().rsplit_once('-').unwrap().0.to_owned()
    }

    fn table(&self, folder: &str) -> String {
        self.ok(&format!("table {folder}")).stdout
    }
}

/// One test, for starting a cluster and waiting for its clocks is what takes the time.
#[test]
fn a_sweep_on_a_cluster_survives_what_clusters_do_and_ends_with_the_table_of_a_local_one() {
    if let Some(reason) = impossible() {
        eprintln!("SKIPPED: the test of --launcher slurm: {reason}");
        return;
    }
    let mut site = Site { checkout: Checkout::new(), cluster: Cluster::start() };
    site.ok("run --suite mini --out local");
    let table = site.table("local");
    // Hangs until Slurm ends it, a minute or two from now; meanwhile the others take their turns.
    site.submit_hanging("late", "--task-time 1 --methods rotor-persistent --instances counter");

    undisturbed(&site, &table);
    campaign(&site);
    out_of_time(&site);
    cancelled_and_lost(&mut site, &table);
}

fn undisturbed(site: &Site, table: &str) {
    let done = site.ok("run --suite mini --launcher slurm --chunk 2 --wait --out cluster");
    assert!(done.stdout.starts_with("Overhead over store-all in %"), "{}", done.stdout);
    assert_eq!(site.table("cluster"), table);
    // Twelve runs in six tasks, of which an array holds three here.
    assert!(done.stderr.contains("submitted 6 tasks as "), "{}", done.stderr);
    assert_eq!(site.ok("status cluster").stdout, "0 queued, 0 running, 14 done, 0 failed\n");
    site.ok("check cluster");
    let again = site.ok("run --suite mini --launcher slurm --resume --out cluster");
    assert!(again.stderr.contains("submitted 0 tasks; 14 rows there already"), "{}", again.stderr);
}

/// A campaign takes over what the cluster made of its suite, and makes none of it again.
fn campaign(site: &Site) {
    add_library(&site.checkout, "checkmate-ilp free-order-bound auto");
    site.ok("run --suite library --launcher slurm --wait --out campaign");
    let made = || rows(&site.checkout.path("campaign/records.csv")).len();
    let before = made();
    let taken = site.ok("best --campaign campaign").stdout;
    assert!(taken.contains("results/best-known.csv: ") && !taken.ends_with(": 0 new, 0 better\n"), "{taken}");
    assert_eq!(made(), before);
    let known = rows(&site.checkout.path("results/best-known.csv"));
    assert!(known.iter().any(|row| row["status"] == "solved"), "{known:?}");
    site.ok("best --check --time 1");
}

fn cancelled_and_lost(site: &mut Site, table: &str) {
    site.submit_hanging("killed", "");
    site.wait_for("killed", [0, 4, 10, 0]);
    let again = site.ok("run --suite mini --launcher slurm --resume --out killed");
    assert!(again.stderr.contains("submitted 0 tasks; 10 rows there already; 4 rows on the way"), "{}", again.stderr);
    let refused: Done =
        site.cluster.command(&site.checkout, "run --suite mini --resume --out killed").output().unwrap().into();
    assert!(refused.last_error().contains("another bench run is writing here"), "{}", refused.stderr);

    let name = site.job_name("killed");
    let hanging = site.tasks(&name, "RUNNING");
    assert_eq!(hanging.len(), 2, "{hanging:?}");
    site.cluster.ask("scancel", &[&hanging[0]]);
    site.wait_for("killed", [0, 2, 10, 2]);
    let lost = site.status("killed")["lost"][0].as_str().unwrap().to_owned();
    assert!(lost.contains("CANCELLED") && lost.contains("rotor-persistent at 0.6x"), "{lost}");

    site.cluster.lose_node();
    wait_long("Slurm has put the task back", || site.tasks(&name, "PENDING") == hanging[1..]);
    assert_eq!(site.counts("killed"), [2, 0, 10, 2]);
    site.cluster.restore_node();
    site.cluster.wait_for_node("idle");
    // Slurm would wait two minutes.
    site.cluster.ask("scontrol", &["update", &format!("JobId={}", hanging[1]), "StartTime=now"]);
    // Now and then Slurm's order to abort the lost task reaches the node only when the task has begun again.
    wait_long("the task has ended", || matches!(site.counts("killed"), [0, 0, 12, 2] | [0, 0, 10, 4]));
    let submitted = if site.counts("killed")[2] == 12 { "submitted 1 task as " } else { "submitted 2 tasks as " };

    let done = site.ok("run --suite mini --launcher slurm --resume --wait --out killed");
    assert!(done.stderr.contains(submitted), "{}", done.stderr);
    assert_eq!(site.table("killed"), table);
    site.ok("check killed");
}

fn out_of_time(site: &Site) {
    site.wait_for("late", [0, 0, 0, 2]);
    let lost = site.status("late")["lost"][0].as_str().unwrap().to_owned();
    assert!(lost.contains("TIMEOUT"), "{lost}");
    let arguments =
        "run --suite mini --launcher slurm --methods rotor-persistent --instances counter --resume --wait --out late";
    site.ok(arguments);
    assert_eq!(site.counts("late"), [0, 0, 2, 0]);
}
