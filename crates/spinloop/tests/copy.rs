//! Copies of loops, run for real: the same results, every way in and out marked, a visit in every
//! round.
//!
//! The loops are compiled, loaded into the test's own process, and an instruction of each replaced
//! by a breakpoint whose handler leads to the copies: the pivot, or any other of its block. The
//! waiter is the test's own: it counts, checks what it is told, and ends the wait at a visit of its
//! choice, so no second thread is needed.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
// A list of one range is meant as such.
#![allow(clippy::single_range_in_vec_init)]

mod common;

use common::{Built, compilers, load};
use iced_x86::{Code, Decoder, DecoderOptions};
use proptest::prelude::*;
use spinloop::relocation::{Bases, relocate};
use spinloop::{
    COPY_BYTES_MAX, Finder, Finding, Hooks, Image, Kind, Loop, Machine, Module, Original, Segments, copy,
    seeds,
};
use std::ffi::CString;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const SOURCE: &str = include_str!("copied.c");

// The two words of each thread, and the trampoline: everything kept but what `visit` is told.
core::arch::global_asm!(
    // Global: what uses them may be compiled into another object file.
    ".globl copy_test_words", ".globl copy_test_trampoline",
    ".pushsection .tbss.copy_test,\"awT\",@nobits",
    ".balign 16",
    "copy_test_words: .zero 16",
    ".popsection",
    ".pushsection .text",
    "copy_test_trampoline:",
    "pushfq",
    "push rax",
    "push rcx",
    "push rdx",
    "push rsi",
    "push rdi",
    "push r8",
    "push r9",
    "push r10",
    "push r11",
    "push rbp",
    "mov rbp, rsp",
    "mov rdi, [rbp + 88]",
    "mov rsi, [rbp + 104]",
    "and rsp, -16",
    "sub rsp, 512",
    "fxsave64 [rsp]",
    "call {visit}",
    "fxrstor64 [rsp]",
    "mov rsp, rbp",
    "pop rbp",
    "pop r11",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rdi",
    "pop rsi",
    "pop rdx",
    "pop rcx",
    "pop rax",
    "popfq",
    "lea rsp, [rsp + 8]",
    "ret 136",
    ".popsection",
    visit = sym visit,
);

/// How far the two words lie from the thread pointer.
fn distance() -> i32 {
    let distance: i64;
    // SAFETY: reads the variable's offset from the thread pointer, which the loader filled in.
    unsafe {
        core::arch::asm!("mov {}, qword ptr [rip + copy_test_words@GOTTPOFF]", out(reg) distance);
    }
    distance as i32
}

fn trampoline() -> u64 {
    let address: u64;
    // SAFETY: takes an address.
    unsafe { core::arch::asm!("lea {}, [rip + copy_test_trampoline]", out(reg) address) };
    address
}

/// The calling thread's two words: waiting, rounds.
fn words() -> &'static [AtomicU64; 2] {
    let base: usize;
    // SAFETY: the first word at the thread pointer is the thread pointer.
    unsafe { core::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) base) };
    let place = base.wrapping_add_signed(distance() as isize) as *const [AtomicU64; 2];
    // SAFETY: sixteen bytes of the thread's own, aligned, and all zeroes at first.
    unsafe { &*place }
}

/// What a wait's visits are told and tell; a site's number is its address.
#[repr(C)]
struct Wait {
    entered_at: u64,
    /// The byte that the breakpoint has taken the place of.
    byte: u8,
    is_loop: bool,
    visits: *const AtomicU64,
    ends_at: u64,
    place: *const AtomicU64,
    value: u64,
    wrong: AtomicU64,
}

extern "C" fn visit(site: &Wait, behind: u64) {
    // SAFETY: both words outlive the wait.
    let (visits, place) = unsafe { (&*site.visits, &*site.place) };
    let [waiting, rounds] = words();
    let here = core::ptr::from_ref(site).addr() as u64;
    let seen = visits.fetch_add(1, Ordering::Relaxed) + 1;
    // The way in says that no wait goes on; from then on it is this one's. A hint knows of no wait.
    let expected = match (site.is_loop, seen) {
        (false, _) => NOBODY,
        (true, 1) => 0,
        (true, _) => here,
    };
    // One copy may hold several PAUSEs: each tells its own place in the loop.
    let known = PLACES.iter().any(|place| place.load(Ordering::Relaxed) == behind);
    let wrong = waiting.load(Ordering::Relaxed) != expected || !known;
    site.wrong.fetch_add(u64::from(wrong), Ordering::Relaxed);
    if site.is_loop {
        waiting.store(here, Ordering::Relaxed);
    }
    rounds.store(0, Ordering::Relaxed);
    if seen == site.ends_at {
        place.store(site.value, Ordering::Relaxed);
    }
}

