//! Gives the library a name that other programs can be linked against.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmanx_preload.so");
    println!("cargo::rerun-if-changed=build.rs");
}
