//! Where threads are in their code, each time that a while has passed.
//!
//! The kernel's own clock does that, so it works on every machine. Nothing is stopped.
//!
//! | sampler | right | cost |
//! | --- | --- | --- |
//! | of a thread | to look at its process, as `ptrace` would have it | 1.7 µs for each switch to the thread and from it, and 0.15 µs while it pauses |
//! | of a CPU | to observe the machine: `CAP_PERFMON`, or `perf_event_paranoid` of at most 0 | nothing for a switch |
//!
//! Both cost some microseconds for each sample.
//!
//! A sample has the instruction outside the kernel. Of a thread that is inside it, as in a system
//! call, that is the instruction which has entered it. A sampler of a CPU also has such samples. To
//! look into the kernel on behalf of a thread needs more rights than to look at the thread, so a
//! sampler of a thread has none.

use super::event::{Attributes, Descriptor, EXCLUDE_HYPERVISOR, EXCLUDE_IDLE, EXCLUDE_KERNEL, Of, SOFTWARE};
use super::ring::{self, Ring};

/// The kernel's clock of the CPU, among the events that it counts itself.
const CPU_CLOCK: u64 = 0;
/// The process and the thread, then the registers outside the kernel.
const THREAD_AND_REGISTERS: u64 = 1 << 1 | 1 << 12;
const STACK: u64 = 1 << 13;
/// The register that has the address of the instruction, by the kernel's order.
#[cfg(target_arch = "x86_64")]
const INSTRUCTION: u64 = 1 << 8;
#[cfg(target_arch = "aarch64")]
const INSTRUCTION: u64 = 1 << 32;
/// There are no registers: a thread of the kernel.
const NO_REGISTERS: u64 = 0;
/// The pages of a thread's ring without stacks, and with them: room for 170 and for 30 samples.
const PAGES: (usize, usize) = (1, 8);
/// The pages of a CPU's ring: room for 60 samples with stacks.
const CPU_PAGES: usize = 16;
const SAMPLE_RECORD: u32 = 9;
/// The bits of a record's flags that say where the thread was, and their value inside the kernel.
const MODE: u16 = 7;
const IN_KERNEL: u16 = 1;
/// The words between the header and the stack: the thread, what kind of registers, and the address.
const BEFORE_STACK: usize = 3;
/// The longest record that is looked at: before the stack is its size, and behind it how much of it
/// was there.
const RECORD_WORDS: usize = BEFORE_STACK + 1 + Sampler::STACK_WORDS + 1;

/// Where a thread was at a moment in which it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'s> {
    /// The address of the instruction, or of the one behind the system call in which it was.
    pub address: u64,
    /// The process, as this process numbers it.
    pub process: u32,
    /// The thread, as this process numbers it.
    pub thread: u32,
    /// True if the thread was inside the kernel
    pub in_kernel: bool,
    /// The words at the top of its stack, the top first; empty if they were not asked for.
    pub stack: &'s [u64],
}

/// Notes where threads are, each time that a period has passed; closed when dropped.
#[derive(Debug)]
pub struct Sampler {
    ring: Ring,
    /// It stands for the event, which ends with it.
    descriptor: Descriptor,
}

impl Sampler {
    /// How many words of the stack are noted.
    pub const STACK_WORDS: usize = 128;

    /// Samples a thread from now on, each time that it has run for `period_ns` and runs outside the
    /// kernel, perhaps with its stack. A ring for stacks takes nine pages of the memory that a user
    /// may lock, one without them two.
    ///
    /// # Errors
    /// The error number of `perf_event_open` or `mmap`: `ESRCH` if there is no such thread,
    /// `EACCES`, `EPERM` or `ENOSYS` if this process may not.
    pub fn of_thread(thread: u32, period_ns: u64, with_stack: bool) -> Result<Sampler, i32> {
        let pages = if with_stack { PAGES.1 } else { PAGES.0 };
        Sampler::open(Of::Thread(thread), period_ns, EXCLUDE_KERNEL, with_stack, pages)
    }

    /// Samples a CPU from now on, each time that `period_ns` have passed and a program runs on it,
    /// with the stack.
    ///
    /// # Errors
    /// The error number of `perf_event_open` or `mmap`: `ENODEV` if there is no such CPU, `EACCES`,
    /// `EPERM` or `ENOSYS` if this process may not observe the machine.
    pub fn of_cpu(cpu: u32, period_ns: u64) -> Result<Sampler, i32> {
        Sampler::open(Of::Cpu(cpu), period_ns, EXCLUDE_IDLE, true, CPU_PAGES)
    }

    fn open(of: Of, period_ns: u64, excluded: u64, with_stack: bool, pages: usize) -> Result<Sampler, i32> {
        let attributes = Attributes {
            kind: SOFTWARE,
            config: CPU_CLOCK,
            sample_period: period_ns,
            sample_type: THREAD_AND_REGISTERS | if with_stack { STACK } else { 0 },
            flags: excluded | EXCLUDE_HYPERVISOR,
            sample_registers: INSTRUCTION,
            sample_stack_bytes: if with_stack { 8 * Sampler::STACK_WORDS as u32 } else { 0 },
            ..Attributes::default()
        };
        let descriptor = Descriptor::open(&attributes, of)?;
        let ring = Ring::map(&descriptor, pages)?;
        Ok(Sampler { ring, descriptor })
    }

