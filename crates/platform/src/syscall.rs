//! System calls, straight to the kernel.
//!
//! Everything that runs inside somebody else's program needs calls that leave `errno` alone, are no
//! cancellation points, go through no symbol that the program may have replaced, and touch no
//! register beyond those that the kernel's own convention gives up. The C library's wrappers
//! promise none of this, so the few calls that Manx makes are made here, by the number.
//!
//! A result from -4095 to -1 is a negated error number; [`check`] tells the two apart.

use core::arch::asm;

/// Makes the call `number` with up to six arguments; unused ones are ignored by the kernel.
///
/// # Safety
/// The call must be one that the caller may make with these arguments: pointers valid for what the
/// kernel reads and writes, and no change to memory, descriptors or signals that other code relies
/// on.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub unsafe fn syscall(number: libc::c_long, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel preserves every register but rax, rcx and r11; the caller answers for the
    // rest.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Makes the call `number` with up to six arguments; unused ones are ignored by the kernel.
///
/// # Safety
/// The call must be one that the caller may make with these arguments: pointers valid for what the
/// kernel reads and writes, and no change to memory, descriptors or signals that other code relies
/// on.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub unsafe fn syscall(number: libc::c_long, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel preserves every register but x0; the caller answers for the rest.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") a[0] => result,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack),
        );
    }
    result
}

macro_rules! with_arity {
    ($($name:ident($($argument:ident),*) = $number_of:literal;)*) => {$(
        #[doc = concat!("[`syscall`] with ", $number_of, " arguments.")]
        ///
        /// # Safety
        /// As [`syscall`].
        #[inline(always)]
        pub unsafe fn $name(number: libc::c_long, $($argument: usize),*) -> isize {
            let given = [$($argument),*];
            let mut all = [0; 6];
            let mut at = 0;
            while at < given.len() {
                all[at] = given[at];
                at += 1;
            }
            // SAFETY: as the caller promised.
            unsafe { syscall(number, all) }
        }
    )*};
}

with_arity! {
    syscall1(a) = "one";
    syscall2(a, b) = "two";
    syscall3(a, b, c) = "three";
    syscall4(a, b, c, d) = "four";
    syscall5(a, b, c, d, e) = "five";
    syscall6(a, b, c, d, e, f) = "six";
}

/// [`syscall`] without arguments.
///
/// # Safety
/// As [`syscall`].
#[inline(always)]
pub unsafe fn syscall0(number: libc::c_long) -> isize {
    // SAFETY: as the caller promised.
    unsafe { syscall(number, [0; 6]) }
}

/// A call's result, or the positive error number.
#[inline(always)]
pub fn check(result: isize) -> Result<usize, i32> {
    if (-4095..0).contains(&result) { Err(-result as i32) } else { Ok(result as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_errors_are_told_apart_and_errno_stays() {
        // SAFETY: getpid and close of a descriptor that cannot exist change nothing.
        unsafe {
            *libc::__errno_location() = 77;
            assert_eq!(check(syscall0(libc::SYS_getpid)), Ok(std::process::id() as usize));
            assert_eq!(check(syscall1(libc::SYS_close, usize::MAX)), Err(libc::EBADF));
            assert_eq!(*libc::__errno_location(), 77);
        }
    }

    #[test]
    fn six_arguments_arrive_in_order() {
        // SAFETY: maps and unmaps memory of its own.
        unsafe {
            let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
            let address =
                check(syscall6(libc::SYS_mmap, 0, 4096, libc::PROT_READ as usize, flags, usize::MAX, 0));
            let address = address.expect("a page");
            assert_eq!(*(address as *const u64), 0);
            assert_eq!(check(syscall2(libc::SYS_munmap, address, 4096)), Ok(0));
        }
    }
}
