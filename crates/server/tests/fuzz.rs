//! Fuzzing of the protocol, by seeds: `cargo xtask fuzz resp` and `cargo xtask fuzz inline`. A few
//! inputs each time; by hand as many as one likes.
//!
//! 1. No bytes make the parser panic.
//! 2. It does not matter where a stream is cut.
//! 3. What the parser keeps is bounded by the bytes that have come, whatever lengths they announce.
//! 4. A command that was written is read as it was.

mod support;

use fastrand::Rng;
use server::resp::{Limits, Parser, ProtocolError, Reply, Step};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use testing::{fuzz, mutate};

/// Counts the bytes that each thread has allocated and not freed.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

fn add(bytes: isize) {
    // At the end of a thread nothing is counted any more.
    let _ = LIVE.try_with(|live| live.set(live.get() + bytes));
}

// SAFETY: all is the system's; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What the parser keeps for a byte at most: of an inline command with words of one character, a
/// place of 16 bytes for two of them, in memory that grows by doubling; and the words themselves.
const KEPT_PER_BYTE: usize = 20;
/// And what it keeps of commands before.
const KEPT: usize = 4096;

type Outcome = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

/// What comes out of a stream whose pieces come one after the other, as a connection does it.
fn commands<'a>(pieces: impl Iterator<Item = &'a [u8]>, limits: Limits) -> Outcome {
    let (mut parser, mut bytes, mut found) = (Parser::new(), Vec::new(), Vec::new());
    let (mut start, mut kept) = (0, 0);
    for piece in pieces {
        bytes.extend_from_slice(piece);
        loop {
            let before = LIVE.get();
            let step = parser.step(&bytes[start..], limits);
            kept += LIVE.get() - before;
            assert!(kept as usize <= KEPT + KEPT_PER_BYTE * bytes.len(), "{kept} of {}", bytes.len());
            let left = bytes.len() - start;
            let taken = match step {
                Ok(Step::Command(args, taken)) => {
                    assert!(args.bytes_len() <= taken);
                    found.push(args.from(0).map(<[u8]>::to_vec).collect());
                    taken
                }
                Ok(Step::Nothing(taken)) => taken,
                Ok(Step::More(more)) => {
                    assert!(more > left);
                    break;
                }
                Err(error) => return (found, Some(error)),
            };
            assert!(taken > 0 && taken <= left);
            start += taken;
        }
    }
    (found, None)
}

/// Pieces that end anywhere.
fn cut<'a>(dice: &mut Rng, bytes: &'a [u8]) -> Vec<&'a [u8]> {
    let (mut pieces, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let most = if dice.bool() { 3 } else { 64 };
        let (piece, behind) = rest.split_at(dice.usize(1..=rest.len().min(most)));
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

fn limits(dice: &mut Rng) -> Limits {
    Limits { command_bytes_max: [256, 4096, 1 << 20][dice.usize(..3)], stranger: dice.u8(..8) == 0 }
}

fn some_bytes(dice: &mut Rng, most: usize) -> Vec<u8> {
    (0..dice.usize(..=most)).map(|_| dice.u8(..)).collect()
}

/// Checks a stream, whole and in pieces.
fn check(dice: &mut Rng, bytes: &[u8], limits: Limits) -> Outcome {
    let whole = commands([bytes].into_iter(), limits);
    let pieces = cut(dice, bytes);
    assert_eq!(whole, commands(pieces.into_iter(), limits), "{}", bytes.escape_ascii());
    if dice.u8(..16) == 0 {
        assert_eq!(whole, commands(bytes.chunks(1), limits), "{}", bytes.escape_ascii());
    }
    whole
}

const TOKENS: [&[u8]; 22] = [
    b"*",
    b"$",
    b"\r\n",
    b"\n",
    b"\r",
    b"-1",
    b"0",
    b"1",
    b"3",
    b"+3",
    b"00",
    b"1048576",
    b"1048577",
    b"4096",
    b"9223372036854775807",
    b"18446744073709551616",
    b"*1\r\n",
    b"$0\r\n\r\n",
    b"*-1\r\n",
    b"GET",
    b"%",
    b"_",
];

#[test]
fn resp() {
    fuzz("resp", 20_000, |dice| {
        let mut all = Vec::new();
        let mut stream = Vec::new();
        for _ in 0..dice.usize(1..=4) {
            let args: Vec<Vec<u8>> = (0..dice.usize(1..=5)).map(|_| some_bytes(dice, 24)).collect();
            stream.extend(support::frame(&args.iter().map(|arg| &arg[..]).collect::<Vec<_>>()));
            all.push(args);
        }
        let limits = limits(dice);
        if dice.u8(..8) == 0 {
            let limits = Limits { command_bytes_max: 1 << 20, stranger: false };
            assert_eq!(check(dice, &stream, limits), (all, None));
            return;
        }
        mutate(dice, &mut stream, &TOKENS);
        check(dice, &stream, limits);
        // The same bytes as answers.
        if let Ok(Some((_, taken))) = Reply::read(&stream) {
            assert!(taken <= stream.len());
            assert!(Reply::read(&stream[..taken]) == Reply::read(&stream));
        }
    });
}

/// A word as a user may type it, in one of the ways.
fn typed(dice: &mut Rng, word: &[u8], line: &mut Vec<u8>) {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'*".contains(byte);
    if !word.is_empty() && word.iter().all(is_plain) && dice.bool() {
        return line.extend_from_slice(word);
    }
    if dice.bool() && !word.iter().any(|byte| b"\n\\".contains(byte)) {
        line.push(b'\'');
        for byte in word {
            if *byte == b'\'' {
                line.push(b'\\');
            }
            line.push(*byte);
        }
        return line.push(b'\'');
    }
    line.push(b'"');
    for byte in word {
        match byte {
            b'"' | b'\\' => line.extend([b'\\', *byte]),
            b' '..=b'~' if dice.bool() => line.push(*byte),
            byte => line.extend(format!("\\x{byte:02x}").bytes()),
        }
    }
    line.push(b'"');
}

const TYPED: [&[u8]; 12] =
    [b"\"", b"'", b"\\", b"\\x", b"\\x4", b"\\xzz", b" ", b"\t", b"\0", b"\x0b", b"\r\n", b"\r"];

#[test]
fn inline() {
    fuzz("inline", 20_000, |dice| {
        let words: Vec<Vec<u8>> = (0..dice.usize(1..=6)).map(|_| some_bytes(dice, 12)).collect();
        let mut line = Vec::new();
        for (number, word) in words.iter().enumerate() {
            line.extend(b"  ".iter().take(if number == 0 { 0 } else { dice.usize(1..=2) }));
            typed(dice, word, &mut line);
        }
        line.extend(if dice.bool() { &b"\r\n"[..] } else { b"\n" });
        if dice.u8(..4) == 0 {
            let limits = Limits { command_bytes_max: 4096, stranger: false };
            assert_eq!(check(dice, &line, limits), (vec![words], None), "{}", line.escape_ascii());
            return;
        }
        mutate(dice, &mut line, &TYPED);
        let limits = limits(dice);
        check(dice, &line, limits);
    });
}
