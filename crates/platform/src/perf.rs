//! What the processor and the kernel count while threads run: cycles, instructions, cache misses,
//! page faults.
//!
//! A counter belongs to the thread that made it and to every thread that this one starts
//! afterwards. For the figures of a run, make the counters, run, join the threads, and read. Only
//! what happens outside the kernel is counted: that needs no rights by default
//! (`perf_event_paranoid` of 2).
//!
//! A machine need not count anything. Virtual ones often do not; then a counter cannot be made, and
//! the error says so (`ENOENT`). Where there are more counters than the processor has, each one
//! runs for a part of the time only, and [`Reading::estimate`] says what it would have been, or
//! that it never ran.
//!
//! A [`Sampler`] notes where in its code another thread is, each time that this thread has run for
//! a while. The kernel's own clock does that, so it works on every machine. The thread may be of
//! another process that this one may look at, as `ptrace` would have it; nothing is stopped.

use crate::memory;
use crate::syscall::{check, syscall, syscall1, syscall3, syscall5};
use core::sync::atomic::{AtomicU64, Ordering};

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
        const SOFTWARE: u32 = 1;
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

/// `perf_event_attr` as Linux 3.7 published it, which every later kernel takes.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    /// Two words of configuration, the kinds of branches and the registers: none of them is used.
    others: [u64; 4],
    sample_stack_user: u32,
    clock: i32,
}

/// The size of the third version, which has the stack.
const _: () = assert!(size_of::<Attributes>() == 96);

/// Threads that are started later are counted too.
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// A reading comes with how long the counter should have run and how long it did.
const TOTAL_TIMES: u64 = 1 << 0 | 1 << 1;
const CLOSE_ON_EXEC: usize = 1 << 3;

/// An event being counted; closed when dropped.
#[derive(Debug)]
pub struct Counter {
    descriptor: i32,
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
            size: size_of::<Attributes>() as u32,
            config,
            sample_period: 0,
            sample_type: 0,
            read_format: TOTAL_TIMES,
            flags: INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
            wakeup_events: 0,
            breakpoint_type: 0,
            others: [0; 4],
            sample_stack_user: 0,
            clock: 0,
        };
        let any_cpu = usize::MAX;
        let no_group = usize::MAX;
        // SAFETY: the kernel reads `size` bytes of the attributes; a new descriptor disturbs
        // nothing.
        let result = unsafe {
            let place = (&raw const attributes).addr();
            syscall5(libc::SYS_perf_event_open, place, 0, any_cpu, no_group, CLOSE_ON_EXEC)
        };
        check(result).map(|descriptor| Counter { descriptor: descriptor as i32 })
    }

    /// What was counted until now.
    ///
    /// # Errors
    /// The error number of `read`.
    pub fn read(&self) -> Result<Reading, i32> {
        let mut words = [0u64; 3];
        let descriptor = self.descriptor as usize;
        // SAFETY: the kernel writes at most the size of `words` to it.
        let result =
            unsafe { syscall3(libc::SYS_read, descriptor, words.as_mut_ptr().addr(), size_of_val(&words)) };
        match check(result)? {
            24 => Ok(Reading { count: words[0], enabled_ns: words[1], running_ns: words[2] }),
            _ => Err(libc::EIO),
        }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours.
        let _ = unsafe { syscall1(libc::SYS_close, self.descriptor as usize) };
    }
}

/// Where a thread was at a moment in which it ran outside the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'s> {
    /// The address of the instruction.
    pub address: u64,
    /// The thread, as this process numbers it.
    pub thread: u32,
    /// The words at the top of its stack, the top first; empty if they were not asked for.
    pub stack: &'s [u64],
}

/// Notes where a thread is, each time that it has run for a period; closed when dropped.
///
/// The kernel writes each sample into a ring behind a page of its own, and this reads them. What
/// does not fit is lost, and counted.
///
/// 1. The ring is mapped for as long as this lives, so every address in it is valid.
/// 2. The kernel writes only between `data_tail` and `data_head` plus what is free. It does not
///    overwrite what lies from `data_tail` to `data_head`, which only this reads.
///
/// Memory orderings: the kernel writes records before `data_head`, so a reader that acquires
/// `data_head` sees them. The reader releases `data_tail`, so the kernel overwrites a record only
/// after it was read.
#[derive(Debug)]
pub struct Sampler {
    descriptor: i32,
    ring: *mut u8,
    page: usize,
    /// The size of the ring, a power of two.
    ring_bytes: usize,
    lost: u64,
}

