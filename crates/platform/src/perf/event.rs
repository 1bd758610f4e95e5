//! An event of the kernel's `perf`: what is asked for, and the descriptor that stands for it.

use crate::syscall::{check, syscall1, syscall3, syscall5};

/// `perf_event_attr` as Linux 3.7 published it, which every later kernel takes.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Attributes {
    pub(super) kind: u32,
    /// Set when it is opened.
    pub(super) size: u32,
    pub(super) config: u64,
    pub(super) sample_period: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) flags: u64,
    pub(super) wakeup_events: u32,
    pub(super) breakpoint_type: u32,
    /// Two words of configuration and the kinds of branches: none of them is used.
    pub(super) others: [u64; 3],
    /// The registers outside the kernel that a sample has, a bit each.
    pub(super) sample_registers: u64,
    pub(super) sample_stack_bytes: u32,
    pub(super) clock: i32,
}

/// The size of the third version, which has the stack.
const _: () = assert!(size_of::<Attributes>() == 96);

/// It does not count until it is told to.
pub(super) const DISABLED: u64 = 1 << 0;
/// Threads that are started later are counted too.
pub(super) const INHERIT: u64 = 1 << 1;
pub(super) const EXCLUDE_KERNEL: u64 = 1 << 5;
pub(super) const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// Nothing is counted while a CPU has nothing to do.
pub(super) const EXCLUDE_IDLE: u64 = 1 << 7;
/// Records that are no samples end with fields of samples, too.
pub(super) const SAMPLE_ID_ALL: u64 = 1 << 18;
/// `clock` is set.
pub(super) const USE_CLOCK: u64 = 1 << 25;
/// A record each time that the thread gets a CPU and each time that it gives it up.
pub(super) const CONTEXT_SWITCH: u64 = 1 << 26;

/// The kind of the events that the kernel counts itself, without the processor's help.
pub(super) const SOFTWARE: u32 = 1;

const CLOSE_ON_EXEC: usize = 1 << 3;
const REQUEST_ENABLE: usize = 0x2400;
const REQUEST_DISABLE: usize = 0x2401;
const REQUEST_REFRESH: usize = 0x2402;

/// What an event is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// A thread, 0 for the calling one, on whichever CPU it runs
    Thread(u32),
    /// A CPU, whatever runs on it
    Cpu(u32),
}

/// An event's descriptor; closed when dropped.
#[derive(Debug)]
pub(super) struct Descriptor(i32);

impl Descriptor {
    /// Opens an event.
    ///
    /// # Errors
    /// The error number of `perf_event_open`.
    pub(super) fn open(attributes: &Attributes, of: Of) -> Result<Descriptor, i32> {
        let attributes = Attributes { size: size_of::<Attributes>() as u32, ..*attributes };
        const ANY: usize = usize::MAX;
        let (thread, cpu) = match of {
            Of::Thread(thread) => (thread as usize, ANY),
            Of::Cpu(cpu) => (ANY, cpu as usize),
        };
        let no_group = usize::MAX;
        // SAFETY: the kernel reads `size` bytes of the attributes; a new descriptor disturbs
        // nothing.
        let result = unsafe {
            let place = (&raw const attributes).addr();
            syscall5(libc::SYS_perf_event_open, place, thread, cpu, no_group, CLOSE_ON_EXEC)
        };
        check(result).map(|descriptor| Descriptor(descriptor as i32))
    }

    /// The number that system calls take.
    pub(super) fn number(&self) -> usize {
        self.0 as usize
    }

    /// Counts from now on, until there were `samples` more of them; then the kernel stops it.
    ///
    /// # Errors
    /// The error number of `ioctl`.
    pub(super) fn refresh(&self, samples: u32) -> Result<(), i32> {
        self.request(REQUEST_REFRESH, samples as usize)
    }

    /// Counts from now on.
    ///
    /// # Errors
    /// The error number of `ioctl`.
    pub(super) fn enable(&self) -> Result<(), i32> {
        self.request(REQUEST_ENABLE, 0)
    }

    /// Counts no longer.
    ///
    /// # Errors
    /// The error number of `ioctl`.
    pub(super) fn disable(&self) -> Result<(), i32> {
        self.request(REQUEST_DISABLE, 0)
    }

    fn request(&self, request: usize, argument: usize) -> Result<(), i32> {
        // SAFETY: the descriptor is ours, and all requests take a number and touch no memory.
        check(unsafe { syscall3(libc::SYS_ioctl, self.number(), request, argument) }).map(|_| ())
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours.
        let _ = unsafe { syscall1(libc::SYS_close, self.number()) };
    }
}
