//! What the tests share: modules put together by hand, and from a compiler.
// Each test uses a part of it; one range is a list of one range.
#![allow(dead_code, clippy::single_range_in_vec_init)]

use object::{
    Object, ObjectSection, ObjectSegment, ObjectSymbol, ObjectSymbolTable, RelocationTarget, SegmentFlags,
};
use spinloop::{Blocks, Counter, Finder, Finding, Image, Kind, Reason, Seed, Segments, seeds};
use std::ops::Range;

/// A module in memory of its own.
pub struct Built {
    pub segments: Vec<(u64, Vec<u8>)>,
    pub text: Vec<Range<u64>>,
    pub header: u64,
}

impl Built {
    /// Its bytes, as an image wants them.
    pub fn slices(&self) -> Vec<(u64, &[u8])> {
        self.segments.iter().map(|(address, bytes)| (*address, bytes.as_slice())).collect()
    }
}

/// A module with code at `text`, of which `functions` are ranges with unwind information.
pub fn assemble(text: u64, code: &[u8], functions: &[Range<u64>]) -> Built {
    let header = 0x10_0000u64;
    let mut functions = functions.to_vec();
    functions.sort_by_key(|function| function.start);
    let frames = header + 12 + functions.len() as u64 * 8;
    let relative = |to: u64, from: u64| (to.wrapping_sub(from) as i32).to_le_bytes();

    // One CIE: version 1, "zR", alignments 1 and -8, return address in 16, encoding pcrel|sdata4.
    let mut frame = vec![16, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0, 0, 0];
    let mut table = Vec::new();
    for function in &functions {
        let at = frames + frame.len() as u64;
        table.extend(relative(function.start, header));
        table.extend(relative(at, header));
        frame.extend(16u32.to_le_bytes());
        frame.extend(relative(at + 4, frames)); // back to the CIE
        frame.extend(relative(function.start, at + 8));
        frame.extend(((function.end - function.start) as u32).to_le_bytes());
        frame.extend([0, 0, 0, 0]);
    }
    let mut bytes = vec![1, 0x1b, 0x03, 0x3b];
    bytes.extend(relative(frames, header + 4));
    bytes.extend((functions.len() as u32).to_le_bytes());
    bytes.extend(table);
    bytes.extend(frame);
    let end = text + code.len() as u64;
    Built { segments: vec![(text, code.to_vec()), (header, bytes)], text: vec![text..end], header }
}

/// A module from an ELF file, and its functions' names.
pub fn load(data: &[u8]) -> (Built, Vec<(Range<u64>, String)>) {
    let elf = object::File::parse(data).expect("an ELF file");
    let mut built = Built { segments: Vec::new(), text: Vec::new(), header: 0 };
    for segment in elf.segments() {
        let bytes = segment.data().expect("a whole file").to_vec();
        if matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.0 & 1 != 0) {
            built.text.push(segment.address()..segment.address() + bytes.len() as u64);
        }
        built.segments.push((segment.address(), bytes));
    }
    built.header = elf.section_by_name(".eh_frame_hdr").expect("unwind information").address();
    let named = elf.symbols().filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.size() > 0);
    let ranges = named.map(|symbol| {
        let range = symbol.address()..symbol.address() + symbol.size();
        (range, symbol.name().unwrap_or("").to_string())
    });
    let names = ranges.collect();
    (built, names)
}

/// The compilers of the machine, by name.
pub fn compilers() -> Vec<&'static str> {
    let works = |name: &&str| {
        std::process::Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success())
    };
    let found: Vec<_> = ["cc", "clang"].into_iter().filter(works).collect();
    if found.is_empty() {
        testing::skip("neither cc nor clang is installed");
    }
    found
}

/// A shared library from a C source.
pub fn compile(compiler: &str, source: &str, flags: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (input, output) = (folder.path().join("source.c"), folder.path().join("library.so"));
    std::fs::write(&input, source).expect("a source file");
    let run = std::process::Command::new(compiler)
        .args(["-shared", "-fPIC", "-Wall", "-Wno-unused"])
        .args(flags)
        .arg("-o")
        .args([&output, &input])
        .output()
        .expect("a compiler");
    assert!(run.status.success(), "{compiler} {flags:?}: {}", String::from_utf8_lossy(&run.stderr));
    std::fs::read(&output).expect("a library")
}

/// The words of a library that lead to functions that block.
pub fn blocking(data: &[u8]) -> Vec<(u64, Blocks)> {
    let elf = object::File::parse(data).expect("an ELF file");
    let symbols = elf.dynamic_symbol_table().expect("dynamic symbols");
    let blocks = |target| match target {
        RelocationTarget::Symbol(index) => {
            let symbol = symbols.symbol_by_index(index).ok()?;
            match symbol.is_definition() {
                true => Some(Blocks::Own(symbol.address())),
                false => spinloop::blocking(symbol.name().ok()?),
            }
        }
        _ => None,
    };
    let relocations = elf.dynamic_relocations().expect("dynamic relocations");
    relocations.filter_map(|(slot, one)| Some((slot, blocks(one.target())?))).collect()
}

/// What a module's seeds turn out to be, kind by kind, each in the order of addresses.
pub fn findings(finder: &mut Finder<'_>, built: &Built) -> Vec<(u64, Seed, Finding)> {
    let mut all = Vec::new();
    let slices = built.slices();
    let image = Segments(&slices);
    for range in &built.text {
        let found = seeds(image.at(range.start));
        all.extend(found.into_iter().map(|(at, seed)| (seed, range.start + at as u64)));
    }
    all.sort_unstable();
    all.into_iter().map(|(seed, address)| (address, seed, finder.analyse(address, seed))).collect()
}

/// The word for a finding.
pub fn word(finding: &Finding) -> &'static str {
    match finding {
        Finding::Wait(found) => match found.kind {
            Kind::Unbounded => "wait",
            Kind::Counted(Counter { blocks: false, .. }) => "counted",
            Kind::Counted(Counter { blocks: true, .. }) => "blocks",
            Kind::Timed => "timed",
            Kind::Hint => "hint",
            Kind::Poll => "poll",
        },
        Finding::Nothing => "nothing",
        Finding::Leave(Reason::Counted) => "bounded",
        Finding::Leave(Reason::Timed) => "delay",
        Finding::Leave(Reason::NoLoad) => "noload",
        Finding::Leave(Reason::NoExit) => "noexit",
        Finding::Leave(Reason::Works) => "works",
        Finding::Leave(Reason::NotInALoop) => "notinaloop",
        Finding::Leave(Reason::TooLong) => "toolong",
        Finding::Leave(Reason::NoFunction) => "nofunction",
        Finding::Leave(Reason::Undecodable) => "undecodable",
        Finding::Leave(_) => "?",
    }
}