// SAFETY: the mapping is the value's own, and no thread has a claim on it.
unsafe impl Send for Sampler {}

impl Sampler {
    const CPU_CLOCK: (u32, u64) = (1, 0);
    /// The address of the instruction, then the process and the thread.
    const ADDRESS_AND_THREAD: u64 = 1 << 0 | 1 << 1;
    const STACK: u64 = 1 << 13;
    /// How many words of the stack are noted.
    pub const STACK_WORDS: usize = 128;
    /// The pages of a ring without stacks, and with them: room for 170 and for 30 samples.
    const PAGES: (usize, usize) = (1, 8);
    /// Where the kernel's page holds how much it has written, and how much was read.
    const HEAD: usize = 1024;
    const TAIL: usize = 1032;
    const LOST_RECORD: u32 = 2;
    const SAMPLE_RECORD: u32 = 9;
    /// The words before the stack: a header, the address, the thread, and the size of the stack.
    const BEFORE_STACK: usize = 4;
    /// The longest record that is looked at: behind the stack is how much of it was there.
    const RECORD_WORDS: usize = Sampler::BEFORE_STACK + Sampler::STACK_WORDS + 1;

    /// Samples a thread from now on, each time that it has run for `period_ns`, perhaps with its
    /// stack. A ring for stacks takes nine pages of the memory that a user may lock, one without
    /// them two.
    ///
    /// # Errors
    /// The error number of `perf_event_open` or `mmap`: `ESRCH` if there is no such thread,
    /// `EACCES`, `EPERM` or `ENOSYS` if this process may not.
    pub fn of_thread(thread: u32, period_ns: u64, with_stack: bool) -> Result<Sampler, i32> {
        let (kind, config) = Sampler::CPU_CLOCK;
        let pages = if with_stack { Sampler::PAGES.1 } else { Sampler::PAGES.0 };
        let attributes = Attributes {
            kind,
            size: size_of::<Attributes>() as u32,
            config,
            sample_period: period_ns,
            sample_type: Sampler::ADDRESS_AND_THREAD | if with_stack { Sampler::STACK } else { 0 },
            read_format: 0,
            flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
            wakeup_events: 0,
            breakpoint_type: 0,
            others: [0; 4],
            sample_stack_user: if with_stack { 8 * Sampler::STACK_WORDS as u32 } else { 0 },
            clock: 0,
        };
        let any_cpu = usize::MAX;
        let no_group = usize::MAX;
        // SAFETY: the kernel reads `size` bytes of the attributes; a new descriptor disturbs
        // nothing.
        let result = unsafe {
            let place = (&raw const attributes).addr();
            syscall5(libc::SYS_perf_event_open, place, thread as usize, any_cpu, no_group, CLOSE_ON_EXEC)
        };
        let descriptor = check(result)?;
        let page = memory::page_bytes();
        let rights = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let ring_bytes = pages * page;
        let arguments = [0, page + ring_bytes, rights, libc::MAP_SHARED as usize, descriptor, 0];
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let mapped = check(unsafe { syscall(libc::SYS_mmap, arguments) });
        let descriptor = descriptor as i32;
        match mapped {
            Ok(address) => {
                let ring = core::ptr::with_exposed_provenance_mut(address);
                Ok(Sampler { descriptor, ring, page, ring_bytes, lost: 0 })
            }
            Err(error) => {
                // SAFETY: the descriptor is ours.
                let _ = unsafe { syscall1(libc::SYS_close, descriptor as usize) };
                Err(error)
            }
        }
    }

