//! Loops of calls in code at random: the analysis ends, and what it finds is a loop around a call.

mod common;

use common::assemble;
use proptest::prelude::*;
use spinloop::{Blocks, Finder, Finding, Jump, Kind, Machine, Module, Seed, Segments};

const TEXT: u64 = 0x1000;
/// A call or a jump to this has a place that is chosen later.
const HOLE: u8 = 0xa5;

/// Pieces of machine code: those of functions and of loops of calls, and others.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let known: [&'static [u8]; 28] = [
        &[0x55],                                                       // push rbp
        &[0x48, 0x89, 0xe5],                                           // mov rbp, rsp
        &[0x5d],                                                       // pop rbp
        &[0xc9],                                                       // leave
        &[0x53],                                                       // push rbx
        &[0x5b],                                                       // pop rbx
        &[0x5c],                                                       // pop rsp
        &[0x48, 0x83, 0xec, 0x10],                                     // sub rsp, 16
        &[0x48, 0x81, 0xc4, 0xff, 0xff, 0xff, 0x7f],                   // add rsp, 0x7fffffff
        &[0x48, 0x83, 0xe4, 0xf0],                                     // and rsp, -16
        &[0x48, 0x8d, 0x7c, 0x24, 0x08],                               // lea rdi, [rsp + 8]
        &[0x8b, 0x44, 0x24, 0x08],                                     // mov eax, [rsp + 8]
        &[0x89, 0x44, 0x24, 0x0a],                                     // mov [rsp + 10], eax
        &[0x8b, 0x07],                                                 // mov eax, [rdi]
        &[0x89, 0x37],                                                 // mov [rdi], esi
        &[0xc7, 0x07, 1, 0, 0, 0],                                     // mov dword [rdi], 1
        &[0x83, 0x07, 0x01],                                           // add dword [rdi], 1
        &[0xf0, 0xff, 0x07],                                           // lock inc dword [rdi]
        &[0xf0, 0x0f, 0xb1, 0x0f],                                     // lock cmpxchg [rdi], ecx
        &[0x87, 0x07],                                                 // xchg [rdi], eax
        &[0x48, 0xa1, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], // mov rax, [0x7ffffffffffffff8]
        &[0x31, 0xc0],                                                 // xor eax, eax
        &[0xb8, 1, 0, 0, 0],                                           // mov eax, 1
        &[0x85, 0xc0],                                                 // test eax, eax
        &[0x83, 0xf8, 0x01],                                           // cmp eax, 1
        &[0x0f, 0x94, 0xc0],                                           // sete al
        &[0xc3],                                                       // ret
        &[0x90],                                                       // nop
    ];
    let piece = prop_oneof![
        12 => prop::sample::select(known.to_vec()).prop_map(<[u8]>::to_vec),
        4 => (-90i8..40, any::<bool>(), 0u8..16)
            .prop_map(|(to, always, condition)| vec![if always { 0xeb } else { 0x70 + condition }, to as u8]),
        3 => Just(vec![0xe8, HOLE, HOLE, HOLE, HOLE]),
        // mov rdi, rbx; call; test eax, eax; je back
        3 => Just(vec![0x48, 0x89, 0xdf, 0xe8, HOLE, HOLE, HOLE, HOLE, 0x85, 0xc0, 0x74, 0xf4]),
        // mov eax, [rdi]; ret
        2 => Just(vec![0x8b, 0x07, 0xc3]),
        1 => Just(vec![0xe9, HOLE, HOLE, HOLE, HOLE]),
        1 => proptest::collection::vec(any::<u8>(), 0..6),
    ];
    proptest::collection::vec(piece, 0..120).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn code_at_random(
        mut code in pieces(),
        cuts in proptest::collection::vec(0u64..600, 0..9),
        mut targets in proptest::collection::vec(any::<prop::sample::Index>(), 1..40),
        slots in proptest::collection::vec((0u64..0x3000, 0u8..3), 0..4),
    ) {
        let end = TEXT + code.len() as u64;
        let mut cuts: Vec<u64> = cuts.iter().map(|cut| TEXT + cut).filter(|&cut| cut < end).chain([TEXT, end]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let functions: Vec<_> = cuts.windows(2).map(|two| two[0]..two[1]).collect();
        // Calls lead to the starts of functions.
        for at in 1..code.len().saturating_sub(3) {
            if code[at..at + 4] == [HOLE; 4] {
                let to = targets[0].get(&cuts);
                targets.rotate_left(1);
                let distance = to.wrapping_sub(TEXT + at as u64 + 4) as i32;
                code[at..at + 4].copy_from_slice(&distance.to_le_bytes());
            }
        }
        let built = assemble(TEXT, &code, &functions);
        let slices = built.slices();
        let image = Segments(&slices);
        let module = Module::new(Machine::X86_64, &image, &built.text, Some(built.header));
        let kinds = [Blocks::Lock, Blocks::Clock, Blocks::Turn];
        let imports = slots.iter().map(|&(slot, kind)| (slot, kinds[usize::from(kind)])).collect();
        let mut finder = Finder::with_imports(module, imports);
        for address in TEXT..end {
            if let Finding::Wait(found) = finder.analyse(address, Seed::Calls) {
                prop_assert_eq!(found.kind, Kind::Poll);
                prop_assert!(found.head <= found.pivot && found.pivot < found.latch);
                prop_assert!(found.function.start <= found.head && found.latch < found.function.end);
                prop_assert_eq!(code[(found.pivot - TEXT) as usize], 0xe8);
                if let Some(site) = finder.jump_site(&found, address % 2 == 0) {
                    let own = site.jump == Jump::Call && site.replaced.start == found.pivot;
                    prop_assert!(own || site.jump != Jump::Call);
                }
            }
        }
    }
}
