//! Loops made up at random, and their code.

use proptest::prelude::*;

const RSP: u8 = 4;
const RDI: u8 = 7;

/// An instruction. Registers by number; `w` says 64 bits in place of 32.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    Pivot,
    MovRr {
        w: bool,
        to: u8,
        from: u8,
    },
    MovImm {
        to: u8,
        imm: i32,
    },
    Part8 {
        to: u8,
        from: u8,
    },
    Part16 {
        to: u8,
        from: u8,
    },
    /// ADD, OR, ADC, SBB, AND, SUB, XOR, CMP by their numbers, with a small constant.
    Imm {
        w: bool,
        kind: u8,
        to: u8,
        imm: i8,
    },
    Imm32 {
        w: bool,
        kind: u8,
        to: u8,
        imm: i32,
    },
    Rr {
        w: bool,
        kind: u8,
        to: u8,
        from: u8,
    },
    Inc {
        w: bool,
        to: u8,
    },
    Dec {
        w: bool,
        to: u8,
    },
    Neg {
        w: bool,
        to: u8,
    },
    Lea {
        w: bool,
        to: u8,
        base: u8,
        add: i8,
    },
    LeaIndexed {
        to: u8,
        base: u8,
        index: u8,
    },
    Test {
        w: bool,
        to: u8,
        from: u8,
    },
    Setcc {
        cc: u8,
        to: u8,
    },
    Cmov {
        w: bool,
        cc: u8,
        to: u8,
        from: u8,
    },
    Bt {
        to: u8,
        bit: u8,
    },
    Rol {
        to: u8,
    },
    ShlCl {
        to: u8,
    },
    Carry {
        kind: u8,
    },
    Movzx8 {
        to: u8,
        from: u8,
    },
    Movsxd {
        to: u8,
        from: u8,
    },
    Xchg {
        w: bool,
        to: u8,
        from: u8,
    },
    Xadd {
        w: bool,
        to: u8,
        from: u8,
    },
    Load {
        w: bool,
        to: u8,
        word: i8,
    },
    Load8 {
        to: u8,
        word: i8,
    },
    CmpMem {
        w: bool,
        to: u8,
        word: i8,
    },
    CmpMemImm {
        w: bool,
        word: i8,
        imm: i8,
    },
    Store {
        w: bool,
        word: i8,
        from: u8,
    },
    SlotStore {
        w: bool,
        at: i8,
        from: u8,
    },
    SlotLoad {
        w: bool,
        to: u8,
        at: i8,
    },
    SlotImm {
        w: bool,
        kind: u8,
        at: i8,
        imm: i8,
    },
    SlotCmp {
        w: bool,
        to: u8,
        at: i8,
    },
    SlotLea {
        to: u8,
        at: i8,
    },
    StoreVia {
        to: u8,
        from: u8,
    },
    Lods,
    PushPop {
        from: u8,
        to: u8,
    },
    /// A jump over a number of instructions.
    Skip {
        cc: u8,
        over: u8,
    },
    /// A jump back over a number of instructions.
    Back {
        cc: u8,
        over: u8,
    },
    /// Out of the loop.
    Leave {
        cc: u8,
    },
}

fn rex(w: bool, reg: u8, rm: u8, force: bool) -> Vec<u8> {
    let byte = 0x40 | u8::from(w) << 3 | (reg >> 3) << 2 | rm >> 3;
    if byte != 0x40 || force { vec![byte] } else { Vec::new() }
}

fn rr(w: bool, opcode: &[u8], reg: u8, rm: u8) -> Vec<u8> {
    [&rex(w, reg, rm, false), opcode, &[0xc0 | (reg & 7) << 3 | rm & 7]].concat()
}

/// With the memory at a register and a distance.
fn mem(w: bool, opcode: &[u8], reg: u8, base: u8, add: i8) -> Vec<u8> {
    let mut code = [&rex(w, reg, base, false), opcode, &[0x40 | (reg & 7) << 3 | base & 7]].concat();
    if base & 7 == RSP {
        code.push(0x24);
    }
    code.push(add as u8);
    code
}

