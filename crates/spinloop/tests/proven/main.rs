//! What is proven of loops, checked by running them: loops made up at random, on the processor
//! itself.
//!
//! A loop runs in this process with a stack and memory of its own. A breakpoint in the place of the
//! pivot and undefined instructions behind the ways out hand every state of the registers, the
//! stack and the memory to the test.
//!
//! - Of a counter: to run `missing` more rounds, and to set the counter to [`Counter::after`] and
//!   run one round, leads to the same state, and to the same way out at the same state.
//! - Of a wait without a bound: after one round, every round leaves everything as it was.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
// A list of one range is meant as such.
#![allow(clippy::single_range_in_vec_init)]

#[path = "../common/mod.rs"]
mod common;
mod impostors;
mod loops;
mod running;

use common::assemble;
use impostors::impostors;
use loops::{Op, bounded, build, cmp_mem_imm, imm8, inc, nested, unbounded};
use proptest::prelude::*;
use running::{AROUND, End, MEMORY, ROUNDS_MAX, Start, State, TEXT, WORDS, run, start};
use spinloop::{Bound, Condition, Counter, Finder, Finding, Kind, Machine, Module, Place, Seed, Segments};
use std::cell::RefCell;

const RCX: u8 = 1;
const PAUSE: &[u8] = &[0xf3, 0x90];
const NOPS: &[u8] = &[0x90; 8];
const NOP: &[u8] = &[0x90];

fn analyse(code: &[u8], pivot: u64, seed: Seed) -> Finding {
    let mut code = code.to_vec();
    if matches!(seed, Seed::Short | Seed::Nested) {
        // The ways out lead to a futex: without a hint, only what blocks is a wait.
        let first = code.len() - 2 * exits(&code);
        code[first..].fill(0x90);
        code.extend([0xb8, 202, 0, 0, 0, 0x0f, 0x05, 0x0f, 0x0b]);
    }
    let built = assemble(TEXT, &code, &[TEXT..TEXT + code.len() as u64]);
    let slices = built.slices();
    let image = Segments(&slices);
    Finder::new(Module::new(Machine::X86_64, &image, &built.text, Some(built.header)))
        .analyse(TEXT + pivot, seed)
}

/// The exits at a code's end, of two bytes each.
fn exits(code: &[u8]) -> usize {
    code.as_rchunks::<2>().1.iter().rev().take_while(|chunk| **chunk == [0x0f, 0x0b]).count()
}

/// What a place holds.
fn read(state: &State, place: Place, bits: u32) -> u64 {
    let value = match place {
        Place::Register(number) => state.registers[usize::from(number)],
        Place::Stack(_, distance) => word(&state.stack, AROUND as i64 + distance),
    };
    if bits == 32 { value & 0xffff_ffff } else { value }
}

fn word(bytes: &[u8], at: i64) -> u64 {
    u64::from_le_bytes(bytes[at as usize..][..8].try_into().expect("eight bytes"))
}

/// What differs between two states.
fn difference(one: &State, other: &State) -> String {
    let registers: Vec<_> = (0..16)
        .filter(|&n| one.registers[n] != other.registers[n])
        .map(|n| (n, one.registers[n], other.registers[n]))
        .collect();
    let stack: Vec<_> = (0..2 * AROUND).filter(|&n| one.stack[n] != other.stack[n]).collect();
    format!("registers {registers:x?}, stack at {stack:?}, memory {}", one.memory != other.memory)
}

/// The bound's value; none if it lies somewhere else than this test knows.
fn bound_of(state: &State, counter: &Counter) -> Option<u64> {
    Some(match counter.bound {
        Bound::Constant(constant) => constant,
        Bound::Place(place, add) => read(state, place, 64).wrapping_add(add as u64),
        Bound::Memory(base, add) => {
            let address = state.registers[usize::from(base?)].wrapping_add(add);
            let at = address.wrapping_sub(MEMORY - 8 * WORDS as u64);
            let bytes: Vec<u8> = state.memory.iter().flat_map(|word| word.to_le_bytes()).collect();
            if at as usize > bytes.len() - 8 {
                return None;
            }
            word(&bytes, at as i64)
        }
    })
}

