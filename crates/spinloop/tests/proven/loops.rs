//! Loops made up at random, and their code.

use proptest::prelude::*;

const RSP: u8 = 4;
const RDI: u8 = 7;

/// An instruction, or what becomes a jump where it stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    Pivot,
    /// Its name, and its bytes.
    Code(&'static str, Vec<u8>),
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

fn registers(w: bool, opcode: &[u8], reg: u8, rm: u8) -> Vec<u8> {
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

/// A function for each instruction. Registers by number; `w` says 64 bits in place of 32; `kind` is
/// one of ADD, OR, ADC, SBB, AND, SUB, XOR, CMP by their numbers.
macro_rules! instructions {
    ($($name:ident($($argument:ident: $type:ty),*) = $bytes:expr;)*) => {$(
        pub fn $name($($argument: $type),*) -> Op {
            Op::Code(stringify!($name), $bytes)
        }
    )*};
}

instructions! {
    mov_rr(w: bool, to: u8, from: u8) = registers(w, &[0x89], from, to);
    mov_imm(to: u8, imm: i32) =
        [&rex(false, 0, to, false)[..], &[0xb8 | to & 7], &imm.to_le_bytes()].concat();
    part8(to: u8, from: u8) =
        [&rex(false, from, to, true)[..], &[0x88, 0xc0 | (from & 7) << 3 | to & 7]].concat();
    part16(to: u8, from: u8) = [vec![0x66], registers(false, &[0x89], from, to)].concat();
    imm8(w: bool, kind: u8, to: u8, imm: i8) = [registers(w, &[0x83], kind, to), vec![imm as u8]].concat();
    imm32(w: bool, kind: u8, to: u8, imm: i32) =
        [registers(w, &[0x81], kind, to), imm.to_le_bytes().to_vec()].concat();
    rr(w: bool, kind: u8, to: u8, from: u8) = registers(w, &[kind << 3 | 1], from, to);
    inc(w: bool, to: u8) = registers(w, &[0xff], 0, to);
    dec(w: bool, to: u8) = registers(w, &[0xff], 1, to);
    neg(w: bool, to: u8) = registers(w, &[0xf7], 3, to);
    lea(w: bool, to: u8, base: u8, add: i8) = mem(w, &[0x8d], to, base, add);
    lea_indexed(to: u8, base: u8, index: u8) = {
        let byte = 0x48 | (to >> 3) << 2 | (index >> 3) << 1 | base >> 3;
        vec![byte, 0x8d, 0x44 | (to & 7) << 3, (index & 7) << 3 | base & 7, 3]
    };
    test(w: bool, to: u8, from: u8) = registers(w, &[0x85], from, to);
    setcc(cc: u8, to: u8) = [&rex(false, 0, to, true)[..], &[0x0f, 0x90 | cc, 0xc0 | to & 7]].concat();
    cmov(w: bool, cc: u8, to: u8, from: u8) = registers(w, &[0x0f, 0x40 | cc], to, from);
    bt(to: u8, bit: u8) = [registers(true, &[0x0f, 0xba], 4, to), vec![bit]].concat();
    rol(to: u8) = [registers(true, &[0xc1], 0, to), vec![5]].concat();
    shl_cl(to: u8) = registers(true, &[0xd3], 4, to);
    carry(kind: u8) = vec![[0xf5, 0xf8, 0xf9][usize::from(kind % 3)]];
    movzx8(to: u8, from: u8) =
        [&rex(false, to, from, true)[..], &[0x0f, 0xb6, 0xc0 | (to & 7) << 3 | from & 7]].concat();
    movsxd(to: u8, from: u8) = registers(true, &[0x63], to, from);
    xchg(w: bool, to: u8, from: u8) = registers(w, &[0x87], from, to);
    xadd(w: bool, to: u8, from: u8) = registers(w, &[0x0f, 0xc1], from, to);
    load(w: bool, to: u8, word: i8) = mem(w, &[0x8b], to, RDI, word * 8);
    load8(to: u8, word: i8) = {
        let code = [0x8a, 0x40 | (to & 7) << 3 | RDI, (word * 8) as u8];
        [&rex(false, to, RDI, true)[..], &code].concat()
    };
    cmp_mem(w: bool, to: u8, word: i8) = mem(w, &[0x3b], to, RDI, word * 8);
    cmp_mem_imm(w: bool, word: i8, imm: i8) = [mem(w, &[0x83], 7, RDI, word * 8), vec![imm as u8]].concat();
    store(w: bool, word: i8, from: u8) = mem(w, &[0x89], from, RDI, word * 8);
    slot_store(w: bool, at: i8, from: u8) = mem(w, &[0x89], from, RSP, at);
    slot_load(w: bool, to: u8, at: i8) = mem(w, &[0x8b], to, RSP, at);
    slot_imm(w: bool, kind: u8, at: i8, imm: i8) = [mem(w, &[0x83], kind, RSP, at), vec![imm as u8]].concat();
    slot_cmp(w: bool, to: u8, at: i8) = mem(w, &[0x3b], to, RSP, at);
    slot_lea(to: u8, at: i8) = mem(true, &[0x8d], to, RSP, at);
    store_via(to: u8, from: u8) = mem(true, &[0x89], from, to, 0);
    lods() = vec![0x48, 0xad];
    push_pop(from: u8, to: u8) = {
        let one = |op: u8, r: u8| [rex(false, 0, r, false), vec![op | r & 7]].concat();
        [one(0x50, from), one(0x58, to)].concat()
    };
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
        Op::Code(_, bytes) => bytes.len(),
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
            Op::Code(_, ref bytes) => code.extend(bytes),
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
            4 => (w(), r(), r()).prop_map(|(w, to, from)| mov_rr(w, to, from)),
            2 => (r(), -3i32..40).prop_map(|(to, imm)| mov_imm(to, imm)),
            1 => (r(), r()).prop_map(|(to, from)| part8(to, from)),
            1 => (r(), r()).prop_map(|(to, from)| part16(to, from)),
            3 => (w(), 0u8..8, r(), -4i8..9).prop_map(|(w, kind, to, imm)| imm8(w, kind, to, imm)),
            3 => (w(), 0u8..8, r(), r()).prop_map(|(w, kind, to, from)| rr(w, kind, to, from)),
            2 => (w(), r()).prop_map(|(w, to)| inc(w, to)),
            2 => (w(), r()).prop_map(|(w, to)| dec(w, to)),
            1 => (w(), r()).prop_map(|(w, to)| neg(w, to)),
            3 => (w(), r(), r(), -4i8..9).prop_map(|(w, to, base, add)| lea(w, to, base, add)),
            1 => (r(), r(), r()).prop_map(|(to, base, index)| lea_indexed(to, base, index)),
            2 => (w(), r(), r()).prop_map(|(w, to, from)| test(w, to, from)),
            1 => (cc(), r()).prop_map(|(cc, to)| setcc(cc, to)),
            1 => (w(), cc(), r(), r()).prop_map(|(w, cc, to, from)| cmov(w, cc, to, from)),
            1 => (r(), 0u8..8).prop_map(|(to, bit)| bt(to, bit)),
            1 => r().prop_map(rol),
            1 => r().prop_map(shl_cl),
            1 => (0u8..3).prop_map(carry),
        ],
        prop_oneof![
            1 => (r(), r()).prop_map(|(to, from)| movzx8(to, from)),
            1 => (r(), r()).prop_map(|(to, from)| movsxd(to, from)),
            1 => (w(), r(), r()).prop_map(|(w, to, from)| xchg(w, to, from)),
            1 => (w(), r(), r()).prop_map(|(w, to, from)| xadd(w, to, from)),
            3 => (w(), r(), word()).prop_map(|(w, to, word)| load(w, to, word)),
            1 => (r(), word()).prop_map(|(to, word)| load8(to, word)),
            2 => (w(), r(), word()).prop_map(|(w, to, word)| cmp_mem(w, to, word)),
            1 => (w(), word(), r()).prop_map(|(w, word, from)| store(w, word, from)),
            3 => (w(), s(), r()).prop_map(|(w, at, from)| slot_store(w, at, from)),
            3 => (w(), r(), s()).prop_map(|(w, to, at)| slot_load(w, to, at)),
            2 => (w(), 0u8..8, s(), -2i8..5).prop_map(|(w, kind, at, imm)| slot_imm(w, kind, at, imm)),
            1 => (r(), s()).prop_map(|(to, at)| slot_lea(to, at)),
            1 => (r(), r()).prop_map(|(to, from)| store_via(to, from)),
            1 => Just(lods()),
            1 => (r(), r()).prop_map(|(from, to)| push_pop(from, to)),
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
                0 => vec![inc(w, counter)],
                1 => vec![dec(w, counter)],
                2 => vec![imm8(w, 0, counter, step)],
                3 => vec![imm8(w, 5, counter, step)],
                4 => vec![lea(w, counter, counter, step)],
                _ => vec![mov_rr(w, other, counter), lea(w, counter, other, step)],
            };
            let compare = match compared {
                0 | 1 => vec![rr(w, 7, counter, other)],
                2 => vec![imm8(w, 7, counter, imm)],
                3 => vec![imm32(w, 7, counter, i32::from(imm) * 1001)],
                4 => vec![cmp_mem(w, counter, word)],
                5 => vec![test(w, counter, counter)],
                6 => vec![load(w, other, word), rr(w, 7, other, counter)],
                _ => vec![],
            };
            (take, compare)
        });
    let in_slot = (any::<bool>(), slot(), step(), register(), 0u8..3, 0i8..60).prop_map(
        |(w, at, step, other, how, imm)| {
            let take = match how {
                0 => vec![slot_imm(w, 0, at, step)],
                1 => vec![slot_imm(w, 5, at, step)],
                _ => vec![slot_load(w, other, at), imm8(w, 0, other, step), slot_store(w, at, other)],
            };
            let compare = match how {
                0 => vec![slot_imm(w, 7, at, imm)],
                1 => vec![slot_cmp(w, other, at)],
                _ => vec![imm8(w, 7, other, imm)],
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
                vec![cmp_mem_imm(false, 0, 0), Op::Leave { cc: 5 }]
            } else {
                vec![load(false, 9, 0), test(false, 9, 9), Op::Leave { cc: 5 }]
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
            let mut inner = vec![load(false, READ, 1), rr(false, if adds { 0 } else { 1 }, SUM, READ)];
            for (at, op) in extra.into_iter().filter(|(_, op)| !matches!(op, Op::Skip { .. })) {
                inner.insert(at.index(inner.len() + 1), op);
            }
            inner.push(imm8(false, 5, INDEX, 1));
            let back = Op::Back { cc: 5, over: inner.len() as u8 };
            let begin = vec![Op::Pivot, mov_imm(INDEX, rounds), mov_imm(SUM, 0)];
            // What may last from one round to the next.
            let moves = moving.map(|imm| imm8(false, 0, INDEX, imm));
            let end = vec![test(false, SUM, SUM)];
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
            body.push(cmp_mem_imm(false, 0, 0));
        } else {
            body.extend([load(true, 0, 0), test(true, 0, 0)]);
        }
        body.push(Op::Leave { cc: 5 });
        for (at, op) in extra {
            body.insert(at.index(body.len() + 1), op);
        }
        (body, None)
    })
}
