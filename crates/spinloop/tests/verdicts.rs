//! Loops in C, through every compiler and level of optimisation at hand: what is said of the seeds
//! in a function is what its name says.

mod common;

use common::{blocking, compile, compilers, findings, load, word};
use spinloop::{Finder, Finding, Machine, Module, Segments};
use std::collections::{BTreeMap, BTreeSet};

const SOURCE: &str = concat!(include_str!("loops.c"), include_str!("bare.c"), include_str!("calls.c"));

/// The first words of names, and the verdicts on the seeds of such functions. In each function at
/// least one seed has the first verdict, if there is one.
const WORDS: [(&str, &[&str]); 12] = [
    ("wait", &["wait"]),
    ("poll", &["poll"]),
    ("counted", &["counted"]),
    ("blocks", &["blocks"]),
    // The clock is the better place to look from than a TPAUSE that reads what was computed before.
    ("timed", &["timed", "delay"]),
    ("hint", &["hint"]),
    ("bounded", &["bounded"]),
    ("noexit", &["noexit"]),
    // A delay: nothing but a counter or the clock ends it.
    ("delay", &["bounded", "delay", "noload"]),
    // A hint in it, but what it does lasts.
    ("works", &["bounded", "works", "delay"]),
    // No hint in it, and it does not wait.
    ("nothing", &["nothing"]),
    ("notinaloop", &["notinaloop"]),
];

/// What a compiler's code hides at some level, so that the loop may be left alone.
fn is_hidden(compiler: &str, flags: &[&str], name: &str) -> bool {
    let level = |level: &str| flags.contains(&level);
    // Every pointer is loaded again for each access, and loops end by a jump without a condition.
    level("-O0")
        && ["bound", "wait_empty", "wait_sum", "without_hint"].iter().any(|hidden| name.contains(hidden))
        // SETcc keeps the answer of the comparison for behind the loop.
        || level("-O1")
            && compiler == "clang"
            && ["counted", "blocks_and_sleeps", "blocks_without_hint_up"].iter().any(|it| name.starts_with(it))
        // A count that is loaded, and stored again. A jump back of five bytes. SETcc keeps whether
        // an atomic step was taken.
        || level("-O0")
            && (compiler == "clang" && name.starts_with("poll")
                || name.starts_with("poll_with_hidden_count")
                || name == "poll_until_taken")
        // The outer loop's only jump reads flags that are set before all that begins anew.
        || level("-O3") && compiler == "clang" && name == "wait_sum_of_array"
        // A byte is loaded into a part of a register.
        || level("-Os") && name == "counted_tries"
}

fn check(compiler: &str, flags: &[&str]) -> Vec<String> {
    let library = compile(compiler, SOURCE, flags);
    let (built, names) = load(&library);
    let slices = built.slices();
    let image = Segments(&slices);
    let module = Module::new(Machine::X86_64, &image, &built.text, Some(built.header));
    let mut finder = Finder::with_imports(module, blocking(&library));
    let mut wrong = Vec::new();
    let mut said: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (range, name) in &names {
        if !range.is_empty() {
            said.entry(name.split('.').next().unwrap_or("")).or_default();
        }
    }
    for (address, seed, finding) in findings(&mut finder, &built) {
        let Some((_, name)) = names.iter().find(|(range, _)| range.contains(&address)) else { continue };
        let name = name.split('.').next().unwrap_or("");
        let Some((_, words)) = WORDS.iter().find(|(first, _)| name.split('_').next() == Some(*first)) else {
            continue;
        };
        if finding == Finding::Nothing {
            continue;
        }
        said.entry(name).or_default().insert(word(&finding));
        let left = is_hidden(compiler, flags, name)
            && (matches!(finding, Finding::Leave(_)) || ["counted", "poll"].contains(&word(&finding)));
        if !left && !words.contains(&word(&finding)) {
            wrong.push(format!("{compiler} {flags:?}: {name}: {seed:?} at {address:#x}: {finding:x?}"));
        }
    }
    for (name, said) in said {
        let Some((_, words)) = WORDS.iter().find(|(first, _)| name.split('_').next() == Some(*first)) else {
            continue;
        };
        let hidden = is_hidden(compiler, flags, name);
        if !hidden && words[0] != "nothing" && !said.iter().any(|said| words.contains(said)) {
            wrong.push(format!("{compiler} {flags:?}: {name}: nothing is said of it"));
        }
    }
    wrong
}

#[test]
fn every_compiler_and_level() {
    let mut wrong = Vec::new();
    for compiler in compilers() {
        for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
            wrong.extend(check(compiler, &["-mwaitpkg", level]));
        }
        wrong.extend(check(
            compiler,
            &["-O2", "-mwaitpkg", "-fno-omit-frame-pointer", "-fcf-protection=full"],
        ));
        wrong.extend(check(compiler, &["-O2", "-march=haswell", "-mwaitpkg"]));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
