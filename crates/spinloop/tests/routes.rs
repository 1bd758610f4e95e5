//! Dead bytes and routes: on code put together by hand, and on code from compilers.

// A list of one range is meant as such.
#![allow(clippy::single_range_in_vec_init)]

mod common;

use common::{Built, assemble, compile, compilers, load};
use iced_x86::{Code, Decoder, DecoderOptions, Instruction};
use proptest::prelude::*;
use spinloop::{
    Finder, Finding, Image, Machine, Module, Reason, Route, Seed, Segments, near_jump, seeds, short_jump,
};
use std::ops::Range;

const TEXT: u64 = 0x4000;
const ALL: [Seed; 7] =
    [Seed::Pause, Seed::TimedPause, Seed::Nops, Seed::Clock, Seed::Short, Seed::Nested, Seed::Calls];
const NOP5: &[u8] = &[0x0f, 0x1f, 0x44, 0, 0];
const NOP3: &[u8] = &[0x0f, 0x1f, 0];
const RET: u8 = 0xc3;
/// pause; cmp byte [rdi], 0; jne back
const SPIN: &[u8] = &[0xf3, 0x90, 0x80, 0x3f, 0, 0x75, 0xf9];

/// Bytes that say nothing: `lea rax, [rax + 1]` over and over, then single bytes of `cmc`.
fn filler(bytes: usize) -> Vec<u8> {
    let mut code = [0x48, 0x8d, 0x40, 1].repeat(bytes / 4);
    code.resize(bytes, 0xf5);
    code
}