/// What the word of the thread holds before a wait.
const NOBODY: u64 = 0x5555;

/// Where visits say that they stand: behind a PAUSE, or before any other pivot.
static PLACES: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

/// Breakpoints and where they lead.
static LEADS: [(AtomicUsize, AtomicUsize); 8] = [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; 8];

extern "C" fn lead(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes the context, valid until the handler returns.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let rip = &mut registers[libc::REG_RIP as usize];
    let here = *rip as usize - 1;
    match LEADS.iter().find(|(from, _)| from.load(Ordering::Relaxed) == here) {
        Some((_, to)) => *rip = to.load(Ordering::Relaxed) as i64,
        None => std::process::abort(),
    }
}

/// A library in this process.
struct Loaded {
    built: Built,
    names: Vec<(Range<u64>, String)>,
    bias: u64,
    handle: *mut libc::c_void,
}

impl Loaded {
    fn new(compiler: &str, flags: &[&str]) -> Loaded {
        let bytes = common::compile(compiler, SOURCE, flags);
        let (mut built, names) = load(&bytes);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("loops.so");
        std::fs::write(&path, bytes).expect("written");
        let path = CString::new(path.to_str().expect("utf-8")).expect("no zero");
        // SAFETY: the library has no constructors of its own.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "loaded");
        let plain = names.iter().find(|(_, name)| name == "plain").expect("a function").0.start;
        let bias = symbol(handle, "plain") as u64 - plain;
        built.segments.iter_mut().for_each(|(address, _)| *address += bias);
        built.text.iter_mut().for_each(|range| *range = range.start + bias..range.end + bias);
        built.header += bias;
        Loaded { built, names, bias, handle }
    }

    /// Where a function lies.
    fn function(&self, name: &str) -> Range<u64> {
        let found = self.names.iter().find(|(_, other)| other == name).unwrap_or_else(|| panic!("{name}"));
        found.0.start + self.bias..found.0.end + self.bias
    }
}

fn symbol(handle: *mut libc::c_void, name: &str) -> usize {
    let text = CString::new(name).expect("no zero");
    // SAFETY: looks a name up.
    let found = unsafe { libc::dlsym(handle, text.as_ptr()) } as usize;
    assert_ne!(found, 0, "{name}");
    found
}

/// A block of pages that may be written and run, in reach of `near`.
fn room_near(near: u64) -> u64 {
    const BYTES: usize = 16 * 4096;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    for step in 1..4096u64 {
        let at = (near & !0xffff) - step * 0x4_0000;
        // SAFETY: a new mapping, which replaces none.
        let made = unsafe { libc::mmap(at as *mut _, BYTES, rights, flags, -1, 0) };
        if made as u64 == at {
            return at;
        }
    }
    panic!("no room near {near:#x}");
}

#[repr(C)]
#[derive(Default)]
struct State {
    word: AtomicU64,
    other: AtomicU64,
    rounds: u64,
    result: u64,
}

/// A wait: in which function, which word ends it with which value, and what the function then
/// returns.
struct Case {
    name: &'static str,
    /// The function that holds the loop, if it is another.
    of: &'static str,
    place: Place,
    begin: u64,
    value: u64,
    returns: u64,
    /// Whether rounds can be spun without a visit, if the compiler has no say in it.
    spins: Option<bool>,
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Word,
    Other,
    OfModule,
}

const fn case(name: &'static str, place: Place, value: u64, returns: u64) -> Case {
    Case { name, of: name, place, begin: 0, value, returns, spins: None }
}

