//! How long a thread sleeps each time, in which system call, and from where it came there (off-CPU
//! analysis, Gregg 2016).
//!
//! The kernel counts each time that a thread gives up its CPU, and writes a sample of that moment:
//! the time, the registers with which the thread entered the kernel, and the top of its stack. It
//! also records each time that the thread gives up a CPU and gets one (`context_switch`). So a
//! sleep is three records:
//!
//! | record | what is kept of it |
//! | --- | --- |
//! | a sample | time, registers, stack |
//! | a switch out | whether the thread could have gone on: then it lost its CPU, and did not sleep |
//! | a switch in | the time: the thread runs again |
//!
//! The length goes from the sample to the switch in. So it has the time in which the thread was
//! awake already and waited for a CPU. A thread that is woken for nothing and sleeps again has
//! slept twice.
//!
//! The switch happens inside the kernel, so the kernel must not be excluded, which needs more
//! rights than a [`Sampler`](super::Sampler): `perf_event_paranoid` of at most 1, or `CAP_PERFMON`.
//! The registers and the stack are still those outside the kernel. On AArch64 they tell the number
//! of the call. On x86-64 that register is overwritten at once with `-ENOSYS`, which only tells
//! that the thread is in a call.
//!
//! *Cost.* A sleep that is noted costs the thread about 1 µs, and a thread may sleep 100,000 times
//! a second. So the kernel stops the event by itself after [`OffCpu::SLEEPS_MAX`] sleeps
//! (`PERF_EVENT_IOC_REFRESH`), until [`OffCpu::resume`] starts it again. Where a thread sleeps more
//! rarely than its caller resumes, none of its sleeps is left out. An event that stands still costs
//! each switch about 0.15 µs.
//!
//! 1. At most `SLEEPS_MAX` samples are written between two starts, and the ring has room for all of
//!    them with their switches. If records are lost nevertheless, the event is stopped for good,
//!    because nobody knows which switch belongs to which sample any more.
//! 2. The event is started only if it stands: if `left` is 0. So a switch in always belongs to the
//!    sample before it. The last sample before it stands has no switch in, and is left out.

use super::event::{
    Attributes, CONTEXT_SWITCH, DISABLED, Descriptor, EXCLUDE_HYPERVISOR, Of, SAMPLE_ID_ALL, SOFTWARE,
    USE_CLOCK,
};
use super::ring::{self, Record, Ring};
use crate::memory;

/// Switches of a thread, among the events that the kernel counts itself.
const CONTEXT_SWITCHES: u64 = 3;
/// The time, the registers and the stack.
const SAMPLED: u64 = 1 << 2 | 1 << 12 | 1 << 13;
const SAMPLE_RECORD: u32 = 9;
const SWITCH_RECORD: u32 = 14;
/// The thread gives up its CPU …
const OUT: u16 = 1 << 13;
/// … and could have gone on.
const PREEMPTED: u16 = 1 << 14;
/// The registers are those of 64 bits.
const ABI_64: u64 = 2;
/// How many words of the stack are noted: the C library's own frames are small.
const STACK_WORDS: usize = 64;
/// Room for all samples and switches of one start (rule 1).
const RING_BYTES: usize = 1 << 14;
/// A sample with its header, and a record for each of two switches.
const SLEEP_BYTES: usize = 8 * (1 + RECORD_WORDS) + 2 * 16;
const _: () = assert!(OffCpu::SLEEPS_MAX as usize * SLEEP_BYTES < RING_BYTES);
/// The words of a sample: the time, what kind of registers, the registers, and the stack with its
/// size before it and behind it.
const RECORD_WORDS: usize = 2 + REGISTERS + 1 + STACK_WORDS + 1;

/// By the kernel's order: ax, dx, si, di, r10.
#[cfg(target_arch = "x86_64")]
const REGISTER_BITS: u64 = 1 << 0 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 18;
/// x0 to x3, and x8.
#[cfg(target_arch = "aarch64")]
const REGISTER_BITS: u64 = 0b1111 | 1 << 8;
const REGISTERS: usize = REGISTER_BITS.count_ones() as usize;

