//! Durations as people write them, `100us` or `1.5ms`.

/// The units, and their length in nanoseconds.
const UNITS: [(&str, u64); 5] =
    [("ns", 1), ("us", 1_000), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// Reads a duration in whole microseconds, of at most about 71 minutes.
///
/// # Errors
/// What is wrong with `text`, and what to write.
pub fn parse_us(text: &str) -> Result<u32, String> {
    let ns = parse_ns(text)?;
    if !ns.is_multiple_of(1_000) {
        return Err("finer than a microsecond".to_owned());
    }
    u32::try_from(ns / 1_000).map_err(|_| too_long(u64::from(u32::MAX) * 1_000))
}

/// Reads a duration in whole nanoseconds.
///
/// # Errors
/// What is wrong with `text`, and what to write.
pub fn parse_ns(text: &str) -> Result<u64, String> {
    let example = "write a number and its unit, as 100us, 1.5ms or 1s";
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim_start());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        return Err(example.to_owned());
    }
    if unit.is_empty() {
        return Err(format!("the unit is missing: {example}"));
    }
    let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("`{unit}` is not a unit of time here: use ns, us, ms or s"));
    };
    let too_fine = || "finer than a nanosecond".to_owned();

    let whole: u64 = whole.parse().map_err(|_| too_long(u64::MAX))?;
    // Nine digits reach from seconds down to nanoseconds.
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 9 {
        return Err(too_fine());
    }
    let digits: u64 =
        if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| example.to_owned())? };
    let divisor = 10_u64.pow(fraction.len() as u32);
    if !(digits * scale).is_multiple_of(divisor) {
        return Err(too_fine());
    }
    let ns = whole.checked_mul(*scale).and_then(|ns| ns.checked_add(digits * scale / divisor));
    ns.ok_or_else(|| too_long(u64::MAX))
}

fn too_long(most_ns: u64) -> String {
    format!("longer than {} s, the most that can be set", most_ns / 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_fractions() {
        for (text, us) in [
            ("0us", 0),
            ("100us", 100),
            ("100µs", 100),
            ("100 us", 100),
            ("1ms", 1_000),
            ("1.5ms", 1_500),
            ("0.001ms", 1),
            ("2000ns", 2),
            ("1.000000s", 1_000_000),
            ("4294967295us", u32::MAX),
        ] {
            assert_eq!(parse_us(text), Ok(us), "{text}");
        }
    }

    #[test]
    fn nanoseconds_are_kept() {
        for (text, ns) in
            [("1ns", 1), ("2ms", 2_000_000), ("1.5us", 1_500), ("18446744073s", 18_446_744_073_000_000_000)]
        {
            assert_eq!(parse_ns(text), Ok(ns), "{text}");
        }
        assert!(parse_ns("18446744074s").is_err_and(|why| why.contains("longer")));
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        for (text, why) in [
            ("", "write a number"),
            ("ms", "write a number"),
            ("-1ms", "write a number"),
            ("1.2.3ms", "write a number"),
            ("1.ms", "write a number"),
            ("10", "unit is missing"),
            ("10h", "not a unit"),
            ("10 m", "not a unit"),
            ("500ns", "finer"),
            ("0.0001ms", "finer"),
            ("1.0000000001s", "finer"),
            ("0.5ns", "finer"),
            ("4294967296us", "longer"),
            ("99999999999999999999s", "longer"),
            ("9999999999999s", "longer"),
        ] {
            let error = parse_us(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
