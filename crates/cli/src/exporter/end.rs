//! How the exporter ends: by SIGTERM or SIGINT, or with the process that it watches.
//!
//! The signals are blocked in all threads and read from a descriptor, and the process has a
//! descriptor too, so one `poll` waits for both and for the time. Before Linux 5.3 a process has no
//! descriptor: then it is looked for after each pause.

use command::failure::{BROKEN, Failure, USAGE, reason};
use exporter::process::runs;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// Why it ends.
pub enum Ended {
    /// A signal came.
    Signal,
    /// The process has ended.
    Process,
}

/// What is waited for.
pub struct Ends {
    signals: OwnedFd,
    process: Option<(u32, Option<OwnedFd>)>,
}

impl Ends {
    /// Prepares to wait for signals, and for the end of a process if there is one. To be called
    /// before other threads begin.
    ///
    /// # Errors
    /// With code 2 if there is no such process.
    pub fn prepare(process: Option<u32>) -> Result<Ends, Failure> {
        let process = match process.map(|pid| (pid, platform::pidfd::open(pid))) {
            None => None,
            Some((pid, Ok(descriptor))) => Some((pid, Some(descriptor))),
            Some((pid, Err(_))) if runs(pid).is_some() => Some((pid, None)),
            Some((pid, Err(_))) => {
                let help = "name a process that runs, as `pgrep` or `ps -e` show it";
                return Err(Failure::new(USAGE, format!("there is no process {pid}"), help));
            }
        };
        // SAFETY: a set is made of integers, so zeroes are one, and it is filled before use. The
        // new descriptor is this value's alone.
        let signals = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            libc::sigaddset(&raw mut set, libc::SIGINT);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            let descriptor = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if descriptor < 0 {
                return Err(refused(&io::Error::last_os_error()));
            }
            OwnedFd::from_raw_fd(descriptor)
        };
        Ok(Ends { signals, process })
    }

    /// Waits for this time, or until it has ended.
    ///
    /// # Errors
    /// With code 125 if the system refuses to wait.
    pub fn wait(&self, pause: Duration) -> Result<Option<Ended>, Failure> {
        let end = Instant::now() + pause;
        let process = self.process.as_ref().and_then(|(_, descriptor)| descriptor.as_ref());
        let entry = |fd: i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // A negative descriptor is passed over.
        let mut both = [entry(self.signals.as_raw_fd()), entry(process.map_or(-1, |it| it.as_raw_fd()))];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let left_ms = i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
            // SAFETY: two entries, which the kernel reads and writes.
            let ready = unsafe { libc::poll(both.as_mut_ptr(), 2, left_ms) };
            if ready < 0 {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(refused(&error));
            }
            if both[0].revents != 0 {
                return Ok(Some(Ended::Signal));
            }
            let is_over = |(pid, descriptor): &(u32, Option<OwnedFd>)| match descriptor {
                Some(_) => both[1].revents != 0,
                None => runs(*pid).is_none(),
            };
            if self.process.as_ref().is_some_and(is_over) {
                return Ok(Some(Ended::Process));
            }
            if ready == 0 {
                return Ok(None);
            }
        }
    }
}

fn refused(error: &io::Error) -> Failure {
    let what = format!("signals cannot be waited for: {}", reason(error));
    Failure::new(BROKEN, what, "see `ulimit -n`, and whether a sandbox forbids signalfd or poll")
}
