//! Loops whose counters look like ones and are none.

use crate::loops::{
    Op, bt, cmp_mem, cmp_mem_imm, imm8, imm32, inc, lea, load, mov_imm, mov_rr, rr, slot_imm, slot_lea,
    slot_store,
};

/// Loops whose counters look like ones and are none, in the order: body, and the condition to go
/// back.
pub fn impostors() -> Vec<(&'static str, Vec<Op>, Option<u8>)> {
    const RAX: u8 = 0;
    const R8: u8 = 8;
    let (below, not_equal, sign) = (2, 5, 8);
    let check = || vec![cmp_mem_imm(false, 0, 0), Op::Leave { cc: not_equal }];
    let cmp = |w| imm8(w, 7, RAX, 40);
    let next = |to| inc(false, to);
    let zero = || rr(false, 6, R8, R8);
    let body = |parts: &[&[Op]]| parts.concat();
    vec![
        (
            "a second jump reads the carry flag that INC has kept",
            body(&[
                &check(),
                &[Op::Pivot, zero(), next(RAX), cmp(false), next(R8), Op::Skip { cc: below, over: 1 }],
                &[mov_imm(6, 1), cmp(false), Op::Leave { cc: 4 }],
            ]),
            None,
        ),
        (
            "a second jump reads a flag that BT has kept",
            body(&[
                &check(),
                &[Op::Pivot, next(RAX), cmp(false), bt(9, 3)],
                &[Op::Skip { cc: 4, over: 1 }, mov_imm(6, 1), cmp(false), Op::Leave { cc: 4 }],
            ]),
            None,
        ),
        (
            "flags of the round before decide",
            body(&[
                &[Op::Pivot, Op::Skip { cc: sign, over: 1 }, mov_imm(6, 1)],
                &check(),
                &[next(RAX), cmp(false)],
            ]),
            Some(not_equal),
        ),
        (
            "the bound has 32 bits, and the counter 64",
            body(&[&check(), &[Op::Pivot, load(false, 2, 2), inc(true, RAX)], &[rr(true, 7, RAX, 2)]]),
            Some(below),
        ),
        (
            "the bound is a register of which 32 bits are compared as 64",
            body(&[&check(), &[Op::Pivot, mov_rr(false, 2, 6), inc(true, RAX)], &[rr(true, 7, RAX, 2)]]),
            Some(below),
        ),
        (
            "the bound in memory is not read in every round",
            body(&[
                &check(),
                &[Op::Pivot, next(RAX), cmp_mem_imm(false, 1, 0)],
                &[Op::Skip { cc: 4, over: 2 }, cmp_mem(false, RAX, 2), Op::Leave { cc: 4 }],
            ]),
            None,
        ),
        (
            "a slot, and an address of the frame",
            body(&[
                &check(),
                &[Op::Pivot, slot_lea(2, 16), slot_imm(false, 0, 8, 1)],
                &[slot_imm(false, 7, 8, 40)],
            ]),
            Some(below),
        ),
        (
            "a copy of a copy",
            body(&[
                &[mov_rr(false, R8, RAX), lea(false, RAX, R8, 1), Op::Pivot],
                &[slot_store(false, 8, R8)],
                &check(),
                &[cmp(false)],
            ]),
            Some(below),
        ),
        (
            "the step is a large number without a sign",
            body(&[&check(), &[Op::Pivot, imm32(false, 0, RAX, -256), cmp(false)]]),
            Some(below),
        ),
    ]
}
