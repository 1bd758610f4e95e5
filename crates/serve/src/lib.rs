//! `manx-serve`, which `manx serve` becomes: the store of transactions, for clients of Redis.
//!
//! [`command()`] is the definition of its command line, [`main`] runs it. Here the options become
//! those of [`Server`], files are read, and signals stop it. What it does is in the package
//! `server`.

mod allocator;
mod data;
mod files;
mod sizes;

use clap::CommandFactory as _;
use command::duration::parse_ns;
use command::failure::{BROKEN, Failure, INTERRUPTED, USAGE, exit_codes, reason};
use command::sigpipe;
use command::slo::parse_slo;
use manx::slo::{Percentile, Slo};
use manx::txn::coordinator::Protocol;
use manx::txn::{self, Store};
use manx::wait::Adaptive;
use server::{Eviction, Model, Options, SESSIONS_BESIDE, Server, StartError, Stopper, Tls};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use sizes::parse_bytes;
use std::io::{self, Write as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Serve a store of transactions to clients of Redis
#[derive(Debug, clap::Parser)]
#[command(name = "manx-serve", bin_name = "manx serve", display_name = "manx-serve", version)]
#[command(after_long_help = more_help())]
pub struct Args {
    /// Where clients find it; port 0 is any that is free, and is printed
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6379", value_parser = parse_address)]
    listen: SocketAddr,

    /// A file in which clients on this machine find it too, without TLS [default: none]
    #[arg(long, value_name = "PATH")]
    unix_socket: Option<PathBuf>,

    /// The permissions of that file, as 770; a client needs the one to write [default: by umask]
    #[arg(long, value_name = "MODE", requires = "unix_socket", value_parser = parse_mode)]
    unix_socket_permissions: Option<u32>,

    /// What serves a connection: the workers of a pool, or a thread for each [possible values:
    /// pool, threads]
    #[arg(long, value_name = "MODEL", default_value_t)]
    model: Model,

    #[command(flatten)]
    place: data::PlaceArgs,

    /// A folder for copies of the data, which BGSAVE makes while clients go on; to restore one,
    /// name it with --data [default: none]
    #[arg(long, value_name = "DIR")]
    backup_dir: Option<PathBuf>,

    /// The maximum number of clients; further connections are refused; each takes a descriptor
    /// (ulimit -n)
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    connections_max: usize,

    /// The longest command, and so the longest value
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_bytes)]
    input_bytes_max: usize,

    /// A client that leaves more answers than this unread, or asks for a longer one, is
    /// disconnected
    #[arg(long, value_name = "SIZE", default_value = "128MiB", value_parser = parse_bytes)]
    output_bytes_max: usize,

    /// The most memory it may use, clients' buffers included; what becomes of data beyond it is
    /// said by --eviction [default: all there is]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, conflicts_with = "data")]
    memory_max: Option<usize>,

    /// Which keys go if it would use more: none (commands that need memory get an error), or as
    /// Redis names them [possible values: noeviction, allkeys-lru, allkeys-lfu, allkeys-random,
    /// volatile-lru, volatile-lfu, volatile-random, volatile-ttl]
    #[arg(long, value_name = "POLICY", default_value_t, requires = "memory_max")]
    eviction: Eviction,

    /// The most memory for the buffers of all clients together; beyond it the client with the most
    /// is disconnected [default: all there is]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    buffers_max: Option<usize>,

    /// A client that sends nothing for so long is disconnected, as 300s [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_ns)]
    idle_timeout: Option<u64>,

    /// A client that has not agreed on TLS, or has not said the password that it needs, in this
    /// time is disconnected
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    handshake_timeout: u64,

    /// Clients have to say the password in this file's first line
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,

    /// Users and their rights, as in an ACL file of Redis; ACL SAVE replaces it. Its user `default`
    /// counts, and not the password file
    #[arg(long, value_name = "FILE")]
    acl_file: Option<PathBuf>,

    /// Clients speak TLS; the server's certificate, and those above it, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The certificate's key, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Clients need a certificate that one of the certificates in this file has signed, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,

    /// Let everybody who reaches the machine connect without a password
    #[arg(long)]
    without_password: bool,

    /// A target for each request, as 2ms or 2ms@p99.9: waits for locks may be as long as it allows
    #[arg(long, value_name = "TIME[@pN]", value_parser = parse_target)]
    slo: Option<Slo>,

    /// A command that takes this time or longer is kept for SLOWLOG
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = parse_ns)]
    slowlog_above: u64,

    /// How many of them are kept, the latest ones; with 0 none is, and no command is timed
    #[arg(long, value_name = "N", default_value_t = 128)]
    slowlog_max: usize,

    /// What a snapshot does about a transaction that is just being given its id
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Snapshots::Help)]
    snapshots: Snapshots,
}

