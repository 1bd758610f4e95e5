//! Scores of sorted sets: doubles, as Redis reads and writes them.
//!
//! Redis 7.0 writes what C's `%.17g` does: 17 digits without the zeros at the end, and an exponent
//! if the point would stand far away.

/// Reads a score. Refuses NaN and what is beyond a double's range (`inf` can be said, `1e400`
/// cannot). Redis also takes hexadecimal ones.
pub(crate) fn score(text: &[u8]) -> Option<f64> {
    let value = number(text)?;
    let is_word = text.iter().any(|byte| matches!(byte, b'n' | b'N'));
    let too_large = value.is_infinite() && !is_word;
    let mantissa = text.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or_default();
    let too_small = value == 0.0 && mantissa.iter().any(|byte| matches!(byte, b'1'..=b'9'));
    (!too_large && !too_small).then_some(value)
}

fn number(text: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!value.is_nan()).then_some(value)
}

/// Reads an end of a range of scores, and whether it is excluded. Nothing at all is 0 there.
pub(crate) fn limit(text: &[u8]) -> Option<(f64, bool)> {
    let (text, is_excluded) = match text {
        [b'(', rest @ ..] => (rest, true),
        _ => (text, false),
    };
    let value = if text.is_empty() { Some(0.0) } else { number(text.trim_ascii_start()) };
    value.map(|value| (value, is_excluded))
}

/// Reads what SORT orders by: as C does, which takes spaces before a number, ends at a zero byte,
/// and reads nothing as 0. Refuses what a double cannot tell to its full precision.
pub(crate) fn weight(text: &[u8]) -> Option<f64> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0B;
    let first = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    if text.is_empty() { Some(0.0) } else { score(&text[first..]).filter(|weight| !weight.is_subnormal()) }
}

/// The digits that Redis writes.
const DIGITS: i32 = 17;

/// Writes a score.
pub(crate) fn text(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    if value.is_nan() {
        return "nan".into();
    }
    let scientific = format!("{value:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        let decimals = (DIGITS - 1 - exponent) as usize;
        return without_zeros(&format!("{value:.decimals$}")).into();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_infinities_are_scores_and_other_text_is_not() {
        for (text, value) in [
            ("3", Some(3.0)),
            ("+3.0", Some(3.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("-1e3", Some(-1000.0)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("0e5", Some(0.0)),
            ("nan", None),
            ("1e400", None),
            ("1e-400", None),
            ("", None),
            (" 1", None),
            ("1 ", None),
            ("x", None),
        ] {
            assert_eq!(score(text.as_bytes()), value, "{text}");
        }
        assert_eq!(limit(b"(1.5"), Some((1.5, true)));
        assert_eq!(limit(b"-inf"), Some((f64::NEG_INFINITY, false)));
        assert_eq!(limit(b""), Some((0.0, false)));
        assert_eq!(limit(b"((1"), None);
        assert_eq!(limit(b"nan"), None);
    }

    #[test]
    fn scores_are_written_with_17_digits() {
        for (value, expected) in [
            (3.0, "3"),
            (0.0, "0"),
            (-0.0, "-0"),
            (3.1, "3.1000000000000001"),
            (0.1, "0.10000000000000001"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1e300, "1.0000000000000001e+300"),
            (-1.5e-7, "-1.4999999999999999e-07"),
            (0.0001, "0.0001"),
            (123456789.125, "123456789.125"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(text(value), expected);
        }
    }
}
