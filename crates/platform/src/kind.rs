//! What kind of core a CPU says it is: Intel's CPUID, leaf 0x1A.
//!
//! The answer is that of the CPU on which the question is asked, so whoever asks is bound to it. In
//! a virtual machine each question is an exit to the host, of some microseconds: ask once.

/// What a core was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Speed.
    Performance,
    /// Doing much with little power.
    Efficient,
}

/// Whether the machine is a hybrid: its CPUs say that they are of different kinds.
#[cfg(target_arch = "x86_64")]
pub fn is_hybrid() -> bool {
    use core::arch::x86_64::{__cpuid, __cpuid_count};
    /// In EDX of leaf 7: the package is a hybrid one.
    const HYBRID: u32 = 1 << 15;
    __cpuid(0).eax >= KIND_LEAF && __cpuid_count(7, 0).edx & HYBRID != 0
}

/// The leaf that tells the kind.
#[cfg(target_arch = "x86_64")]
const KIND_LEAF: u32 = 0x1A;

/// What kind the CPU is that this runs on. Where [`is_hybrid`] says no, the answer means nothing.
#[cfg(target_arch = "x86_64")]
pub fn kind() -> Option<Kind> {
    kind_of(core::arch::x86_64::__cpuid_count(KIND_LEAF, 0).eax)
}

/// The kind that is in EAX of the leaf.
#[cfg(target_arch = "x86_64")]
const fn kind_of(eax: u32) -> Option<Kind> {
    match eax >> 24 {
        0x20 => Some(Kind::Efficient),
        0x40 => Some(Kind::Performance),
        _ => None,
    }
}

/// Whether the machine is a hybrid: here CPUs do not say.
#[cfg(not(target_arch = "x86_64"))]
pub fn is_hybrid() -> bool {
    false
}

/// What kind the CPU is that this runs on: it cannot say.
#[cfg(not(target_arch = "x86_64"))]
pub fn kind() -> Option<Kind> {
    None
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_highest_byte_is_the_kind() {
        assert_eq!(kind_of(0x4000_0001), Some(Kind::Performance));
        assert_eq!(kind_of(0x2000_0003), Some(Kind::Efficient));
        assert_eq!(kind_of(0), None);
        assert_eq!(kind_of(0x1000_0000), None);
    }

    #[test]
    fn a_machine_with_kinds_has_one_for_each_cpu() {
        let mut kinds = Vec::new();
        if is_hybrid() {
            crate::cpu::on_each(0..crate::cpu::COUNT_MAX, |_| kinds.push(kind()));
        }
        assert!(kinds.iter().all(Option::is_some), "{kinds:?}");
    }
}
