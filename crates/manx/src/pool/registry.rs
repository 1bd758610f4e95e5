//! Dividing the CPUs exactly: a registry in shared memory, for the processes of one user that want
//! to.
//!
//! Without it a process learns of its neighbours by what they leave of the CPUs: late, and by
//! guessing. Here each says how many CPUs it could use now, all see it at once, and each computes
//! the same division for itself (`division.rs`). No process is in charge, none can be waited for,
//! and what a member costs the others is a word to read.
//!
//! | file | what |
//! | --- | --- |
//! | `registry/slots.rs` | places: how they are taken, given back, and taken from members that are gone |
//! | `registry/division.rs` | from what all want to what each gets |
//! | `registry/file.rs` | the file and its mapping |
//! | `registry/member.rs` | a member that has joined |
//! | `registry/error.rs` | what can go wrong |
//!
//! **Proof of life.** A member that is killed cannot leave. Its process's number proves nothing: it
//! is used again, in another namespace it is another's, and the start time beside it needs a
//! `/proc` that shows the process. A pidfd has to be handed around; a robust futex ties the place
//! to a thread. So each member locks a byte of the file by an open file description of its own. The
//! kernel ends the lock with the process, and shows it to every process that can open the file, in
//! every namespace. Locks of the older kind, which belong to the process, end when *any* descriptor
//! of the file is closed anywhere in it, and two copies of this library in one process would undo
//! each other. What a forked child inherits of the description is closed in it at once
//! (`platform::own_file`).
//!
//! **Across limits.** Members in containers share a registry if they share the file. A member says
//! what it may use at all (its cap), and what it cannot use goes to others.
//!
//! Without a registry nothing is lost: every error leaves the caller as it was, to go by its own
//! budget.
//!
//! Invariants, besides those of the files:
//! 1. When nothing changes, all members compute the same division; while words change, two may see
//!    different ones, until they look again.
//! 2. A forked child is no member until it joins, and ends nothing of its parent's.
//! 3. A share counts only members that live and were seen in the last [`SILENCE_MS`] milliseconds.

pub mod division;
mod error;
pub mod slots;
platform::os_only! {
    mod file;
    mod member;

    pub use member::{Member, SILENCE_MS};
}

pub use division::Share;
pub use error::{Lost, RegistryError};
pub use slots::{PLACES, hundredths};

/// What a registry says of one member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// Its place, by which ties are broken.
    pub place: usize,
    /// Its process's number, in its own namespace.
    pub process: u32,
    /// How much it counts.
    pub weight: u8,
    /// How many CPUs it could use.
    pub demand: f64,
    /// How many it may use.
    pub cap: f64,
    /// It was not seen for [`SILENCE_MS`] milliseconds, so its demand does not count.
    pub silent: bool,
}

platform::os_only! {
    use crate::cpu::CpuSet;
    use platform::atomic::Ordering;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    /// An open registry.
    ///
    /// ```
    /// use manx::pool::registry::Registry;
    ///
    /// # let path = std::env::temp_dir().join(format!("manx-doc-registry-{}", std::process::id()));
    /// let registry = Registry::at(&path)?;
    /// registry.set_cpus(2.0);
    /// let one = registry.join(1, 2.0)?;
    /// let other = registry.join(1, 2.0)?;
    /// one.set_demand(2.0)?;
    /// assert_eq!(one.share()?.cpus(), 2.0);
    /// other.set_demand(2.0)?;
    /// assert_eq!(one.share()?.cpus(), 1.0);
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[derive(Clone, Debug)]
    pub struct Registry {
        mapping: Arc<file::Mapping>,
        path: PathBuf,
    }

    impl Registry {
        /// Returns where a user's registry is, unless another file is named:
        /// `/dev/shm/manx-cpus-UID`, or below `$XDG_RUNTIME_DIR` if there is no `/dev/shm`.
        ///
        /// ```
        /// assert!(manx::pool::registry::Registry::usual_path().is_some());
        /// ```
        pub fn usual_path() -> Option<PathBuf> {
            let name = format!("manx-cpus-{}", platform::file::this_user());
            let shared = Path::new("/dev/shm");
            if shared.is_dir() {
                return Some(shared.join(name));
            }
            std::env::var_os("XDG_RUNTIME_DIR").map(|folder| Path::new(&folder).join(name))
        }

        /// Opens the user's registry, and makes it if there is none.
        ///
        /// # Errors
        /// As [`Registry::at`]; `NotFound` for a system without a place for it.
        pub fn open() -> Result<Registry, RegistryError> {
            match Registry::usual_path() {
                Some(path) => Registry::at(&path),
                // ENOENT.
                None => Err(RegistryError::Io { path: "/dev/shm".into(), number: 2 }),
            }
        }

        /// Opens the registry in this file, and makes it if there is none. It divides the CPUs that
        /// are online, unless another number is set: see [`set_cpus`](Registry::set_cpus).
        ///
        /// # Errors
        /// There is no such file and none can be made, or it is something else, or another user's.
        pub fn at(path: &Path) -> Result<Registry, RegistryError> {
            let mapping = file::Mapping::open(path, hundredths(online()))?;
            Ok(Registry { mapping: Arc::new(mapping), path: path.into() })
        }

        /// The file.
        pub fn path(&self) -> &Path {
            &self.path
        }

        /// How many CPUs are divided.
        pub fn cpus(&self) -> f64 {
            // Relaxed, here and below: a number; any value of it is good.
            f64::from(self.mapping.table().cpus.load(Ordering::Relaxed)) / 100.0
        }

        /// Divides `cpus` CPUs from now on, for all members: fewer than the machine has, to leave
        /// some to others.
        pub fn set_cpus(&self, cpus: f64) {
            self.mapping.table().cpus.store(hundredths(cpus), Ordering::Relaxed);
        }

        /// Joins, with a weight (1, unless it is to count more than others) and a cap: the CPUs
        /// that the member may use at all. It wants nothing yet.
        ///
        /// # Errors
        /// All places are taken; or the file was removed, or cannot be opened another time.
        pub fn join(&self, weight: u8, cap: f64) -> Result<Member, RegistryError> {
            Member::join(&self.mapping, &self.path, weight, cap)
        }

        /// Returns its members, in the order of places; also members that are gone, until a member
        /// has looked for them.
        pub fn entries(&self) -> Vec<Entry> {
            let table = self.mapping.table();
            let now_ms = member::now_ms();
            let cpus = |hundredths| f64::from(hundredths) / 100.0;
            member::members(table)
                .map(|(place, terms)| Entry {
                    place,
                    process: table.processes[place].load(Ordering::Relaxed),
                    weight: terms.weight(),
                    demand: cpus(terms.demand()),
                    cap: cpus(terms.cap()),
                    silent: member::is_silent(table.seen_ms[place].load(Ordering::Relaxed), now_ms),
                })
                .collect()
        }
    }

    /// How many CPUs the machine has now; as many as this thread may use, if it does not tell.
    fn online() -> f64 {
        let told = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
        let set = told.and_then(|list| list.trim().parse::<CpuSet>().ok()).filter(|set| !set.is_empty());
        set.map_or_else(platform::cpu::count, |set| set.len()) as f64
    }
}
