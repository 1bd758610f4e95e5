//! The counter of a loop that gives up waiting after a number of rounds, and how to move it on.
//!
//! The numbers are those of the machine: two's complement, cut off to the counter's bits. [`Counter::missing`] says
//! how many more steps the counter takes until the jump that compares it leaves the loop: the first value at which
//! the jump leaves, never one behind it. Adding these steps at once, but for the last one, is the same as taking
//! them one by one. The last one is taken by a round of the loop, so that all else that a round leaves behind is
//! what a round has left behind.

use iced_x86::ConditionCode;

/// Where a number is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A general register, by its number in the machine's encoding.
    Register(u8),
    /// On the stack: the number of the register that points into it, and the distance.
    Stack(u8, i64),
}

/// What a counter is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A constant.
    Constant(u64),
    /// A place that the loop does not change, plus a constant.
    Place(Place, i64),
    /// A word of memory: at the register's value, if there is one, plus the number.
    Memory(Option<u8>, u64),
}

/// How the loop goes on: while the counter is this against the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Condition {
    NotEqual,
    Below,
    BelowOrEqual,
    Above,
    AboveOrEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Condition {
    /// From a conditional jump that leaves the loop if its condition holds (`leaves_if`) or does not hold. `result`:
    /// the flags are a result's, and say only whether it is zero or negative.
    pub(crate) fn of(code: ConditionCode, leaves_if: bool, result: bool) -> Option<Condition> {
        use Condition::*;
        // What holds while the loop goes on.
        let (code, holds) = (code, !leaves_if);
        Some(match (code, holds) {
            (ConditionCode::ne, true) | (ConditionCode::e, false) => NotEqual,
            (ConditionCode::s, true) | (ConditionCode::ns, false) if result => Less,
            (ConditionCode::ns, true) | (ConditionCode::s, false) if result => GreaterOrEqual,
            _ if result => return None,
            (ConditionCode::b, true) | (ConditionCode::ae, false) => Below,
            (ConditionCode::be, true) | (ConditionCode::a, false) => BelowOrEqual,
            (ConditionCode::a, true) | (ConditionCode::be, false) => Above,
            (ConditionCode::ae, true) | (ConditionCode::b, false) => AboveOrEqual,
            (ConditionCode::l, true) | (ConditionCode::ge, false) => Less,
            (ConditionCode::le, true) | (ConditionCode::g, false) => LessOrEqual,
            (ConditionCode::g, true) | (ConditionCode::le, false) => Greater,
            (ConditionCode::ge, true) | (ConditionCode::l, false) => GreaterOrEqual,
            _ => return None,
        })
    }

    /// The same with the two sides exchanged.
    pub(crate) fn swapped(self) -> Condition {
        use Condition::*;
        match self {
            NotEqual => NotEqual,
            Below => Above,
            BelowOrEqual => AboveOrEqual,
            Above => Below,
            AboveOrEqual => BelowOrEqual,
            Less => Greater,
            LessOrEqual => GreaterOrEqual,
            Greater => Less,
            GreaterOrEqual => LessOrEqual,
        }
    }
}

/// A counter that bounds a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Where it is kept.
    pub place: Place,
    /// Its size, 32 or 64. A register of 32 bits has zeroes above them.
    pub bits: u32,
    /// What a round adds.
    pub step: i64,
    /// What is added between the visit and the next comparison.
    pub ahead: i64,
    /// What it is compared with.
    pub bound: Bound,
    /// How the loop goes on.
    pub goes_on: Condition,
    /// The way out at the bound leads to something that blocks.
    pub blocks: bool,
}

impl Counter {
    /// Whether the steps lead towards the bound, so that some number of them reaches it without wrapping around.
    pub(crate) fn is_bounded(&self) -> bool {
        use Condition::*;
        match self.goes_on {
            NotEqual => self.step != 0,
            Below | BelowOrEqual | Less | LessOrEqual => self.step > 0,
            Above | AboveOrEqual | Greater | GreaterOrEqual => self.step < 0,
        }
    }

    /// How many steps more than the next ones the counter has to take until the next comparison leaves the loop: its value is now
    /// `counter`, and the bound's `bound`. None if it would wrap around on its way, or never meet the bound.
    ///
    /// ```
    /// use spinloop::{Bound, Condition, Counter, Place};
    /// let counter = Counter {
    ///     place: Place::Register(0), bits: 32, step: 1, ahead: 1,
    ///     bound: Bound::Constant(1000), goes_on: Condition::NotEqual, blocks: true,
    /// };
    /// // 10, then one step before the comparison: 989 are missing.
    /// assert_eq!(counter.missing(10, 1000), Some(989));
    /// // One step by the last round, and one before the comparison.
    /// assert_eq!(counter.after(10, 989) + 1 + 1, 1000);
    /// assert_eq!(counter.missing(1001, 1000), None);
    /// ```
    pub fn missing(&self, counter: u64, bound: u64) -> Option<u64> {
        use Condition::*;
        let signed = matches!(self.goes_on, Less | LessOrEqual | Greater | GreaterOrEqual);
        let number = |value: u64| match (self.bits, signed) {
            (32, false) => i128::from(value as u32),
            (32, true) => i128::from(value as u32 as i32),
            (_, false) => i128::from(value),
            (_, true) => i128::from(value as i64),
        };
        let now = number(self.cut(counter.wrapping_add(self.ahead as u64)));
        let bound = number(self.cut(bound));
        let step = i128::from(self.step);
        // The first value at which the comparison leaves is at `least` steps or behind it.
        let distance = match self.goes_on {
            NotEqual if step > 0 => bound - now,
            NotEqual => now - bound,
            Below | Less => bound - now,
            BelowOrEqual | LessOrEqual => bound - now + 1,
            Above | Greater => now - bound,
            AboveOrEqual | GreaterOrEqual => now - bound + 1,
        };
        if self.goes_on == NotEqual && distance % step.abs() != 0 {
            // It steps over the bound.
            return None;
        }
        if distance <= 0 {
            return (distance == 0 || self.goes_on != NotEqual).then_some(0);
        }
        let steps = (distance + step.abs() - 1) / step.abs();
        let last = now + step * steps;
        let (least, most) = match (self.bits, signed) {
            (32, false) => (0, i128::from(u32::MAX)),
            (32, true) => (i128::from(i32::MIN), i128::from(i32::MAX)),
            (_, false) => (0, i128::from(u64::MAX)),
            (_, true) => (i128::from(i64::MIN), i128::from(i64::MAX)),
        };
        if !(least..=most).contains(&last) {
            return None;
        }
        u64::try_from(steps).ok()
    }

    /// What the counter is set to when so many steps are missing: all but the last of them are added.
    pub fn after(&self, counter: u64, missing: u64) -> u64 {
        let steps = missing.saturating_sub(1);
        self.cut(counter.wrapping_add((self.step as u64).wrapping_mul(steps)))
    }

    fn cut(&self, value: u64) -> u64 {
        if self.bits == 32 { value & 0xffff_ffff } else { value }
    }
}
