//! Numbers of INCRBYFLOAT: those of the 80-bit format of x87, in which Redis computes on x86-64.
//! All is done with whole numbers, and rounded once: to the nearest, and to the even one of two.
//!
//! They are written with 17 decimals at most, without zeros at the end.

use num_bigint::{BigInt, BigUint};

/// The bits of a mantissa.
const MANTISSA_BITS: i64 = 64;
/// The exponent of the last bit of the smallest numbers.
const EXPONENT_MIN: i64 = -16_445;
/// No number reaches two to the power of this.
const EXPONENT_END: i64 = 16_384;
/// Redis reads no longer text.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
/// Exponents of ten and of two with which the longest text, too, is beyond all numbers.
const DECIMAL_FAR: i64 = 11_000;
const BINARY_FAR: i64 = 40_000;
const DECIMALS: usize = 17;

/// A number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extended {
    /// `mantissa` times two to the power of `exponent`.
    Finite { mantissa: i128, exponent: i64 },
    /// Of either sign.
    Infinite,
}

impl From<f64> for Extended {
    fn from(value: f64) -> Extended {
        if !value.is_finite() {
            return Extended::Infinite;
        }
        let (bits, sign) = (value.abs().to_bits(), if value < 0.0 { -1 } else { 1 });
        // Of the smallest numbers the first bit is not left out.
        let (exponent, fraction) = (bits >> 52, i128::from(bits & ((1 << 52) - 1)));
        let first = i128::from(exponent.min(1)) << 52;
        Extended::Finite { mantissa: sign * (first + fraction), exponent: exponent.max(1) as i64 - 1_075 }
    }
}

impl Extended {
    pub(crate) const ZERO: Extended = Extended::Finite { mantissa: 0, exponent: 0 };

    /// Reads a number as C does: decimal, hexadecimal, or a word for infinity. Refuses what is
    /// beyond all numbers, or rounds to zero.
    pub(crate) fn read(text: &[u8]) -> Option<Extended> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (is_negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        if [&b"inf"[..], b"infinity"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
            return Some(Extended::Infinite);
        }
        let (mantissa, exponent, is_binary) = match text {
            [b'0', b'x' | b'X', rest @ ..] => {
                let (mantissa, behind, exponent) = digits(rest, 16, b'p')?;
                (mantissa, exponent - 4 * behind, true)
            }
            _ => {
                let (mantissa, behind, exponent) = digits(text, 10, b'e')?;
                (mantissa, exponent - behind, false)
            }
        };
        if mantissa == BigUint::ZERO {
            return Some(Extended::ZERO);
        }
        let far = if is_binary { BINARY_FAR } else { DECIMAL_FAR };
        let exponent = exponent.clamp(-far, far);
        let power = || BigUint::from(10_u32).pow(exponent.unsigned_abs() as u32);
        let read = match exponent {
            _ if is_binary => rounded(mantissa, exponent, false, is_negative),
            0.. => rounded(mantissa * power(), 0, false, is_negative),
            _ => {
                // A quotient that has some bits more than a mantissa.
                let power = power();
                let shift = (power.bits() + 70).saturating_sub(mantissa.bits());
                let dividend = mantissa << shift;
                let quotient = &dividend / &power;
                let is_more = &quotient * &power != dividend;
                rounded(quotient, -(shift as i64), is_more, is_negative)
            }
        };
        match read {
            Extended::Infinite | Extended::Finite { mantissa: 0, .. } => None,
            finite @ Extended::Finite { .. } => Some(finite),
        }
    }

    /// The sum; infinite if it cannot be told, too.
    pub(crate) fn plus(self, other: Extended) -> Extended {
        let (
            Extended::Finite { mantissa: one, exponent: at },
            Extended::Finite { mantissa: two, exponent: other_at },
        ) = (self, other)
        else {
            return Extended::Infinite;
        };
        let exponent = at.min(other_at);
        let aligned = |mantissa, at: i64| BigInt::from(mantissa) << (at - exponent);
        let (sign, sum) = (aligned(one, at) + aligned(two, other_at)).into_parts();
        rounded(sum, exponent, false, sign == num_bigint::Sign::Minus)
    }

    /// As Redis writes it; none of what is infinite.
    pub(crate) fn text(self) -> Option<String> {
        let Extended::Finite { mantissa, exponent } = self else { return None };
        let sign = if mantissa < 0 { "-" } else { "" };
        if exponent >= 0 {
            return Some(format!("{sign}{}", BigUint::from(mantissa.unsigned_abs()) << exponent));
        }
        // 121 bits at most: shifted by more there is nothing left.
        let one = 10_u128.pow(DECIMALS as u32);
        let scaled = mantissa.unsigned_abs() * one;
        let shift = exponent.unsigned_abs().min(127);
        let (floor, half) = (scaled >> shift, 1 << (shift - 1));
        let rest = scaled - (floor << shift);
        let scaled = floor + u128::from(rest > half || rest == half && floor & 1 == 1);
        if scaled == 0 {
            return Some("0".into());
        }
        let text = format!("{sign}{}.{:0DECIMALS$}", scaled / one, scaled % one);
        Some(text.trim_end_matches('0').trim_end_matches('.').into())
    }
}