/// A system call in which a thread slept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number, where the registers still tell it.
    pub number: Option<u64>,
    /// Its first four arguments.
    pub arguments: [u64; 4],
}

impl Call {
    /// The call by the registers; `None` if the thread was in none.
    #[cfg(target_arch = "x86_64")]
    fn of([ax, dx, si, di, r10]: [u64; REGISTERS]) -> Option<Call> {
        const IN_A_CALL: i64 = -(libc::ENOSYS as i64);
        (ax == IN_A_CALL.cast_unsigned()).then_some(Call { number: None, arguments: [di, si, dx, r10] })
    }

    /// The call by the registers.
    #[cfg(target_arch = "aarch64")]
    fn of([x0, x1, x2, x3, x8]: [u64; REGISTERS]) -> Option<Call> {
        Some(Call { number: Some(x8), arguments: [x0, x1, x2, x3] })
    }
}

/// A time in which a thread slept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep<'s> {
    /// From when it gave up its CPU until it ran again.
    pub ns: u64,
    /// What it called, if it was in a system call: a thread may also sleep in a page fault.
    pub call: Option<Call>,
    /// The words at the top of its stack, the top first.
    pub stack: &'s [u64],
}

/// What became of the event since the last look at its sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It notes each sleep.
    Noting,
    /// The kernel has stopped it, until it is resumed.
    Stopped {
        /// The time in which the thread slept as often as is noted at most.
        took_ns: u64,
    },
    /// Records were lost: it notes nothing any more.
    Lost,
}

/// Measures how long a thread sleeps; closed when dropped.
#[derive(Debug)]
pub struct OffCpu {
    ring: Ring,
    descriptor: Descriptor,
    sleeper: Sleeper,
    /// How many samples the kernel will still write before it stops the event.
    left: u32,
    /// When the first of the samples since the start was.
    first_ns: u64,
}

impl OffCpu {
    /// After how many sleeps the kernel stops the event. The last one is not noted.
    pub const SLEEPS_MAX: u32 = 16;

    /// Notes the sleeps of a thread from now on. It takes 20 KiB of the memory that a user may
    /// lock.
    ///
    /// # Errors
    /// The error number of `perf_event_open`, `mmap` or `ioctl`: `ESRCH` if there is no such
    /// thread, `EACCES`, `EPERM` or `ENOSYS` if this process may not.
    pub fn of_thread(thread: u32) -> Result<OffCpu, i32> {
        let attributes = Attributes {
            kind: SOFTWARE,
            config: CONTEXT_SWITCHES,
            sample_period: 1,
            sample_type: SAMPLED,
            flags: DISABLED | EXCLUDE_HYPERVISOR | SAMPLE_ID_ALL | USE_CLOCK | CONTEXT_SWITCH,
            sample_registers: REGISTER_BITS,
            sample_stack_bytes: 8 * STACK_WORDS as u32,
            // The kernel's own clock differs between CPUs, and a thread may sleep on one and wake
            // on another.
            clock: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        };
        let descriptor = Descriptor::open(&attributes, Of::Thread(thread))?;
        let ring = Ring::map(&descriptor, (RING_BYTES / memory::page_bytes()).max(1))?;
        descriptor.refresh(OffCpu::SLEEPS_MAX)?;
        Ok(OffCpu { ring, descriptor, sleeper: Sleeper::default(), left: OffCpu::SLEEPS_MAX, first_ns: 0 })
    }