impl Op {
    fn bytes(&self) -> Vec<u8> {
        match *self {
            Op::Pivot | Op::Skip { .. } | Op::Back { .. } | Op::Leave { .. } => Vec::new(),
            Op::MovRr { w, to, from } => rr(w, &[0x89], from, to),
            Op::MovImm { to, imm } => {
                [&rex(false, 0, to, false)[..], &[0xb8 | to & 7], &imm.to_le_bytes()].concat()
            }
            Op::Part8 { to, from } => {
                [&rex(false, from, to, true)[..], &[0x88, 0xc0 | (from & 7) << 3 | to & 7]].concat()
            }
            Op::Part16 { to, from } => [vec![0x66], rr(false, &[0x89], from, to)].concat(),
            Op::Imm { w, kind, to, imm } => [rr(w, &[0x83], kind, to), vec![imm as u8]].concat(),
            Op::Imm32 { w, kind, to, imm } => [rr(w, &[0x81], kind, to), imm.to_le_bytes().to_vec()].concat(),
            Op::Rr { w, kind, to, from } => rr(w, &[kind << 3 | 1], from, to),
            Op::Inc { w, to } => rr(w, &[0xff], 0, to),
            Op::Dec { w, to } => rr(w, &[0xff], 1, to),
            Op::Neg { w, to } => rr(w, &[0xf7], 3, to),
            Op::Lea { w, to, base, add } => mem(w, &[0x8d], to, base, add),
            Op::LeaIndexed { to, base, index } => {
                let byte = 0x48 | (to >> 3) << 2 | (index >> 3) << 1 | base >> 3;
                vec![byte, 0x8d, 0x44 | (to & 7) << 3, (index & 7) << 3 | base & 7, 3]
            }
            Op::Test { w, to, from } => rr(w, &[0x85], from, to),
            Op::Setcc { cc, to } => {
                [&rex(false, 0, to, true)[..], &[0x0f, 0x90 | cc, 0xc0 | to & 7]].concat()
            }
            Op::Cmov { w, cc, to, from } => rr(w, &[0x0f, 0x40 | cc], to, from),
            Op::Bt { to, bit } => [rr(true, &[0x0f, 0xba], 4, to), vec![bit]].concat(),
            Op::Rol { to } => [rr(true, &[0xc1], 0, to), vec![5]].concat(),
            Op::ShlCl { to } => rr(true, &[0xd3], 4, to),
            Op::Carry { kind } => vec![[0xf5, 0xf8, 0xf9][usize::from(kind % 3)]],
            Op::Movzx8 { to, from } => {
                [&rex(false, to, from, true)[..], &[0x0f, 0xb6, 0xc0 | (to & 7) << 3 | from & 7]].concat()
            }
            Op::Movsxd { to, from } => rr(true, &[0x63], to, from),
            Op::Xchg { w, to, from } => rr(w, &[0x87], from, to),
            Op::Xadd { w, to, from } => rr(w, &[0x0f, 0xc1], from, to),
            Op::Load { w, to, word } => mem(w, &[0x8b], to, RDI, word * 8),
            Op::Load8 { to, word } => {
                let code = [0x8a, 0x40 | (to & 7) << 3 | RDI, (word * 8) as u8];
                [&rex(false, to, RDI, true)[..], &code].concat()
            }
            Op::CmpMem { w, to, word } => mem(w, &[0x3b], to, RDI, word * 8),
            Op::CmpMemImm { w, word, imm } => [mem(w, &[0x83], 7, RDI, word * 8), vec![imm as u8]].concat(),
            Op::Store { w, word, from } => mem(w, &[0x89], from, RDI, word * 8),
            Op::SlotStore { w, at, from } => mem(w, &[0x89], from, RSP, at),
            Op::SlotLoad { w, to, at } => mem(w, &[0x8b], to, RSP, at),
            Op::SlotImm { w, kind, at, imm } => [mem(w, &[0x83], kind, RSP, at), vec![imm as u8]].concat(),
            Op::SlotCmp { w, to, at } => mem(w, &[0x3b], to, RSP, at),
            Op::SlotLea { to, at } => mem(true, &[0x8d], to, RSP, at),
            Op::StoreVia { to, from } => mem(true, &[0x89], from, to, 0),
            Op::Lods => vec![0x48, 0xad],
            Op::PushPop { from, to } => {
                let one = |op: u8, r: u8| [rex(false, 0, r, false), vec![op | r & 7]].concat();
                [one(0x50, from), one(0x58, to)].concat()
            }
        }
    }
}

