//! A counter of events in a thread and in those that it starts.

use super::event::{Attributes, Descriptor, EXCLUDE_HYPERVISOR, EXCLUDE_KERNEL, INHERIT, Of, SOFTWARE};
use crate::syscall::{check, syscall3};

/// A reading comes with how long the counter should have run and how long it did.
const TOTAL_TIMES: u64 = 1 << 0 | 1 << 1;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Cycles of the core's clock.
    Cycles,
    /// Instructions that were completed.
    Instructions,
    /// Loads that missed the first data cache.
    L1DataMisses,
    /// Pages that were not there when they were touched; the kernel counts them on every machine.
    PageFaults,
}

impl Event {
    /// The kernel's type and configuration.
    const fn code(self) -> (u32, u64) {
        const HARDWARE: u32 = 0;
        const CACHE: u32 = 3;
        match self {
            Event::Cycles => (HARDWARE, 0),
            Event::Instructions => (HARDWARE, 1),
            // The first data cache (0), loads (0 in the second byte), misses (1 in the third).
            Event::L1DataMisses => (CACHE, 1 << 16),
            Event::PageFaults => (SOFTWARE, 2),
        }
    }
}

/// An event being counted; closed when dropped.
#[derive(Debug)]
pub struct Counter {
    descriptor: Descriptor,
}

/// What a counter says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Events, in the time in which it ran.
    pub count: u64,
    /// How long it was to run.
    pub enabled_ns: u64,
    /// How long it ran.
    pub running_ns: u64,
}

impl Reading {
    /// The events of the whole time, if the part that was not counted was like the rest; `None` if
    /// nothing was counted because the counter never had its turn.
    pub fn estimate(self) -> Option<f64> {
        match (self.running_ns, self.enabled_ns) {
            (0, 0) => Some(self.count as f64),
            (0, _) => None,
            (running, enabled) => Some(self.count as f64 * (enabled as f64 / running as f64)),
        }
    }
}

impl Counter {
    /// Counts from now on, in the calling thread and in those that it starts later.
    ///
    /// # Errors
    /// The error number of `perf_event_open`: `ENOENT` or `EOPNOTSUPP` if the machine does not
    /// count this, `EACCES`, `EPERM` or `ENOSYS` if this process may not.
    pub fn of_this_thread(event: Event) -> Result<Counter, i32> {
        let (kind, config) = event.code();
        let attributes = Attributes {
            kind,
            config,
            read_format: TOTAL_TIMES,
            flags: INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
            ..Attributes::default()
        };
        Descriptor::open(&attributes, Of::Thread(0)).map(|descriptor| Counter { descriptor })
    }

    /// What was counted until now.
    ///
    /// # Errors
    /// The error number of `read`.
    pub fn read(&self) -> Result<Reading, i32> {
        let mut words = [0u64; 3];
        let descriptor = self.descriptor.number();
        // SAFETY: the kernel writes at most the size of `words` to it.
        let result =
            unsafe { syscall3(libc::SYS_read, descriptor, words.as_mut_ptr().addr(), size_of_val(&words)) };
        match check(result)? {
            24 => Ok(Reading { count: words[0], enabled_ns: words[1], running_ns: words[2] }),
            _ => Err(libc::EIO),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::REFUSALS;
    use super::*;
    use crate::memory;

    fn touch(pages: usize) {
        let bytes = pages * memory::page_bytes();
        let area = memory::map_zeroes(bytes, memory::READ | memory::WRITE).expect("memory");
        for page in 0..pages {
            // SAFETY: the byte is within the mapping, which nobody else knows.
            unsafe { area.add(page * memory::page_bytes()).write_volatile(1) };
        }
        // SAFETY: nobody knows the mapping.
        unsafe { memory::unmap(area, bytes) }.expect("unmapped");
    }

    #[test]
    fn events_of_a_started_thread_are_counted_too() {
        // Fewer pages than fit into a huge one, so that each is a fault of its own.
        const PAGES: usize = 100;
        let counter = match Counter::of_this_thread(Event::PageFaults) {
            Ok(counter) => counter,
            Err(error) => return assert!(REFUSALS.contains(&error), "error {error}"),
        };
        let before = counter.read().expect("a reading").count;
        std::thread::spawn(|| touch(PAGES)).join().expect("joined");
        let after = counter.read().expect("a reading").count;
        assert!(after - before >= PAGES as u64, "{before} to {after}");
    }

    #[test]
    fn hardware_counts_or_says_why_not() {
        for event in [Event::Cycles, Event::Instructions, Event::L1DataMisses] {
            match Counter::of_this_thread(event) {
                Ok(counter) => {
                    let before = counter.read().expect("a reading");
                    touch(10);
                    let after = counter.read().expect("a reading");
                    assert!(after.count >= before.count && after.enabled_ns > before.enabled_ns, "{event:?}");
                }
                Err(error) => assert!(REFUSALS.contains(&error), "{event:?}: error {error}"),
            }
        }
    }

    #[test]
    fn a_counter_that_ran_half_the_time_is_doubled_and_one_that_never_ran_says_nothing() {
        let of = |running_ns, enabled_ns| Reading { count: 50, enabled_ns, running_ns }.estimate();
        assert_eq!(of(10, 20), Some(100.0));
        assert_eq!(of(20, 20), Some(50.0));
        assert_eq!(of(0, 20), None);
        assert_eq!(of(0, 0), Some(50.0));
    }
}
