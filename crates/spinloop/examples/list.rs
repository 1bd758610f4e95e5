//! Lists every busy-wait loop of ELF files, what is said of it, and where its jump stands.
//!
//! ```text
//! cargo run -p spinloop --example list -- [--time] [--live] FILE…
//! ```
//!
//! `--live` finds jump sites for a program whose threads run. `--time` repeats the search and
//! prints the shortest times that its parts took, without the listing.

use object::{Object, ObjectSegment, ObjectSymbol, ObjectSymbolTable, RelocationTarget, SegmentFlags, elf};
use spinloop::{
    Blocks, Counter, Finder, Finding, Hooks, Jump, JumpSite, Kind, Loop, Machine, Module, Original, Seed,
    Segments, seeds,
};
use std::collections::BTreeMap;
use std::ops::Range;
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

fn list(path: &str, time: bool, alone: bool) -> Result<(), Box<dyn std::error::Error>> {
    let data = std::fs::read(path)?;
    let elf = object::File::parse(&*data)?;
    let machine = match elf.architecture() {
        object::Architecture::X86_64 => Machine::X86_64,
        object::Architecture::Aarch64 => Machine::Aarch64,
        other => return Err(format!("neither x86-64 nor aarch64, but {other:?}").into()),
    };
    let mut segments = Vec::new();
    let mut text: Vec<Range<u64>> = Vec::new();
    for segment in elf.segments() {
        segments.push((segment.address(), segment.data()?));
        if matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.0 & elf::PF_X.0 != 0) {
            text.push(segment.address()..segment.address() + segment.size());
        }
    }
    let image = Segments(&segments);
    let header = object::ObjectSection::address(
        &elf.section_by_name(".eh_frame_hdr")
            .ok_or("no .eh_frame_hdr: which functions there are is not known")?,
    );
    let module = Module::new(machine, &image, &text, Some(header));
    let search = || {
        let start = Instant::now();
        let mut finder = Finder::with_imports(module, blocking(&elf));
        let mut all = Vec::new();
        for range in &text {
            let chunk = spinloop::Image::at(&image, range.start);
            match machine {
                Machine::X86_64 => {
                    all.extend(seeds(chunk).into_iter().map(|(at, seed)| (seed, range.start + at as u64)))
                }
                Machine::Aarch64 => all.extend(
                    spinloop::aarch64::candidates(chunk).map(|at| (Seed::Pause, range.start + at as u64)),
                ),
            }
        }
        all.sort_unstable();
        all.dedup();
        let seeds = start.elapsed();
        let mut jump_sites = Duration::ZERO;
        let mut found = Vec::new();
        for (seed, address) in all {
            let finding = finder.analyse(address, seed);
            let start = Instant::now();
            let jump_site = match &finding {
                Finding::Wait(wait) => finder.jump_site(wait, alone),
                _ => None,
            };
            jump_sites += start.elapsed();
            found.push((address, seed, finding, jump_site));
        }
        (found, [seeds, start.elapsed() - seeds - jump_sites, jump_sites])
    };
    if time {
        let times: Vec<_> = (0..5).map(|_| search().1).collect();
        let least = |n: usize| times.iter().map(|all| all[n]).min().unwrap_or(Duration::ZERO);
        let bytes: u64 = text.iter().map(|range| range.end - range.start).sum();
        println!(
            "{path}: {bytes} bytes of code, seeds {:?}, analysis {:?}, jump sites {:?}",
            least(0),
            least(1),
            least(2)
        );
        return Ok(());
    }

    let mut symbols = BTreeMap::new();
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        if symbol.kind() == object::SymbolKind::Text && symbol.size() > 0 {
            symbols.insert(symbol.address(), (symbol.size(), symbol.name().unwrap_or("?")));
        }
    }
    println!("{path}");
    let mut nothing = 0;
    let mut flags_in_use = 0;
    let (mut kinds, mut jump_sites) = (BTreeMap::new(), BTreeMap::new());
    for (address, seed, finding, jump_site) in search().0 {
        let name = match symbols.range(..=address).next_back() {
            Some((start, (size, name))) if address < start + size => format!("{name}+{:#x}", address - start),
            _ => "-".to_string(),
        };
        let verdict = match finding {
            Finding::Nothing => {
                nothing += 1;
                continue;
            }
            Finding::Leave(reason) => reason.to_string(),
            Finding::Wait(found) => {
                *kinds.entry(word(&found.kind)).or_insert(0) += 1;
                if let (Kind::Counted(_), Some(jump_site)) = (&found.kind, &jump_site) {
                    flags_in_use += u32::from(!spins(&image, &found, jump_site));
                }
                *jump_sites
                    .entry(
                        jump_site.as_ref().map_or("no place for a jump", |jump_site| form(&jump_site.jump)),
                    )
                    .or_insert(0) += 1;
                let jump_site = match jump_site {
                    None => "no place for a jump".to_string(),
                    Some(JumpSite { replaced, jump: Jump::Short(route) }) => {
                        format!("short at {:#x}, {} hops", replaced.start, route.hops().len())
                    }
                    Some(JumpSite { replaced, jump }) => format!("{jump:?} at {:#x}", replaced.start),
                };
                format!(
                    "WAIT {:#x}..{:#x}, {} bytes, {jump_site}, {}",
                    found.head,
                    found.latch,
                    found.bytes,
                    kind(found.kind)
                )
            }
        };
        println!("  {address:#10x}  {seed:?}  {verdict:<50}  {name}");
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

/// The words of the table of imports that lead to functions that block.
fn blocking(elf: &object::File<'_>) -> Vec<(u64, Blocks)> {
    let blocks = |target| match target {
        RelocationTarget::Symbol(index) => elf
            .dynamic_symbol_table()
            .and_then(|symbols| symbols.symbol_by_index(index).ok())
            .and_then(|symbol| symbol.name().ok())
            .and_then(spinloop::blocking),
        _ => None,
    };
    let relocations = elf.dynamic_relocations().into_iter().flatten();
    relocations.filter_map(|(slot, one)| Some((slot, blocks(one.target())?))).collect()
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

fn form(jump: &Jump) -> &'static str {
    match jump {
        Jump::Whole => "whole",
        Jump::Row => "row",
        Jump::Short(_) => "short",
    }
}

fn kind(kind: Kind) -> String {
    match kind {
        Kind::Counted(Counter { place, step, bound, goes_on, blocks, ahead, bits }) => {
            let then = if blocks { "blocks" } else { "goes on" };
            format!(
                "counted: {place:?} of {bits} bits, {step:+} a round, {ahead:+} ahead, {goes_on:?} {bound:?}, then {then}"
            )
        }
        other => format!("{other:?}"),
    }
}
