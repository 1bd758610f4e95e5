//! A real PostgreSQL on this machine, which ends with the test.
//!
//! It listens at a port of the loopback, and at a socket in its folder. It can be killed, stopped,
//! continued and started again with its data, which it syncs as it does by default. It refuses to
//! run as root; then it runs as `nobody`, to which its folder belongs.
//!
//! The drop kills it and deletes the folder; so does the keeper (`keeper.rs`) if the test is
//! killed. If another process takes its port meanwhile, it is started again with another one.

use crate::keeper::{Keeper, ports, signal};
use crate::mount::mount;
use crate::process::succeed;
use crate::skip;
use crate::until::{LONG, eventually};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// The user of the database, which may do everything there.
pub const USER: &str = "manx";
/// Debian has the programs of each version in a folder here, and puts none into PATH.
const VERSIONS: &str = "/usr/lib/postgresql";
/// The account that root runs it as.
const NOBODY: u32 = 65534;
/// How often it is started with another port.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);

/// How clients have to come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Access<'a> {
    /// The user's password; without one, none is asked for.
    pub password: Option<&'a str>,
    /// The server's certificate and its key, as PEM: clients may come by TLS.
    pub identity: Option<(&'a Path, &'a Path)>,
}

/// A server and its data.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    port: u16,
    is_secure: bool,
    process: Option<Child>,
    keeper: Keeper,
}

impl Postgres {
    /// Starts one, and waits until it answers. `None` where it is not installed: then the test was
    /// told to be skipped, and returns.
    ///
    /// # Panics
    /// If it does not start; with what it wrote.
    #[track_caller]
    pub fn start() -> Option<Postgres> {
        Postgres::start_with(Access::default())
    }

    /// The same with a password, or TLS.
    ///
    /// # Panics
    /// As [`Postgres::start`].
    #[track_caller]
    pub fn start_with(access: Access<'_>) -> Option<Postgres> {
        let Some(programs) = programs() else {
            skip("postgres is not installed");
            return None;
        };
        let keeper = Keeper::new("postgres");
        let (is_secure, has_password) = (access.identity.is_some(), access.password.is_some());
        let mut it = Postgres { programs, port: 0, is_secure, process: None, keeper };
        give_away(it.keeper.folder());
        let mut copy = it.as_account(Command::new("cp"));
        succeed(copy.arg("-r").arg(template(&it)).arg(it.data()));
        if has_password {
            it.write("data/pg_hba.conf", b"local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n");
        }
        if let Some((certificate, key)) = access.identity {
            it.write("server.crt", &fs::read(certificate).expect("a certificate"));
            it.write("server.key", &fs::read(key).expect("a key"));
        }
        for _ in 0..ATTEMPTS {
            [it.port] = ports();
            it.spawn();
            match it.wait() {
                Ok(()) => {
                    if let Some(password) = access.password {
                        it.sql(&format!("ALTER ROLE {USER} PASSWORD '{password}'"));
                    }
                    return Some(it);
                }
                Err(log) if log.contains("Address already in use") => it.kill(),
                Err(log) => panic!("postgres did not start:\n{log}"),
            }
        }
        panic!("{ATTEMPTS} times another process took the port");
    }

    /// Where clients reach it, as `HOST:PORT`.
    pub fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The address of its database for a client that comes by this endpoint.
    pub fn address_at(&self, endpoint: &str) -> String {
        format!("postgres://{USER}@{endpoint}/postgres")
    }

    /// The address of its database.
    pub fn address(&self) -> String {
        self.address_at(&self.endpoint())
    }

