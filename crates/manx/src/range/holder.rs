//! Who holds a range or waits for one: 28 bits that fit beside a slot's flags.
//!
//! A range that is taken as a guard belongs to the thread that took it, one that is taken for an owner, to that.
//! The number is for people, who read it in a dump; for the wait-for graph; and for one courtesy: who holds what
//! somebody waits for does not queue behind that waiter. Exclusion never depends on it, so that it may come round after 134
//! million owners.

use std::fmt;

/// Owners have this bit; the others are threads.
const OWNER: u32 = 1 << 27;
/// So many bits there are.
pub(super) const BITS: u32 = 28;

/// Who holds a range or waits for one.
///
/// ```
/// use manx::range::Holder;
///
/// assert_eq!(Holder::NOBODY.to_string(), "somebody");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Holder(u32);

impl Holder {
    /// Nobody known: a task, which runs on this thread now and on another one later.
    pub const NOBODY: Holder = Holder(0);

    /// The owner with this number.
    pub(super) const fn owner(number: u32) -> Holder {
        Holder(OWNER | (number & (OWNER - 1)))
    }

    pub(super) const fn to_bits(self) -> u32 {
        self.0
    }

    pub(super) const fn from_bits(bits: u32) -> Holder {
        Holder(bits & ((1 << BITS) - 1))
    }

    /// Whether it is known who.
    pub const fn is_known(self) -> bool {
        self.0 != 0
    }

    /// The thread's number in the kernel, if it is a thread.
    pub const fn thread(self) -> Option<u32> {
        if self.0 != 0 && self.0 & OWNER == 0 { Some(self.0) } else { None }
    }

    /// The owner's number, if it is an owner.
    pub const fn owner_number(self) -> Option<u32> {
        if self.0 & OWNER != 0 { Some(self.0 & (OWNER - 1)) } else { None }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.thread(), self.owner_number()) {
            (Some(thread), _) => write!(to, "thread {thread}"),
            (_, Some(owner)) => write!(to, "owner {owner}"),
            _ => to.write_str("somebody"),
        }
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, to)
    }
}

platform::os_only! {
    platform::thread_local! {
        static THREAD: std::cell::Cell<u32> = std::cell::Cell::new(0);
    }

    impl Holder {
        /// The calling thread.
        #[inline(always)]
        pub fn this_thread() -> Holder {
            THREAD.with(|number| match number.get() {
                0 => Holder::ask(number),
                known => Holder(known),
            })
        }

        #[cold]
        fn ask(number: &std::cell::Cell<u32>) -> Holder {
            number.set(platform::thread::id() & (OWNER - 1));
            Holder(number.get())
        }
    }
}

platform::twins_only! {
    impl Holder {
        /// The calling thread: threads have no numbers there.
        pub fn this_thread() -> Holder {
            Holder::NOBODY
        }
    }
}
