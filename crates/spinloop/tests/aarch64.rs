//! The same verdicts on aarch64, from words encoded by hand.

// A list of one range is meant as such.
#![allow(clippy::single_range_in_vec_init)]

mod common;

use common::{assemble, word};
use spinloop::aarch64::{ISB, YIELD, branch, candidates};
use spinloop::{Finder, Machine, Module, Seed, Segments};

const TEXT: u64 = 0x4000;
const RET: u32 = 0xd65f_03c0;

/// What is said of the first YIELD or ISB.
fn verdict(words: &[u32]) -> &'static str {
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let built = assemble(TEXT, &code, &[TEXT..TEXT + code.len() as u64]);
    let slices = built.slices();
    let image = Segments(&slices);
    let mut finder = Finder::new(Module::new(Machine::Aarch64, &image, &built.text, Some(built.header)));
    let offset = candidates(&code).next().expect("a candidate");
    let address = TEXT + offset as u64;
    assert_eq!(finder.route(address), None);
    word(&finder.analyse(address, Seed::Pause))
}

#[test]
fn waits() {
    let acquire = [0x88df_fc01, 0x3400_0061, YIELD, 0x17ff_fffd, RET]; // ldar w1, [x0]; cbz out; yield; b
    assert_eq!(verdict(&acquire), "wait");
    let bit = [ISB, 0x3940_0001, 0x3707_ffc1, RET]; // isb; ldrb w1, [x0]; tbnz w1, #0, isb
    assert_eq!(verdict(&bit), "wait");
    // ldaxr w1, [x0]; cbnz w1, yield; stxr w2, w3, [x0]; cbnz w2, ldaxr; ret; yield; b ldaxr
    let exclusive = [0x885f_fc01, 0x3500_0081, 0x8802_7c03, 0x35ff_ffa2, RET, YIELD, 0x17ff_fffa];
    assert_eq!(verdict(&exclusive), "wait");
    let swap = [YIELD, 0xb8a1_8002, 0x35ff_ffc2, RET]; // yield; swpa w1, w2, [x0]; cbnz w2, yield
    assert_eq!(verdict(&swap), "wait");
    // yield; mov w1, #0; casa w1, w2, [x0]; cbnz w1, yield
    let compare = [YIELD, 0x5280_0001, 0x88e1_7c02, 0x35ff_ffa1, RET];
    assert_eq!(verdict(&compare), "wait");
    // yield; add x5, x5, #1; ldapr w1, [x0]; cmp w1, w2; b.ne yield: counts, but does not end by it
    let ticket = [YIELD, 0x9100_04a5, 0xb8bf_c001, 0x6b02_003f, 0x54ff_ff81, RET];
    assert_eq!(verdict(&ticket), "wait");
}

#[test]
fn counters() {
    let down = [0x5280_0c82, YIELD, 0x7100_0442, 0x54ff_ffc1, RET]; // mov w2, #100; yield; subs; b.ne
    assert_eq!(verdict(&down), "bounded");
    // yield; ldr w0, [sp, #12]; add w0, w0, #1; str w0, [sp, #12]; ldr w0, [sp, #12]; cmp w0, #99;
    // b.le yield
    let variable = [YIELD, 0xb940_0fe0, 0x1100_0400, 0xb900_0fe0, 0xb940_0fe0, 0x7101_8c1f, 0x54ff_ff4d, RET];
    assert_eq!(verdict(&variable), "bounded");
    // yield; ldr w1, [x0]; cbnz w1, ret; subs w2, w2, #1; b.ne yield
    let tries = [YIELD, 0xb940_0001, 0x3500_0061, 0x7100_0442, 0x54ff_ff81, RET];
    assert_eq!(verdict(&tries), "bounded");
    // isb; mrs x3, cntvct_el0; cmp x3, x4; b.lo isb
    let clock = [ISB, 0xd53b_e043, 0xeb04_007f, 0x54ff_ffa3, RET];
    assert_eq!(verdict(&clock), "delay");
}

#[test]
fn others() {
    // yield; bl; ldr w1, [x0]; cbnz w1, yield
    assert_eq!(verdict(&[YIELD, 0x9400_1000, 0xb940_0001, 0x35ff_ffa1, RET]), "works");
    assert_eq!(verdict(&[YIELD, 0xd400_0001, 0xb940_0001, 0x35ff_ffa1, RET]), "works"); // svc
    assert_eq!(verdict(&[YIELD, 0x17ff_ffff]), "noexit");
    assert_eq!(verdict(&[YIELD, RET]), "notinaloop");
    assert_eq!(verdict(&[YIELD, 0x35ff_ffe1, RET]), "noload"); // cbnz w1, yield
    assert_eq!(verdict(&[YIELD, 0xd61f_0000]), "notinaloop"); // br x0
}

#[test]
fn encodings() {
    assert_eq!(branch(0x1000, 0x1004), Some(0x1400_0001));
    assert_eq!(branch(0x1000, 0x0ffc), Some(0x17ff_ffff));
    assert_eq!(branch(0x1000, 0x1000 + (1 << 27) - 4), Some(0x15ff_ffff));
    assert_eq!(branch(0x1000, 0x1000 + (1 << 27)), None);
    assert_eq!(branch(1 << 27, 0), Some(0x1600_0000));
}
