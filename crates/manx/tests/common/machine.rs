//! A machine whose power fails, whose disk is full at times, and breaks: its disk is memory that
//! forgets, tears and reorders whatever was not synced.
//!
//! Operations on the disk are counted, and what goes wrong goes wrong at certain ones ([`Faults`]):
//! - When the power fails, of everything that was written after the last sync of its file each
//!   sector is kept or not, each on its own, and so is each change of length; and each file that is
//!   new since the last sync of the folder is there or not.
//! - When the disk is full, whole sectors at the beginning of a write are done, or none.
//! - When it breaks, a write is done in part, and a sync loses what it should have written: it is
//!   read still, but no later sync writes it.

use fastrand::Rng;
use manx::txn::durable::{Disk, Medium};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

const SECTOR: usize = 512;

/// What was done to a file since it was synced.
#[derive(Clone, Debug)]
enum Pending {
    Write(u64, Vec<u8>),
    Length(u64),
}

impl Pending {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Pending::Length(bytes) => to.resize(*bytes as usize, 0),
            Pending::Write(offset, bytes) => {
                let (start, end) = (*offset as usize, *offset as usize + bytes.len());
                if to.len() < end {
                    to.resize(end, 0);
                }
                to[start..end].copy_from_slice(bytes);
            }
        }
    }

    /// What is left of it when the power fails: sectors, each for itself.
    fn apply_torn(&self, to: &mut Vec<u8>, random: &mut Rng) {
        match self {
            Pending::Length(_) if random.bool() => self.apply(to),
            Pending::Length(_) => {}
            Pending::Write(offset, bytes) => {
                // All, nothing, and pieces: the first two are much rarer than they should be
                // otherwise.
                let kept = random.u64(..3);
                let mut at = 0;
                while at < bytes.len() {
                    let start = *offset as usize + at;
                    let end = (bytes.len()).min(at + SECTOR - start % SECTOR);
                    if kept == 0 || (kept == 1 && random.bool()) {
                        Pending::Write(start as u64, bytes[at..end].to_vec()).apply(to);
                    }
                    at = end;
                }
            }
        }
    }

    /// What a write does that fails: some whole sectors from its beginning, or nothing.
    fn part(&self, random: &mut Rng) -> Option<Pending> {
        match self {
            Pending::Length(_) => None,
            Pending::Write(offset, bytes) => {
                let end = *offset as usize + random.u64(..bytes.len() as u64 + 1) as usize;
                let length = (end - end % SECTOR).checked_sub(*offset as usize)?;
                (length > 0).then(|| Pending::Write(*offset, bytes[..length].to_vec()))
            }
        }
    }
}

/// A file: what a loss of power leaves, what was done since, and what is read.
#[derive(Clone, Debug, Default)]
struct File {
    durable: Vec<u8>,
    pending: Vec<Pending>,
    now: Vec<u8>,
    /// Its name is durable.
    named: bool,
}

impl File {
    fn change(&mut self, pending: Pending) {
        pending.apply(&mut self.now);
        self.pending.push(pending);
    }

    fn sync(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        pending.iter().for_each(|pending| pending.apply(&mut self.durable));
    }

    fn lose(&mut self, random: &mut Rng) {
        let pending = std::mem::take(&mut self.pending);
        pending.iter().for_each(|pending| pending.apply_torn(&mut self.durable, random));
    }
}

/// What goes wrong, by the number of operations from now on.
#[derive(Clone, Debug)]
pub struct Faults {
    /// The number of operations that are done before the power fails.
    pub power: u64,
    /// In these the disk is full.
    pub full: Range<u64>,
    /// In this one it breaks.
    pub broken: Option<u64>,
}

impl Faults {
    pub const NONE: Faults = Faults { power: u64::MAX, full: 0..0, broken: None };
}

/// How an operation ends.
enum Fate {
    Done,
    Full,
    Broken,
    NoPower,
}

#[derive(Debug)]
struct State {
    files: BTreeMap<String, File>,
    faults: Faults,
    operations: u64,
    random: Rng,
}

/// See [the file](self).
#[derive(Debug)]
pub struct Machine {
    state: Mutex<State>,
    /// Its syncs do nothing.
    lies: bool,
}