/// A loop's code, and where its pivot is. Its end is a jump back with the condition, or without
/// one.
pub fn build(body: &[Op], pivot: &[u8], end: Option<u8>) -> (Vec<u8>, u64) {
    // An instruction that nothing jumps back to, so that the loop's head is not the function's
    // start.
    let head = 1u64;
    let long = |op: &Op| match op {
        Op::Pivot => pivot.len(),
        Op::Skip { .. } | Op::Back { .. } | Op::Leave { .. } => 6,
        other => other.bytes().len(),
    };
    let mut at = vec![head];
    for op in body {
        at.push(at[at.len() - 1] + long(op) as u64);
    }
    let behind = at[body.len()];
    let close = if end.is_some() { 6 } else { 5 };
    let first_exit = behind + close;
    let mut code = vec![0xf5];
    let mut pivot_at = 0;
    let mut exits = 1u64;
    for (n, op) in body.iter().enumerate() {
        let jump = |cc: u8, to: u64| {
            [&[0x0f, 0x80 | cc][..], &(to.wrapping_sub(at[n] + 6) as u32).to_le_bytes()].concat()
        };
        match *op {
            Op::Pivot => {
                pivot_at = at[n];
                code.extend(pivot);
            }
            Op::Skip { cc, over } => {
                code.extend(jump(cc, at[(n + 1 + usize::from(over)).min(body.len())]));
            }
            Op::Back { cc, over } => code.extend(jump(cc, at[n.saturating_sub(usize::from(over))])),
            Op::Leave { cc } => {
                code.extend(jump(cc, first_exit + 2 * exits));
                exits += 1;
            }
            ref other => code.extend(other.bytes()),
        }
    }
    let back = head.wrapping_sub(first_exit) as u32;
    match end {
        Some(cc) => code.extend([&[0x0f, 0x80 | cc][..], &back.to_le_bytes()].concat()),
        None => code.extend([&[0xe9][..], &back.to_le_bytes()].concat()),
    }
    code.extend([0x0f, 0x0b].repeat(exits as usize));
    (code, pivot_at)
}

fn register() -> impl Strategy<Value = u8> {
    prop_oneof![8 => prop::sample::select(vec![0u8, 1, 2, 6, 8]), 2 => prop::sample::select(vec![3u8, 5, 7, 9, 12, 15])]
}

fn slot() -> impl Strategy<Value = i8> {
    prop_oneof![4 => Just(8i8), 2 => Just(16), 1 => Just(12), 1 => Just(-8), 1 => Just(10)]
}

/// Of comparisons of all kinds.
fn cc() -> impl Strategy<Value = u8> {
    prop::sample::select(vec![2u8, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15])
}

