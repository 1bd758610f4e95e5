//! Compiles the driver of our own stores (`engines/store.c`) into the library.

fn main() {
    let engines = "../engines";
    println!("cargo::rerun-if-changed={engines}");
    cc::Build::new()
        .file(format!("{engines}/store.c"))
        .std("gnu11")
        .opt_level(2)
        .flag("-pthread")
        .compile("store");
    println!("cargo::rustc-link-lib=m");
}
