//! The allocator of `manx-serve`: jemalloc, as in Redis.
//!
//! Values come from one thread and are freed by another, in all sizes. The C library's allocator
//! then keeps what one of its arenas has had at most, for ever: a server that had 160 MiB of values
//! of 16 MiB kept 2 GiB. jemalloc gives memory back to the system a moment after it was freed, also
//! if no thread allocates any more, and counts what is in use.
//!
//! Each thread allocates in an arena of its own, and what it frees goes back to the arena that it
//! came from, which keeps it for the next value. That is good for small values. Of large ones,
//! which come from any thread, each arena kept many: 1,000 values of 100,000 bytes that 20 clients
//! wrote over took 290 MiB. So all that is larger than what threads cache has one arena, which
//! keeps nothing: 121 MiB, and 1.8 times the writes a second, since there are fewer page faults.

use std::ffi::c_char;
use tikv_jemalloc_ctl::{background_thread, epoch, raw, stats};
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// A setting that jemalloc reads before its first allocation.
#[repr(transparent)]
struct Setting(*const c_char);

// SAFETY: it points to a literal, which nothing changes.
unsafe impl Sync for Setting {}

// SAFETY: it is the name, and the type, that jemalloc looks for.
#[unsafe(export_name = "_rjem_malloc_conf")]
#[used]
static SETTING: Setting = Setting(c"oversize_threshold:32768".as_ptr());

/// Memory that was freed goes back to the system after this time, little by little.
const DECAY_MS: isize = 50;

/// Makes it give memory back in time. To be called before there are other threads.
///
/// # Errors
/// It is not the allocator that this was written for.
pub(super) fn set_up() -> Result<(), tikv_jemalloc_ctl::Error> {
    background_thread::write(true)?;
    for setting in [&b"arenas.dirty_decay_ms\0"[..], b"arena.0.dirty_decay_ms\0"] {
        // SAFETY: both are of the type `ssize_t`.
        unsafe { raw::write(setting, DECAY_MS) }?;
    }
    Ok(())
}

/// Returns the number of bytes that the program has allocated and not freed.
pub(super) fn allocated_bytes() -> u64 {
    // The figures are those of the last epoch.
    let allocated = epoch::advance().and_then(|_| stats::allocated::read());
    allocated.map_or(0, |bytes| bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_memory_has_an_arena_of_its_own() {
        // SAFETY: it is of the type `size_t`.
        let threshold = unsafe { raw::read::<usize>(b"opt.oversize_threshold\0") };
        assert_eq!(threshold.expect("it is the allocator"), 32768);
    }

    #[test]
    fn what_is_allocated_is_counted_and_what_is_freed_is_not() {
        set_up().expect("it is the allocator");
        assert!(background_thread::read().expect("it is the allocator"));
        const LARGE: u64 = 64 << 20;
        // Other tests allocate and free a little meanwhile.
        let before = allocated_bytes();
        let large = std::hint::black_box(vec![1_u8; LARGE as usize]);
        assert!((before + LARGE * 3 / 4..before + LARGE * 5 / 4).contains(&allocated_bytes()));
        drop(large);
        assert!(allocated_bytes() < before + LARGE / 4);
    }
}