/// Anything that may stand in a loop.
fn anything() -> impl Strategy<Value = Op> {
    let (w, r, s) = (any::<bool>, register, slot);
    let word = || 0i8..4;
    prop_oneof![
        prop_oneof![
            4 => (w(), r(), r()).prop_map(|(w, to, from)| Op::MovRr { w, to, from }),
            2 => (r(), -3i32..40).prop_map(|(to, imm)| Op::MovImm { to, imm }),
            1 => (r(), r()).prop_map(|(to, from)| Op::Part8 { to, from }),
            1 => (r(), r()).prop_map(|(to, from)| Op::Part16 { to, from }),
            3 => (w(), 0u8..8, r(), -4i8..9).prop_map(|(w, kind, to, imm)| Op::Imm { w, kind, to, imm }),
            3 => (w(), 0u8..8, r(), r()).prop_map(|(w, kind, to, from)| Op::Rr { w, kind, to, from }),
            2 => (w(), r()).prop_map(|(w, to)| Op::Inc { w, to }),
            2 => (w(), r()).prop_map(|(w, to)| Op::Dec { w, to }),
            1 => (w(), r()).prop_map(|(w, to)| Op::Neg { w, to }),
            3 => (w(), r(), r(), -4i8..9).prop_map(|(w, to, base, add)| Op::Lea { w, to, base, add }),
            1 => (r(), r(), r()).prop_map(|(to, base, index)| Op::LeaIndexed { to, base, index }),
            2 => (w(), r(), r()).prop_map(|(w, to, from)| Op::Test { w, to, from }),
            1 => (cc(), r()).prop_map(|(cc, to)| Op::Setcc { cc, to }),
            1 => (w(), cc(), r(), r()).prop_map(|(w, cc, to, from)| Op::Cmov { w, cc, to, from }),
            1 => (r(), 0u8..8).prop_map(|(to, bit)| Op::Bt { to, bit }),
            1 => r().prop_map(|to| Op::Rol { to }),
            1 => r().prop_map(|to| Op::ShlCl { to }),
            1 => (0u8..3).prop_map(|kind| Op::Carry { kind }),
        ],
        prop_oneof![
            1 => (r(), r()).prop_map(|(to, from)| Op::Movzx8 { to, from }),
            1 => (r(), r()).prop_map(|(to, from)| Op::Movsxd { to, from }),
            1 => (w(), r(), r()).prop_map(|(w, to, from)| Op::Xchg { w, to, from }),
            1 => (w(), r(), r()).prop_map(|(w, to, from)| Op::Xadd { w, to, from }),
            3 => (w(), r(), word()).prop_map(|(w, to, word)| Op::Load { w, to, word }),
            1 => (r(), word()).prop_map(|(to, word)| Op::Load8 { to, word }),
            2 => (w(), r(), word()).prop_map(|(w, to, word)| Op::CmpMem { w, to, word }),
            1 => (w(), word(), r()).prop_map(|(w, word, from)| Op::Store { w, word, from }),
            3 => (w(), s(), r()).prop_map(|(w, at, from)| Op::SlotStore { w, at, from }),
            3 => (w(), r(), s()).prop_map(|(w, to, at)| Op::SlotLoad { w, to, at }),
            2 => (w(), 0u8..8, s(), -2i8..5).prop_map(|(w, kind, at, imm)| Op::SlotImm { w, kind, at, imm }),
            1 => (r(), s()).prop_map(|(to, at)| Op::SlotLea { to, at }),
            1 => (r(), r()).prop_map(|(to, from)| Op::StoreVia { to, from }),
            1 => Just(Op::Lods),
            1 => (r(), r()).prop_map(|(from, to)| Op::PushPop { from, to }),
            3 => (cc(), 0u8..3).prop_map(|(cc, over)| Op::Skip { cc, over }),
            2 => cc().prop_map(|cc| Op::Leave { cc }),
        ],
    ]
}

/// A counter's step, and the comparison with its bound.
fn counting() -> impl Strategy<Value = (Vec<Op>, Vec<Op>)> {
    let step = || prop::sample::select(vec![1i8, 1, 1, -1, -1, -1, 2, 4, -4, 8]);
    let in_register = (any::<bool>(), register(), step(), 0u8..6, 0u8..8, register(), 0i8..4, -3i8..60)
        .prop_map(|(w, counter, step, how, compared, other, word, imm)| {
            let take = match how {
                0 => vec![Op::Inc { w, to: counter }],
                1 => vec![Op::Dec { w, to: counter }],
                2 => vec![Op::Imm { w, kind: 0, to: counter, imm: step }],
                3 => vec![Op::Imm { w, kind: 5, to: counter, imm: step }],
                4 => vec![Op::Lea { w, to: counter, base: counter, add: step }],
                _ => vec![
                    Op::MovRr { w, to: other, from: counter },
                    Op::Lea { w, to: counter, base: other, add: step },
                ],
            };
            let compare = match compared {
                0 | 1 => vec![Op::Rr { w, kind: 7, to: counter, from: other }],
                2 => vec![Op::Imm { w, kind: 7, to: counter, imm }],
                3 => vec![Op::Imm32 { w, kind: 7, to: counter, imm: i32::from(imm) * 1001 }],
                4 => vec![Op::CmpMem { w, to: counter, word }],
                5 => vec![Op::Test { w, to: counter, from: counter }],
                6 => vec![Op::Load { w, to: other, word }, Op::Rr { w, kind: 7, to: other, from: counter }],
                _ => vec![],
            };
            (take, compare)
        });
    let in_slot = (any::<bool>(), slot(), step(), register(), 0u8..3, 0i8..60).prop_map(
        |(w, at, step, other, how, imm)| {
            let take = match how {
                0 => vec![Op::SlotImm { w, kind: 0, at, imm: step }],
                1 => vec![Op::SlotImm { w, kind: 5, at, imm: step }],
                _ => vec![
                    Op::SlotLoad { w, to: other, at },
                    Op::Imm { w, kind: 0, to: other, imm: step },
                    Op::SlotStore { w, at, from: other },
                ],
            };
            let compare = match how {
                0 => vec![Op::SlotImm { w, kind: 7, at, imm }],
                1 => vec![Op::SlotCmp { w, to: other, at }],
                _ => vec![Op::Imm { w, kind: 7, to: other, imm }],
            };
            (take, compare)
        },
    );
    prop_oneof![3 => in_register, 1 => in_slot]
}

