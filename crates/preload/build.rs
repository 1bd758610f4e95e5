//! Gives the library a name that other programs can be linked against, and a build id, which its
//! cache depends on.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmanx_preload.so");
    println!("cargo::rustc-link-arg=-Wl,--build-id=sha1");
    println!("cargo::rerun-if-changed=build.rs");
}
