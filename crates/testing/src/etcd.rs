//! A cluster of real etcd members on this machine, which ends with the test.
//!
//! Each member is a process of its own, with its data in one temporary folder and three ports of
//! the loopback: for clients, for the other members, and for questions about its health, which are
//! plain HTTP also where clients need TLS. A member can be killed, stopped, continued and started
//! again with its data.
//!
//! The drop of a [`Cluster`] kills its members and deletes the folder; so does the keeper
//! (`keeper.rs`) if the test is killed. If another process takes a port meanwhile, the whole
//! cluster is started again with others.

use crate::keeper::{Keeper, ports, signal};
use crate::mount::mount;
use crate::process::is_installed;
use crate::proxy::Proxy;
use crate::until::LONG;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How often a member tells the others that it lives. Elections take ten times as long, and the
/// shortest lease is a second.
const HEARTBEAT: Duration = Duration::from_millis(50);
/// How often a cluster is started with other ports.
const ATTEMPTS: u32 = 10;
/// The pause between two looks at a member, and how long one look may take.
const PAUSE: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_secs(2);

/// The certificates that clients and members show to each other: files in PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The members' certificate, for 127.0.0.1.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authority that certificates of clients must come from; `None`: clients need none.
    pub clients: Option<PathBuf>,
}

impl Tls {
    /// What [`make_certificates`](crate::make_certificates) has made in this folder; clients need a
    /// certificate too.
    pub fn of(folder: &Path) -> Tls {
        let file = |name: &str| folder.join(name);
        Tls { certificate: file("member.pem"), key: file("member.key"), clients: Some(file("ca.pem")) }
    }
}

/// How the members of a cluster are started.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// Clients reach the members by TLS.
    pub tls: Option<Tls>,
    /// The ways between members can be cut: [`Cluster::cut`].
    pub can_be_cut: bool,
    /// The size of the file system for each member's data, which this process mounts; `None`: the
    /// folder for temporary files.
    pub disk_bytes: Option<u64>,
    /// More options of etcd.
    pub options: Vec<String>,
}

/// Members of etcd, numbered from 0.
#[derive(Debug)]
pub struct Cluster {
    members: Vec<Member>,
    setting: Setting,
    /// Pairs of the ports by which members know each other, smaller ones first.
    cuts: Arc<Mutex<HashSet<[u16; 2]>>>,
    keeper: Keeper,
}

#[derive(Debug)]
struct Member {
    client: u16,
    /// What it listens on for other members.
    peer: u16,
    /// What they know it by.
    known: u16,
    health: u16,
    process: Option<Child>,
    _way: Option<Proxy>,
}

impl Cluster {
    /// Starts `members` members and waits until they have a leader. `None` where etcd is not
    /// installed: then the test was told to be skipped, and returns.
    ///
    /// # Panics
    /// If they do not start; with what they wrote.
    #[track_caller]
    pub fn start(members: usize) -> Option<Cluster> {
        Cluster::start_with(members, Setting::default())
    }

    /// The same with a setting.
    ///
    /// # Panics
    /// As [`Cluster::start`].
    #[track_caller]
    pub fn start_with(members: usize, setting: Setting) -> Option<Cluster> {
        if !is_installed("etcd", "--version") {
            return None;
        }
        for _ in 0..ATTEMPTS {
            let mut cluster = Cluster::new(members, &setting);
            for member in 0..members {
                cluster.spawn(member);
            }
            match (0..members).try_for_each(|member| cluster.wait(member)) {
                Ok(()) => return Some(cluster),
                Err(log) if log.contains("address already in use") => {}
                Err(log) => panic!("etcd did not start:\n{log}"),
            }
        }
        panic!("{ATTEMPTS} times another process took a port of the cluster");
    }

