//! A registry in shared memory, by which processes of one user divide the CPUs exactly.
//!
//! Without it, a process can only guess what its neighbours need, from the CPU time that they
//! leave, and it learns that late. In a registry each member publishes how many CPUs it could use
//! now. All others see it at once, and each computes the same division for itself (`division.rs`).
//! There is no leader, and no member waits for another one. A member costs the others one word to
//! read.
//!
//! | file | what |
//! | --- | --- |
//! | `registry/slots.rs` | places: how they are taken, given back, and taken from members that are gone |
//! | `registry/division.rs` | computes the share of each member from the demands of all |
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
//! After any error the caller can go on without a registry, by its own budget.
//!
//! Invariants, besides those of the files:
//! 1. When nothing changes, all members compute the same division; while words change, two may see
//!    different ones, until they look again.
//! 2. A forked child is no member until it joins, and ends nothing of its parent's.
//! 3. A share counts only members that live and were seen in the last [`SILENCE_MS`] milliseconds.

mod error;
// For the tests of the twins, which check this module alone.
#[doc(hidden)]
pub mod slots;
platform::timed! {
    mod division;
    mod file;
    mod member;

    pub use division::Share;
    pub use member::{Member, SILENCE_MS};
}

pub use error::{MembershipError, RegistryError};
pub use slots::PLACES;

/// The entry of one member.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
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

platform::timed! {
    use crate::cpu::{CpuBudget, CpuSet};
    use platform::atomic::Ordering;
    use slots::hundredths;
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
        /// Opens the registry in this file, and makes it if there is none. It divides the CPUs that
        /// are online, unless another number is set: see [`set_cpus`](Registry::set_cpus).
        ///
        /// # Errors
        /// There is no such file and none can be made, or it is something else, or another user's.
        pub fn at(path: impl AsRef<Path>) -> Result<Registry, RegistryError> {
            let path = path.as_ref();
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

        /// Joins the registry. A member of weight 2 gets twice as much as one of weight 1. The cap
        /// is the number of CPUs that the member may use at most. Its demand is 0 at first.
        ///
        /// ```
        /// use manx::pool::registry::Registry;
        ///
        /// # let path = std::env::temp_dir().join(format!("manx-doc-join-{}", std::process::id()));
        /// let registry = Registry::at(&path)?;
        /// registry.set_cpus(3.0);
        /// let (heavy, light) = (registry.join(2, 3.0)?, registry.join(1, 3.0)?);
        /// heavy.set_demand(3.0)?;
        /// light.set_demand(3.0)?;
        /// assert_eq!((heavy.share()?.cpus(), light.share()?.cpus()), (2.0, 1.0));
        /// # std::fs::remove_file(&path).unwrap();
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        /// All places are taken; or the file was removed, or cannot be opened another time.
        pub fn join(&self, weight: u8, cap: f64) -> Result<Member, RegistryError> {
            Member::join(&self.mapping, &self.path, weight, cap)
        }

        /// Returns the members, in the order of their places. Includes members that are gone, until
        /// a member has swept them away ([`Member::sweep`]).
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
        CpuBudget::now().online().map_or_else(platform::cpu::count, CpuSet::len) as f64
    }
}
platform::os_only! {
    impl Registry {
        /// Returns where a user's registry is, unless another file is named:
        /// `/dev/shm/manx-cpus-UID`, or below `$XDG_RUNTIME_DIR` if there is no `/dev/shm`.
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
                Some(path) => Registry::at(path),
                // ENOENT.
                None => Err(RegistryError::Io { path: "/dev/shm".into(), number: 2 }),
            }
        }
    }
}