fn finder_of<R>(built: &Built, with: impl FnOnce(&mut Finder<'_>) -> R) -> R {
    let slices = built.slices();
    let image = Segments(&slices);
    with(&mut Finder::new(Module::new(Machine::X86_64, &image, &built.text, Some(built.header))))
}

/// One function: a spin at its start, then `rest`.
fn function(rest: &[&[u8]]) -> (Built, Vec<u8>) {
    let code = [SPIN, &rest.concat()].concat();
    (assemble(TEXT, &code, &[TEXT..TEXT + code.len() as u64]), code)
}

fn route_of(built: &Built) -> Option<Route> {
    finder_of(built, |finder| {
        let finding = finder.analyse(TEXT, Seed::Pause);
        assert!(matches!(finding, Finding::Wait(_)), "{finding:?}");
        finder.route(TEXT)
    })
}

fn decode_at(code: &[u8], start: u64, address: u64) -> Instruction {
    Decoder::with_ip(64, &code[(address - start) as usize..], address, DecoderOptions::NONE).decode()
}

/// Writes the route's jumps into the code, and follows them from `pause` to where the landing
/// leads.
fn follow(code: &mut [u8], start: u64, pause: u64, route: &Route) {
    let trampoline = start + 0x100_0000;
    let mut write =
        |at: u64, bytes: &[u8]| code[(at - start) as usize..][..bytes.len()].copy_from_slice(bytes);
    write(route.landing, &near_jump(route.landing, trampoline).expect("2 GiB"));
    for (from, to) in route.short_jumps(pause) {
        write(from, &short_jump(from, to).expect("in reach"));
    }
    let mut at = pause;
    for _ in 0..route.hops().len() + 1 {
        let jump = decode_at(code, start, at);
        assert_eq!(jump.code(), Code::Jmp_rel8_64);
        at = jump.near_branch_target();
    }
    assert_eq!(at, route.landing);
    assert_eq!(decode_at(code, start, at).near_branch_target(), trampoline);
}

#[test]
fn padding_behind_a_return() {
    // 7 bytes of loop, ret at 7: padding from 8 to 16.
    let (built, mut code) = function(&[&[RET], NOP5, NOP3, &[RET]]);
    let route = route_of(&built).expect("eight dead bytes");
    assert_eq!((route.landing, route.hops().len()), (TEXT + 8, 0));
    follow(&mut code, TEXT, TEXT, &route);
}

#[test]
fn padding_that_is_executed_is_not_dead() {
    let (built, _) = function(&[&[0xf5], NOP5, NOP3, &[RET]]);
    assert_eq!(route_of(&built), None);
}

#[test]
fn padding_that_is_jumped_to_is_not_dead() {
    // ret; 8 bytes of NOPs; ret; jmp to the NOPs
    let (built, _) = function(&[&[RET], NOP5, NOP3, &[RET], &[0xeb, (8i8 - 19) as u8]]);
    assert_eq!(route_of(&built), None);
}

#[test]
fn padding_whose_address_is_taken_is_not_dead() {
    // lea rax, [rip + …] of the NOPs, at 17: 24 - 16 = 8
    let (built, _) =
        function(&[&[RET], NOP5, NOP3, &[RET], &[0x48, 0x8d, 0x05, 0xf0, 0xff, 0xff, 0xff, RET]]);
    assert_eq!(route_of(&built), None);
}

#[test]
fn padding_near_an_unknown_indirect_jump_is_not_dead() {
    let (built, _) = function(&[&[RET], NOP5, NOP3, &[RET], &[0xff, 0xe0]]); // jmp rax
    assert_eq!(route_of(&built), None);
}

#[test]
fn a_known_jump_table_spares_other_padding_only() {
    // lea rdx, [rip + table]; jmp rax, with a table of one entry: the padding, or the code behind
    // it.
    for (entry, dead) in [(8, false), (16, true)] {
        let table = TEXT + 0x800;
        let lea = TEXT + 17;
        let mut load = vec![0x48, 0x8d, 0x15];
        load.extend(((table - (lea + 7)) as u32).to_le_bytes());
        let (mut built, _) = function(&[&[RET], NOP5, NOP3, &[RET], &load, &[0xff, 0xe0]]);
        let distance = (TEXT + entry).wrapping_sub(table) as i32;
        built.segments.push((table, [distance.to_le_bytes(), [0x7f; 4]].concat()));
        assert_eq!(route_of(&built).is_some(), dead);
    }
}

#[test]
fn rows_of_single_nops_and_traps_inside_functions_are_left_alone() {
    let (built, _) = function(&[&[RET], &[0x90; 8], &[RET]]);
    assert_eq!(route_of(&built), None);
    let (built, _) = function(&[&[RET], &[0xcc; 8], &[RET]]);
    assert_eq!(route_of(&built), None);
}

#[test]
fn padding_that_aligns_nothing_is_left_alone() {
    let (built, _) = function(&[&[RET], NOP5, &[RET]]); // ends at 13
    assert_eq!(route_of(&built), None);
}

#[test]
fn room_for_patches_behind_a_jump_over_it_is_left_alone() {
    // At 14: jmp +8, over eight bytes that end at 24. A sled that a tracer fills in at run time
    // looks so.
    let (built, _) = function(&[
        &[0xf5, 0xf5, 0xf5, 0xf5, 0xf5, 0xf5, 0xf5],
        &[0xeb, 8],
        &[0xf5][..0],
        NOP5,
        NOP3,
        &[RET],
    ]);
    assert_eq!(route_of(&built), None);
}

#[test]
fn a_gap_between_functions() {
    let mut code = [SPIN, &[RET], &[0xcc; 8], &[RET]].concat();
    let built = assemble(TEXT, &code, &[TEXT..TEXT + 8, TEXT + 16..TEXT + 17]);
    let route = route_of(&built).expect("eight dead bytes");
    assert_eq!(route.landing, TEXT + 8);
    follow(&mut code, TEXT, TEXT, &route);
}

#[test]
fn a_gap_that_is_run_into_or_holds_code() {
    let code = [SPIN, &[0xf5], &[0xcc; 8], &[RET]].concat();
    assert_eq!(route_of(&assemble(TEXT, &code, &[TEXT..TEXT + 8, TEXT + 16..TEXT + 17])), None);
    let code = [SPIN, &[RET], NOP5, &[0xf5, 0xf5, RET], &[RET]].concat();
    assert_eq!(route_of(&assemble(TEXT, &code, &[TEXT..TEXT + 8, TEXT + 16..TEXT + 17])), None);
}

#[test]
fn hops_where_the_landing_is_out_of_reach() {
    // Two dead bytes at 126, and eight dead ones far behind them.
    let near = filler(126 - 7 - 1);
    let far = filler(256 - 128 - 9);
    let mut tail = vec![RET];
    tail.extend(NOP5);
    tail.extend(NOP3);
    let (built, mut code) = function(&[&near, &[RET], &[0x66, 0x90], &far, &tail, &[RET]]);
    assert_eq!(code.len(), 257);
    let route = route_of(&built).expect("a hop");
    assert_eq!((route.hops(), route.landing), (&[TEXT + 126][..], TEXT + 248));
    follow(&mut code, TEXT, TEXT, &route);
}

#[test]
fn room_for_a_landing_is_given_once() {
    // Two loops, room for one landing: eight bytes.
    let code = [SPIN, SPIN, &[0xf5], &[RET], NOP5, NOP3, &[RET]].concat();
    let built = assemble(TEXT, &code, &[TEXT..TEXT + code.len() as u64]);
    finder_of(&built, |finder| {
        assert!(finder.route(TEXT).is_some());
        assert_eq!(finder.route(TEXT + 7), None);
    });
}

#[test]
fn a_rare_part_that_jumps_into_padding_makes_it_code() {
    // The hot part jumps to the rare one, which jumps back to the label in front of an aligned
    // loop's padding.
    let mut hot = [SPIN, &[RET], NOP5, NOP3, &[RET]].concat();
    let cold = TEXT + 0x40;
    hot.extend([0x74, (cold - (TEXT + 19)) as u8]); // je cold
    hot.push(RET);
    let end = TEXT + hot.len() as u64;
    hot.resize(0x40, 0xf5);
    hot.extend([0xeb, (TEXT + 8).wrapping_sub(cold + 2) as u8]);
    let built = assemble(TEXT, &hot, &[TEXT..end, cold..cold + 2]);
    assert_eq!(route_of(&built), None);
}

/// A function that waits, at `TEXT`, and other functions behind it, each at a multiple of 0x100:
/// where a jump replaces several instructions of the wait, if one may.
fn row(others: &[&[u8]]) -> Option<u64> {
    // The function ends in a return, and a jump to the first of the others.
    let mut code = [SPIN, &[0x72, 5], &jump(SPIN.len() as i32 + 2, 0x100), &[RET]].concat();
    let mut functions = vec![TEXT..TEXT + code.len() as u64];
    for (n, other) in others.iter().enumerate() {
        code.resize(0x100 * (n + 1), 0xf5);
        code.extend_from_slice(other);
        functions.push(TEXT + 0x100 * (n as u64 + 1)..TEXT + code.len() as u64);
    }
    let built = assemble(TEXT, &code, &functions);
    finder_of(&built, |finder| match finder.analyse(TEXT, Seed::Pause) {
        Finding::Wait(found) => {
            let site = finder.jump_site(&found, true)?;
            (site.jump == spinloop::Jump::Row).then_some(site.replaced.start - TEXT)
        }
        other => panic!("{other:?}"),
    })
}

/// `jmp rel32` from an offset to another.
fn jump(from: i32, to: i32) -> [u8; 5] {
    near_jump(TEXT + from as u64, TEXT + to as u64).expect("2 GiB")
}

#[test]
fn no_row_where_a_rare_part_comes_back_into_it() {
    assert_eq!(row(&[&[RET]]), Some(0));
    // The rare part jumps back to the wait's start, or into the middle, behind the PAUSE.
    assert_eq!(row(&[&jump(0x100, 0)]), Some(0));
    assert_eq!(row(&[&jump(0x100, 2)]), Some(2));
    // So does a part that only the rare part leads to.
    assert_eq!(row(&[&jump(0x100, 0x200), &jump(0x200, 2)]), Some(2));
    // So does a part that nothing leads to, for all that can be seen.
    assert_eq!(row(&[&[RET], &jump(0x200, 2)]), Some(2));
    let conditional = [&[0x0f, 0x84][..], &jump(0x201, 2)[1..], &[RET]].concat();
    assert_eq!(row(&[&[RET], &conditional]), Some(2));
}

#[test]
fn no_row_where_a_rare_part_may_lead_anywhere() {
    let anywhere = [0xff, 0xe0]; // jmp rax
    assert_eq!(row(&[&anywhere]), Some(0), "another function's jumps stay in it");
    // A part of this function, which comes back behind the row: 5 bytes from its start.
    assert_eq!(row(&[&[&[0x74, 3][..], &anywhere, &[0xf5], &jump(0x105, 5)].concat()]), None);
}

#[test]
fn a_loop_through_a_rare_part() {
    // hot: cmp byte [rdi], 0; je cold; ret — cold: pause; jmp hot
    let cold = TEXT + 0x20;
    let mut code = vec![0x80, 0x3f, 0, 0x74, 0x1b, RET];
    code.resize(0x20, 0xcc);
    code.extend([0xf3, 0x90, 0xeb, (TEXT.wrapping_sub(cold + 4)) as u8]);
    // A jump to the hot part's start would be a tail call: let the loop start behind an
    // instruction.
    code.splice(0..0, [0xf5]);
    let built = assemble(TEXT, &code, &[TEXT..TEXT + 7, cold + 1..cold + 5]);
    finder_of(&built, |finder| match finder.analyse(cold + 1, Seed::Pause) {
        Finding::Wait(found) => assert_eq!(found.function, cold + 1..cold + 5),
        other => panic!("{other:?}"),
    });
}

#[test]
fn seeds_inside_other_instructions() {
    let code = [0xb8, 0xf3, 0x90, 0, 0, RET]; // mov eax, 0x90f3
    let built = assemble(TEXT, &code, &[TEXT..TEXT + 6]);
    finder_of(&built, |finder| {
        assert_eq!(finder.analyse(TEXT + 1, Seed::Pause), Finding::Nothing);
        assert_eq!(finder.analyse(TEXT + 100, Seed::Pause), Finding::Leave(Reason::NoFunction));
    });
}

/// All routes of all waits of a module; checks that nothing but padding is taken, and nothing
/// twice.
fn check_routes(built: &Built) -> usize {
    let slices = built.slices();
    let image = Segments(&slices);
    let mut finder = Finder::new(Module::new(Machine::X86_64, &image, &built.text, Some(built.header)));
    let mut taken: Vec<Range<u64>> = Vec::new();
    let mut routes = 0;
    for range in &built.text {
        let code = image.at(range.start);
        for (offset, seed) in seeds(code) {
            if seed != Seed::Pause {
                continue;
            }
            let pause = range.start + offset as u64;
            let Some(route) = finder.route(pause) else { continue };
            routes += 1;
            follow(&mut code.to_vec(), range.start, pause, &route);
            let pieces =
                route.hops().iter().map(|&hop| hop..hop + 2).chain([route.landing..route.landing + 5]);
            for piece in pieces {
                assert!(taken.iter().all(|gone| piece.end <= gone.start || gone.end <= piece.start));
                assert!(piece.start >= range.start && piece.end <= range.end);
                taken.push(piece);
            }
        }
    }
    routes
}

#[test]
fn compiled_code() {
    for compiler in compilers() {
        let library = compile(compiler, include_str!("loops.c"), &["-O2", "-mwaitpkg"]);
        let (built, _) = load(&library);
        assert!(check_routes(&built) > 10, "{compiler}");
    }
}

/// Instructions that make up code at random, with loops, padding and jumps among them.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(SPIN.to_vec()),
        2 => Just(vec![0xf3, 0x90]),
        3 => Just(NOP5.to_vec()),
        3 => Just(NOP3.to_vec()),
        2 => Just(vec![0x66, 0x90]),
        2 => Just(vec![RET]),
        2 => any::<i8>().prop_map(|to| vec![0xeb, to as u8]),
        2 => any::<i8>().prop_map(|to| vec![0x75, to as u8]),
        2 => Just(vec![0xff, 0xc8]), // dec eax
        1 => Just(vec![0xe8, 0, 0, 0, 0]),
        1 => Just(vec![0xcc]),
        2 => (0usize..60).prop_map(filler),
        1 => proptest::collection::vec(any::<u8>(), 0..6),
    ];
    proptest::collection::vec(piece, 0..80).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn code_at_random(code in pieces(), cuts in proptest::collection::vec(0u64..2000, 0..6)) {
        let end = TEXT + code.len() as u64;
        let mut cuts: Vec<u64> = cuts.iter().map(|cut| TEXT + cut).filter(|&cut| cut < end).chain([TEXT, end]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let functions: Vec<_> = cuts.windows(2).map(|two| two[0]..two[1]).collect();
        let built = assemble(TEXT, &code, &functions);
        check_routes(&built);
        finder_of(&built, |finder| {
            for address in TEXT..end {
                for seed in ALL {
                    if let Finding::Wait(found) = finder.analyse(address, seed) {
                        prop_assert!(found.function.contains(&address));
                        prop_assert!(found.bytes >= 1);
                        finder.jump_site(&found, address % 2 == 0);
                    }
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn bytes_at_random(
        code in proptest::collection::vec(any::<u8>(), 0..600),
        header in proptest::collection::vec(any::<u8>(), 0..200),
        start in prop_oneof![Just(0u64), Just(TEXT), Just(u64::MAX - 300), any::<u64>()],
        machine in prop_oneof![Just(Machine::X86_64), Just(Machine::Aarch64)],
    ) {
        // Everything is code, and everything is unwind information.
        let segments = [(start, code.as_slice()), (0x7000, header.as_slice())];
        let image = Segments(&segments);
        let text = [start..start.saturating_add(code.len() as u64), 0x7000..0x7000 + header.len() as u64];
        let mut finder = Finder::new(Module::new(machine, &image, &text, Some(0x7000)));
        for address in (0..code.len() as u64).step_by(7).map(|n| start.wrapping_add(n)).chain(0x7000..0x7010) {
            for seed in ALL {
                finder.analyse(address, seed);
            }
            finder.route(address);
        }
    }

    #[test]
    fn damaged_unwind_tables(
        code in pieces(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let end = TEXT + code.len() as u64;
        prop_assume!(!code.is_empty());
        let mut built = assemble(TEXT, &code, &[TEXT..end]);
        let header = &mut built.segments[1].1;
        for (at, byte) in &damage {
            let at = at.index(header.len());
            header[at] = *byte;
        }
        check_routes(&built);
        finder_of(&built, |finder| for address in TEXT..end { finder.analyse(address, Seed::Pause); });
    }
}