/// Checks what was found of a loop, and says what it was.
fn check(code: &[u8], pivot: u64, seed: Seed, start: &Start) -> Result<&'static str, TestCaseError> {
    let Finding::Wait(found) = analyse(code, pivot, seed) else { return Ok("left") };
    if found.pivot != TEXT + pivot {
        return Ok("left");
    }
    // All of the code is a loop, but for the first instruction and the ways out; or only a part of
    // it.
    let exits = exits(code) as u64;
    let all: u64 = found.parts.iter().map(|part| part.end - part.start).sum();
    let whole = all + 1 + 2 * exits >= code.len() as u64;
    let parts = if whole { &[][..] } else { &found.parts };
    match found.kind {
        Kind::Unbounded if seed != Seed::Pause => {
            let (visits, rounds, _) = run(code, pivot, start, parts, None);
            for (two, inside) in visits.windows(2).zip(rounds.windows(2)).skip(1) {
                prop_assert!(
                    inside != [true, true] || two[0] == two[1],
                    "a round changed something: {}",
                    difference(&two[0], &two[1])
                );
            }
            Ok(match (visits.len(), whole) {
                (0..=3, _) => "short",
                (_, true) => "unbounded",
                (_, false) => "unbounded, of a part",
            })
        }
        Kind::Counted(counter) => {
            let (visits, rounds, end) = run(code, pivot, start, parts, None);
            let mut kind = "short";
            for at in [1, (visits.len() / 2).max(1)] {
                let Some(state) = visits.get(at).filter(|_| whole || rounds[at]) else { continue };
                let Some(bound) = bound_of(state, &counter) else { continue };
                let value = read(state, counter.place, counter.bits);
                let Some(missing) = counter.missing(value, bound).filter(|&missing| missing > 1) else {
                    continue;
                };
                let set = Some((at, counter, counter.after(value, missing)));
                let (moved, _, moved_end) = run(code, pivot, start, &[], set);
                kind = if whole { "moved" } else { "moved, of a part" };
                let told = format!("{counter:?} at visit {at}: {value} to {bound}, {missing} missing");
                let later = missing.saturating_add(at as u64);
                if later >= ROUNDS_MAX as u64 {
                    continue;
                }
                prop_assert!(later < visits.len() as u64, "{}: only {} visits", told, visits.len());
                let expected = &visits[later as usize];
                prop_assert!(moved.len() > at + 1, "{}: it left at once", told);
                prop_assert!(
                    *expected == moved[at + 1],
                    "{}: another state: {}",
                    told,
                    difference(expected, &moved[at + 1])
                );
                if end != End::TooLong {
                    // Out of a part, a thread may come back.
                    prop_assert!(!whole || visits.len() as u64 == later + 1, "{}: it went on", told);
                    let (left, moved_left) = (visits.len() - later as usize, moved.len() - (at + 1));
                    prop_assert_eq!(left, moved_left, "{}: another number of rounds", told);
                    prop_assert!(end == moved_end, "{}: another end", told);
                }
            }
            Ok(kind)
        }
        _ => Ok("other"),
    }
}