/// A loop: its body, and the condition to go back.
pub fn bounded() -> impl Strategy<Value = (Vec<Op>, Option<u8>)> {
    let extra = prop::collection::vec((any::<prop::sample::Index>(), anything()), 0..4);
    (counting(), any::<bool>(), 0u8..6, cc(), any::<bool>(), extra).prop_map(
        |((take, compare), seen, order, cc, back, extra)| {
            let check = if seen {
                vec![Op::CmpMemImm { w: false, word: 0, imm: 0 }, Op::Leave { cc: 5 }]
            } else {
                vec![
                    Op::Load { w: false, to: 9, word: 0 },
                    Op::Test { w: false, to: 9, from: 9 },
                    Op::Leave { cc: 5 },
                ]
            };
            let pivot = vec![Op::Pivot];
            let (tail, end) =
                if back { (compare, Some(cc)) } else { ([compare, vec![Op::Leave { cc }]].concat(), None) };
            let parts = match order {
                0 => vec![check, pivot, take, tail],
                1 => vec![pivot, check, take, tail],
                2 => vec![check, take, pivot, tail],
                3 => vec![take, check, pivot, tail],
                4 => vec![take, pivot, check, tail],
                _ => vec![pivot, take, check, tail],
            };
            let mut body = parts.concat();
            for (at, op) in extra {
                body.insert(at.index(body.len() + 1), op);
            }
            (body, end)
        },
    )
}

/// A loop around a loop that looks at some words of memory, with a counter or without one.
pub fn nested() -> impl Strategy<Value = (Vec<Op>, Option<u8>)> {
    let extra = prop::collection::vec((any::<prop::sample::Index>(), anything()), 0..3);
    let outer = prop::option::of(counting());
    (1i32..4, any::<bool>(), prop::option::of(0i8..4), outer, cc(), extra).prop_map(
        |(rounds, adds, moving, outer, cc, extra)| {
            // Nothing else writes it, so the inner loop ends.
            const INDEX: u8 = 10;
            const SUM: u8 = 1;
            const READ: u8 = 2;
            let mut inner = vec![
                Op::Load { w: false, to: READ, word: 1 },
                Op::Rr { w: false, kind: if adds { 0 } else { 1 }, to: SUM, from: READ },
            ];
            for (at, op) in extra.into_iter().filter(|(_, op)| !matches!(op, Op::Skip { .. })) {
                inner.insert(at.index(inner.len() + 1), op);
            }
            inner.push(Op::Imm { w: false, kind: 5, to: INDEX, imm: 1 });
            let back = Op::Back { cc: 5, over: inner.len() as u8 };
            let begin =
                vec![Op::Pivot, Op::MovImm { to: INDEX, imm: rounds }, Op::MovImm { to: SUM, imm: 0 }];
            // What may last from one round to the next.
            let moves = moving.map(|imm| Op::Imm { w: false, kind: 0, to: INDEX, imm });
            let end = vec![Op::Test { w: false, to: SUM, from: SUM }];
            let mut body = [begin, inner, vec![back], moves.into_iter().collect(), end].concat();
            match outer {
                None => (body, Some(5)),
                Some((take, compare)) => {
                    body.push(Op::Leave { cc: 4 });
                    (body.into_iter().chain(take).chain(compare).collect(), Some(cc))
                }
            }
        },
    )
}

/// A loop without a counter of its own.
pub fn unbounded() -> impl Strategy<Value = (Vec<Op>, Option<u8>)> {
    let extra = prop::collection::vec((any::<prop::sample::Index>(), anything()), 0..5);
    (any::<bool>(), extra).prop_map(|(seen, extra)| {
        let mut body = vec![Op::Pivot];
        if seen {
            body.push(Op::CmpMemImm { w: false, word: 0, imm: 0 });
        } else {
            body.extend([Op::Load { w: true, to: 0, word: 0 }, Op::Test { w: true, to: 0, from: 0 }]);
        }
        body.push(Op::Leave { cc: 5 });
        for (at, op) in extra {
            body.insert(at.index(body.len() + 1), op);
        }
        (body, None)
    })
}
