//! The counter of a loop that gives up waiting after a number of rounds, and how to move it on.
//!
//! The numbers are those of the machine: two's complement, cut off to the counter's bits.
//! [`Counter::missing`] says how many more steps the counter takes until the jump that compares it
//! leaves the loop: the first value at which the jump leaves, never one behind it. Adding these
//! steps at once, but for the last one, is the same as taking them one by one. The last one is
//! taken by a round of the loop, so that all else that a round leaves behind is what a round has
//! left behind.
//!
//! [`Counter::missing`] and [`Counter::after`] run inside a loop of another program: they cannot
//! panic, and they call nothing.

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
    /// From a conditional jump that leaves the loop if its condition holds (`leaves_if`) or does
    /// not hold. `result`: the flags are a result's, and say only whether it is zero or negative.
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
    /// The exit at the bound leads to something that blocks.
    pub blocks: bool,
}

impl Counter {
    /// Whether the steps lead towards the bound, so that some number of them reaches it without
    /// wrapping around.
    pub(crate) fn is_bounded(&self) -> bool {
        use Condition::*;
        match self.goes_on {
            NotEqual => self.step != 0,
            Below | BelowOrEqual | Less | LessOrEqual => self.step > 0,
            Above | AboveOrEqual | Greater | GreaterOrEqual => self.step < 0,
        }
    }

    /// How many steps more than the next ones the counter has to take until the next comparison
    /// leaves the loop: its value is now `counter`, and the bound's `bound`. None if it would wrap
    /// around on its way, or never meet the bound.
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
    /// // In larger steps it meets the bound or steps over it.
    /// let fives = Counter { step: -5, ahead: -5, bound: Bound::Constant(0), ..counter };
    /// assert_eq!(fives.missing(100, 0), Some(19));
    /// assert_eq!(fives.missing(99, 0), None);
    /// ```
    #[inline]
    pub fn missing(&self, counter: u64, bound: u64) -> Option<u64> {
        use Condition::*;
        let signed = matches!(self.goes_on, Less | LessOrEqual | Greater | GreaterOrEqual);
        let or_equal = matches!(self.goes_on, BelowOrEqual | AboveOrEqual | LessOrEqual | GreaterOrEqual);
        // Numbers are turned so that their order is that of unsigned ones and the counter grows.
        let most = self.cut(u64::MAX);
        let sign = if signed { most ^ (most >> 1) } else { 0 };
        let turned = |value: u64| self.cut(value) ^ sign ^ if self.step < 0 { most } else { 0 };
        let now = turned(counter.wrapping_add(self.ahead as u64));
        let bound = turned(bound);
        // The first value at which the comparison leaves.
        let target = if or_equal { bound.checked_add(1).filter(|&next| next <= most)? } else { bound };
        if now >= target {
            return (now == target || self.goes_on != NotEqual).then_some(0);
        }
        let (distance, stride) = (target.wrapping_sub(now), self.step.unsigned_abs());
        let whole = distance.checked_div(stride)?;
        let exact = whole.wrapping_mul(stride) == distance;
        if self.goes_on == NotEqual && !exact {
            // It steps over the bound.
            return None;
        }
        let steps = whole.wrapping_add(u64::from(!exact));
        let last = stride.checked_mul(steps)?.checked_add(now)?;
        (last <= most).then_some(steps)
    }

    /// The value that the counter is set to when `missing` steps are missing: all but the last of
    /// them are added.
    #[inline]
    pub fn after(&self, counter: u64, missing: u64) -> u64 {
        let steps = missing.saturating_sub(1);
        self.cut(counter.wrapping_add((self.step as u64).wrapping_mul(steps)))
    }

    #[inline]
    fn cut(&self, value: u64) -> u64 {
        if self.bits == 32 { value & 0xffff_ffff } else { value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts round by round; none if the counter wraps around before a comparison leaves.
    fn counted(counter: &Counter, start: i128, bound: i128, least: i128, most: i128) -> Option<u64> {
        use Condition::*;
        let mut now = start;
        for steps in 0..100 {
            let goes_on = match counter.goes_on {
                NotEqual => now != bound,
                Below | Less => now < bound,
                BelowOrEqual | LessOrEqual => now <= bound,
                Above | Greater => now > bound,
                AboveOrEqual | GreaterOrEqual => now >= bound,
            };
            if !goes_on {
                return Some(steps);
            }
            now += i128::from(counter.step);
            if !(least..=most).contains(&now) {
                return None;
            }
        }
        None
    }

    #[test]
    fn missing_rounds_count_as_much_as_real_ones_would() {
        use Condition::*;
        for goes_on in
            [NotEqual, Below, BelowOrEqual, Above, AboveOrEqual, Less, LessOrEqual, Greater, GreaterOrEqual]
        {
            for (bits, step, ahead) in [32, 64]
                .into_iter()
                .flat_map(|bits| [-7i64, -2, -1, 1, 2, 7].map(|step| (bits, step)))
                .flat_map(|(bits, step)| [0, 3, -2].map(|ahead| (bits, step, ahead)))
            {
                let (place, bound) = (Place::Register(0), Bound::Constant(0));
                let counter = Counter { place, bits, step, ahead, bound, goes_on, blocks: false };
                if !counter.is_bounded() {
                    continue;
                }
                let signed = matches!(goes_on, Less | LessOrEqual | Greater | GreaterOrEqual);
                let (least, most) = match (signed, bits) {
                    (false, _) => (0, (1i128 << bits) - 1),
                    (true, _) => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
                };
                // Around both ends of the numbers, and around zero.
                let numbers = [least, most - 20, -10].into_iter().flat_map(|from| from..from + 21);
                let numbers: Vec<i128> = numbers.filter(|n| (least..=most).contains(n)).collect();
                for &start in &numbers {
                    for &bound in numbers.iter().filter(|&&bound| (bound - start).abs() < 60) {
                        let expected = counted(&counter, start, bound, least, most);
                        let before = (start as u64).wrapping_sub(ahead as u64);
                        let found = counter.missing(before, bound as u64);
                        assert_eq!(found, expected, "{counter:?} from {start} to {bound}");
                    }
                }
            }
        }
    }
}