    /// Calls `each` with the sleeps that have ended since the last call, the oldest first.
    pub fn drain(&mut self, mut each: impl FnMut(Sleep<'_>)) -> State {
        let mut state = State::Noting;
        let OffCpu { ring, sleeper, left, first_ns, .. } = self;
        ring.drain::<RECORD_WORDS>(|record| {
            sleeper.add(record, &mut each);
            if let (SAMPLE_RECORD, Some(&now_ns)) = (record.kind, record.words.first()) {
                if *left == OffCpu::SLEEPS_MAX {
                    *first_ns = now_ns;
                }
                *left = left.saturating_sub(1);
                if *left == 0 {
                    // By rule 2.
                    sleeper.forget();
                    state = State::Stopped { took_ns: now_ns.saturating_sub(*first_ns) };
                }
            }
        });
        if self.lost() > 0 {
            // By rule 1. An event that cannot be stopped here stops by itself.
            self.sleeper.forget();
            let _ = self.descriptor.disable();
            state = State::Lost;
        }
        state
    }

    /// Goes on noting, if the kernel has stopped it.
    pub fn resume(&mut self) {
        // By rule 2.
        if self.left == 0 && self.lost() == 0 && self.descriptor.refresh(OffCpu::SLEEPS_MAX).is_ok() {
            self.left = OffCpu::SLEEPS_MAX;
        }
    }

    /// How many records were lost. If there are any, no more sleeps are noted.
    pub fn lost(&self) -> u64 {
        self.ring.lost()
    }
}

/// How far the records of a thread tell of a sleep.
#[derive(Debug)]
struct Sleeper {
    stage: Stage,
    /// The words of the last sample.
    sample: [u64; RECORD_WORDS],
    words: usize,
}

/// What came last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing of use.
    Unknown,
    /// A sample: the thread gives up its CPU.
    Sampled,
    /// A switch out: it sleeps.
    Asleep,
}

impl Default for Sleeper {
    fn default() -> Sleeper {
        Sleeper { stage: Stage::Unknown, sample: [0; RECORD_WORDS], words: 0 }
    }
}

impl Sleeper {
    /// Adds a record, and calls `each` if a sleep has ended.
    fn add(&mut self, record: Record<'_>, each: &mut impl FnMut(Sleep<'_>)) {
        match (record.kind, self.stage) {
            (SAMPLE_RECORD, _) => {
                self.words = record.words.len().min(RECORD_WORDS);
                self.sample[..self.words].copy_from_slice(&record.words[..self.words]);
                self.stage = Stage::Sampled;
            }
            (SWITCH_RECORD, Stage::Sampled) if record.flags & (OUT | PREEMPTED) == OUT => {
                self.stage = Stage::Asleep;
            }
            (SWITCH_RECORD, Stage::Asleep) if record.flags & OUT == 0 => {
                self.stage = Stage::Unknown;
                let ended = record.words.first().and_then(|now_ns| self.sleep(*now_ns));
                ended.into_iter().for_each(each);
            }
            (SWITCH_RECORD, _) => self.stage = Stage::Unknown,
            _ => {}
        }
    }

    /// The sleep that began with the last sample and ends now.
    fn sleep(&self, now_ns: u64) -> Option<Sleep<'_>> {
        let (&began_ns, rest) = self.sample[..self.words].split_first()?;
        // A thread of 32 bits has other registers, and a thread that ends has none.
        let (&ABI_64, rest) = rest.split_first()? else { return None };
        let (&registers, stack) = rest.split_first_chunk::<REGISTERS>()?;
        let ns = now_ns.saturating_sub(began_ns);
        Some(Sleep { ns, call: Call::of(registers), stack: ring::stack(stack) })
    }

    fn forget(&mut self) {
        self.stage = Stage::Unknown;
    }
}

#[cfg(test)]
mod tests {
    use super::super::REFUSALS;
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    /// The registers of a call with these arguments.
    fn registers([a, b, c, d]: [u64; 4]) -> [u64; REGISTERS] {
        if cfg!(target_arch = "x86_64") { [(-38i64).cast_unsigned(), c, b, a, d] } else { [a, b, c, d, 98] }
    }

    fn sample(at_ns: u64, registers: [u64; REGISTERS]) -> Vec<u64> {
        [&[at_ns, ABI_64], &registers[..], &[16, 77, 78, 16]].concat()
    }

