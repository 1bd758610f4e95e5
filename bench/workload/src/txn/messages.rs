//! Messages between clients, through `manx serve` and through redis-server: the way there and back
//! of two clients that wait for each other, by a list (RPUSH and BLPOP) and by PUBLISH.
//!
//! Measured alone, and with eight processes that keep both CPUs busy. There the clients' thread is
//! in the real-time class (`chrt`): otherwise it would be the clients' waiting that is measured.
//!
//! 1. Each run has a server of its own with nothing in it, and two phases (`messages/pairs.rs`).
//! 2. The clients are one thread of this process (`closed_loop.rs`); the kernel places both it and
//!    the server.
//! 3. A run with a wrong message, or with a key that is left at its end, is an error and has no
//!    figures.

mod pairs;

use super::cases::{BUSY, MESSAGES, MESSAGES_BUSY, REDIS};
use super::memory::raise_open_files;
use super::phase;
use super::plan::Plan;
use super::serving::{self, COMPARED, Server, may_hurry, missing};
use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use crate::interrupt;
use report::Compared;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

pub(super) use pairs::PHASES;

/// Pairs of clients.
const PAIRS: usize = 25;

impl Plan {
    pub(super) fn messages(&self, bench: &mut Bench) -> Result<(), Error> {
        if let Some(why) = missing(REDIS) {
            bench.note(format!("messages: left out: {why}"));
            return Ok(());
        }
        let names = COMPARED.map(|(name, _)| name);
        let expected = Duration::from_secs_f64(self.setup.seconds);
        for (name, busy) in [(MESSAGES, 0), (MESSAGES_BUSY, BUSY)] {
            let urgent = busy > 0 && may_hurry();
            if busy > 0 && !urgent {
                bench.note("messages: the clients may not be in the real-time class: beside busy processes they wait for them, too");
            }
            let case = Case { name, variants: &names, expected };
            // A case goes on until the rates are known. Tails vary more.
            let watch = |_: &_| phase::ratios(name, &PHASES, &phase::FIGURES[..1]);
            bench.compare(case, watch, |at, _| self.exchange(COMPARED[at].1, busy, urgent))?;
        }
        Ok(())
    }

    fn exchange(&self, server: Server, busy: usize, urgent: bool) -> Result<Sample, Error> {
        // A pair of the second phase has four connections.
        raise_open_files(PAIRS * 4)?;
        let (mut running, port) = self.start(server)?;
        let busy = (0..busy).map(|_| serving::busy()).collect::<Result<Vec<_>, _>>()?;
        let seconds = self.setup.seconds / 2.0;
        let clients = || {
            if urgent {
                hurry()?;
            }
            pairs::drive(port, PAIRS, seconds)
        };
        let phases = thread::scope(|scope| scope.spawn(clients).join());
        drop(busy);
        if interrupt::requested() {
            return Err(Error::Interrupted);
        }
        running.check()?;
        let phases = phases.unwrap_or_else(|_| Err("a client panicked".into()));
        let phases = phases.map_err(|why| running.failed(&why))?;
        Ok(phase::sample(&PHASES, &phases))
    }
}

/// Brings the calling thread to the real-time class.
fn hurry() -> Result<(), String> {
    let thread = platform::thread::id().to_string();
    let done = Command::new("chrt").args(["-f", "-p", "1", &thread]).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success()).then_some(()).ok_or_else(|| "chrt fails".into())
}

/// The ratios of all figures of a case.
pub(super) fn compared(case: &str) -> Vec<Compared> {
    phase::ratios(case, &PHASES, &phase::FIGURES)
}
