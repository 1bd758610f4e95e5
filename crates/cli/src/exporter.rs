//! `manx exporter`: metrics of the programs on this host, for Prometheus.
//!
//! What is measured and how it is written are in the package `exporter`. This file has the options
//! and the life of the process: it looks once in each interval, answers from other threads, and
//! ends by a signal or with the process that it watches (`end`).
//!
//! `manx run --metrics` starts it for one program (`run/metrics.rs`). Then it reports by a pipe
//! whether it could begin, so that the launcher can say why not.

mod end;

use command::duration::parse_ns;
use command::failure::{BROKEN, Failure, USAGE, exit_codes, reason};
use command::sigpipe::print;
use end::{Ended, Ends};
use exporter::catalogue::families;
use exporter::negotiate::Format;
use exporter::registry::Limits;
use exporter::request::{Answer, Request};
use exporter::server::{Address, Listener};
use exporter::text_file::{self, EXTENSION};
use exporter::watch::{Scope, Watch};
use platform::clock::thread_cpu_ns;
use std::fs::File;
use std::io::{self, Write as _};
use std::net::ToSocketAddrs as _;
use std::os::fd::FromRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Where it listens unless told.
const LISTEN: &str = "127.0.0.1:16269";
/// The part of one CPU that the looks may use, in thousandths.
const LOOKS_PERMILLE: u32 = 4;
/// The part of one CPU that writing files may use, as the factor from its cost to the pause after.
const PAUSE_FACTOR: u32 = 1000;
/// The first looks at one program come sooner, because it may end soon.
const FIRST_LOOKS: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
];
/// What is written to the pipe when it has begun.
pub const READY: &str = "ready\n";

/// The arguments of `manx exporter`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = more_help())]
pub struct Args {
    /// Where Prometheus finds it, as 127.0.0.1:16269, or unix:PATH for a socket; port 0 is any that
    /// is free; may be given several times [default: 127.0.0.1:16269, or none with --text-file]
    #[arg(long, value_name = "HOST:PORT|unix:PATH", value_parser = parse_address)]
    listen: Vec<Address>,

    /// Write the metrics to this file, for the textfile collector of node_exporter; its name ends
    /// in .prom
    #[arg(long, value_name = "FILE", value_parser = parse_text_file)]
    text_file: Option<PathBuf>,

    /// The time between two looks, from 100ms to 1000s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,

    /// Watch this process and what it starts, and nothing else; end when it ends
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    process: Option<u32>,

    /// How many programs have metrics of their own; the others are summed as `other`
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u16).range(2..=5000))]
    programs: u16,

    /// How many locks of each program have histograms of their own; the others are summed as
    /// `other`
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(0..=1000))]
    locks: u16,

    /// The descriptor of the pipe of `manx run`
    #[arg(long, hide = true)]
    ready: Option<i32>,
}

fn more_help() -> String {
    const MORE: &str = "\
What it exports:
  Of each program: CPU time, run-queue delay, budget. Of programs that run under
  Manx with counts (`manx run --stats=live`): waits in loops, repaired loops, and
  waits for locks as histograms. Of control groups: quotas and throttling.
  docs/metrics.md has all metrics, rules for alerts, and a dashboard.

What it costs:
  Less than 0.5 % of one CPU. If there are more processes than can be looked
  at in time, each has its turn later, and no count is lost.

What it needs:
  For processes of other users, root or CAP_SYS_PTRACE. It answers every client
  that reaches it, so let it listen to others only behind a firewall.

How it ends:
  By SIGTERM or SIGINT, with code 0; with --process, when the process has ended.";
    let codes = exit_codes(&[
        (0, "a signal ended it, or the process has ended"),
        (USAGE, "the command line is wrong, or an address or a file in it cannot be used"),
        (BROKEN, "the system refuses something that it needs"),
    ]);
    format!("{MORE}\n\n{codes}")
}