    /// What a statement returns, as `psql` writes it.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn sql(&self, statement: &str) -> String {
        let said = self.psql(statement).output().expect("psql starts");
        assert!(said.status.success(), "{statement}: {said:?}");
        String::from_utf8_lossy(&said.stdout).trim_end().to_owned()
    }

    /// A disk of its own for data: a folder, to which a tablespace with this name belongs.
    ///
    /// # Panics
    /// If it cannot be mounted, see [`can_mount`](crate::can_mount); or as [`Postgres::sql`].
    #[track_caller]
    pub fn small_disk(&self, name: &str, bytes: u64) -> PathBuf {
        let folder = self.file(name);
        fs::create_dir(&folder).expect("a folder");
        mount(&folder, bytes);
        give_away(&folder);
        self.sql(&format!("CREATE TABLESPACE {name} LOCATION '{}'", folder.display()));
        folder
    }

    fn psql(&self, statement: &str) -> Command {
        let mut command = self.program("psql");
        command.arg("-h").arg(self.keeper.folder()).args(["-p", &self.port.to_string(), "-U", USER]);
        command.args(["-d", "postgres", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statement]);
        command.stdin(Stdio::null());
        command
    }

    /// Kills all its processes (SIGKILL). Nothing happens if it is dead.
    ///
    /// # Panics
    /// If the system does not let us.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let children = children(process.id());
            process.kill().expect("our own child");
            // Some may have ended with it.
            signal("KILL", &children);
            process.wait().expect("our own child");
            self.keeper.tell(None);
        }
    }

    /// Stops all its processes (SIGSTOP): its connections stay, and nothing answers.
    ///
    /// # Panics
    /// If it is dead.
    pub fn stop(&self) {
        let process = self.process.as_ref().expect("it lives").id();
        // First the one that starts others.
        assert!(signal("STOP", &[process]), "kill -STOP {process}");
        signal("STOP", &children(process));
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Panics
    /// If it is dead.
    pub fn go_on(&self) {
        let process = self.process.as_ref().expect("it lives").id();
        signal("CONT", &children(process));
        assert!(signal("CONT", &[process]), "kill -CONT {process}");
    }

    /// Starts it again with its data, and waits until it answers. If it lives it is killed before.
    ///
    /// # Panics
    /// If it does not start; with what it wrote.
    #[track_caller]
    pub fn restart(&mut self) {
        self.kill();
        // Processes of the last one may still be about to end.
        eventually("it starts again", || {
            self.spawn();
            let started = self.wait();
            if started.as_ref().is_err_and(|log| !log.contains("is still in use")) {
                panic!("postgres did not start again: {started:?}");
            }
            started.ok()
        });
    }

    fn spawn(&mut self) {
        let mut command = self.program("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(self.keeper.folder());
        command.args(["-p", &self.port.to_string()]);
        for setting in ["listen_addresses=127.0.0.1", "shared_buffers=32MB", "max_connections=100"] {
            command.args(["-c", setting]);
        }
        if self.is_secure {
            command.args(["-c", "ssl=on"]);
            command.arg("-c").arg(format!("ssl_cert_file={}", self.file("server.crt").display()));
            command.arg("-c").arg(format!("ssl_key_file={}", self.file("server.key").display()));
        }
        let log = File::create(self.file("log")).expect("a log");
        let errors = log.try_clone().expect("a log");
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let process = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        self.keeper.tell(Some(&process));
        self.process = Some(process);
    }

    /// Waits until it answers.
    fn wait(&mut self) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let answer = self.psql("SELECT 1").stdout(Stdio::null()).stderr(Stdio::null()).status();
            if answer.is_ok_and(|status| status.success()) {
                return Ok(());
            }
            let process = self.process.as_mut().expect("it was started");
            if process.try_wait().expect("our own child").is_some() || began.elapsed() > LONG {
                self.kill();
                return Err(fs::read_to_string(self.file("log")).unwrap_or_default());
            }
            thread::sleep(PAUSE);
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.keeper.folder().join(name)
    }

    fn data(&self) -> PathBuf {
        self.file("data")
    }

    /// Writes a file that only the server's account may read.
    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.file(name), bytes).expect("written");
        fs::set_permissions(self.file(name), Permissions::from_mode(0o600)).expect("our own file");
        give_away(&self.file(name));
    }

    /// One of its programs.
    fn program(&self, name: &str) -> Command {
        self.as_account(Command::new(self.programs.join(name)))
    }

    /// The command as the server's account, in the server's folder.
    fn as_account(&self, mut command: Command) -> Command {
        command.current_dir(self.keeper.folder());
        for (variable, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG"))
        {
            command.env_remove(variable);
        }
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

/// The data of a new server, which the first one makes. It is deleted with the process.
fn template(it: &Postgres) -> PathBuf {
    static TEMPLATE: OnceLock<Keeper> = OnceLock::new();
    let keeper = TEMPLATE.get_or_init(|| {
        let keeper = Keeper::new("postgres");
        give_away(keeper.folder());
        let mut initdb = it.program("initdb");
        initdb.arg("-D").arg(keeper.folder().join("data")).args(["-U", USER, "-A", "trust"]);
        succeed(initdb.args(["-E", "UTF8", "--locale=C", "--no-sync"]));
        keeper
    });
    keeper.folder().join("data")
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Makes the server's account the owner.
fn give_away(path: &Path) {
    if is_root() {
        chown(path, Some(NOBODY), Some(NOBODY)).expect("root may do that");
    }
}

/// The processes that a process has started.
fn children(process: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    children.unwrap_or_default().split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// The folder of the newest version's programs.
fn programs() -> Option<PathBuf> {
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let folders = fs::read_dir(VERSIONS).into_iter().flatten().flatten().map(|entry| entry.path());
    let newest = folders.filter(|path| path.join("bin/postgres").is_file()).max_by_key(version);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = newest.map(|folder| folder.join("bin")).into_iter().chain(std::env::split_paths(&path));
    all.into_iter().find(|folder| folder.join("postgres").is_file() && folder.join("initdb").is_file())
}
