//! The general registers of a thread in a copy, as the trampoline saves and restores them.

/// See the module's text. The index is the machine's number of the register. Above lie the flags,
/// what the copy pushed, and its red zone.
#[repr(C)]
pub struct Registers {
    held: [u64; 16],
}

/// The number of the stack pointer.
const RSP: usize = 4;
/// From here up to what the copy's stack pointer was: the registers, the flags, three words, the
/// red zone.
const ABOVE_BYTES: usize = 16 * 8 + 8 + 3 * 8 + 128;

impl Registers {
    /// What the register of this number held.
    #[inline(always)]
    pub fn get(&self, number: u8) -> u64 {
        match usize::from(number) & 15 {
            RSP => (core::ptr::from_ref(self).addr() + ABOVE_BYTES) as u64,
            number => self.held[number],
        }
    }

    /// What the register of this number is to hold; not the stack pointer.
    #[inline(always)]
    pub fn set(&mut self, number: u8, value: u64) {
        self.held[usize::from(number) & 15] = value;
    }
}