    /// The lengths, first arguments and stacks of the sleeps that records tell of.
    fn sleeps(records: &[(u32, u16, Vec<u64>)]) -> Vec<(u64, Option<u64>, Vec<u64>)> {
        let (mut sleeper, mut all) = (Sleeper::default(), Vec::new());
        for (kind, flags, words) in records {
            let record = Record { kind: *kind, flags: *flags, words };
            sleeper.add(record, &mut |sleep: Sleep<'_>| {
                all.push((sleep.ns, sleep.call.map(|call| call.arguments[0]), sleep.stack.to_vec()));
            });
        }
        all
    }

    fn out(at_ns: u64) -> (u32, u16, Vec<u64>) {
        (SWITCH_RECORD, OUT, vec![at_ns])
    }

    fn back(at_ns: u64) -> (u32, u16, Vec<u64>) {
        (SWITCH_RECORD, 0, vec![at_ns])
    }

    #[test]
    fn a_sleep_goes_from_the_sample_to_the_switch_in() {
        let slept = (SAMPLE_RECORD, 1, sample(100, registers([4096, 128, 2, 0])));
        assert_eq!(sleeps(&[slept, out(101), back(150)]), [(50, Some(4096), vec![77, 78])]);
    }

    #[test]
    fn a_thread_that_loses_its_cpu_does_not_sleep() {
        let sample = (SAMPLE_RECORD, 1, sample(100, registers([0; 4])));
        let lost = (SWITCH_RECORD, OUT | PREEMPTED, vec![101]);
        assert_eq!(sleeps(&[sample, lost, back(150), out(160), back(170)]), []);
    }

    #[test]
    fn what_has_no_beginning_or_no_registers_is_left_out() {
        assert_eq!(sleeps(&[back(10), out(20), back(30)]), []);
        let none = (SAMPLE_RECORD, 1, vec![100, 0, 0]);
        assert_eq!(sleeps(&[none, out(101), back(150)]), []);
        let torn = (SAMPLE_RECORD, 1, vec![100]);
        assert_eq!(sleeps(&[torn, out(101), back(150)]), []);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_thread_that_sleeps_outside_of_calls_has_none() {
        let fault = (SAMPLE_RECORD, 1, sample(100, [7, 0, 0, 4096, 0]));
        assert_eq!(sleeps(&[fault, out(101), back(150)]), [(50, None, vec![77, 78])]);
    }

    #[test]
    fn sleeps_of_a_thread_are_as_long_as_it_slept_and_no_more_than_were_asked_for() {
        const NAP: std::time::Duration = std::time::Duration::from_millis(2);
        let (thread, go) = (AtomicU32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let naps = scope.spawn(|| {
                thread.store(crate::thread::id(), Ordering::Release);
                while !go.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                (0..2 * OffCpu::SLEEPS_MAX).for_each(|_| std::thread::sleep(NAP));
            });
            while thread.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            let off_cpu = OffCpu::of_thread(thread.load(Ordering::Acquire));
            go.store(true, Ordering::Release);
            let mut off_cpu = match off_cpu {
                Ok(off_cpu) => off_cpu,
                Err(error) => return assert!(REFUSALS.contains(&error), "error {error}"),
            };
            naps.join().expect("it ends");
            let (mut count, mut lengths_ns) = (0, Vec::new());
            let state = off_cpu.drain(|sleep| {
                count += 1;
                if sleep.call.is_some() {
                    lengths_ns.push(sleep.ns);
                }
            });
            // The last sample before the event stands is left out, by rule 2.
            assert!(count < OffCpu::SLEEPS_MAX && off_cpu.lost() == 0, "{count}");
            let State::Stopped { took_ns } = state else { panic!("{state:?}") };
            assert!(took_ns > 0 && off_cpu.left == 0);
            off_cpu.resume();
            assert_eq!(off_cpu.drain(|_| panic!("it has ended")), State::Noting);
            let naps = lengths_ns.iter().filter(|ns| **ns >= NAP.as_nanos() as u64 * 9 / 10);
            assert!(naps.count() >= 1, "{lengths_ns:?}");
        });
    }

    #[test]
    fn there_is_nothing_to_note_of_a_thread_that_is_not_there() {
        let error = OffCpu::of_thread(u32::MAX >> 1).map(|_| ()).unwrap_err();
        assert!(error == libc::ESRCH || REFUSALS.contains(&error), "error {error}");
    }
}
