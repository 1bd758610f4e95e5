//! The entry of a function by which threads poll: where the waiter looks, and where a jump fits.

mod common;

use common::{Built, assemble};
use spinloop::{Finder, Finding, Jump, Kind, Loop, Machine, Module, Reason, Seed, Segments};
use std::ops::Range;

const TEXT: u64 = 0x1000;
/// `push rbp; xor ebp, ebp; push rbx; sub rsp, 8`, as Open MPI's begins.
const PROLOGUE: [u8; 8] = [0x55, 0x31, 0xed, 0x53, 0x48, 0x83, 0xec, 0x08];
/// `add rsp, 8; pop rbx; pop rbp; ret`
const EPILOGUE: [u8; 7] = [0x48, 0x83, 0xc4, 0x08, 0x5b, 0x5d, 0xc3];
const LANDING_PAD: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// What is said of the entry at `address`, and which bytes a jump of several instructions replaces.
fn analyse(built: &Built, address: u64) -> (Finding, Option<Range<u64>>) {
    let slices = built.slices();
    let image = Segments(&slices);
    let mut finder = Finder::new(Module::new(Machine::X86_64, &image, &built.text, Some(built.header)));
    let finding = finder.analyse(address, Seed::Poll);
    let row = match &finding {
        Finding::Wait(found) => finder.jump_site(found, true).filter(|way| way.jump == Jump::Row),
        _ => None,
    };
    (finding, row.map(|way| way.replaced))
}

fn function(parts: &[&[u8]]) -> Built {
    let code = parts.concat();
    let own = TEXT..TEXT + code.len() as u64;
    assemble(TEXT, &code, core::slice::from_ref(&own))
}

#[track_caller]
fn polls(finding: &Finding) -> &Loop {
    match finding {
        Finding::Wait(found) if found.kind == Kind::Poll => found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_jump_replaces_the_prologue() {
    let (finding, row) = analyse(&function(&[&PROLOGUE, &EPILOGUE]), TEXT);
    assert_eq!(polls(&finding).pivot, TEXT);
    assert_eq!(row, Some(TEXT..TEXT + 8));
}

#[test]
fn a_landing_pad_stays_where_it_is() {
    let (finding, row) = analyse(&function(&[&LANDING_PAD, &PROLOGUE, &EPILOGUE]), TEXT);
    assert_eq!(polls(&finding).pivot, TEXT + 4);
    assert_eq!(row, Some(TEXT + 4..TEXT + 12));
}

#[test]
fn a_prologue_that_is_jumped_into_is_left_alone() {
    // dec ebp; jne to the third instruction
    let again = [0xff, 0xcd, 0x75, (3i8 - (8 + 4)) as u8];
    let (finding, row) = analyse(&function(&[&PROLOGUE, &again, &EPILOGUE]), TEXT);
    polls(&finding);
    assert_eq!(row, None);
    // jne to the second one is as bad; to the first one, the jump itself is meant.
    for (target, expected) in [(1i8, None), (0, Some(TEXT..TEXT + 8))] {
        let again = [0xff, 0xcd, 0x75, (target - (8 + 4)) as u8];
        assert_eq!(analyse(&function(&[&PROLOGUE, &again, &EPILOGUE]), TEXT).1, expected, "{target}");
    }
}

#[test]
fn a_function_of_a_few_bytes_is_left_alone() {
    // xor eax, eax; ret
    let (finding, row) = analyse(&function(&[&[0x31, 0xc0, 0xc3]]), TEXT);
    polls(&finding);
    assert_eq!(row, None);
}

#[test]
fn an_address_that_is_no_entry_is_left_alone() {
    let built = function(&[&PROLOGUE, &EPILOGUE]);
    for address in [TEXT + 1, TEXT + 8, TEXT + 100] {
        let left = analyse(&built, address).0;
        assert!(matches!(left, Finding::Leave(Reason::NoFunction) | Finding::Nothing), "{left:?}");
    }
}