/// Reads an address.
///
/// # Errors
/// What to write.
pub fn parse_address(text: &str) -> Result<Address, String> {
    let example = "write a host and a port, as 127.0.0.1:16269, or unix:PATH";
    if let Some(path) = text.strip_prefix("unix:") {
        return if path.is_empty() { Err(example.into()) } else { Ok(Address::Unix(path.into())) };
    }
    let mut found = text.to_socket_addrs().map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => example.to_owned(),
        _ => format!("no such host: {example}"),
    })?;
    found.next().map(Address::Tcp).ok_or_else(|| example.to_owned())
}

/// Reads the name of a file for node_exporter.
///
/// # Errors
/// What to write.
pub fn parse_text_file(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    if path.extension().is_none_or(|extension| extension != EXTENSION) {
        return Err(format!("node_exporter reads files whose names end in .{EXTENSION}"));
    }
    Ok(path.to_owned())
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = Duration::from_nanos(parse_ns(text)?);
    let range = Duration::from_millis(100)..=Duration::from_secs(1000);
    if range.contains(&interval) { Ok(interval) } else { Err("write a time from 100ms to 1000s".into()) }
}

/// Exports until it ends.
///
/// # Errors
/// With code 2 if it cannot listen or write where it should.
pub fn run(args: &Args) -> Result<u8, Failure> {
    // SAFETY: the launcher opened the descriptor for this process and nothing else has it.
    let mut ready = args.ready.map(|descriptor| unsafe { File::from_raw_fd(descriptor) });
    let begun = begin(args);
    if let Some(pipe) = &mut ready {
        let said = match &begun {
            Ok(_) => READY.to_owned(),
            Err(failure) => format!("{}\n{}", failure.what, failure.help),
        };
        // If the launcher is gone, so is the program.
        let _ = pipe.write_all(said.as_bytes());
    }
    drop(ready);
    let exporter = begun?;
    exporter.run(args)
}

/// What has been opened before the first look.
struct Exporter {
    ends: Ends,
    listeners: Vec<Listener>,
    sockets: Sockets,
}

/// Paths of sockets, which are removed when this is dropped.
struct Sockets(Vec<PathBuf>);