/// The store's protocols by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Snapshots {
    /// Give it its id, so that nobody waits
    Help,
    /// Wait adaptively
    Adaptive,
}

fn more_help() -> String {
    const MORE: &str = "\
What it is:
  A store of strings, hashes, lists, sets and sorted sets, with transactions, for
  redis-cli, redis-benchmark and any client library of Redis: RESP 2 and 3, pipelines,
  MULTI, EXEC and WATCH. docs/serve.md has the commands, and what differs.

How it ends:
  By SIGTERM, SIGINT or SHUTDOWN: it accepts nobody any more, answers what it has
  received, and exits with code 0. A second signal ends it at once, with code 130. While
  it still opens its data, or waits for another server's end, one signal ends it, with
  code 0.";
    let codes = exit_codes(&[
        (0, "success"),
        (USAGE, "the command line is wrong, or a file or an address in it cannot be used"),
        (BROKEN, "the system refuses something that the server needs"),
        (INTERRUPTED, "a second signal has ended it"),
    ]);
    format!("{MORE}\n\n{codes}")
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let example = "write a host and a port, as 127.0.0.1:6379";
    let mut found = text.to_socket_addrs().map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => example.to_owned(),
        _ => format!("no such host: {example}"),
    })?;
    found.next().ok_or_else(|| example.to_owned())
}

/// Reads permissions of a file, in octal digits.
fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "write three octal digits, as 770".into())
}

fn parse_time(text: &str) -> Result<u64, String> {
    match parse_ns(text)? {
        0 => Err("no client could connect: write a longer time, as 10s".into()),
        time => Ok(time),
    }
}

fn parse_target(text: &str) -> Result<Slo, String> {
    let slo = parse_slo(text)?;
    if slo.id.is_some() {
        return Err("there is one kind of request: write a time alone, as 2ms@p99.9".into());
    }
    let percentile = Percentile::new(slo.percentile).ok_or("no such percentile")?;
    Ok(Slo::new(Duration::from_nanos(slo.bound_ns), percentile))
}

/// The definition of the command line, for man pages and completions.
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs the command with the process's own arguments, and exits.
pub fn main() -> ! {
    command::main(|_| command::parsed(command(), |args: Args| run(&args)))
}

