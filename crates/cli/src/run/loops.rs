//! The busy-wait loops in a program's files, and what the guard would do about each.
//!
//! The same analysis as the preload library's, on files instead of mapped memory.

use super::libraries::Libraries;
use elf_loops::{Code, Symbols};
use preload_abi::filter::{Entry, Filters, NOT_MEANT, Place};
use preload_abi::options::{Guard, Options};
use preload_abi::{LIBRARY_NAME, REQUESTS_LIBRARY_NAME, is_left_alone};
use spinloop::{Counter, Finder, Finding, Jump, JumpSite, Kind, Loop, Seed};
use std::fmt::Write;

/// One loop, as a line of the table.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    module: String,
    site: String,
    fate: String,
}

/// Writes what the guard would do about the loops in `libraries`.
pub fn describe(libraries: &Libraries, options: &Options<'_>, out: &mut impl Write) -> std::fmt::Result {
    if options.guard == Guard::Off {
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
        if !options.filters().module(name.as_bytes()) {
            unmeant.push(name.into_owned());
            continue;
        }
        match std::fs::read(file).ok().and_then(|data| search(&name, &data, options, &mut lines)) {
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
fn search(name: &str, data: &[u8], options: &Options<'_>, lines: &mut Vec<Line>) -> Option<usize> {
    let code = Code::parse(data)?;
    let symbols = Symbols::read(data);
    let mut all = code.seeds();
    let (mut functions, mut places) = (Vec::new(), Vec::new());
    for entry in options.poll.in_module(name.as_bytes()) {
        match entry {
            Entry::Symbol(_, symbol) => functions.push(symbol),
            Entry::Offset(_, offset) => places.push(offset),
            Entry::Executable(_) | Entry::Module(_) => {}
        }
    }
    let is_named = |name: &str| functions.iter().any(|symbol| symbol.names(name.as_bytes()));
    places.extend(symbols.polling(is_named));
    places.sort_unstable();
    places.dedup();
    all.extend(places.into_iter().map(|start| (Seed::Poll, start)));
    lines.extend(code.find(|finder| judge(finder, &all, name, &symbols, options)));
    Some(code.text_bytes())
}

/// What would be done about each of these seeds, by address.
fn judge(
    finder: &mut Finder<'_>,
    all: &[(Seed, u64)],
    name: &str,
    symbols: &Symbols,
    options: &Options<'_>,
) -> Vec<Line> {
    let mut found = Vec::new();
    for &(seed, address) in all {
        let fate = match finder.analyse(address, seed) {
            Finding::Nothing => continue,
            Finding::Leave(reason) => format!("left alone: {}", reason.words()),
            Finding::Wait(_) if !are_selected(symbols, &options.filters(), name, address) => {
                format!("left alone: {NOT_MEANT}")
            }
            Finding::Wait(wait) => {
                let by = match finder.jump_site(&wait, true) {
                    Some(JumpSite { jump: Jump::Whole, .. }) => "repaired by a jump",
                    Some(JumpSite { jump: Jump::Call, .. }) => "repaired by a call",
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
    found.into_iter().map(|(_, line)| line).collect()
}

/// How a wait ends, in a few words.
fn ends(wait: &Loop) -> &'static str {
    match wait.kind {
        Kind::Unbounded => "waits without a bound",
        Kind::Counted(Counter { blocks: true, .. }) => "spins for a number of rounds, then blocks",
        Kind::Counted(_) => "spins for a number of rounds",
        Kind::Timed => "spins for a time",
        Kind::Hint => "may wait around this PAUSE",
        Kind::Poll if wait.head == wait.latch => "its callers wait by polling",
        Kind::Poll => "waits by polling with calls",
    }
}

/// Whether filters leave the loop at `address` in, as the library judges it: by the functions that
/// are exported.
fn are_selected(symbols: &Symbols, filters: &Filters<'_>, module: &str, address: u64) -> bool {
    filters.has(&Place {
        module: module.as_bytes(),
        offset: address,
        lies_in: &|symbol| {
            let mut exported = symbols.around(address).filter(|function| function.exported);
            exported.any(|function| symbol.names(function.name.as_bytes()))
        },
    })
}
