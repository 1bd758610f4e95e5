//! Latency targets as people write them: `2ms`, `2ms@p99.9`, `7=500us@p99`.

use crate::duration::parse_ns;
use preload_abi::slo::Slo;

/// The percentile if none is given, in hundredths of a percent.
const PERCENTILE: u16 = 9900;

/// Reads a target: an epoch's id and `=`, unless it is for requests, a bound, and `@p` and a
/// percentile.
///
/// # Errors
/// What is wrong with `text`, and what to write.
pub fn parse_slo(text: &str) -> Result<Slo, String> {
    let (id, rest) = match text.split_once('=') {
        Some((id, rest)) => {
            let id = id.parse().map_err(|_| {
                format!(
                    "`{id}` is not an epoch's id: write the number that the program gives to manx_epoch_start"
                )
            })?;
            (Some(id), rest)
        }
        None => (None, text),
    };
    let (bound, percentile) = match rest.split_once('@') {
        Some((bound, percentile)) => (bound, parse_percentile(percentile)?),
        None => (rest, PERCENTILE),
    };
    Ok(Slo { id, bound_ns: parse_ns(bound)?, percentile })
}

/// Reads `p99.9` in hundredths of a percent.
fn parse_percentile(text: &str) -> Result<u16, String> {
    let wrong = || format!("`{text}` is not a percentile: write p50 to p99.99, as in 2ms@p99.9");
    let number = text.strip_prefix('p').ok_or_else(wrong)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.len() != 2 || fraction.len() > 2 || !digits(whole) || !digits(fraction) || number.ends_with('.')
    {
        return Err(wrong());
    }
    let percentile: u16 = format!("{whole}{fraction:0<2}").parse().map_err(|_| wrong())?;
    if (Slo::PERCENTILE_MIN..=Slo::PERCENTILE_MAX).contains(&percentile) {
        Ok(percentile)
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read() {
        for (text, id, bound_ns, percentile) in [
            ("2ms", None, 2_000_000, 9900),
            ("2ms@p50", None, 2_000_000, 5000),
            ("0us@p99.9", None, 0, 9990),
            ("7=1.5us@p99.99", Some(7), 1_500, 9999),
            ("18446744073709551615=1s", Some(u64::MAX), 1_000_000_000, 9900),
        ] {
            assert_eq!(parse_slo(text), Ok(Slo { id, bound_ns, percentile }), "{text}");
        }
    }

    #[test]
    fn faults_say_what_to_write() {
        for (text, why) in [
            ("2", "unit is missing"),
            ("x=2ms", "`x` is not an epoch's id"),
            ("=2ms", "`` is not an epoch's id"),
            ("-1=2ms", "manx_epoch_start"),
            ("2ms@99", "p50 to p99.99"),
            ("2ms@p", "p50 to p99.99"),
            ("2ms@p49", "p50 to p99.99"),
            ("2ms@p100", "p50 to p99.99"),
            ("2ms@p99.999", "p50 to p99.99"),
            ("2ms@p99.", "p50 to p99.99"),
            ("2ms@p9.9", "p50 to p99.99"),
            ("@p99", "write a number"),
        ] {
            let error = parse_slo(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