const CASES: &[Case] = &[
    case("plain", Place::Word, 9, 9),
    case("two_pauses", Place::Word, 1, 1),
    case("two_pauses", Place::Word, 2, 2),
    case("two_pauses", Place::Word, 3, 3),
    case("module_word", Place::OfModule, 6, 6),
    case("compares", Place::Word, 3, 5),
    Case { begin: 1, ..case("exchanges", Place::Other, 0, 41) },
    case("several_exits", Place::Word, 1, 10),
    case("several_exits", Place::Word, 2, 20),
    case("several_exits", Place::Word, 3, 30),
    case("keeps_registers", Place::Word, 1, 1),
    case("by_loop", Place::Word, 8, 8),
    Case { spins: Some(true), ..case("falls_out", Place::Word, 1, 4) },
    Case { spins: Some(true), ..case("falls_out", Place::Other, 1, 5) },
    Case { spins: Some(false), ..case("keeps_flags", Place::Word, 3, 3) },
    Case { spins: Some(false), ..case("keeps_flags_past_a_shift_by_none", Place::Word, 4, 4) },
    Case { spins: Some(true), ..case("keeps_the_red_zone", Place::Word, 1, 155) },
    case("empty", Place::Word, 7, 7),
    case("empty_of_module", Place::OfModule, 7, 7),
    case("by_nops", Place::Word, 7, 7),
    // The other PAUSE is not visited.
    case("counts_with_two_pauses", Place::Word, 7, 7),
    Case { of: "relax", ..case("calls", Place::Word, 7, 7) },
];

/// The instructions of a range: where they begin and what they are.
fn instructions(image: &dyn Image, range: &Range<u64>) -> Vec<(u64, Code)> {
    let bytes = &image.at(range.start)[..(range.end - range.start) as usize];
    let decoder = Decoder::with_ip(64, bytes, range.start, DecoderOptions::NONE);
    decoder.into_iter().map(|one| (one.ip(), one.code())).collect()
}

/// The waits in a function.
fn waits(finder: &mut Finder<'_>, code: &[u8], start: u64) -> Vec<Loop> {
    let mut all = seeds(code);
    all.sort_unstable_by_key(|&(at, seed)| (seed, at));
    let found = all.into_iter().filter_map(|(at, seed)| match finder.analyse(start + at as u64, seed) {
        Finding::Wait(found) => Some(found),
        _ => None,
    });
    found.collect()
}

