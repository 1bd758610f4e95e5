//! Unwind data of copies: what is written is what the loop's function says, and no bytes make it
//! panic.
#![cfg(target_os = "linux")]
// A list of one range is meant as such.
#![allow(clippy::single_range_in_vec_init)]

mod common;

use common::{Built, compile, compilers, load};
use proptest::prelude::*;
use spinloop::{CallFrame, Finder, Finding, Machine, Module, Segments};
use std::ops::Range;

/// Frames of every shape: the stack pointer alone, saved registers, a frame pointer, an aligned
/// stack, a return in the middle of the loop.
const SOURCE: &str = r"
#include <alloca.h>
#define PAUSE() __builtin_ia32_pause()
#define NEVER __attribute__((noinline))
extern volatile long word;
volatile long word;
long use(void *);
NEVER long use(void *a) { __asm__ volatile ('' ::'r'(a) : 'memory'); return 1; }
NEVER long leaf(void) { while (word == 0) PAUSE(); return word; }
NEVER long saves(long a, long b, long c) {
    char room[200];
    long d = use(room) + a, e = use(room) * b, f = use(room) - c;
    while (word == 0) PAUSE();
    return use(room) + a + b + c + d + e + f;
}
NEVER long leaves(long a) {
    char room[64];
    long d = use(room);
    for (;;) {
        if (word == 1) return d;
        PAUSE();
        if (word == 2) break;
        PAUSE();
    }
    return use(room) + a + d;
}
NEVER long aligned(long n) {
    _Alignas(64) char room[128];
    char *more = alloca(n);
    use(more);
    while (word == 0) PAUSE();
    return use(room) + use(more);
}
";

/// The bytes of an encoded frame as a module of its own.
fn read_back<'a>(image: &'a Segments<'a>, at: u64, part: Range<u64>) -> Option<CallFrame<'a>> {
    CallFrame::of(image, at, std::slice::from_ref(&part))
}

const COPY: Range<u64> = 0x7000_0000..0x7000_0100;

#[test]
fn the_loops_of_compilers_have_frames_that_are_read_back() {
    for compiler in compilers() {
        for flags in
            [["-O0", "-g"], ["-O2", "-g"], ["-O2", "-fno-omit-frame-pointer"], ["-O3", "-fcf-protection"]]
        {
            let (built, names) = load(&compile(compiler, &SOURCE.replace('\'', "\""), &flags));
            let slices = built.slices();
            let image = Segments(&slices);
            let mut finder =
                Finder::new(Module::new(Machine::X86_64, &image, &built.text, Some(built.header)));
            let (mut seen, mut moved) = (0, 0);
            for range in &built.text {
                let code = spinloop::Image::at(&image, range.start);
                for (at, seed) in spinloop::seeds(&code[..(range.end - range.start) as usize]) {
                    let pause = range.start + at as u64;
                    let Finding::Wait(found) = finder.analyse(pause, seed) else { continue };
                    let name = names.iter().find(|(range, _)| range.contains(&pause)).map(|(_, name)| name);
                    let told = format!("{compiler} {flags:?} {name:?}");
                    let frame = CallFrame::of(&image, built.header, &found.parts).expect(&told);
                    let bytes = frame.encode(COPY.end, &COPY, &[(0x40, 128), (0x48, 0)]).expect(&told);
                    let table = [(COPY.end, bytes.as_slice())];
                    let table = Segments(&table);
                    assert_eq!(
                        read_back(&table, COPY.end, COPY.start..COPY.start + 0x40),
                        Some(frame.clone()),
                        "{told}"
                    );
                    assert_eq!(
                        read_back(&table, COPY.end, COPY.start + 0x48..COPY.end),
                        Some(frame.clone()),
                        "{told}"
                    );
                    // Only where the frame is found by the stack pointer does it matter what the
                    // copy pushes.
                    let inside = read_back(&table, COPY.end, COPY.start + 0x40..COPY.start + 0x48);
                    let moves = inside.as_ref() != Some(&frame);
                    let all = read_back(&table, COPY.end, COPY);
                    assert_eq!(all.is_none(), moves, "rows differ: {told}");
                    (seen, moved) = (seen + 1, moved + usize::from(moves));
                }
            }
            let expected = match flags {
                ["-O0", _] => moved == 0,
                ["-O2", "-g"] => moved >= 3,
                _ => true,
            };
            assert!(seen >= 4 && expected, "{compiler} {flags:?}: {moved} of {seen}");
        }
    }
}