/// Serves until a signal or a client stops it.
///
/// # Errors
/// With code 2 if the options cannot be, 125 if the system refuses something.
pub fn run(args: &Args) -> Result<u8, Failure> {
    allocator::set_up().map_err(|error| {
        let what = format!("the allocator cannot be set up: {error}");
        Failure::new(BROKEN, what, "build manx-serve again, without changes of its dependencies")
    })?;
    // Before anything that may take long, so that no signal is lost.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|error| {
        let what = format!("signals cannot be handled: {}", reason(&error));
        Failure::new(BROKEN, what, "see what the system's log says")
    })?;
    let (handle, serving) = (signals.handle(), Arc::new(OnceLock::<Stopper>::new()));
    let stopper = Arc::clone(&serving);
    let waiting = std::thread::spawn(move || {
        for (count, _) in signals.forever().enumerate() {
            match stopper.get() {
                _ if count > 0 => std::process::exit(i32::from(INTERRUPTED)),
                Some(stopper) => stopper.stop(),
                // It still reads its files or opens its data, which may break off anywhere.
                None => std::process::exit(0),
            }
        }
    });
    let password = args.password_file.as_deref().map(files::password).transpose()?;
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => {
            let client_ca = args.tls_client_ca.as_deref().map(files::read).transpose()?;
            let tls = Tls::new(&files::read(certificate)?, &files::read(key)?, client_ca.as_deref());
            let help = "give it a certificate, and the key that belongs to it";
            let wrong = |why| Failure::new(USAGE, format!("{}: {why}", certificate.display()), help);
            Some(tls.map_err(wrong)?)
        }
        _ => None,
    };
    let options = Options {
        listen: args.listen,
        unix_socket: args.unix_socket.clone(),
        unix_socket_permissions: args.unix_socket_permissions,
        model: args.model,
        connections_max: args.connections_max,
        input_bytes_max: args.input_bytes_max,
        output_bytes_max: args.output_bytes_max,
        idle_timeout: args.idle_timeout.map(Duration::from_nanos),
        handshake_timeout: Duration::from_nanos(args.handshake_timeout),
        password,
        acl_file: args.acl_file.clone(),
        tls,
        exposed: args.without_password,
        backup_folder: args.backup_dir.clone(),
        durable: args.place.data.is_some(),
        memory_bytes_max: args.memory_max.map(|bytes| bytes as u64),
        eviction: args.eviction,
        buffers_bytes_max: args.buffers_max.map(|bytes| bytes as u64),
        allocated_bytes: Some(allocator::allocated_bytes),
        slo: args.slo,
        slowlog_above: Duration::from_nanos(args.slowlog_above),
        slowlog_entries_max: args.slowlog_max,
        ..Options::default()
    };
    let store = open(args)?;
    let server = Server::start(options, store.clone()).map_err(cannot_start)?;
    // It is set once.
    let _ = serving.set(server.stopper());
    data::when_lost_stop(server.stopper());
    print(&server, args)?;
    warn_of_few_connections(&server, args);
    server.wait();
    if let Some(failure) = data::why_lost() {
        return Err(failure);
    }
    // What was committed is safe without it, but the next start is quicker. A second signal ends
    // this too.
    let made = store.checkpoint();
    handle.close();
    // A panic there has said itself what it was about.
    let _ = waiting.join();
    made.map(|()| 0).map_err(|error| {
        Failure::new(
            BROKEN,
            format!("the last checkpoint failed: {error}"),
            "nothing that was answered is lost",
        )
    })
}

fn open(args: &Args) -> Result<Store, Failure> {
    let protocol = match args.snapshots {
        Snapshots::Help => Protocol::Help,
        Snapshots::Adaptive => Protocol::Adaptive(Adaptive::DEFAULT),
    };
    let connections_max = u32::try_from(args.connections_max).ok().filter(|count| *count < 1 << 20);
    let connections_max = connections_max.ok_or_else(|| {
        let what = format!("--connections-max {}: too many", args.connections_max);
        Failure::new(USAGE, what, "a million is the most")
    })?;
    let sessions_max = connections_max + SESSIONS_BESIDE;
    let options = txn::Options::new().protocol(protocol).sessions_max(sessions_max);
    args.place.open(options)
}

fn cannot_start(error: StartError) -> Failure {
    let (code, help) = match &error {
        StartError::Exposed(_) => {
            (USAGE, "set one with --password-file, or say --without-password if that is meant")
        }
        StartError::Acl(_) => (USAGE, "correct the file of --acl-file"),
        StartError::NoConnections | StartError::TooSmall(_) => (USAGE, "raise it"),
        StartError::Listen(..) => (USAGE, "take another place with --listen or --unix-socket"),
        StartError::System(_) => (BROKEN, "see its limits of threads and open files (ulimit -a)"),
        StartError::Store(_) => (BROKEN, "see that its folder can be read, and name one of manx serve"),
    };
    Failure::new(code, error.to_string(), help)
}

/// Warns if fewer clients can connect than the options allow. A closed standard error is no error.
fn warn_of_few_connections(server: &Server, args: &Args) {
    let (wanted, most) = (args.connections_max, server.connections_max());
    if most < wanted {
        let _ = writeln!(
            io::stderr(),
            "manx: warning: {most} clients at once are the most, not {wanted}: more files may not be open (ulimit -n)"
        );
    }
}

/// Says where it listens. A closed standard output is no error.
fn print(server: &Server, args: &Args) -> Result<(), Failure> {
    let where_to = match &args.place.data {
        Some(place) => format!("data in {place}"),
        None => "data in memory".into(),
    };
    let also = args.unix_socket.as_ref().map_or_else(String::new, |path| format!(" and {}", path.display()));
    let text = format!("manx: listening on {}{also}, {} model, {where_to}\n", server.address(), args.model);
    sigpipe::print(&text)
}