    /// Samples nothing until [`Sampler::resume`].
    ///
    /// # Errors
    /// The error number of `ioctl`.
    pub fn pause(&self) -> Result<(), i32> {
        self.descriptor.disable()
    }

    /// Samples again.
    ///
    /// # Errors
    /// The error number of `ioctl`.
    pub fn resume(&self) -> Result<(), i32> {
        self.descriptor.enable()
    }

    /// Calls `each` with the samples since the last call, the oldest first.
    pub fn drain(&mut self, mut each: impl FnMut(Sample<'_>)) {
        self.ring.drain::<RECORD_WORDS>(|record| {
            let (SAMPLE_RECORD, [thread, registers, rest @ ..]) = (record.kind, record.words) else {
                return;
            };
            if let (true, [address, stack @ ..]) = (*registers != NO_REGISTERS, rest) {
                let stack = ring::stack(stack);
                let (process, thread) = (*thread as u32, (*thread >> 32) as u32);
                let in_kernel = record.flags & MODE == IN_KERNEL;
                each(Sample { address: *address, process, thread, in_kernel, stack });
            }
        });
    }

    /// How many samples were lost because nobody read them in time.
    pub fn lost(&self) -> u64 {
        self.ring.lost()
    }
}

#[cfg(test)]
mod tests {
    use super::super::REFUSALS;
    use super::*;

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
                    assert!(
                        sample.thread == thread && sample.address != 0 && !sample.in_kernel,
                        "{sample:?}"
                    );
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

    /// Samples the CPU on which this thread stays from now on, so that its samples are among those
    /// of that CPU; `None` if that is refused.
    fn of_own_cpu() -> Option<Sampler> {
        // SAFETY: the set is a local of the right type, for which all zeroes are valid, and the
        // number of a CPU that this thread runs on is in it.
        let cpu = unsafe {
            let cpu = libc::sched_getcpu();
            let mut set: libc::cpu_set_t = core::mem::zeroed();
            libc::CPU_SET(cpu as usize, &mut set);
            assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set), 0);
            cpu as u32
        };
        let refused = |error: &i32| assert!(REFUSALS.contains(error), "error {error}");
        Sampler::of_cpu(cpu, 1_000_000).inspect_err(refused).ok()
    }

    #[test]
    fn a_thread_inside_the_kernel_is_seen_where_it_has_entered_it() {
        let Some(mut sampler) = of_own_cpu() else { return };
        let zeroes = std::fs::File::open("/dev/zero").expect("a device");
        let mut buffer = std::vec![0; 1 << 20];
        let mut addresses: std::vec::Vec<u64> = std::vec![];
        let mut inside = 0;
        while addresses.len() < 100 {
            std::io::Read::read_exact(&mut &zeroes, &mut buffer).expect("zeroes");
            sampler.drain(|sample| {
                if sample.thread == crate::thread::id() {
                    addresses.push(sample.address);
                    inside += usize::from(sample.in_kernel);
                }
            });
        }
        addresses.sort_unstable();
        let most = addresses.chunk_by(|one, other| one == other).map(<[u64]>::len).max();
        assert!(most.is_some_and(|most| 2 * most > addresses.len()), "{addresses:x?}");
        assert!(2 * inside > addresses.len(), "{inside} of {}", addresses.len());
    }

    #[test]
    fn a_cpu_is_sampled_whatever_runs_on_it() {
        let Some(mut sampler) = of_own_cpu() else { return };
        let (own, mut seen) = (crate::thread::id(), 0);
        let mut run = |rounds: u32, sampler: &mut Sampler| {
            let before = seen;
            for _ in 0..rounds {
                (0..100_000).for_each(|round| {
                    core::hint::black_box(round);
                });
                sampler.drain(|sample| {
                    let is_own = sample.process == std::process::id() && sample.thread == own;
                    seen += u32::from(is_own && !sample.stack.is_empty());
                });
                if seen - before >= 100 {
                    break;
                }
            }
            seen - before
        };
        assert!(run(u32::MAX, &mut sampler) >= 100);
        sampler.pause().expect("paused");
        sampler.drain(|_| ());
        assert_eq!(run(20, &mut sampler), 0, "paused");
        sampler.resume().expect("resumed");
        assert!(run(u32::MAX, &mut sampler) >= 100);
    }

    #[test]
    fn there_is_nothing_to_sample_of_a_thread_that_is_not_there() {
        let error = Sampler::of_thread(u32::MAX >> 1, 1_000_000, false).map(|_| ()).unwrap_err();
        assert!(error == libc::ESRCH || REFUSALS.contains(&error), "error {error}");
    }
}