/// Runs one function, whose loops lead to copies that spin `site_rounds` rounds first and are
/// visited `ends_at` times. The breakpoint is at the pivot, or at another instruction of its block:
/// the one of number `entry`. Returns whether there is one.
fn wait(loaded: &Loaded, room: u64, case: &Case, entry: usize, ends_at: u64, site_rounds: u64) -> bool {
    let slices = loaded.built.slices();
    let image = Segments(&slices);
    let mut finder =
        Finder::new(Module::new(Machine::X86_64, &image, &loaded.built.text, Some(loaded.built.header)));
    let function = loaded.function(case.name);
    let holder = loaded.function(case.of);
    let code = &image.at(holder.start)[..(holder.end - holder.start) as usize];
    let found = waits(&mut finder, code, holder.start);
    if found.is_empty() {
        // Unoptimised code may hide an empty loop.
        assert!(case.name.starts_with("empty"), "{}: no loop", case.name);
        return false;
    }
    let entered_at = |found: &Loop| {
        let mut block = instructions(&image, &found.home);
        block.retain(|(at, _)| found.kind != Kind::Hint || *at == found.pivot);
        block.sort_by_key(|(at, _)| (*at != found.pivot, *at));
        block.get(entry).map(|(at, _)| *at)
    };
    if found.iter().any(|found| entered_at(found).is_none()) {
        return false;
    }
    let of_module = symbol(loaded.handle, "place_of_module");
    // SAFETY: the function's type.
    let of_module =
        unsafe { &*core::mem::transmute::<usize, extern "C" fn() -> *const AtomicU64>(of_module)() };
    let mut state = Box::new(State::default());
    let visits = AtomicU64::new(0);
    let place = match case.place {
        Place::Word => &state.word,
        Place::Other => &state.other,
        Place::OfModule => of_module,
    };
    place.store(case.begin, Ordering::Relaxed);
    let place = core::ptr::from_ref(place);
    let mut sites = Vec::new();
    let mut spins = true;
    // SAFETY: the room is ours: its first word holds the rounds, the copies stand behind it.
    unsafe { (room as *mut u64).write(site_rounds) };
    PLACES.iter().for_each(|place| place.store(0, Ordering::Relaxed));
    for found in &found {
        let entered_at = entered_at(found).expect("there is one");
        let is_loop = found.kind != Kind::Hint;
        let only_pivot = matches!(found.kind, Kind::Counted(_));
        let original = Original { parts: &found.parts, pivot: found.pivot, entered_at, is_loop, only_pivot };
        for (at, code) in found.parts.iter().flat_map(|part| instructions(&image, part)) {
            let free = PLACES.iter().find(|place| place.load(Ordering::Relaxed) == 0).expect("a place");
            if code == Code::Pause && (!only_pivot || at == found.pivot) {
                free.store(at + 2, Ordering::Relaxed);
            } else if at == found.pivot {
                free.store(at, Ordering::Relaxed);
            }
        }
        let wait = Wait {
            entered_at,
            byte: image.at(entered_at)[0],
            is_loop,
            visits: &raw const visits,
            ends_at,
            place,
            value: case.value,
            wrong: AtomicU64::new(0),
        };
        let site = Box::new(wait);
        let at = room + 16 + (sites.len() * COPY_BYTES_MAX) as u64;
        let hooks = Hooks {
            trampoline: trampoline(),
            site: core::ptr::from_ref(&*site).addr() as u64,
            waiting: distance(),
            rounds: distance() + 8,
            site_rounds: room,
        };
        // Made at another place, for nobody, and moved.
        let elsewhere = at + 0x1230;
        let nobody = Hooks { site_rounds: elsewhere - 64, waiting: -8, rounds: -16, trampoline: 1, site: 2 };
        let mut made = copy(&image, &original, elsewhere, &nobody).expect(case.name);
        let from = Bases { copy: elsewhere, module: 0, hooks: nobody };
        let to = Bases { copy: at, module: 0, hooks };
        relocate(&mut made.bytes, made.relocations.clone(), &from, &to).expect(case.name);
        made.entry -= elsewhere - at;
        assert_eq!(Some(&made), copy(&image, &original, at, &hooks).as_ref(), "{}", case.name);
        let inside = at..at + made.bytes.len() as u64;
        assert!(inside.contains(&made.entry) && made.bytes.len() <= COPY_BYTES_MAX);
        spins &= made.spins;
        // SAFETY: room for the copy; then one byte of the library's text, which nobody else runs.
        unsafe {
            (at as *mut u8).copy_from_nonoverlapping(made.bytes.as_ptr(), made.bytes.len());
            write_text(entered_at, 0xcc);
        }
        let (from, to) = &LEADS[sites.len()];
        to.store(made.entry as usize, Ordering::Relaxed);
        from.store(entered_at as usize, Ordering::Relaxed);
        sites.push(site);
    }
    assert!(
        !sites.is_empty() && case.spins.is_none_or(|expected| expected == spins),
        "{}: {spins}",
        case.name
    );
    let [waiting, rounds] = words();
    let is_loop = sites.iter().all(|site| site.is_loop);
    waiting.store(NOBODY, Ordering::Relaxed);
    // A way into a loop gives the thread its rounds; a hint counts what the last visit left.
    rounds.store(if is_loop { 0x7777 } else { 0 }, Ordering::Relaxed);
    let run = function.start as usize;
    // SAFETY: the function's type; the copies are in place.
    let returned =
        unsafe { core::mem::transmute::<usize, extern "C" fn(*mut State) -> u64>(run)(&raw mut *state) };
    let told = format!("{} entered at {entry} ended at {ends_at} after {site_rounds}", case.name);
    assert_eq!(returned, case.returns, "{told}");
    // Flags from before a PAUSE decide behind it: one more round, if they are as they were.
    let behind_the_end = u64::from(case.name.starts_with("keeps_flags"));
    if case.name != "two_pauses" {
        assert_eq!(
            visits.load(Ordering::Relaxed),
            ends_at + behind_the_end,
            "{told}: a visit in every round"
        );
    }
    let left = if is_loop { 0 } else { NOBODY };
    assert_eq!(waiting.load(Ordering::Relaxed), left, "{told}: the way out is marked");
    if case.name == "keeps_registers" {
        let spun = if spins { site_rounds } else { 0 };
        // A way in behind the PAUSE has run it already.
        let before = u64::from(entry > 0 && state.rounds > ends_at + spun);
        assert_eq!(state.rounds, ends_at + spun + before, "{told}: rounds with and without a visit");
    }
    for (site, (from, _)) in sites.iter().zip(&LEADS) {
        assert_eq!(site.wrong.load(Ordering::Relaxed), 0, "{told}: what the waiter was told");
        from.store(0, Ordering::Relaxed);
        // SAFETY: the library's own byte again.
        unsafe { write_text(site.entered_at, site.byte) };
    }
    true
}