    /// Calls `each` with the samples since the last call, the oldest first.
    pub fn drain(&mut self, mut each: impl FnMut(Sample<'_>)) {
        let head = self.word(Sampler::HEAD).load(Ordering::Acquire);
        let mut tail = self.word(Sampler::TAIL).load(Ordering::Relaxed);
        while tail < head {
            // Records are made of words of eight bytes, and the ring has a whole number of them:
            // only whole words wrap.
            let read = |at: usize| {
                let offset = (tail as usize + 8 * at) % self.ring_bytes;
                // SAFETY: the word lies in the ring, which is mapped, by rule 1; the kernel does
                // not write what lies below `head`, by rule 2.
                unsafe { self.ring.add(self.page + offset).cast::<u64>().read() }
            };
            let (kind, bytes) = (read(0) as u32, read(0) >> 48);
            let mut words = [0u64; Sampler::RECORD_WORDS];
            let all = words.len().min(bytes as usize / 8);
            words[..all].iter_mut().enumerate().for_each(|(at, word)| *word = read(at));
            match kind {
                Sampler::SAMPLE_RECORD => {
                    let stack = Sampler::stack(&words[..all]);
                    each(Sample { address: words[1], thread: (words[2] >> 32) as u32, stack });
                }
                Sampler::LOST_RECORD => self.lost += words[2],
                _ => {}
            }
            // A record of no length would never end.
            tail += bytes.max(8);
        }
        self.word(Sampler::TAIL).store(head, Ordering::Release);
    }

    /// The stack in a record. Its size stands before it, and behind it how much of it was there.
    fn stack(record: &[u64]) -> &[u64] {
        let Some((&bytes, rest)) = record.get(Sampler::BEFORE_STACK - 1..).and_then(<[u64]>::split_first)
        else {
            return &[];
        };
        let Some((stack, &[there, ..])) = rest.split_at_checked(bytes as usize / 8) else { return &[] };
        &stack[..stack.len().min(there as usize / 8)]
    }

    /// How many samples were lost because nobody read them in time.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the kernel's page is mapped, by rule 1, and has an aligned word there.
        unsafe { AtomicU64::from_ptr(self.ring.add(offset).cast()) }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // SAFETY: the mapping and the descriptor are ours, and nothing refers to them any more.
        let _ = unsafe {
            let _ = memory::unmap(self.ring, self.page + self.ring_bytes);
            syscall1(libc::SYS_close, self.descriptor as usize)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSALS: [i32; 6] =
        [libc::ENOENT, libc::EOPNOTSUPP, libc::EACCES, libc::EPERM, libc::ENOSYS, libc::ENODEV];

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
    fn what_a_started_thread_does_is_counted_too() {
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
    fn a_thread_that_runs_is_sampled_where_it_runs() {
        let thread = crate::thread::id();
        for with_stack in [false, true] {
            let mut sampler = match Sampler::of_thread(thread, 1_000_000, with_stack) {
                Ok(sampler) => sampler,
                Err(error) => return assert!(REFUSALS.contains(&error), "error {error}"),
            };
            let here = 0u8;
            let (mut count, mut near) = (0, 0);
            // It ends when the kernel has noted something, however long that takes.
            while count < 300 {
                (0..100_000).for_each(|round| {
                    core::hint::black_box(round);
                });
                sampler.drain(|sample| {
                    count += 1;
                    assert!(sample.thread == thread && sample.address != 0, "{sample:?}");
                    let words = if with_stack { Sampler::STACK_WORDS } else { 0 };
                    assert_eq!(sample.stack.len(), words);
                    // Some word of the stack points into the stack.
                    let here = (&raw const here).addr() as u64;
                    near += usize::from(sample.stack.iter().any(|word| word.abs_diff(here) < 100_000));
                });
            }
            assert_eq!(near > 0, with_stack);
        }
    }

    #[test]
    fn a_record_ends_where_it_ends() {
        assert!(Sampler::stack(&[1, 2, 3]).is_empty(), "without a stack");
        assert!(Sampler::stack(&[1, 2, 3, 0]).is_empty(), "of a thread without memory");
        assert!(Sampler::stack(&[1, 2, 3, 16, 8]).is_empty(), "torn");
        assert_eq!(Sampler::stack(&[1, 2, 3, 16, 8, 9, 16]), [8, 9]);
        assert_eq!(Sampler::stack(&[1, 2, 3, 16, 8, 9, 8]), [8]);
    }

    #[test]
    fn there_is_nothing_to_sample_of_a_thread_that_is_not_there() {
        let error = Sampler::of_thread(u32::MAX >> 1, 1_000_000, false).map(|_| ()).unwrap_err();
        assert!(error == libc::ESRCH || REFUSALS.contains(&error), "error {error}");
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
