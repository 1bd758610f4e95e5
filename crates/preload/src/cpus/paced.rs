//! The affinity of a program whose quota is paced, as it is without the pace.
//!
//! A helper process of `manx run` keeps the threads of a program to fewer CPUs while a quota stops
//! them (`crates/cli/src/run/quota.rs`). Runtimes count their CPUs when they are loaded, and
//! remember the number. A runtime that is loaded in such a moment, as Python's modules are, would
//! take itself for crowded for good. GNU's OpenMP then sleeps at each barrier: fits of scikit-learn
//! with a quota of one CPU took 780 ms, and take 120 ms.
//!
//! So an affinity that the helper has set is told as the affinity with which the program was
//! started. The helpers of a group have the CPUs to which the group is kept ([`Pacer`]). So an
//! affinity is the helper's if the helper has the same one, and fewer CPUs than the program was
//! started with. An affinity that the program or its user has set stays, unless it is the very
//! same.
//!
//! In the moment in which the helper gives CPUs back, a thread may have them already and the helper
//! not yet: then the program is told of the CPUs that the thread has.

use crate::process;
use platform::cpu::{self, Mask};
use preload_abi::pacer::{PACER_VARIABLE, Pacer};

/// Puts the CPUs of the program into `mask`, the affinity of one of its threads, if the helper has
/// taken some of them away.
pub fn tell_all(mask: &mut [u8]) {
    let Some(pacer) = process::variable(PACER_VARIABLE.as_bytes()).and_then(Pacer::parse) else { return };
    let Ok(its) = cpu::allowed_of(pacer.pid) else { return };
    if is_paced(mask, &its, &pacer.allowed) {
        for (byte, all) in mask.iter_mut().zip(bytes(&pacer.allowed)) {
            *byte = all;
        }
    }
}

/// Whether `mask` is the helper's, which has `its` CPUs, where the program has `allowed`.
fn is_paced(mask: &[u8], its: &Mask, allowed: &Mask) -> bool {
    let is_same = bytes(its).zip(mask.iter().copied().chain(core::iter::repeat(0))).all(|(a, b)| a == b);
    let is_part = its.iter().zip(allowed).all(|(some, all)| some & !all == 0);
    is_same && is_part && its != allowed
}

/// On little-endian machines, in the order of a mask's bytes.
fn bytes(mask: &Mask) -> impl Iterator<Item = u8> {
    mask.iter().flat_map(|word| word.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(first: u64) -> Mask {
        let mut mask = [0; size_of::<Mask>() / 8];
        mask[0] = first;
        mask
    }

    #[test]
    fn only_what_the_helper_has_too_is_the_helpers() {
        let allowed = mask(0b1111);
        for (own, its, paced) in [
            (0b0011, 0b0011, true),
            (0b0001, 0b0011, false),
            (0b1111, 0b0011, false),
            (0b1111, 0b1111, false),
            (0b1_0000, 0b1_0000, false),
        ] {
            assert_eq!(is_paced(&[own, 0], &mask(its), &allowed), paced, "{own:b} of {its:b}");
        }
        // A mask of fewer bytes than the helper's CPUs need.
        assert!(!is_paced(&[1], &mask(0x101), &mask(0x303)));
    }
}
