//! Loops whose counters look like ones and are none.

use crate::loops::Op;

/// Loops whose counters look like ones and are none, in the order: body, and the condition to go
/// back.
pub fn impostors() -> Vec<(&'static str, Vec<Op>, Option<u8>)> {
    const RAX: u8 = 0;
    const R8: u8 = 8;
    let (below, not_equal, sign) = (2, 5, 8);
    let check = || vec![Op::CmpMemImm { w: false, word: 0, imm: 0 }, Op::Leave { cc: not_equal }];
    let cmp = |w| Op::Imm { w, kind: 7, to: RAX, imm: 40 };
    let inc = |to| Op::Inc { w: false, to };
    let zero = || Op::Rr { w: false, kind: 6, to: R8, from: R8 };
    let body = |parts: &[&[Op]]| parts.concat();
    vec![
        (
            "a second jump reads the carry flag that INC has kept",
            body(&[
                &check(),
                &[Op::Pivot, zero(), inc(RAX), cmp(false), inc(R8), Op::Skip { cc: below, over: 1 }],
                &[Op::MovImm { to: 6, imm: 1 }, cmp(false), Op::Leave { cc: 4 }],
            ]),
            None,
        ),
        (
            "a second jump reads a flag that BT has kept",
            body(&[
                &check(),
                &[Op::Pivot, inc(RAX), cmp(false), Op::Bt { to: 9, bit: 3 }],
                &[Op::Skip { cc: 4, over: 1 }, Op::MovImm { to: 6, imm: 1 }, cmp(false), Op::Leave { cc: 4 }],
            ]),
            None,
        ),
        (
            "flags of the round before decide",
            body(&[
                &[Op::Pivot, Op::Skip { cc: sign, over: 1 }, Op::MovImm { to: 6, imm: 1 }],
                &check(),
                &[inc(RAX), cmp(false)],
            ]),
            Some(not_equal),
        ),
        (
            "the bound has 32 bits, and the counter 64",
            body(&[
                &check(),
                &[Op::Pivot, Op::Load { w: false, to: 2, word: 2 }, Op::Inc { w: true, to: RAX }],
                &[Op::Rr { w: true, kind: 7, to: RAX, from: 2 }],
            ]),
            Some(below),
        ),
        (
            "the bound is a register of which 32 bits are compared as 64",
            body(&[
                &check(),
                &[Op::Pivot, Op::MovRr { w: false, to: 2, from: 6 }, Op::Inc { w: true, to: RAX }],
                &[Op::Rr { w: true, kind: 7, to: RAX, from: 2 }],
            ]),
            Some(below),
        ),
        (
            "the bound in memory is not read in every round",
            body(&[
                &check(),
                &[Op::Pivot, inc(RAX), Op::CmpMemImm { w: false, word: 1, imm: 0 }],
                &[
                    Op::Skip { cc: 4, over: 2 },
                    Op::CmpMem { w: false, to: RAX, word: 2 },
                    Op::Leave { cc: 4 },
                ],
            ]),
            None,
        ),
        (
            "a slot, and an address of the frame",
            body(&[
                &check(),
                &[Op::Pivot, Op::SlotLea { to: 2, at: 16 }, Op::SlotImm { w: false, kind: 0, at: 8, imm: 1 }],
                &[Op::SlotImm { w: false, kind: 7, at: 8, imm: 40 }],
            ]),
            Some(below),
        ),
        (
            "a copy of a copy",
            body(&[
                &[
                    Op::MovRr { w: false, to: R8, from: RAX },
                    Op::Lea { w: false, to: RAX, base: R8, add: 1 },
                    Op::Pivot,
                ],
                &[Op::SlotStore { w: false, at: 8, from: R8 }],
                &check(),
                &[cmp(false)],
            ]),
            Some(below),
        ),
        (
            "the step is a large number without a sign",
            body(&[&check(), &[Op::Pivot, Op::Imm32 { w: false, kind: 0, to: RAX, imm: -256 }, cmp(false)]]),
            Some(below),
        ),
    ]
}
