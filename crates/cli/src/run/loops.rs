//! The busy-wait loops in a program's files, and what the guard would do about each.
//!
//! The same analysis as the preload library's, on files instead of mapped memory.

use super::libraries::Libraries;
use super::settings::Settings;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{
    Endianness, Object as _, ObjectSymbol as _, ObjectSymbolTable as _, RelocationTarget, SymbolKind,
};
use preload_abi::filter::{Filters, NOT_MEANT, Place};
use preload_abi::options::Guard;
use preload_abi::{LIBRARY_NAME, REQUESTS_LIBRARY_NAME, is_left_alone};
use spinloop::{
    Blocks, Counter, Finder, Finding, Jump, JumpSite, Kind, Loop, Machine, Module, POLLING, Seed, Segments,
    seeds,
};
use std::fmt::Write;

/// Whose instructions are searched.
const HOST: Machine = if cfg!(target_arch = "aarch64") { Machine::Aarch64 } else { Machine::X86_64 };
/// How many functions may start between a function's start and an address in it: aliases and inner
/// labels.
const NESTED_MAX: usize = 16;

/// One loop, as a line of the table.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    module: String,
    site: String,
    fate: String,
}

/// Writes what the guard would do about the loops in `libraries`.
pub fn describe(libraries: &Libraries, settings: &Settings, out: &mut impl Write) -> std::fmt::Result {
    if settings.guard() == Guard::Off {
        return writeln!(out, "no loop is repaired: the guard is off");
    }
    let (mut lines, mut files, mut bytes) = (Vec::new(), 0, 0);
    let (mut unread, mut unmeant) = (Vec::new(), Vec::new());
    for (index, file) in libraries.files.iter().enumerate() {
        // The program is known by its file's own name, a library by that by which the loader finds
        // it.
        let target = if index == 0 { file.canonicalize().ok() } else { None };
        let file = target.as_ref().unwrap_or(file);
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
        if is_left_alone(name.as_bytes()) || [LIBRARY_NAME, REQUESTS_LIBRARY_NAME].contains(&&*name) {
            continue;
        }
        if !settings.filters().module(name.as_bytes()) {
            unmeant.push(name.into_owned());
            continue;
        }
        match std::fs::read(file).ok().and_then(|data| search(&name, &data, settings, &mut lines)) {
            Some(searched) => {
                files += 1;
                bytes += searched;
            }
            None => unread.push(file.display().to_string()),
        }
    }
    let loops = lines.len();
    writeln!(
        out,
        "{loops} busy-wait {} in {files} {}, {:.1} MB of text; libraries that are opened later are searched then",
        if loops == 1 { "candidate" } else { "candidates" },
        if files == 1 { "file" } else { "files" },
        bytes as f64 / 1e6,
    )?;
    let width = |of: fn(&Line) -> &str, head: &str| {
        lines.iter().map(|line| of(line).chars().count()).chain([head.len()]).max().unwrap_or(0)
    };
    let (modules, sites) = (width(|l| &l.module, "MODULE"), width(|l| &l.site, "SITE"));
    if loops > 0 {
        writeln!(out, "{:modules$}  {:sites$}  WHAT WOULD BE DONE", "MODULE", "SITE")?;
    }
    for Line { module, site, fate } in &lines {
        writeln!(out, "{module:modules$}  {site:sites$}  {fate}")?;
    }
    for name in &unmeant {
        writeln!(out, "not searched: {name} is {NOT_MEANT}")?;
    }
    for name in &libraries.missing {
        writeln!(out, "not searched: {name} was not found")?;
    }
    for file in &unread {
        writeln!(out, "not searched: {file} cannot be read as a library")?;
    }
    Ok(())
}

/// Searches one file and returns the size of its text; `None` if it cannot be understood.
fn search(name: &str, data: &[u8], settings: &Settings, lines: &mut Vec<Line>) -> Option<usize> {
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let (mut segments, mut text, mut unwind) = (Vec::new(), Vec::new(), None);
    for segment in header.program_headers(endian, data).ok()? {
        let address = segment.p_vaddr(endian);
        match segment.p_type(endian) {
            elf::PT_LOAD => {
                let bytes = segment.data(endian, data).ok()?;
                segments.push((address, bytes));
                if segment.p_flags(endian).contains(elf::PF_X) {
                    text.push(address..address.checked_add(bytes.len() as u64)?);
                }
            }
            elf::PT_GNU_EH_FRAME => unwind = Some(address),
            _ => {}
        }
    }
    let symbols = Symbols::read(data);
    let image = Segments(&segments);
    let module = Module::new(HOST, &image, &text, unwind);
    let mut finder = Finder::with_imports(module, blocking(data));
    let mut all: Vec<(Seed, u64)> = Vec::new();
    for range in &text {
        let bytes =
            segments.iter().find(|(start, _)| *start == range.start).map_or(&[][..], |(_, bytes)| bytes);
        let address = |at: usize| range.start + at as u64;
        match HOST {
            Machine::X86_64 => all.extend(seeds(bytes).into_iter().map(|(at, seed)| (seed, address(at)))),
            Machine::Aarch64 => {
                all.extend(spinloop::aarch64::candidates(bytes).map(|at| (Seed::Pause, address(at))));
            }
        }
    }
    // As the library asks: one kind after the other.
    all.sort_unstable();
    all.extend(symbols.polling().map(|start| (Seed::Poll, start)));
    let mut found = Vec::new();
    for (seed, address) in all {
        let fate = match finder.analyse(address, seed) {
            Finding::Nothing => continue,
            Finding::Leave(reason) => format!("left alone: {}", reason.words()),
            Finding::Wait(_) if !symbols.are_selected(&settings.filters(), name, address) => {
                format!("left alone: {NOT_MEANT}")
            }
            Finding::Wait(wait) => {
                let by = match finder.jump_site(&wait, true) {
                    Some(JumpSite { jump: Jump::Whole, .. }) => "repaired by a jump",
                    Some(JumpSite { jump: Jump::Row, .. }) => {
                        "repaired by a jump in the place of several instructions"
                    }
                    Some(JumpSite { jump: Jump::Short(_), .. }) => "repaired by a jump through dead bytes",
                    None => "left alone: no jump fits",
                };
                format!("{by}; {}", ends(&wait))
            }
        };
        found.push((address, Line { module: name.to_owned(), site: symbols.name(address), fate }));
    }
    found.sort_by_key(|(address, _)| *address);
    lines.extend(found.into_iter().map(|(_, line)| line));
    Some(text.iter().map(|range| (range.end - range.start) as usize).sum())
}

