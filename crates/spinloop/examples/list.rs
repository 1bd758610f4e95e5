//! Lists every PAUSE of ELF files, what is said of it, and the way for a jump.
//!
//! ```text
//! cargo run -p spinloop --example list -- [--time] FILE…
//! ```
//!
//! `--time` repeats the search and prints the shortest time it took, without the listing.

use object::{Object, ObjectSegment, ObjectSymbol, SegmentFlags, elf};
use spinloop::{Finder, Finding, Machine, Module, Segments};
use std::collections::BTreeMap;
use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let (flags, files): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|arg| arg.starts_with("--"));
    if files.is_empty() || flags.iter().any(|flag| flag != "--time") {
        eprintln!("usage: list [--time] FILE...");
        return ExitCode::from(2);
    }
    for file in &files {
        if let Err(error) = list(file, !flags.is_empty()) {
            eprintln!("list: {file}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn list(path: &str, time: bool) -> Result<(), Box<dyn std::error::Error>> {
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
        let mut finder = Finder::new(module);
        let mut found = Vec::new();
        for range in &text {
            let chunk = spinloop::Image::at(&image, range.start);
            let offsets: Vec<usize> = match machine {
                Machine::X86_64 => spinloop::candidates(chunk).collect(),
                Machine::Aarch64 => spinloop::aarch64::candidates(chunk).collect(),
            };
            for offset in offsets {
                let address = range.start + offset as u64;
                let finding = finder.analyse(address);
                let route = matches!(finding, Finding::Wait(_)).then(|| finder.route(address)).flatten();
                found.push((address, finding, route));
            }
        }
        found
    };
    if time {
        let least = (0..5)
            .map(|_| {
                let start = Instant::now();
                std::hint::black_box(search());
                start.elapsed()
            })
            .min()
            .unwrap_or(Duration::ZERO);
        let bytes: u64 = text.iter().map(|range| range.end - range.start).sum();
        println!("{path}: {} bytes of code, {} candidates, {least:?}", bytes, search().len());
        return Ok(());
    }

    let mut symbols = BTreeMap::new();
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        if symbol.kind() == object::SymbolKind::Text && symbol.size() > 0 {
            symbols.insert(symbol.address(), (symbol.size(), symbol.name().unwrap_or("?")));
        }
    }
    println!("{path}");
    let mut inside_others = 0;
    for (address, finding, route) in search() {
        let name = match symbols.range(..=address).next_back() {
            Some((start, (size, name))) if address < start + size => format!("{name}+{:#x}", address - start),
            _ => "-".to_string(),
        };
        let verdict = match finding {
            Finding::NotAnInstruction => {
                inside_others += 1;
                continue;
            }
            Finding::Leave(reason) => reason.to_string(),
            Finding::Wait(found) => {
                let route =
                    route.map_or("no room".to_string(), |route| format!("{} hops", route.hops().len()));
                format!("WAIT {:#x}..{:#x}, {} bytes, {route}", found.head, found.latch, found.bytes)
            }
        };
        println!("  {address:#10x}  {verdict:<50}  {name}");
    }
    println!("  {inside_others} inside other instructions");
    Ok(())
}
