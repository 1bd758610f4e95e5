//! How threads spend time: until it has passed, or by a calculation.

use contention::run::Burn;
use platform::clock::{ns_to_ticks, ticks};

/// The amount that takes `ns` on a big core; on this core it shall take `factor` times as long.
pub fn amount(burn: Burn, ns: u64, factor: f64) -> u64 {
    match burn {
        Burn::Time => ns_to_ticks((ns as f64 * factor) as u64),
        Burn::Rounds { per_us } => (ns as f64 * per_us / 1000.0) as u64,
    }
}

/// Spends `amount`; returns the ticks since `from`.
#[inline]
pub fn spend(burn: Burn, from: u64, amount: u64) -> u64 {
    if let Burn::Rounds { .. } = burn {
        calculate(amount);
        return ticks().wrapping_sub(from);
    }
    loop {
        let passed = ticks().wrapping_sub(from);
        if passed >= amount {
            return passed;
        }
    }
}

platform::os_only! {
    use std::hint::black_box;

    /// Makes rounds of a calculation; each round needs the round before (Knuth's linear
    /// congruential generator).
    #[inline]
    pub fn calculate(rounds: u64) {
        let mut value = black_box(1_u64);
        for _ in 0..rounds {
            value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }

    /// NOPs: this number, rounded down to hundreds if it is more than that.
    #[inline(never)]
    pub(crate) fn nops(count: u64) {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        // SAFETY: the instructions do nothing.
        unsafe {
            let (hundreds, ones) = if count < 100 { (0, count) } else { (count / 100, 0) };
            for _ in 0..hundreds {
                std::arch::asm!(".rept 100", "nop", ".endr", options(nomem, nostack, preserves_flags));
            }
            for _ in 0..ones {
                std::arch::asm!("nop", options(nomem, nostack, preserves_flags));
            }
        }
    }
}
platform::twins_only! {
    /// Rounds that a CPU of speed 1 makes in a microsecond.
    pub const ROUNDS_PER_US: f64 = 1000.0;

    /// Makes rounds of a calculation, of a nanosecond each.
    pub fn calculate(rounds: u64) {
        platform::cpu::work(rounds);
    }

    /// NOPs, for as long as these take.
    pub(crate) fn nops(count: u64) {
        platform::cpu::nops(count * 1000 / contention::run::NOPS_PER_US);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_cores_burn_longer_and_unequal_ones_as_many_rounds() {
        platform::clock::init();
        assert!(amount(Burn::Time, 1000, 3.75) > 3 * amount(Burn::Time, 1000, 1.0));
        let rounds = Burn::Rounds { per_us: 250.0 };
        assert_eq!((amount(rounds, 2000, 1.0), amount(rounds, 2000, 3.75)), (500, 500));
        assert!(spend(Burn::Time, ticks(), 1000) >= 1000);
    }
}