/// How a wait ends, in a few words.
fn ends(wait: &Loop) -> &'static str {
    match wait.kind {
        Kind::Unbounded => "waits without a bound",
        Kind::Counted(Counter { blocks: true, .. }) => "spins for a number of rounds, then blocks",
        Kind::Counted(_) => "spins for a number of rounds",
        Kind::Timed => "spins for a time",
        Kind::Hint => "may wait around this PAUSE",
        Kind::Poll => "its callers wait by polling",
    }
}

/// The words of a file's table of imports that lead to functions that block.
fn blocking(data: &[u8]) -> Vec<(u64, Blocks)> {
    let Ok(file) = object::File::parse(data) else { return Vec::new() };
    let Some(relocations) = file.dynamic_relocations() else { return Vec::new() };
    let Some(symbols) = file.dynamic_symbol_table() else { return Vec::new() };
    let blocks = |target| match target {
        RelocationTarget::Symbol(index) => {
            symbols.symbol_by_index(index).and_then(|symbol| symbol.name()).ok().and_then(spinloop::blocking)
        }
        _ => None,
    };
    relocations.filter_map(|(slot, one)| Some((slot, blocks(one.target())?))).collect()
}

/// A function that a file names.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    start: u64,
    size: u64,
    /// Whether other modules see it, and so the library.
    exported: bool,
    name: String,
}

/// The functions that a file names.
struct Symbols {
    /// By address.
    functions: Vec<Function>,
}

impl Symbols {
    fn read(data: &[u8]) -> Symbols {
        let mut functions = Vec::new();
        if let Ok(file) = object::File::parse(data) {
            let exported = file.dynamic_symbols().map(|symbol| (symbol, true));
            for (symbol, exported) in file.symbols().map(|symbol| (symbol, false)).chain(exported) {
                if symbol.kind() == SymbolKind::Text
                    && symbol.is_definition()
                    && let Ok(name) = symbol.name()
                {
                    let (start, size, name) = (symbol.address(), symbol.size(), name.to_owned());
                    functions.push(Function { start, size, exported, name });
                }
            }
        }
        functions.sort();
        Symbols { functions }
    }

    /// Where the file's own functions by which threads poll begin.
    fn polling(&self) -> impl Iterator<Item = u64> {
        let polls = |function: &&Function| {
            function.exported && POLLING.iter().any(|name| name.to_bytes() == function.name.as_bytes())
        };
        self.functions.iter().filter(polls).map(|function| function.start)
    }

    /// The functions that hold `address`, the last that starts before it first.
    fn around(&self, address: u64) -> impl Iterator<Item = &Function> {
        let next = self.functions.partition_point(|function| function.start <= address);
        let near = self.functions[..next].iter().rev().take(NESTED_MAX);
        near.filter(move |function| address - function.start < function.size)
    }

    /// The function that holds `address` and the offset in it, with the address itself unless the
    /// library knows the function by its name, too; or the address.
    fn name(&self, address: u64) -> String {
        let exported = self.around(address).find(|function| function.exported);
        match exported.or_else(|| self.around(address).next()) {
            Some(Function { start, exported: true, name, .. }) => format!("{name}+{:#x}", address - start),
            Some(Function { start, name, .. }) => format!("{name}+{:#x} ({address:#x})", address - start),
            None => format!("{address:#x}"),
        }
    }

    /// Whether filters leave the loop at `address` in, as the library judges it: by the functions
    /// that are exported.
    fn are_selected(&self, filters: &Filters<'_>, module: &str, address: u64) -> bool {
        filters.has(&Place {
            module: module.as_bytes(),
            offset: address,
            lies_in: &|symbol| {
                let mut exported = self.around(address).filter(|function| function.exported);
                exported.any(|function| symbol.names(function.name.as_bytes()))
            },
        })
    }
}
