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
use crate::process::is_installed;
use crate::until::LONG;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
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

/// Members of etcd, numbered from 0.
#[derive(Debug)]
pub struct Cluster {
    members: Vec<Member>,
    tls: Option<Tls>,
    keeper: Keeper,
}

#[derive(Debug)]
struct Member {
    client: u16,
    peer: u16,
    health: u16,
    process: Option<Child>,
}

impl Cluster {
    /// Starts `members` members and waits until they have a leader. `None` where etcd is not
    /// installed: then the test was told to be skipped, and returns.
    ///
    /// # Panics
    /// If they do not start; with what they wrote.
    #[track_caller]
    pub fn start(members: usize) -> Option<Cluster> {
        Cluster::start_with(members, None)
    }

    /// The same with TLS between clients and members.
    ///
    /// # Panics
    /// As [`Cluster::start`].
    #[track_caller]
    pub fn start_with(members: usize, tls: Option<Tls>) -> Option<Cluster> {
        if !is_installed("etcd", "--version") {
            return None;
        }
        for _ in 0..ATTEMPTS {
            let mut cluster = Cluster::new(members, tls.clone());
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

    fn new(members: usize, tls: Option<Tls>) -> Cluster {
        let members = (0..members).map(|_| {
            let [client, peer, health] = ports();
            Member { client, peer, health, process: None }
        });
        Cluster { members: members.collect(), tls, keeper: Keeper::new("etcd") }
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
            peers.map(|(name, member)| format!("m{name}=http://127.0.0.1:{}", member.peer)).collect();
        let Member { client, peer, health, .. } = self.members[member];
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let (client, peer) = (format!("{scheme}://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let mut command = Command::new("etcd");
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_option(name)) {
            command.env_remove(name);
        }
        command.env("ETCD_UNSUPPORTED_ARCH", "arm64");
        command.arg(format!("--name=m{member}"));
        command.arg("--data-dir").arg(self.keeper.folder().join(format!("m{member}")));
        command
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"));
        command
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"));
        command.arg(format!("--listen-metrics-urls=http://127.0.0.1:{health}"));
        command.arg(format!("--initial-cluster={}", peers.join(",")));
        command.arg(format!("--initial-cluster-token={}", self.keeper.folder().display()));
        command.arg(format!("--heartbeat-interval={}", HEARTBEAT.as_millis()));
        command.arg(format!("--election-timeout={}", 10 * HEARTBEAT.as_millis()));
        if let Some(tls) = &self.tls {
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

/// Whether a variable is one by which etcd takes options.
fn is_option(name: &OsString) -> bool {
    name.to_string_lossy().starts_with("ETCD_")
}
