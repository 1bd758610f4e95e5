//! The terminal: taken while the live view runs, and given back as it was whatever ends it.
//!
//! | what ends it | what gives the terminal back |
//! | --- | --- |
//! | a key | [`Screen`] is dropped |
//! | an error of the terminal | the same |
//! | SIGINT, SIGTERM, SIGHUP, SIGQUIT | the signals are blocked and wait to be read ([`Signals`]); the view drops the screen, and then lets the signal end the process ([`die_of`]) |
//! | SIGTSTP, ctrl-Z | the same way, then the process stops; it takes the terminal again when it goes on |
//! | SIGSTOP | nothing can; when the process goes on (SIGCONT) it takes the terminal anew |
//! | a panic | a hook, before the message is written |
//!
//! Invariant: the terminal is given back once for each time that it is taken ([`TAKEN`]).

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::Rect;
use std::io::{self, Stdout, Write as _};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Whether the terminal is ours.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// A terminal that is ours until this is dropped.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// If there is none.
    pub fn take() -> io::Result<Screen> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        take()?;
        // From here on the terminal is given back if the rest fails.
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout())).inspect_err(|_| give_back())?;
        let mut screen = Screen { terminal };
        screen.clear()?;
        Ok(screen)
    }

    /// Draws on it.
    ///
    /// # Errors
    /// Those of the terminal.
    pub fn draw(&mut self, draw: impl FnOnce(&mut ratatui::buffer::Buffer)) -> io::Result<()> {
        self.terminal.draw(|frame| draw(frame.buffer_mut())).map(drop)
    }

    /// Forgets what is on it, so that the next drawing writes everything.
    ///
    /// # Errors
    /// Those of the terminal.
    pub fn clear(&mut self) -> io::Result<()> {
        // Not `Terminal::clear`: it asks the terminal where the cursor is and waits for the answer.
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::new(0, 0, size.width, size.height))
    }

    /// Gives the terminal back for the time in which `meanwhile` runs.
    ///
    /// # Errors
    /// Those of the terminal.
    pub fn lend(&mut self, meanwhile: impl FnOnce()) -> io::Result<()> {
        give_back();
        meanwhile();
        take()?;
        self.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    execute!(io::stdout(), EnterAlternateScreen, Hide).inspect_err(|_| give_back())
}

/// Gives the terminal back, if it is ours. There is nobody to tell of an error: the terminal itself
/// may be gone.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
        let _ = io::stdout().flush();
        let _ = disable_raw_mode();
    }
}

/// The signals that the view reads instead of being ended, stopped or interrupted by them.
const READ: [i32; 7] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGTSTP, libc::SIGCONT, libc::SIGWINCH];

/// Blocked signals, and a descriptor from which they are read.
pub struct Signals {
    descriptor: i32,
    before: libc::sigset_t,
}

/// What has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Something was typed
    Input,
    /// A signal
    Signal(i32),
    /// The terminal has gone
    Gone,
    /// Nothing in time
    Nothing,
}

impl Signals {
    /// Blocks them. To be called before threads begin.
    ///
    /// # Errors
    /// Those of the system.
    pub fn block() -> io::Result<Signals> {
        // SAFETY: a set of signals is made of integers, and is filled in before it is used. All
        // addresses are those of locals.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in READ {
                libc::sigaddset(&raw mut set, signal);
            }
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            let descriptor = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Signals { descriptor, before })
        }
    }

    /// Waits for a signal or for input.
    pub fn wait(&self, limit: Duration) -> Event {
        if let Some(signal) = self.read() {
            return Event::Signal(signal);
        }
        let poll = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut polls = [poll(self.descriptor), poll(libc::STDIN_FILENO)];
        // Rounded up, so that the time has passed afterwards.
        let ms = limit.as_micros().div_ceil(1000).try_into().unwrap_or(i32::MAX);
        // SAFETY: the address and the length are those of a local array.
        let ready = unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, ms) };
        if ready <= 0 {
            return Event::Nothing;
        }
        match self.read() {
            Some(signal) => Event::Signal(signal),
            // A terminal that has gone has input too: its end.
            None if polls[1].revents & !libc::POLLIN != 0 => Event::Gone,
            None if polls[1].revents != 0 => Event::Input,
            None => Event::Nothing,
        }
    }

    fn read(&self) -> Option<i32> {
        // SAFETY: the structure is made of integers. The kernel writes at most its size.
        unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            let size = size_of_val(&info);
            let read = libc::read(self.descriptor, (&raw mut info).cast(), size);
            (read == size as isize).then_some(info.ssi_signo as i32)
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours, and the set is what the kernel gave us.
        unsafe {
            libc::close(self.descriptor);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
    }
}

/// Stops this process, as its terminal would, until it is told to go on.
pub fn stop() {
    // SAFETY: sends a signal to this process.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Ends this process by a signal that it has held back, so that its parent sees what ended it.
pub fn die_of(signal: i32) -> ! {
    // SAFETY: the default action runs no code of ours; the set is a local one.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::raise(signal);
    }
    // Not reached: the default action of each of these signals ends a process.
    std::process::exit(128 + signal)
}

#[cfg(test)]
mod tests;
