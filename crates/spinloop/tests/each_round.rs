//! The code that every round of a loop runs, in functions put together by hand.

// One range is a list of one range.
#![allow(clippy::single_range_in_vec_init)]

mod common;

use common::assemble;
use spinloop::{Finder, Machine, Module, Segments};
use std::ops::Range;

const TEXT: u64 = 0x1000;

/// The parts of a function with this code that each round through the byte at `at` runs.
fn rounds(code: &[u8], at: u64) -> Vec<Range<u64>> {
    let built = assemble(TEXT, code, &[TEXT..TEXT + code.len() as u64]);
    let slices = built.slices();
    let image = Segments(&slices);
    let module = Module::new(Machine::X86_64, &image, &built.text, Some(built.header));
    let parts = Finder::new(module).each_round(TEXT + at);
    parts.into_iter().map(|part| part.start - TEXT..part.end - TEXT).collect()
}

#[test]
fn a_call_that_only_some_rounds_make_is_left_out() {
    // 0: cmp byte [rdi], 0; 3: jne 18; 5: test al, al; 7: je 14; 9: call; 14: pause; 16: jmp 5;
    // 18: ret.
    let code = b"\x80\x3f\x00\x75\x0d\x84\xc0\x74\x05\xe8\x00\x00\x00\x00\xf3\x90\xeb\xf3\xc3";
    assert_eq!(rounds(code, 14), [5..9, 14..18]);
    // Rounds that make the call all run the same code.
    assert_eq!(rounds(code, 9), [5..18]);
}

#[test]
fn a_call_of_each_round_is_a_part_of_it() {
    // 0: call; 5: call; 10: cmp byte [rbx], 0; 13: je 0; 15: ret.
    let code = b"\xe8\x00\x00\x00\x00\xe8\x00\x00\x00\x00\x80\x3b\x00\x74\xf1\xc3";
    assert_eq!(rounds(code, 5), [0..15]);
    // Inside the call, as the address before the one to which it returns.
    assert_eq!(rounds(code, 9), [0..15]);
}

#[test]
fn work_in_the_loop_around_is_left_out() {
    // 0: call; 5: pause; 7: cmp byte [rbx], 0; 10: je 5; 12: jmp 0.
    let code = b"\xe8\x00\x00\x00\x00\xf3\x90\x80\x3b\x00\x74\xf9\xeb\xf2";
    assert_eq!(rounds(code, 5), [5..12]);
    assert_eq!(rounds(code, 0), [0..14]);
}

/// A loop that spins for ten rounds, then calls and begins anew. `spin` is how the inner loop ends.
fn spins_and_looks(spin: [u8; 3]) -> Vec<Range<u64>> {
    // 0: xor ebx, ebx; 2: pause; 4: cmp byte [rdi], 0; 7: jne 23; 9: inc ebx; 11: spin; 14: jne 2;
    // 16: call; 21: jmp 0; 23: ret.
    let mut code = b"\x31\xdb\xf3\x90\x80\x3f\x00\x75\x0e\xff\xc3".to_vec();
    code.extend(spin);
    code.extend(b"\x75\xf2\xe8\x00\x00\x00\x00\xeb\xe9\xc3");
    rounds(&code, 2)
}

#[test]
fn a_look_elsewhere_after_a_number_of_rounds_is_a_part_of_the_wait() {
    // cmp ebx, 10: a counter leads to the call.
    assert_eq!(spins_and_looks([0x83, 0xfb, 0x0a]), [0..23]);
    // cmp byte [rsi], 0 in the inner loop: the other thread leads to the call, which is work.
    assert_eq!(spins_and_looks([0x80, 0x3e, 0x00]), [2..16]);
}

#[test]
fn where_there_is_no_loop_or_no_function_there_is_no_round() {
    assert_eq!(rounds(b"\xf3\x90\xc3", 0), []);
    assert_eq!(rounds(b"\xf3\x90\xc3", 64), []);
}