/// # Safety
/// The byte must be one that nobody runs meanwhile.
unsafe fn write_text(address: u64, byte: u8) {
    let page = (address & !4095) as *mut libc::c_void;
    // SAFETY: as the caller promised; the rights end as they were.
    unsafe {
        assert_eq!(libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC), 0);
        (address as *mut u8).write_volatile(byte);
        assert_eq!(libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_EXEC), 0);
    }
}

#[test]
fn copies_do_what_the_loops_do() {
    // SAFETY: the handler changes the place to go on from, and nothing else.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = lead as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &raw const action, core::ptr::null_mut()), 0);
    }
    for compiler in compilers() {
        for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
            let loaded = Loaded::new(compiler, &[level]);
            let room = room_near(loaded.function("plain").start);
            for case in CASES {
                for (ends_at, site_rounds) in [(1, 0), (2, 0), (7, 0), (1, 10), (3, 1)] {
                    let entries =
                        (0..24).take_while(|&entry| wait(&loaded, room, case, entry, ends_at, site_rounds));
                    let hidden = level == "-O0" && case.name.starts_with("empty");
                    assert!(entries.count() > 0 || hidden, "{compiler} {level}: {}", case.name);
                }
            }
        }
    }
}

const TEXT: u64 = 0x1_0000_0000;
const PAUSE: [u8; 2] = [0xf3, 0x90];

fn hooks() -> Hooks {
    Hooks { trampoline: 0x7000, site: 0x8000, waiting: -64, rounds: -56, site_rounds: TEXT + 0x20_0000 }
}

/// By how much a module is moved.
const SHIFT: u64 = 0x1234_5000;

fn other_hooks() -> Hooks {
    let site_rounds = TEXT + SHIFT + 0x12_3000;
    Hooks { trampoline: 0x7777_0000_7000, site: 0x8888_0000_8000, waiting: -320, rounds: 4096, site_rounds }
}

fn copy_of(code: &[u8], pause: u64) -> Option<spinloop::Copy> {
    let end = TEXT + code.len() as u64;
    copy(&Segments(&[(TEXT, code)]), &of(&[TEXT..end], TEXT + pause), TEXT + 0x10_0000, &hooks())
}

fn of(parts: &[Range<u64>], pivot: u64) -> Original<'_> {
    Original { parts, pivot, entered_at: pivot, is_loop: true, only_pivot: false }
}