/// Reads digits with a point or without, and an exponent behind this letter: the number without the
/// point, how many digits are behind the point, and the exponent.
fn digits(text: &[u8], radix: u32, letter: u8) -> Option<(BigUint, i64, i64)> {
    let at = text.iter().position(|byte| byte.eq_ignore_ascii_case(&letter)).unwrap_or(text.len());
    let (mantissa, exponent) = text.split_at(at);
    let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
    let (whole, behind) = (&mantissa[..point], mantissa.get(point + 1..).unwrap_or_default());
    let all = [whole, behind].concat();
    // The library would also take a sign and underscores.
    if !all.iter().all(|byte| char::from(*byte).is_digit(radix)) {
        return None;
    }
    let exponent = match exponent {
        [] => 0,
        [_, rest @ ..] => {
            let (is_negative, rest) = match rest {
                [b'-', rest @ ..] => (true, rest),
                [b'+', rest @ ..] => (false, rest),
                _ => (false, rest),
            };
            if rest.is_empty() || !rest.iter().all(u8::is_ascii_digit) {
                return None;
            }
            let exponent = rest
                .iter()
                .fold(0, |value, digit| (value * 10 + i64::from(digit - b'0')).min(BINARY_FAR * 2));
            if is_negative { -exponent } else { exponent }
        }
    };
    Some((BigUint::parse_bytes(&all, radix)?, behind.len() as i64, exponent))
}

/// The number next to `value` times two to the power of `exponent`, or to a bit more than that.
fn rounded(value: BigUint, exponent: i64, is_more: bool, is_negative: bool) -> Extended {
    let dropped = (value.bits() as i64 - MANTISSA_BITS).max(EXPONENT_MIN - exponent);
    let (mantissa, exponent) = if dropped <= 0 {
        (value, exponent)
    } else {
        let floor = &value >> dropped;
        let (rest, half) = (value - (&floor << dropped), BigUint::from(1_u32) << (dropped - 1));
        let goes_up = rest > half || rest == half && (is_more || floor.bit(0));
        (floor + u32::from(goes_up), exponent + dropped)
    };
    if mantissa != BigUint::ZERO && mantissa.bits() as i64 + exponent > EXPONENT_END {
        return Extended::Infinite;
    }
    // Rounded up it may have a bit more, which fits.
    let mantissa = i128::try_from(mantissa).unwrap_or_default();
    Extended::Finite { mantissa: if is_negative { -mantissa } else { mantissa }, exponent }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_and_written_as_redis_does() {
        for (text, expected) in [
            ("3", Some("3")),
            ("-3.50", Some("-3.5")),
            ("+.5", Some("0.5")),
            ("5.", Some("5")),
            ("0.1", Some("0.1")),
            ("1e-18", Some("0")),
            ("-1e-30", Some("0")),
            ("6e-18", Some("0.00000000000000001")),
            ("0x1.8p3", Some("12")),
            ("0XFF", Some("255")),
            ("1e21", Some("1000000000000000000000")),
            ("0e99999999999999999999", Some("0")),
            ("", None),
            (".", None),
            ("1e", None),
            ("1e+", None),
            ("0x", None),
            ("0x.p1", None),
            ("1_0", None),
            ("--1", None),
            (" 1", None),
            ("1 ", None),
            ("nan", None),
            ("1e4933", None),
            ("-1e-4951", None),
            ("1e99999999999999999999", None),
        ] {
            let read = Extended::read(text.as_bytes());
            assert_eq!(read.and_then(Extended::text).as_deref(), expected, "{text}");
        }
        assert_eq!(Extended::read(b"-InfInity"), Some(Extended::Infinite));
        assert_eq!(Extended::Infinite.text(), None);
        assert_eq!(Extended::read(&[b'1'; TEXT_BYTES_MAX + 1]), None);
    }

    #[test]
    fn doubles_keep_their_value() {
        for (value, expected) in [
            (13.361_389_338_970_184, "13.36138933897018433"),
            (-0.5, "-0.5"),
            (0.0, "0"),
            (5e-324, "0"),
            (1e23, "99999999999999991611392"),
        ] {
            assert_eq!(Extended::from(value).text().as_deref(), Some(expected));
        }
        assert_eq!(Extended::from(f64::NAN), Extended::Infinite);
    }

    #[test]
    fn sums_are_rounded_to_64_bits() {
        let sum = |one: &str, two: &str| {
            let [one, two] = [one, two].map(|text| Extended::read(text.as_bytes()).unwrap());
            one.plus(two).text()
        };
        assert_eq!(sum("0.1", "0.2").as_deref(), Some("0.3"));
        assert_eq!(sum("18446744073709551615", "1").as_deref(), Some("18446744073709551616"));
        assert_eq!(sum("18446744073709551616", "1").as_deref(), Some("18446744073709551616"));
        assert_eq!(sum("18446744073709551618", "1").as_deref(), Some("18446744073709551620"));
        assert_eq!(sum("1e4932", "-1e4932").as_deref(), Some("0"));
        assert_eq!(sum("1.1e4932", "1e4932"), None);
        assert_eq!(sum("inf", "-inf"), None);
    }
}