fn cases(few: u32) -> ProptestConfig {
    let full = std::env::var_os("MANX_FULL").is_some();
    let cases = if full { few * 25 } else { few };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

#[test]
fn proofs_hold_when_the_code_runs() {
    let mut seen = std::collections::BTreeMap::new();
    let mut runner = proptest::test_runner::TestRunner::new(cases(8_000));
    let counted = RefCell::new(&mut seen);
    let bodies = prop_oneof![3 => bounded(), 1 => unbounded(), 2 => nested()];
    let result = runner.run(&(bodies, 0..3, start()), |((body, end), hint, start)| {
        let is_nested = body.iter().any(|op| matches!(op, Op::Back { .. }));
        let (pivot, seed) = match hint {
            _ if is_nested => (NOP, Seed::Nested),
            0 => (NOPS, Seed::Nops),
            1 => (PAUSE, Seed::Pause),
            // The loop begins with its pivot.
            _ if body[0] == Op::Pivot => (NOP, Seed::Short),
            _ => (PAUSE, Seed::Pause),
        };
        if body.contains(&Op::Pivot) {
            let (code, at) = build(&body, pivot, end);
            let kind = check(&code, at, seed, &start)?;
            *counted.borrow_mut().entry((seed, kind)).or_insert(0u32) += 1;
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    println!("{seen:?}");
    for (seed, kind, least) in [
        (Seed::Pause, "moved", 80),
        (Seed::Nops, "unbounded", 40),
        (Seed::Short, "moved", 2),
        (Seed::Nested, "unbounded", 40),
        (Seed::Nested, "moved", 20),
    ] {
        let times = seen.get(&(seed, kind)).copied().unwrap_or(0);
        assert!(times >= least, "too few of {seed:?} are {kind}: {seen:?}");
    }
}

#[test]
fn impostors_are_left_alone() {
    let real =
        [cmp_mem_imm(false, 0, 0), Op::Leave { cc: 5 }, Op::Pivot, inc(false, 0), imm8(false, 7, 0, 40)];
    let counted = |body: &[Op], end| {
        let (code, pivot) = build(body, PAUSE, end);
        let finding = analyse(&code, pivot, Seed::Pause);
        matches!(finding, Finding::Wait(found) if matches!(found.kind, Kind::Counted(_)))
    };
    assert!(counted(&real, Some(2)), "a counter");
    for (why, body, end) in impostors() {
        assert!(!counted(&body, end), "{why}");
    }
}

/// A counter that steps one by one until its comparison leaves; in it none if it wraps around, none
/// if that takes too long.
fn one_by_one(counter: &Counter, value: u64, bound: u64) -> Option<Option<u64>> {
    use Condition::*;
    let cut = |value: u64| if counter.bits == 32 { value & 0xffff_ffff } else { value };
    let signed = |value: u64| if counter.bits == 32 { i64::from(value as i32) } else { value as i64 };
    let mut now = cut(value.wrapping_add(counter.ahead as u64));
    let bound = cut(bound);
    let is_signed = matches!(counter.goes_on, Less | LessOrEqual | Greater | GreaterOrEqual);
    for steps in 0..600 {
        let goes_on = match counter.goes_on {
            NotEqual => now != bound,
            Below => now < bound,
            BelowOrEqual => now <= bound,
            Above => now > bound,
            AboveOrEqual => now >= bound,
            Less => signed(now) < signed(bound),
            LessOrEqual => signed(now) <= signed(bound),
            Greater => signed(now) > signed(bound),
            GreaterOrEqual => signed(now) >= signed(bound),
        };
        if !goes_on {
            return Some(Some(steps));
        }
        let next = cut(now.wrapping_add(counter.step as u64));
        // Past the end of the numbers.
        let rose = if is_signed { signed(next) > signed(now) } else { next > now };
        if rose != (counter.step > 0) {
            return Some(None);
        }
        now = next;
    }
    None
}

proptest! {
    #![proptest_config(cases(20_000))]

    #[test]
    fn missing_rounds_are_as_many_as_single_steps_take(
        bits in prop::sample::select(vec![32u32, 64]),
        step in 1i64..6,
        ahead in -8i64..9,
        center in prop::sample::select(vec![0u64, 1 << 31, 1 << 32, 1 << 63]),
        value in -300i64..300,
        bound in -300i64..300,
        condition in 0usize..9,
    ) {
        use Condition::*;
        let goes_on =
            [NotEqual, Below, BelowOrEqual, Less, LessOrEqual, Above, AboveOrEqual, Greater, GreaterOrEqual][condition];
        let step = match condition {
            0 if value % 2 == 0 => step,
            1..5 => step,
            _ => -step,
        };
        let cut = |value: u64| if bits == 32 { value & 0xffff_ffff } else { value };
        let (value, bound) = (cut(center.wrapping_add(value as u64)), cut(center.wrapping_add(bound as u64)));
        let counter = Counter {
            place: Place::Register(RCX), bits, step, ahead, bound: Bound::Constant(bound), goes_on, blocks: false,
        };
        let missing = counter.missing(value, bound);
        if let Some(expected) = one_by_one(&counter, value, bound) {
            prop_assert_eq!(missing, expected, "{:?} {} {}", counter, value, bound);
        }
        if let Some(missing) = missing {
            let set = counter.after(value, missing);
            prop_assert_eq!(counter.missing(set, bound), Some(missing.min(1)));
            if missing < 1000 {
                let steps = missing.saturating_sub(1);
                prop_assert_eq!(set, cut((0..steps).fold(value, |now, _| now.wrapping_add(step as u64))));
            }
        }
    }
}
