//! Lists of plans, written and read; and bytes that are no list.

use super::*;
use spinloop::{Hooks, Jump, JumpSite, Loop, Segments};

const BIAS: usize = 0x5000_0000;
/// pause; cmp byte [rdi], 0; jne back; ret
const CODE: &[u8] = b"\xf3\x90\x80\x3f\x00\x75\xf9\xc3";

fn kinds() -> Vec<Kind> {
    let bounds = [
        Bound::Constant(u64::MAX),
        Bound::Place(Place::Stack(4, -8), -1),
        Bound::Memory(None, BIAS as u64 + 64),
        Bound::Memory(Some(7), 1 << 40),
    ];
    let counted = |(n, bound): (usize, Bound)| {
        let place = if n % 2 == 0 { Place::Register(n as u8) } else { Place::Stack(5, 16) };
        let goes_on = CONDITIONS[2 * n];
        Kind::Counted(Counter { place, bits: 32, step: -1, ahead: 2, bound, goes_on, blocks: n == 1 })
    };
    let counted = bounds.into_iter().enumerate().map(counted);
    [Kind::Unbounded, Kind::Timed, Kind::Hint, Kind::Poll].into_iter().chain(counted).collect()
}

/// A list with a plan for each kind, of code at `at`.
fn list(at: u64) -> Vec<u8> {
    let image = Segments(&[(at, CODE)]);
    let mut writer = Writer::new(BIAS);
    writer.no_wait(at as usize, "works");
    for kind in kinds() {
        let (home, function) = (at..at + 7, at..at + 8);
        let parts = core::iter::once(home.clone()).collect();
        let nests = false;
        let found = Loop { head: at, latch: at + 5, bytes: 7, parts, function, kind, pivot: at, home, nests };
        let jump_site = JumpSite { replaced: at..at + 5, jump: Jump::Row };
        let relocations =
            [Relocation { at: 0, refers: Refers::Copy }, Relocation { at: 8, refers: Refers::ModuleFrom }];
        let made = Made { code: &[1; 24], entry: 16, spins: true, frame: Some(8), relocations: &relocations };
        writer.repair(&image, &found, &found.parts, &jump_site, &made).expect("written");
    }
    writer.refused(at as usize + 1, "no place for a jump");
    writer.finish()
}

#[test]
fn a_list_that_was_written_is_read() {
    let code = CODE.as_ptr().addr();
    // Like a module with this text.
    let bytes = list(code as u64);
    let plans = read(&bytes).expect("a list");
    assert!(matches!(plans[0].verdict, Verdict::NoWait("works")));
    let last = kinds().len() + 1;
    assert!(matches!(plans[last].verdict, Verdict::Refused("no place for a jump")));
    assert_eq!((plans.len(), plans[last].pivot.wrapping_add(BIAS)), (last + 1, code + 1));
    for (plan, kind) in plans[1..last].iter().zip(kinds()) {
        let Verdict::Repair(one) = &plan.verdict else { panic!("another verdict") };
        assert_eq!((plan.pivot.wrapping_add(BIAS), one.kind(BIAS)), (code, kind));
        if let (Kind::Counted(here), Kind::Counted(there)) = (kind, one.kind(BIAS + 1)) {
            assert_eq!(matches!(here.bound, Bound::Memory(None, _)), here.bound != there.bound);
        }
        assert_eq!((one.entry, one.spins, one.frame, one.entrance.form), (16, true, Some(8), Form::Row));
        let mut copy = Vec::new();
        let hooks = Hooks { trampoline: 0, site: 0, waiting: 0, rounds: 0, site_rounds: 0 };
        one.copy(&mut copy, &Bases { copy: 0x10, module: 0x30, hooks }).expect("a copy");
        assert_eq!((copy[0], copy[8], &copy[16..]), (0x11, 0x21, &[1; 8][..]));
        let text = code..code + CODE.len();
        let fits = |text: &[Range<usize>], bias| {
            // SAFETY: the ranges are parts of `CODE`.
            unsafe { one.fits(text, bias) }
        };
        assert!(fits(&[0..1, text.clone()], BIAS));
        assert!(!fits(core::slice::from_ref(&text), BIAS + 1), "other bytes");
        let cut = text.start..text.start + 6;
        assert!(!fits(core::slice::from_ref(&cut), BIAS), "cut off");
    }
}

#[test]
fn a_list_that_is_cut_is_refused_and_one_that_is_changed_does_no_harm() {
    let bytes = list(CODE.as_ptr().addr() as u64);
    let reads = |bytes: &[u8]| {
        let Some(plans) = read(bytes) else { return false };
        for plan in &plans {
            if let Verdict::Repair(one) = &plan.verdict {
                // SAFETY: without text nothing is read.
                assert!(!unsafe { one.fits(&[], BIAS) });
                let _ = one.copy(&mut Vec::new(), &Bases::NOWHERE);
            }
        }
        true
    };
    assert!(reads(&bytes));
    for length in 0..bytes.len() {
        assert!(!reads(&bytes[..length]), "cut to {length}");
    }
    for at in 0..bytes.len() {
        for changed in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[at] = changed;
            reads(&bytes);
        }
    }
}
