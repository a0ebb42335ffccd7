//! A Slurm of one node, with daemons, ports, keys and state of its own, for as long as a test needs it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::checkout::Checkout;

const PROGRAMS: [&str; 8] = ["setpriv", "munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel"];

/// The cluster; its daemons end with it, whatever becomes of the test.
pub struct Cluster {
    folder: tempfile::TempDir,
    munged: Child,
    controller: Child,
    node: Child,
}

/// Why there can be no cluster here, if so.
pub fn impossible() -> Option<String> {
    let missing: Vec<_> = PROGRAMS.into_iter().filter(|program| find(program).is_none()).collect();
    if !missing.is_empty() {
        return Some(format!(
            "Slurm is not installed ({} missing); scripts/setup.sh --tests does it",
            missing.join(", ")
        ));
    }
    (said(Command::new("id").arg("-u")) != "0").then(|| "only root can start jobs for others' sake".into())
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/usr/local/sbin"]);
    folders.map(|folder| Path::new(folder).join(program)).find(|path| path.is_file())
}

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Waits for something that must happen, for ten minutes.
pub fn wait_long(what: &str, mut happened: impl FnMut() -> bool) {
    let started = Instant::now();
    while !happened() {
        assert!(started.elapsed() < Duration::from_secs(600), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// A port that nobody uses at the moment.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Cluster {
    /// Starts it, and waits until the node is idle.
    pub fn start() -> Self {
        // Short, for a socket's name is.
        let folder = tempfile::Builder::new().prefix("slurm").tempdir_in("/tmp").unwrap();
        let path = folder.path();
        for name in ["munge", "state", "spool"] {
            std::fs::create_dir(path.join(name)).unwrap();
        }
        std::fs::write(path.join("slurm.conf"), configuration(path)).unwrap();
        let munged = munged(path);
        wait_long("munge answers", || path.join("munge/socket").exists());
        let controller = daemon(path, "slurmctld");
        let node = daemon(path, "slurmd");
        let cluster = Self { folder, munged, controller, node };
        cluster.wait_for_node("idle");
        cluster
    }

    /// Waits until Slurm says this of the node.
    pub fn wait_for_node(&self, state: &str) {
        wait_long(&format!("the node is {state}"), || self.ask("sinfo", &["-h", "-o", "%T"]) == state);
    }

    fn configuration(&self) -> PathBuf {
        self.folder.path().join("slurm.conf")
    }

    /// What one of Slurm's commands prints.
    pub fn ask(&self, program: &str, arguments: &[&str]) -> String {
        said(Command::new(find(program).unwrap()).args(arguments).env("SLURM_CONF", self.configuration()))
    }

    /// `bench` with this cluster to talk to.
    pub fn command(&self, checkout: &Checkout, arguments: &str) -> Command {
        let mut command = checkout.command(arguments);
        command.env("SLURM_CONF", self.configuration());
        command
    }

    /// The node is gone from one moment to the next, with everything that runs on it.
    pub fn lose_node(&mut self) {
        self.node.kill().unwrap();
        self.node.wait().unwrap();
        self.kill_processes();
    }

    /// The node comes back.
    pub fn restore_node(&mut self) {
        self.node = daemon(self.folder.path(), "slurmd");
    }

    /// Kills whatever the node has started: all processes, but for the controller, that know of this cluster.
    fn kill_processes(&self) {
        let mark = self.configuration().into_os_string().into_encoded_bytes();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(process) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let of_cluster = environment.windows(mark.len()).any(|window| window == mark);
            if of_cluster && process != self.controller.id() && process != std::process::id() {
                // It may be gone by now.
                let _ = Command::new("kill").args(["-9", &process.to_string()]).stderr(Stdio::null()).status();
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // What is gone already need not be killed.
        for daemon in [&mut self.node, &mut self.controller] {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        self.kill_processes();
        let _ = self.munged.kill();
        let _ = self.munged.wait();
    }
}

fn munged(path: &Path) -> Child {
    use std::os::unix::fs::PermissionsExt;
    let key = path.join("munge/key");
    // Random enough for what lives a few minutes: a hash of the folder's random name would do, too.
    let mut bytes = vec![0; 1024];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom").unwrap(), &mut bytes).unwrap();
    std::fs::write(&key, bytes).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let named = |option: &str, name: &str| format!("--{option}={}", path.join("munge").join(name).display());
    let files =
        [("socket", "socket"), ("key-file", "key"), ("log-file", "log"), ("pid-file", "pid"), ("seed-file", "seed")];
    let mut command = bound("munged");
    command.args(["--foreground", "--force"]).args(files.map(|(option, name)| named(option, name)));
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// A program that ends with this one, even if this one is killed.
fn bound(program: &str) -> Command {
    let mut command = Command::new(find("setpriv").unwrap());
    command.args(["--pdeathsig", "KILL"]).arg(find(program).unwrap());
    command
}

fn daemon(path: &Path, program: &str) -> Child {
    let mut command = bound(program);
    command.arg("-D").env("SLURM_CONF", path.join("slurm.conf"));
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// One node with four processors, whatever the machine has; arrays of at most three tasks.
fn configuration(path: &Path) -> String {
    let host = said(Command::new("hostname").arg("-s"));
    let user = said(Command::new("id").arg("-un"));
    let path = path.display();
    format!(
        "ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={}
SlurmdPort={}
AuthType=auth/munge
AuthInfo=socket={path}/munge/socket
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={path}/state
SlurmdSpoolDir={path}/spool
SlurmctldPidFile={path}/slurmctld.pid
SlurmdPidFile={path}/slurmd.pid
SlurmctldLogFile={path}/slurmctld.log
SlurmdLogFile={path}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SlurmdTimeout=30
KillWait=2
MaxArraySize=3
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
",
        free_port(),
        free_port()
    )
}
