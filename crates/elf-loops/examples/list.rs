//! Lists every busy-wait loop of ELF files, what is said of it, and where its jump stands.
//!
//! ```text
//! cargo run -p elf-loops --example list -- [--time] [--live] FILE…
//! ```
//!
//! `--live` finds jump sites for a program whose threads run. `--time` repeats the search and
//! prints the shortest times that its parts took, without the listing.

use elf_loops::{Code, Symbols};
use spinloop::{Counter, Finding, Hooks, Jump, JumpSite, Kind, Loop, Original, Seed, Segments};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let (flags, files): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|arg| arg.starts_with("--"));
    if files.is_empty() || flags.iter().any(|flag| flag != "--time" && flag != "--live") {
        eprintln!("usage: list [--time] [--live] FILE...");
        return ExitCode::from(2);
    }
    let has = |name: &str| flags.iter().any(|flag| flag == name);
    for file in &files {
        if let Err(error) = list(file, has("--time"), !has("--live")) {
            eprintln!("list: {file}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// A seed, what is said of it, and where its jump stands.
type Found = (Seed, u64, Finding, Option<JumpSite>);

/// All seeds of a file, and how long the parts of the search took: seeds, analysis, jump sites.
fn search(code: &Code<'_>, alone: bool) -> (Vec<Found>, [Duration; 3]) {
    let start = Instant::now();
    let all = code.seeds();
    let seeds = start.elapsed();
    let mut jump_sites = Duration::ZERO;
    let found = code.find(|finder| {
        let mut judge = |(seed, address)| {
            let finding = finder.analyse(address, seed);
            let start = Instant::now();
            let jump_site = match &finding {
                Finding::Wait(wait) => finder.jump_site(wait, alone),
                _ => None,
            };
            jump_sites += start.elapsed();
            (seed, address, finding, jump_site)
        };
        all.into_iter().map(&mut judge).collect()
    });
    (found, [seeds, start.elapsed() - seeds - jump_sites, jump_sites])
}

fn list(path: &str, time: bool, alone: bool) -> Result<(), Box<dyn std::error::Error>> {
    let data = std::fs::read(path)?;
    let code = Code::parse(&data).ok_or("no ELF file of x86-64 or aarch64")?;
    if time {
        let times: Vec<_> = (0..5).map(|_| search(&code, alone).1).collect();
        let least = |n: usize| times.iter().map(|all| all[n]).min().unwrap_or(Duration::ZERO);
        let (seeds, analysis, jump_sites) = (least(0), least(1), least(2));
        let bytes = code.text_bytes();
        println!(
            "{path}: {bytes} bytes of code, seeds {seeds:?}, analysis {analysis:?}, jump sites {jump_sites:?}"
        );
        return Ok(());
    }
    let symbols = Symbols::read(&data);
    println!("{path}");
    let (mut nothing, mut flags_in_use) = (0, 0);
    let (mut kinds, mut jump_sites) = (BTreeMap::new(), BTreeMap::new());
    for (seed, address, finding, jump_site) in search(&code, alone).0 {
        let verdict = match finding {
            Finding::Nothing => {
                nothing += 1;
                continue;
            }
            Finding::Leave(reason) => reason.to_string(),
            Finding::Wait(found) => {
                *kinds.entry(word(&found.kind)).or_insert(0) += 1;
                if let (Kind::Counted(_), Some(jump_site)) = (&found.kind, &jump_site) {
                    flags_in_use += u32::from(!spins(&code.image(), &found, jump_site));
                }
                let (form, place) = match jump_site {
                    None => ("no place for a jump", "no place for a jump".to_owned()),
                    Some(JumpSite { replaced, jump: Jump::Short(route) }) => {
                        ("short", format!("short at {:#x}, {} hops", replaced.start, route.hops().len()))
                    }
                    Some(JumpSite { replaced, jump }) => {
                        let form = match jump {
                            Jump::Whole => "whole",
                            Jump::Call => "call",
                            _ => "row",
                        };
                        (form, format!("{form} at {:#x}", replaced.start))
                    }
                };
                *jump_sites.entry(form).or_insert(0) += 1;
                let Loop { head, latch, bytes, kind, .. } = found;
                format!("WAIT {head:#x}..{latch:#x}, {bytes} bytes, {place}, {kind:?}")
            }
        };
        println!("  {address:#10x}  {seed:?}  {verdict:<50}  {}", symbols.name(address));
    }
    println!("  {nothing} seeds are nothing, or known by another; waits {kinds:?}, ways {jump_sites:?}");
    println!("  {flags_in_use} counted waits have their flags in use in every round");
    Ok(())
}

/// Whether the copy spins its first rounds without a visit: its flags are not in use at the pivot.
fn spins(image: &Segments<'_>, found: &Loop, jump_site: &JumpSite) -> bool {
    let original = Original {
        parts: &found.parts,
        pivot: found.pivot,
        entered_at: jump_site.replaced.start,
        is_loop: true,
        only_pivot: true,
    };
    let at = (found.function.start + 0x1000_0000) & !7;
    let hooks = Hooks { trampoline: at, site: at, waiting: 0, rounds: 8, site_rounds: at };
    spinloop::copy(image, &original, at, &hooks).is_some_and(|copy| copy.spins)
}

fn word(kind: &Kind) -> &'static str {
    match kind {
        Kind::Unbounded => "unbounded",
        Kind::Counted(Counter { blocks: true, .. }) => "counted, then blocks",
        Kind::Counted(_) => "counted",
        Kind::Timed => "timed",
        Kind::Hint => "hint",
        Kind::Poll => "poll",
    }
}
