//! Gives the library its name, and chooses its linker.
//!
//! The wrappers use nothing of the standard library. LLVM's linker keeps the part of it that
//! unwinds all the same, and what that needs (300 KB, and functions of new C libraries): whatever a
//! file's unwind tables name is alive to it. The GNU linker drops the tables with the functions.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmanx_requests.so");
    println!("cargo::rustc-cdylib-link-arg=-fuse-ld=bfd");
    println!("cargo::rerun-if-changed=build.rs");
}