impl Machine {
    pub fn new(random: Rng, lies: bool) -> Arc<Machine> {
        let state = State { files: BTreeMap::new(), faults: Faults::NONE, operations: 0, random };
        Arc::new(Machine { state: Mutex::new(state), lies })
    }

    pub fn disk(self: &Arc<Machine>) -> Box<dyn Disk> {
        Box::new(SimDisk(Arc::clone(self)))
    }

    pub fn expect(&self, faults: Faults) {
        let mut state = self.state();
        (state.faults, state.operations) = (faults, 0);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    /// The power fails, if it has not yet; and what is found when it is back.
    pub fn restart(&self) {
        let mut state = self.state();
        let State { files, random, .. } = &mut *state;
        files.retain(|_, file| file.named || random.bool());
        for file in files.values_mut() {
            file.lose(random);
            (file.now, file.named) = (file.durable.clone(), true);
        }
        state.faults = Faults::NONE;
    }
}

impl State {
    /// Counts an operation.
    fn fate(&mut self) -> Fate {
        let now = self.operations;
        self.operations += 1;
        match &self.faults {
            Faults { power, .. } if now >= *power => Fate::NoPower,
            Faults { broken, .. } if Some(now) == *broken => Fate::Broken,
            Faults { full, .. } if full.contains(&now) => Fate::Full,
            _ => Fate::Done,
        }
    }

    /// Counts an operation that needs no room, and fails whole.
    fn operate(&mut self) -> io::Result<()> {
        match self.fate() {
            Fate::Done | Fate::Full => Ok(()),
            Fate::Broken => Err(broken()),
            Fate::NoPower => Err(no_power()),
        }
    }
}

fn broken() -> io::Error {
    io::Error::other("I/O error")
}

fn no_power() -> io::Error {
    io::Error::other("the power has failed")
}

/// The machine's disk, and a file of it.
struct SimDisk(Arc<Machine>);

#[derive(Debug)]
struct SimFile(Arc<Machine>, String);

impl SimFile {
    fn with<T>(&self, work: impl FnOnce(&mut File) -> T) -> T {
        work(self.0.state().files.get_mut(&self.1).expect("it was opened"))
    }

    fn change(&self, pending: Pending) -> io::Result<()> {
        let mut state = self.0.state();
        let fate = state.fate();
        let State { files, random, .. } = &mut *state;
        let file = files.get_mut(&self.1).expect("it was opened");
        let needs_room = !matches!(pending, Pending::Length(bytes) if bytes <= file.now.len() as u64);
        let (done, result) = match fate {
            Fate::Full if needs_room => (pending.part(random), Err(io::ErrorKind::StorageFull.into())),
            Fate::Done | Fate::Full => (Some(pending), Ok(())),
            Fate::Broken => (pending.part(random), Err(broken())),
            // A write that the failure hits may be there as well, or in part.
            Fate::NoPower => (Some(pending), Err(no_power())),
        };
        done.into_iter().for_each(|done| file.change(done));
        result
    }
}

impl Disk for SimDisk {
    fn place(&self) -> String {
        "simulated".into()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut state = self.0.state();
        state.operate()?;
        Ok(state.files.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Medium>> {
        let mut state = self.0.state();
        state.operate()?;
        state.files.entry(name.into()).or_default();
        Ok(Box::new(SimFile(Arc::clone(&self.0), name.into())))
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.state();
        state.operate()?;
        if !self.0.lies {
            state.files.values_mut().for_each(|file| file.named = true);
        }
        Ok(())
    }
}

impl Medium for SimFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.with(|file| file.now.len() as u64))
    }

    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.with(|file| {
            let bytes = file.now.get(offset as usize..offset as usize + into.len());
            into.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.change(Pending::Write(offset, bytes.to_vec()))
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.change(Pending::Length(bytes))
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.state();
        let fate = state.fate();
        let State { files, random, .. } = &mut *state;
        let file = files.get_mut(&self.1).expect("it was opened");
        match fate {
            Fate::Done | Fate::Full if self.0.lies => {}
            Fate::Done | Fate::Full => file.sync(),
            Fate::Broken => {
                file.lose(random);
                return Err(broken());
            }
            Fate::NoPower => return Err(no_power()),
        }
        Ok(())
    }
}