#[test]
fn a_loop_in_which_the_row_changes_has_none() {
    // advance 4; the CFA moves; advance 4; remember, the CFA moves, advance 4; restored
    let program = [0x0c, 7, 8, 0x90, 1, 0x44, 0x0e, 16, 0x44, 0x0a, 0x0e, 24, 0x44, 0x0b];
    let built = module(&program);
    let slices = built.slices();
    let image = Segments(&slices);
    let frame = |parts: &[Range<u64>]| CallFrame::of(&image, built.header, parts);
    let first = frame(&[0x1000..0x1004]).expect("one row");
    assert_eq!(frame(&[0x1000..0x1005]), None);
    let second = frame(&[0x1004..0x1008]).expect("one row");
    assert!(first != second);
    assert_eq!(frame(&[0x1004..0x100c]), None);
    assert_eq!(frame(&[0x1004..0x1008, 0x100c..0x1040]), Some(second), "around what was restored");
    assert_eq!(frame(&[0x1004..0x1008, 0x1008..0x100c]), None);
    assert_eq!(frame(&[0x1030..0x1041]), None, "beyond the function");
    assert_eq!(frame(&[0x1030..0x1030]), None);
}

/// A module of one function, at 0x1000, with these call frame instructions.
fn module(program: &[u8]) -> Built {
    let header = 0x10_0000_u64;
    let relative = |to: u64, from: u64| (to.wrapping_sub(from) as i32).to_le_bytes();
    let mut frames = vec![16, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0, 0, 0];
    let at = header + 20;
    let own = at + frames.len() as u64;
    frames.extend((13 + program.len() as u32).to_le_bytes());
    frames.extend(relative(own + 4, at));
    frames.extend(relative(0x1000, own + 8));
    frames.extend(0x40_u32.to_le_bytes());
    frames.push(0);
    frames.extend(program);
    let mut bytes = vec![1, 0x1b, 0x03, 0x3b];
    bytes.extend(relative(at, header + 4));
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(relative(0x1000, header));
    bytes.extend(relative(own, header));
    bytes.extend(frames);
    Built {
        segments: vec![(0x1000, vec![0x90; 0x40]), (header, bytes)],
        text: vec![Range { start: 0x1000, end: 0x1040 }],
        header,
    }
}

proptest! {
    #[test]
    fn no_call_frame_program_panics_and_what_is_read_can_be_written(
        program in proptest::collection::vec(prop_oneof![any::<u8>(), 0_u8..0x17], 0..80),
        start in 0_u64..0x40,
        length in 0_u64..0x41,
        depths in proptest::collection::vec((any::<u64>(), any::<i64>()), 0..3),
    ) {
        let built = module(&program);
        let slices = built.slices();
        let image = Segments(&slices);
        let part = 0x1000 + start..0x1000 + start + length;
        if let Some(frame) = CallFrame::of(&image, built.header, &[part]) {
            let _ = frame.encode(COPY.end, &COPY, &depths);
            if let Some(bytes) = frame.encode(COPY.end, &COPY, &[]) {
                let table = [(COPY.end, bytes.as_slice())];
                let table = Segments(&table);
                prop_assert_eq!(read_back(&table, COPY.end, COPY), Some(frame));
            }
        }
    }

    #[test]
    fn no_bytes_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 12..400),
        headed: bool,
        part in any::<(u8, u8)>(),
        depths in proptest::collection::vec((any::<u64>(), any::<i64>()), 0..3),
    ) {
        if headed {
            bytes[..12].copy_from_slice(&[1, 0x1b, 3, 0x3b, 8, 0, 0, 0, 1, 0, 0, 0]);
        }
        let slices = [(0x1000, bytes.as_slice())];
        let image = Segments(&slices);
        let start = 0x1000 + u64::from(part.0);
        if let Some(frame) = CallFrame::of(&image, 0x1000, &[start..start + u64::from(part.1)]) {
            let _ = frame.encode(u64::MAX, &(0..u64::MAX), &depths);
            let _ = frame.encode(0x2000, &(0x1f00..0x2000), &depths);
        }
    }
}