impl Drop for Sockets {
    fn drop(&mut self) {
        for path in &self.0 {
            // Somebody may have removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn begin(args: &Args) -> Result<Exporter, Failure> {
    let ends = Ends::prepare(args.process)?;
    let mut addresses = args.listen.clone();
    if addresses.is_empty() && args.text_file.is_none() {
        addresses.push(parse_address(LISTEN).expect("the default is an address"));
    }
    let (mut listeners, mut sockets) = (Vec::new(), Sockets(Vec::new()));
    for address in &addresses {
        listeners.push(Listener::bind(address).map_err(|error| cannot_listen(address, &error))?);
        if let Address::Unix(path) = address {
            sockets.0.push(path.clone());
        }
    }
    if let Some(path) = &args.text_file {
        text_file::write(path, &[]).map_err(|error| cannot_write(path, &error))?;
    }
    Ok(Exporter { ends, listeners, sockets })
}

fn cannot_listen(address: &Address, error: &io::Error) -> Failure {
    let shown = match address {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => format!("unix:{}", path.display()),
    };
    let help = match error.kind() {
        io::ErrorKind::AddrInUse => "another process has it: name another address by --listen",
        io::ErrorKind::NotFound => "create the folder first",
        _ => "name another address by --listen",
    };
    Failure::new(USAGE, format!("cannot listen at {shown}: {}", reason(error)), help)
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    let what = format!("{}: cannot be written: {}", path.display(), reason(error));
    Failure::new(USAGE, what, "name a file in a folder that exists and that you may write to")
}

impl Exporter {
    fn run(self, args: &Args) -> Result<u8, Failure> {
        let Exporter { ends, listeners, sockets } = self;
        let _sockets = sockets;
        let scope = args.process.map_or(Scope::Host, Scope::Tree);
        let limits = Limits { programs: args.programs.into(), locks: args.locks.into() };
        let watch = Arc::new(Mutex::new(Watch::new(scope, limits)));
        let lock = || watch.lock().unwrap_or_else(PoisonError::into_inner);
        let cpu_ns_max = (args.interval * LOOKS_PERMILLE / 1000).as_nanos() as u64;
        if scope == Scope::Host {
            lock().pass(cpu_ns_max);
        }
        for listener in listeners {
            if args.ready.is_none() {
                print(&format!("{}\n", listener.address()))?;
            }
            let watch = Arc::clone(&watch);
            listener.serve(move |request| answer(request, &watch)).map_err(|error| {
                let what = format!("no thread can be started: {}", reason(&error));
                Failure::new(BROKEN, what, "see `ulimit -u` and the limits of the control group")
            })?;
        }
        let mut writer = args.text_file.as_deref().map(Writer::new);
        let mut first_looks = FIRST_LOOKS.into_iter().filter(|_| scope != Scope::Host);
        loop {
            let pause = first_looks.next().unwrap_or(args.interval).min(args.interval);
            let ended = ends.wait(pause)?;
            let mut watch = lock();
            watch.pass(cpu_ns_max);
            if let Some(writer) = &mut writer {
                writer.write(&watch, ended.is_some());
            }
            drop(watch);
            match ended {
                None => {}
                Some(Ended::Signal | Ended::Process) => return Ok(0),
            }
        }
    }
}

/// What a client gets.
fn answer(request: &Request, watch: &Mutex<Watch>) -> Answer {
    match request.path.as_str() {
        "/metrics" => {
            let families = families(&watch.lock().unwrap_or_else(PoisonError::into_inner));
            let format = Format::accepted(&request.accept);
            Answer { status: "200 OK", content_type: format.content_type(), body: format.write(&families) }
        }
        "/healthz" => Answer::line("200 OK", "ok"),
        "/" => Answer::line("200 OK", "manx exporter: the metrics are at /metrics"),
        _ => Answer::line("404 Not Found", "there are /metrics and /healthz"),
    }
}

/// Writes a file again and again, as often as its cost allows.
struct Writer<'a> {
    path: &'a Path,
    next: Instant,
    has_failed: bool,
}

impl<'a> Writer<'a> {
    fn new(path: &'a Path) -> Writer<'a> {
        Writer { path, next: Instant::now(), has_failed: false }
    }

    fn write(&mut self, watch: &Watch, is_last: bool) {
        if Instant::now() < self.next && !is_last {
            return;
        }
        let before_ns = thread_cpu_ns();
        match text_file::write(self.path, &families(watch)) {
            Ok(()) => self.has_failed = false,
            // Said once; the disk may have room again later.
            Err(error) if !self.has_failed => {
                self.has_failed = true;
                let _ = writeln!(io::stderr(), "{}", cannot_write(self.path, &error));
            }
            Err(_) => {}
        }
        let cost = Duration::from_nanos(thread_cpu_ns().saturating_sub(before_ns));
        self.next = Instant::now() + cost * PAUSE_FACTOR;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_address_is_loopback() {
        assert!(matches!(parse_address(LISTEN), Ok(Address::Tcp(address)) if address.ip().is_loopback()));
        for wrong in ["", "unix:", "localhost", "1.2.3.4", ":"] {
            assert!(parse_address(wrong).unwrap_err().contains("unix:PATH"), "{wrong}");
        }
    }

    #[test]
    fn a_file_for_node_exporter_has_its_ending() {
        assert!(parse_text_file("a/b.prom").is_ok());
        for wrong in ["a", "a.prom/b", ".prom", "a.txt"] {
            assert!(parse_text_file(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn intervals_have_bounds() {
        assert_eq!(parse_interval("1s"), Ok(Duration::from_secs(1)));
        assert!(parse_interval("99ms").is_err() && parse_interval("1001s").is_err());
    }
}