    fn new(members: usize, setting: &Setting) -> Cluster {
        let keeper = Keeper::new("etcd");
        let cuts: Arc<Mutex<HashSet<[u16; 2]>>> = Arc::default();
        let members = (0..members).map(|member| {
            let [client, peer, health] = ports();
            let way = setting.can_be_cut.then(|| {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
                let (cuts, known) = (Arc::clone(&cuts), listener.local_addr().expect("it is bound").port());
                let is_cut = move |from| cuts.lock().expect("no panic").contains(&pair(from, known));
                (known, Proxy::of_peer(listener, peer, Box::new(is_cut)))
            });
            if let Some(bytes) = setting.disk_bytes {
                let place = keeper.folder().join(format!("m{member}"));
                fs::create_dir(&place).expect("a folder");
                mount(&place, bytes);
            }
            let known = way.as_ref().map_or(peer, |(known, _)| *known);
            Member { client, peer, known, health, process: None, _way: way.map(|(_, way)| way) }
        });
        let members = members.collect();
        Cluster { members, setting: setting.clone(), cuts, keeper }
    }

    /// How many members there are, dead ones too.
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// Where clients reach the members, as `HOST:PORT`.
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| format!("127.0.0.1:{}", member.client)).collect()
    }

    /// The member that leads, of those that answer. There may be none for a moment.
    pub fn leader(&self) -> Option<usize> {
        (0..self.members.len()).find(|&member| {
            let metrics = self.ask(member, "/metrics").unwrap_or_default();
            metrics.lines().any(|line| line == "etcd_server_is_leader 1")
        })
    }

    /// Asks the first member by `etcdctl`, with the certificates in `tls`, if any. Returns what it
    /// says. The caller has looked whether it is installed.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn control(&self, tls: Option<&Path>, arguments: &[&str]) -> String {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.endpoints()[0]]);
        if let Some(folder) = tls {
            for (option, name) in [("--cacert", "ca.pem"), ("--cert", "client.pem"), ("--key", "client.key")]
            {
                command.arg(option).arg(folder.join(name));
            }
        }
        let output = command.args(arguments).output().expect("etcdctl");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Makes a user who may read and write the keys with this prefix, and demands users from now
    /// on. As [`Cluster::control`].
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn demand_user(&self, tls: Option<&Path>, name: &str, password: &str, prefix: &str) {
        self.control(tls, &["user", "add", "root:x"]);
        self.control(tls, &["user", "grant-role", "root", "root"]);
        self.control(tls, &["user", "add", &format!("{name}:{password}")]);
        self.control(tls, &["role", "add", "some"]);
        self.control(tls, &["role", "grant-permission", "some", "--prefix=true", "readwrite", prefix]);
        self.control(tls, &["user", "grant-role", name, "some"]);
        self.control(tls, &["auth", "enable"]);
    }

    /// Kills a member (SIGKILL). Nothing happens if it is dead.
    ///
    /// # Panics
    /// If the system does not let us.
    pub fn kill(&mut self, member: usize) {
        if let Some(mut process) = self.members[member].process.take() {
            process.kill().expect("our own child");
            process.wait().expect("our own child");
            self.tell_keeper();
        }
    }

    /// Stops a member (SIGSTOP): its connections stay, and nothing answers.
    ///
    /// # Panics
    /// If it is dead.
    pub fn stop(&self, member: usize) {
        self.signal(member, "STOP");
    }

    /// Lets a stopped member go on (SIGCONT).
    ///
    /// # Panics
    /// If it is dead.
    pub fn go_on(&self, member: usize) {
        self.signal(member, "CONT");
    }

    /// Cuts the way between two members, which were started so that this is possible.
    ///
    /// # Panics
    /// If they were not.
    pub fn cut(&self, one: usize, other: usize) {
        assert!(self.setting.can_be_cut, "start them so that ways can be cut");
        let pair = pair(self.members[one].known, self.members[other].known);
        self.cuts.lock().expect("no panic").insert(pair);
    }

    /// Mends all ways between members.
    ///
    /// # Panics
    /// If a thread panicked that cut one.
    pub fn mend(&self) {
        self.cuts.lock().expect("no panic").clear();
    }

    /// The folder with a member's data; its file system, if it has one of its own.
    pub fn disk(&self, member: usize) -> PathBuf {
        self.keeper.folder().join(format!("m{member}"))
    }

    /// Whether a member's process has ended.
    ///
    /// # Panics
    /// If it cannot be asked.
    pub fn has_ended(&mut self, member: usize) -> bool {
        let process = self.members[member].process.as_mut();
        process.is_none_or(|process| process.try_wait().expect("our own child").is_some())
    }

    /// Starts members again, with their data, and waits until they answer, which needs a majority.
    /// One that lives is killed before.
    ///
    /// # Panics
    /// If they do not start; with what they wrote.
    #[track_caller]
    pub fn restart(&mut self, members: &[usize]) {
        for &member in members {
            self.kill(member);
            self.spawn(member);
        }
        for &member in members {
            self.wait(member).unwrap_or_else(|log| panic!("etcd did not start again:\n{log}"));
        }
    }

    fn spawn(&mut self, member: usize) {
        let peers = self.members.iter().enumerate();
        let peers: Vec<String> =
            peers.map(|(name, member)| format!("m{name}=http://127.0.0.1:{}", member.known)).collect();
        let Member { client, peer, known, health, .. } = self.members[member];
        let scheme = if self.setting.tls.is_some() { "https" } else { "http" };
        let (client, peer) = (format!("{scheme}://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let mut command = Command::new("etcd");
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_option(name)) {
            command.env_remove(name);
        }
        command.env("ETCD_UNSUPPORTED_ARCH", "arm64");
        command.arg(format!("--name=m{member}"));
        command.arg("--data-dir").arg(self.disk(member).join("data"));
        command
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"));
        command
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls=http://127.0.0.1:{known}"));
        command.arg(format!("--listen-metrics-urls=http://127.0.0.1:{health}"));
        command.arg(format!("--initial-cluster={}", peers.join(",")));
        command.arg(format!("--initial-cluster-token={}", self.keeper.folder().display()));
        command.arg(format!("--heartbeat-interval={}", HEARTBEAT.as_millis()));
        command.arg(format!("--election-timeout={}", 10 * HEARTBEAT.as_millis()));
        command.args(&self.setting.options);
        if let Some(tls) = &self.setting.tls {
            command.arg("--cert-file").arg(&tls.certificate).arg("--key-file").arg(&tls.key);
            if let Some(clients) = &tls.clients {
                command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(clients);
            }
        }
        let log = File::options().create(true).append(true).open(self.log(member)).expect("a log");
        let errors = log.try_clone().expect("a log");
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let process = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        self.members[member].process = Some(process);
        self.tell_keeper();
    }

    /// Waits until the member knows a leader and answers.
    fn wait(&mut self, member: usize) -> Result<(), String> {
        let began = Instant::now();
        loop {
            if self.ask(member, "/health").is_some_and(|health| health.contains(r#""health":"true""#)) {
                return Ok(());
            }
            let process = self.members[member].process.as_mut().expect("it was started");
            let ended = process.try_wait().expect("our own child").is_some();
            if ended || began.elapsed() > LONG {
                return Err(fs::read_to_string(self.log(member)).unwrap_or_default());
            }
            thread::sleep(PAUSE);
        }
    }

    /// What a member answers; `None` if it does not.
    fn ask(&self, member: usize, path: &str) -> Option<String> {
        let address = (Ipv4Addr::LOCALHOST, self.members[member].health);
        let mut connection = TcpStream::connect_timeout(&address.into(), LOOK).ok()?;
        connection.set_read_timeout(Some(LOOK)).ok()?;
        write!(connection, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    fn signal(&self, member: usize, signal: &str) {
        let process = self.members[member].process.as_ref().expect("it lives");
        assert!(self::signal(signal, &[process.id()]), "kill -{signal} {}", process.id());
    }

    fn log(&self, member: usize) -> PathBuf {
        self.keeper.folder().join(format!("m{member}.log"))
    }

    fn tell_keeper(&mut self) {
        self.keeper.tell(self.members.iter().filter_map(|member| member.process.as_ref()));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in 0..self.members.len() {
            self.kill(member);
        }
    }
}

fn pair(one: u16, other: u16) -> [u16; 2] {
    [one.min(other), one.max(other)]
}

/// Whether a variable is one by which etcd takes options.
fn is_option(name: &OsString) -> bool {
    name.to_string_lossy().starts_with("ETCD_")
}
