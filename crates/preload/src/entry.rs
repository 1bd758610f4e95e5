//! Start, end and fork.
//!
//! [`start`] runs once, from whatever of ours is called first: our constructor, or a function that
//! the constructor of another library called. It only reads the environment. Most processes never
//! create a thread, and end soon; so what only threads need is done [`before_thread`], and the
//! guard wakes then.

use crate::settings::{self, settings};
use crate::thread::Forking;
use crate::{ARENA, cpus, guard, process, real, selection, shortage, slo, statistics, thread};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use platform::signal::{Change, FROM_OUTSIDE, change_mask};
use platform::{clock, fork};
use preload_abi::OPTIONS_VARIABLE;
use preload_abi::options::{Guard, Lock, Options, Stats};

/// What [`start`] has done so far.
static STATE: AtomicU32 = AtomicU32::new(NEW);
/// The thread that reads the options, by its number in the kernel.
static READER: AtomicU32 = AtomicU32::new(0);
const NEW: u32 = 0;
const STARTING: u32 = 1;
const OFF: u32 = 2;
const ON: u32 = 3;
const _: () = assert!(STARTING < OFF && STARTING < ON);

/// Reads the options, once. Returns whether the library does anything at all.
///
/// While another thread (or an outer call of this one) is at it, the answer is no: a caller that
/// asks then passes its call through.
pub fn start() -> bool {
    if STATE.load(Ordering::Relaxed) == NEW && !process::has_environment() {
        // Too early to know what is wanted.
        return false;
    }
    match STATE.compare_exchange(NEW, STARTING, Ordering::Acquire, Ordering::Acquire) {
        Ok(_) => {
            // Relaxed: only the reader itself has to find its number.
            READER.store(platform::thread::id(), Ordering::Relaxed);
            let on = read_options();
            STATE.store(if on { ON } else { OFF }, Ordering::Release);
            on
        }
        Err(state) => state == ON,
    }
}

/// Reads the options, once. Returns whether they have been read: not while a thread is still
/// reading them.
pub fn read() -> bool {
    start();
    STATE.load(Ordering::Acquire) > STARTING
}

/// Lets another thread that is reading the options finish. Returns at once if it is the calling
/// thread itself that reads, further up its stack, and in any case after a tenth of a second: the
/// child of a fork may have no such thread.
pub fn wait_until_read() {
    for _ in 0..100 {
        if STATE.load(Ordering::Acquire) != STARTING
            || READER.load(Ordering::Relaxed) == platform::thread::id()
        {
            return;
        }
        platform::thread::sleep_ns(clock::SECOND_NS / 1000);
    }
}

fn read_options() -> bool {
    let text = process::variable(OPTIONS_VARIABLE.as_bytes()).unwrap_or(b"");
    if !selection::process(&Options::parse(text)) {
        return false;
    }
    settings::keep(text);
    let options = settings();
    clock::note_start();
    shortage::set(options.short);
    slo::set(options.slo);
    let measures = options.lock == Lock::Asl || options.dilate > 1000 || !options.slo.is_empty();
    if measures || !matches!(options.stats, Stats::Off) {
        prepare_for_threads();
    }
    if options.lock == Lock::Asl || options.dilate > 1000 {
        // Looks at the machine now, rather than when a thread waits for the first time.
        manx::cpu::class_of_this_cpu();
    }
    if let Some(rejected) = options.rejected {
        let rejected = core::str::from_utf8(rejected).unwrap_or("?");
        process::say(
            options.verbose,
            format_args!("{OPTIONS_VARIABLE}: \"{rejected}\" is not understood and ignored"),
        );
    }
    if options.guard == Guard::Off && options.lock == Lock::Glibc && matches!(options.stats, Stats::Off) {
        // Targets are for our locks, and for statistics, which count the epochs that end.
        return false;
    }
    process::owns_memory();
    statistics::prepare(options);
    // SAFETY: the three functions keep to what may be done around a fork: take and give back
    // latches.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork_in_child)) };
    options.guard != Guard::Off
}

/// Blocks signals until [`after_fork`]: a handler that ran on this thread meanwhile, and asked for
/// another handler, would wait for a latch that its own thread holds.
extern "C" fn before_fork() {
    let forking = &thread::current().forking;
    let mask = change_mask(Change::Block, FROM_OUTSIDE);
    forking.set(Forking { mask, holds_guard: guard::hold() });
    ARENA.hold();
}

extern "C" fn after_fork() {
    ARENA.release();
    let Forking { mask, holds_guard } = thread::current().forking.get();
    if holds_guard {
        guard::release();
    }
    statistics::forked();
    change_mask(Change::Set, mask);
}

extern "C" fn after_fork_in_child() {
    fork::forked();
    process::owns_memory();
    after_fork();
}

/// Before a thread is created: gets ready for it, and lets the guard see what there is.
pub fn before_thread() {
    let is_guarded = start();
    if is_guarded || settings().lock != Lock::Glibc {
        prepare_for_threads();
    }
    if is_guarded {
        guard::wake();
    }
}

/// Finds out how fast the CPU's counter counts, and how many CPUs there are. Without threads, waits
/// are rare, and are measured by the kernel's clock.
fn prepare_for_threads() {
    static PREPARED: AtomicBool = AtomicBool::new(false);
    // Relaxed: two threads that get ready at once find the same.
    if PREPARED.load(Ordering::Relaxed) {
        return;
    }
    clock::init();
    // What was seen by the kernel's clock is not comparable.
    shortage::set(settings().short);
    #[cfg(target_arch = "x86_64")]
    crate::spin_lock::prepare();
    PREPARED.store(true, Ordering::Relaxed);
}

extern "C" fn constructor() {
    real::look_up();
    // Now, for a program may lock itself in before it asks.
    cpus::reported::is_wanted();
    if start() && settings().guard == Guard::Always {
        before_thread();
    }
}

extern "C" fn destructor() {
    // Without the guard, too: locks are counted by themselves.
    statistics::finish();
}

/// Run by the loader when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

/// Run by the loader when the process exits.
#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = destructor;

/// What `manx run` looks at before it trusts a library: see [`preload_abi::VERSION_SYMBOL`].
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static manx_preload_abi: u32 = preload_abi::VERSION;
const _: () = assert!(matches!(preload_abi::VERSION_SYMBOL.as_bytes(), b"manx_preload_abi"));
