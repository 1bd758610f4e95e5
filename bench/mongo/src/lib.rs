//! `manx-mongod`: a server that is shaped as mongod is, for the experiment of a paper.
//!
//! MongoDB's own clients talk to it by MongoDB's protocol. Each connection has a thread, and below
//! the threads is a storage engine whose snapshots may wait busily: the real WiredTiger, or Manx's
//! store with the same bug or a repair. No registry has mongod, and the experiment needs nothing
//! else of it: Andreoli and Cucinotta, "Inducing Huge Tail Latency on a MongoDB deployment".
//!
//! | file | what |
//! | --- | --- |
//! | `serve.rs` | connections, their threads, and the end |
//! | `commands.rs` | the commands and their replies |
//! | `cursors.rs`, `update.rs` | scans in batches, and projections; what an update makes of a document |
//! | `keys.rs`, `fields.rs` | `_id`s as keys; the fields of a command |
//! | `wire.rs`, `fault.rs` | messages; errors as clients see them |
//! | `engine.rs`, `engine/` | the trait of the engines; WiredTiger, and Manx's store |

pub mod commands;
pub mod cursors;
pub mod engine;
pub mod fault;
pub mod fields;
pub mod keys;
pub mod serve;
pub mod update;
pub mod wire;

use clap::{CommandFactory, Parser, ValueEnum};
use command::failure::{BROKEN, Failure, USAGE, exit_codes, reason};
use command::sigpipe::print;
use engine::Engine;
use engine::store::{ManxStore, Snapshots};
use engine::wiredtiger::WiredTiger;
use manx::pool::FriendlyPool;
use serve::Server;
use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;
use std::ptr::null_mut;

/// A server shaped as mongod is, on an engine whose snapshots may wait busily.
#[derive(Debug, Parser)]
#[command(name = "manx-mongod", disable_version_flag = true, after_long_help = exit_codes(&EXIT_CODES))]
pub struct Args {
    /// The folder of the database, which exists
    #[arg(long, value_name = "DIR")]
    dbpath: PathBuf,
    /// The port; 0: any that is free
    #[arg(long, value_name = "PORT", default_value_t = 27017)]
    port: u16,
    /// The address that clients reach it by
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    bind: IpAddr,
    /// The storage engine
    #[arg(long)]
    engine: EngineName,
    /// The shim of a WiredTiger: bench/engines/wiredtiger_shim.c, compiled with its header and
    /// library
    #[arg(long, value_name = "SHIM.so")]
    library: Option<PathBuf>,
    /// Way in which Manx's snapshots wait for a session that is taking its id [default: help]
    #[arg(long)]
    snapshots: Option<Snapshots>,
    /// The threads that do the requests
    #[arg(long, default_value = "threads")]
    serve: Serving,
    /// The size of the engine's cache, in MiB
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..1 << 24))]
    cache_mb: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EngineName {
    /// The real one; needs --library
    Wiredtiger,
    /// Manx's transactions
    Manx,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Serving {
    /// A thread for each connection, as in mongod
    Threads,
    /// The workers of Manx's pool
    Pool,
}

const EXIT_CODES: [(u8, &str); 3] = [
    (0, "a signal ended it, SIGTERM or SIGINT"),
    (USAGE, "the command line is wrong, or names a folder, a library or an address that cannot be used"),
    (BROKEN, "the server cannot go on"),
];

/// Runs the command with the process's own arguments, and exits.
pub fn main() -> ! {
    command::main(|_| command::parsed(Args::command(), |args: Args| run(&args)))
}

fn run(args: &Args) -> Result<u8, Failure> {
    // Before there is another thread, so that no thread is interrupted by them.
    let signals = Signals::block();
    let broken = |what: &str, why: String| Failure::new(BROKEN, format!("{what}: {why}"), "");
    let engine = open(args)?;
    let address = (args.bind, args.port);
    let listening = TcpListener::bind(address).and_then(|it| Ok((it.local_addr()?.port(), it)));
    let (port, listener) = listening.map_err(|error| {
        let what = format!("{}:{}: {}", args.bind, args.port, reason(&error));
        Failure::new(
            USAGE,
            what,
            "choose an address of this machine with --bind, and a free port with --port",
        )
    })?;
    let pool = match args.serve {
        Serving::Threads => None,
        Serving::Pool => {
            let built = FriendlyPool::builder().name("requests").build();
            Some(built.map_err(|error| broken("the pool", error.to_string()))?)
        }
    };
    print(&format!(
        "{{\"port\": {port}, \"pid\": {}, \"engine\": {:?}}}\n",
        std::process::id(),
        engine.version()
    ))?;
    let served = Server::new(engine, pool).serve(&listener, || signals.wait());
    served.map_err(|why| broken("the server", why))?;
    Ok(0)
}

fn open(args: &Args) -> Result<Box<dyn Engine>, Failure> {
    let usage = |what: String, help: &str| Failure::new(USAGE, what, help);
    let folder = &args.dbpath;
    if !folder.is_dir() {
        return Err(usage(format!("--dbpath {}: no folder", folder.display()), "make it first"));
    }
    match (args.engine, &args.library, args.snapshots) {
        (EngineName::Wiredtiger, Some(library), None) => {
            let opened = WiredTiger::open(library, folder, args.cache_mb).map_err(|why| {
                usage(
                    why,
                    "--library names what comes of bench/engines/wiredtiger_shim.c with the library's own header,\n\
                     and --dbpath a folder that is empty or has a database of that WiredTiger",
                )
            })?;
            Ok(Box::new(opened))
        }
        (EngineName::Manx, None, snapshots) => {
            let snapshots = snapshots.unwrap_or(Snapshots::Help);
            // Its error says what to do.
            let opened = ManxStore::open(folder, snapshots, args.cache_mb)
                .map_err(|error| usage(error.to_string(), ""))?;
            Ok(Box::new(opened))
        }
        (EngineName::Wiredtiger, None, _) => Err(usage(
            "--engine wiredtiger: no --library".into(),
            "name a shim: cc -O2 -shared -fPIC bench/engines/wiredtiger_shim.c -o shim.so -lwiredtiger",
        )),
        (EngineName::Wiredtiger, ..) => {
            Err(usage("--snapshots: WiredTiger has its own".into(), "leave it out, or choose --engine manx"))
        }
        (EngineName::Manx, ..) => {
            Err(usage("--library: it is WiredTiger's".into(), "leave it out, or choose --engine wiredtiger"))
        }
    }
}

/// The signals that end the server.
struct Signals(libc::sigset_t);

impl Signals {
    /// Blocks them in this thread, and in those that it will start.
    fn block() -> Signals {
        // SAFETY: the set is made by these calls alone, and there is no place for the old one.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            libc::sigaddset(&raw mut set, libc::SIGINT);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, null_mut());
            Signals(set)
        }
    }

    /// Returns when one of them comes.
    fn wait(&self) {
        let mut signal = 0;
        // SAFETY: a set, and a place for the signal.
        unsafe { libc::sigwait(&raw const self.0, &raw mut signal) };
    }
}
