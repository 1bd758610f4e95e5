//! Random numbers, by which skip lists draw heights and a lock draws when it is fair: xorshift
//! (Marsaglia, "Xorshift RNGs", 2003). A step costs three shifts, and no thread waits for another
//! one's numbers.

/// The state after this one. Neither is 0.
#[inline(always)]
pub(crate) const fn xorshift(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    state
}

/// A first state for the generator with this number, from 1 on: neighbours draw different numbers.
pub(crate) const fn seed(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