#[test]
fn code_that_cannot_be_copied_is_refused() {
    // pause; cmp byte [rdi], 0; jne back
    let spin = [0xf3, 0x90, 0x80, 0x3f, 0, 0x75, 0xf9];
    assert!(copy_of(&spin, 0).is_some());
    assert!(copy_of(&spin, 2).is_some(), "any instruction can be the pivot");
    let image = Segments(&[(TEXT, &spin)]);
    let elsewhere = Original { entered_at: TEXT + 3, ..of(&[TEXT..TEXT + 7], TEXT) };
    assert_eq!(copy(&image, &elsewhere, TEXT + 0x10_0000, &hooks()), None, "no instruction to enter at");
    assert_eq!(copy_of(&spin, 3), None, "no instruction there");
    assert_eq!(copy_of(&spin, 100), None, "not in the loop");
    assert_eq!(copy_of(&spin[..6], 0), None, "cut in the middle of an instruction");
    assert_eq!(copy_of(&[&spin[..], &[0xe8, 0, 0, 0, 0]].concat(), 0), None, "a call");
    assert_eq!(copy_of(&[&spin[..], &[0x0f, 0x05]].concat(), 0), None, "a system call");
    assert_eq!(copy_of(&[&spin[..], &[0xcc]].concat(), 0), None, "a breakpoint");
    assert_eq!(copy_of(&[&spin[..], &[0x06]].concat(), 0), None, "no instruction at all");
    let long = [&PAUSE[..], &[0x90; COPY_BYTES_MAX], &[0x75, 0xf9]].concat();
    assert_eq!(copy_of(&long, 0), None, "too long");
    let image = Segments(&[(TEXT, &spin)]);
    let reversed = Range { start: TEXT + 7, end: TEXT };
    for parts in [&[][..], &[reversed], &[TEXT..TEXT + 8], &[TEXT - 8..TEXT + 7], &[0..u64::MAX]] {
        assert_eq!(copy(&image, &of(parts, TEXT), TEXT + 0x10_0000, &hooks()), None, "{parts:?}");
    }
    // Operands and exits that a copy so far away cannot reach.
    let relative = [&PAUSE[..], &[0x80, 0x3d, 0, 0, 0, 0, 0, 0x75, 0xf5]].concat();
    let parts = [TEXT..TEXT + relative.len() as u64];
    let image = Segments(&[(TEXT, &relative)]);
    assert_eq!(copy(&image, &of(&parts, TEXT), TEXT + (1 << 40), &hooks()), None, "too far");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn random_code_is_copied_within_bounds_or_not_at_all(
        mut code in prop::collection::vec(any::<u8>(), 2..200),
        pauses in prop::collection::vec(any::<prop::sample::Index>(), 1..8),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        far in prop::sample::select(vec![0x1000u64, 0x10_0000, 0x7fff_0000, 1 << 33]),
    ) {
        let places: Vec<usize> = pauses.iter().map(|index| index.index(code.len() - 1)).collect();
        places.iter().for_each(|&at| code[at..at + 2].copy_from_slice(&PAUSE));
        let mut edges: Vec<u64> = cuts.iter().map(|index| TEXT + index.index(code.len()) as u64).collect();
        edges.extend([TEXT, TEXT + code.len() as u64]);
        edges.sort_unstable();
        let parts: Vec<_> = edges.windows(2).step_by(2).map(|pair| pair[0]..pair[1]).collect();
        let image = Segments(&[(TEXT, &code)]);
        let at = TEXT + far;
        for pause in places {
            let (is_loop, only_pivot) = (pause % 2 == 0, pause % 3 == 0);
            let original = Original { is_loop, only_pivot, ..of(&parts, TEXT + pause as u64) };
            if let Some(made) = copy(&image, &original, at, &hooks()) {
                prop_assert!(made.bytes.len() <= COPY_BYTES_MAX);
                let inside = at..at + made.bytes.len() as u64;
                prop_assert!(inside.contains(&made.entry));
                // The same module elsewhere, and another distance to the copy.
                let parts: Vec<_> = parts.iter().map(|part| part.start + SHIFT..part.end + SHIFT).collect();
                let image = Segments(&[(TEXT + SHIFT, &code)]);
                let entered_at = original.entered_at + SHIFT;
                let moved = Original { parts: &parts, pivot: original.pivot + SHIFT, entered_at, ..original };
                let to = Bases { copy: at + SHIFT - 0x5550, module: SHIFT, hooks: other_hooks() };
                if let Some(other) = copy(&image, &moved, to.copy, &to.hooks) {
                    prop_assert_eq!(made.entry - at, other.entry - to.copy);
                    prop_assert_eq!((made.spins, &made.depths), (other.spins, &other.depths));
                    let from = Bases { copy: at, module: 0, hooks: hooks() };
                    let mut bytes = made.bytes;
                    for (from, to) in [(&from, &Bases::NOWHERE), (&Bases::NOWHERE, &to)] {
                        prop_assert_eq!(relocate(&mut bytes, made.relocations.clone(), from, to), Some(()));
                    }
                    prop_assert_eq!(bytes, other.bytes);
                    let nowhere = relocate(&mut [0; 8], made.relocations, &from, &to);
                    prop_assert_eq!(nowhere, None, "the fields lie outside");
                }
            }
        }
    }
}
