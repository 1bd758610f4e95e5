//! Exported functions that know their caller: where the program's call returns to.
//!
//! One instruction before the function proper puts the return address into the register of one more
//! argument. The next one jumps, so the function proper returns to the program. Nothing has been
//! pushed by then, so on x86-64 the address is on top of the stack.

/// The register of the argument that follows this number of arguments.
#[cfg(target_arch = "x86_64")]
macro_rules! register {
    (0) => {
        "rdi"
    };
    (1) => {
        "rsi"
    };
    (2) => {
        "rdx"
    };
    (3) => {
        "rcx"
    };
    (4) => {
        "r8"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! register {
    ($arguments:tt) => {
        concat!("x", $arguments)
    };
}

/// Exports functions: `name(arguments) = function;`, with the number of arguments. The function
/// gets the return address as one more argument, the last.
macro_rules! with_caller {
    ($($(#[$doc:meta])* $name:ident($arguments:tt) = $function:path;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                concat!("mov ", $crate::caller::register!($arguments), ", [rsp]"),
                "jmp {function}",
                function = sym $function,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                concat!("mov ", $crate::caller::register!($arguments), ", x30"),
                "b {function}",
                function = sym $function,
            );
        }
    )*};
}

pub(crate) use {register, with_caller};
