//! BITFIELD and BITFIELD_RO: numbers of 1 to 64 bits, each at any place among the bits of a string.

use super::bits::{BAD_OFFSET, BYTES_MAX};
use super::syntax::{SYNTAX, integer, is};
use crate::fault::Fault;
use crate::numbers;
use crate::ops::Ops;
use crate::resp::{Args, Replies};
use crate::value::Found;

const BAD_KIND: &str =
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";

/// A number's form, and where it stands.
#[derive(Clone, Copy, Debug)]
struct Field {
    is_signed: bool,
    bits: usize,
    /// Its first bit.
    at: usize,
}

/// What becomes of a number that does not fit.
#[derive(Clone, Copy, Debug)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Get,
    Set(i64),
    Add(i64),
}

struct Step {
    field: Field,
    change: Change,
    overflow: Overflow,
}

impl Field {
    fn read(kind: &[u8], place: &[u8]) -> Result<Field, &'static str> {
        let (is_signed, bits) = match kind {
            [b'i', bits @ ..] => (true, bits),
            [b'u', bits @ ..] => (false, bits),
            _ => return Err(BAD_KIND),
        };
        let most = if is_signed { 64 } else { 63 };
        let bits = numbers::integer(bits).filter(|bits| (1..=most).contains(bits)).ok_or(BAD_KIND)?;
        let (place, unit) = match place {
            [b'#', rest @ ..] => (rest, bits),
            _ => (place, 1),
        };
        let at = numbers::integer(place).and_then(|at| usize::try_from(at.checked_mul(unit)?).ok());
        let at = at.filter(|at| at / 8 < BYTES_MAX).ok_or(BAD_OFFSET)?;
        Ok(Field { is_signed, bits: bits as usize, at })
    }

    /// How many bytes a string has with it.
    fn bytes_end(self) -> usize {
        (self.at + self.bits).div_ceil(8)
    }

    /// The bytes in which it is, as a number, and how many bits are behind it in them.
    fn around(self, bytes: &[u8]) -> (u128, usize) {
        let (first, end) = (self.at / 8, self.bytes_end());
        let all = (first..end).map(|index| bytes.get(index).copied().unwrap_or(0));
        (all.fold(0, |value, byte| value << 8 | u128::from(byte)), end * 8 - self.at - self.bits)
    }

    /// All its bits.
    fn mask(self) -> u128 {
        (1 << self.bits) - 1
    }

    /// The number with these last bits.
    fn number(self, bits: u128) -> i128 {
        let above = 128 - self.bits;
        if self.is_signed { (bits << above) as i128 >> above } else { (bits & self.mask()) as i128 }
    }

    fn get(self, bytes: &[u8]) -> i128 {
        let (around, behind) = self.around(bytes);
        self.number(around >> behind)
    }

    /// The bytes are there.
    fn set(self, bytes: &mut [u8], number: i128) {
        let (around, behind) = self.around(bytes);
        let around = around & !(self.mask() << behind) | (number as u128 & self.mask()) << behind;
        let part = &mut bytes[self.at / 8..self.bytes_end()];
        part.copy_from_slice(&around.to_be_bytes()[size_of::<u128>() - part.len()..]);
    }

    /// What a number becomes here; nothing if it does not fit and may not.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i128> {
        let (min, max) = match self.is_signed {
            true => (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1),
            false => (0, self.mask() as i128),
        };
        match overflow {
            Overflow::Wrap => Some(self.number(number as u128)),
            Overflow::Saturate => Some(number.clamp(min, max)),
            Overflow::Fail => (min..=max).contains(&number).then_some(number),
        }
    }
}

/// Reads what is asked for behind the key.
fn steps(args: Args<'_>) -> Result<Vec<Step>, Fault> {
    let (mut steps, mut overflow) = (Vec::new(), Overflow::Wrap);
    let mut words = args.from(2);
    while let Some(word) = words.next() {
        let count = match () {
            () if is(word, "get") => 2,
            () if is(word, "set") || is(word, "incrby") => 3,
            () if is(word, "overflow") => 1,
            () => return Err(SYNTAX.into()),
        };
        let given: Vec<_> = words.by_ref().take(count).collect();
        if given.len() < count {
            return Err(SYNTAX.into());
        }
        if let [how] = given[..] {
            overflow = match how {
                how if is(how, "wrap") => Overflow::Wrap,
                how if is(how, "sat") => Overflow::Saturate,
                how if is(how, "fail") => Overflow::Fail,
                _ => return Err("ERR Invalid OVERFLOW type specified".into()),
            };
            continue;
        }
        let field = Field::read(given[0], given[1])?;
        let change = match given.get(2).map(|number| integer(number)).transpose()? {
            None => Change::Get,
            Some(number) if is(word, "set") => Change::Set(number),
            Some(number) => Change::Add(number),
        };
        steps.push(Step { field, change, overflow });
    }
    Ok(steps)
}

pub(super) fn bit_field(
    ops: &mut Ops<'_, '_>,
    args: Args<'_>,
    only_reads: bool,
    out: &mut Replies,
) -> Result<(), Fault> {
    let steps = steps(args)?;
    let writes = || steps.iter().filter(|step| !matches!(step.change, Change::Get));
    if only_reads && writes().next().is_some() {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    let end = writes().map(|step| step.field.bytes_end()).max();
    if end.is_some_and(|end| end > ops.value_bytes_max) {
        return Err(BAD_OFFSET.into());
    }
    let found = ops.string(&args[1])?;
    let old = found.as_ref().map_or(&b""[..], |found| found.bytes());
    out.array(steps.len());
    let Some(end) = end else {
        steps.iter().for_each(|step| out.integer(step.field.get(old) as i64));
        return Ok(());
    };
    let mut new = old.to_vec();
    new.resize(old.len().max(end), 0);
    let mut has_changed = new.len() > old.len();
    for Step { field, change, overflow } in steps {
        let before = field.get(&new);
        let wanted = match change {
            Change::Get => {
                out.integer(before as i64);
                continue;
            }
            Change::Set(number) if field.is_signed => i128::from(number),
            // A negative number is one of 64 bits.
            Change::Set(number) => i128::from(number as u64),
            Change::Add(number) => before + i128::from(number),
        };
        let Some(fitting) = field.fit(wanted, overflow) else {
            out.null();
            continue;
        };
        field.set(&mut new, fitting);
        has_changed = true;
        out.integer(if matches!(change, Change::Set(_)) { before } else { fitting } as i64);
    }
    if has_changed {
        ops.put(&args[1], &new, found.as_ref().and_then(Found::expires_ms))?;
    }
    Ok(())
}
