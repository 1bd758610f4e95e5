//! Loops in C, through every compiler and level of optimisation at hand: what is said of each PAUSE is what
//! its function's name says.

// A list of one range is meant as such.
#![allow(clippy::single_range_in_vec_init)]

mod common;

use common::{compile, compilers, load, word};
use spinloop::{Finder, Image, Machine, Module, Segments};
use std::collections::BTreeSet;

const SOURCE: &str = include_str!("loops.c");

fn check(compiler: &str, flags: &[&str]) -> Vec<String> {
    let library = compile(compiler, SOURCE, flags);
    let (built, names) = load(&library);
    let slices = built.slices();
    let image = Segments(&slices);
    let mut finder = Finder::new(Module::new(Machine::X86_64, &image, &built.text, Some(built.header)));
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for range in &built.text {
        for offset in spinloop::candidates(image.at(range.start)) {
            let address = range.start + offset as u64;
            let finding = finder.analyse(address);
            let Some((_, name)) = names.iter().find(|(range, _)| range.contains(&address)) else { continue };
            seen.insert(name.split('.').next().unwrap_or("").to_string());
            if !name.starts_with(word(&finding)) {
                wrong.push(format!("{compiler} {flags:?}: {name} at {address:#x}: {finding:?}"));
            }
        }
    }
    let written = SOURCE.matches("PAUSE()").count() - 1;
    assert!(seen.len() + 4 >= written, "{compiler} {flags:?}: only {seen:?} of {written} have a PAUSE");
    wrong
}

#[test]
fn every_compiler_and_level() {
    let mut wrong = Vec::new();
    for compiler in compilers() {
        for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
            wrong.extend(check(compiler, &[level]));
        }
        wrong.extend(check(compiler, &["-O2", "-fno-omit-frame-pointer", "-fcf-protection=full"]));
        wrong.extend(check(compiler, &["-O2", "-march=haswell"]));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
