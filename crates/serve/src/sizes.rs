//! Sizes as people write them: `65536`, `64KiB`, `1GiB`.

use manx::txn::durable::DurableOptions;

const UNITS: [(&str, usize); 4] = [("", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// Reads a size in bytes.
pub(super) fn parse_bytes(text: &str) -> Result<usize, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim());
    if number.is_empty() {
        return Err("write a number of bytes, as 65536 or 64KiB".into());
    }
    let Some((_, scale)) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) else {
        return Err(format!("`{unit}` is not a unit here: use KiB, MiB or GiB"));
    };
    let bytes = number.parse::<usize>().ok().and_then(|number| number.checked_mul(*scale));
    bytes.ok_or_else(|| "more bytes than can be counted".into())
}

/// Reads the length of a log.
pub(super) fn parse_log_bytes(text: &str) -> Result<usize, String> {
    let bytes = parse_bytes(text)?;
    if DurableOptions::LOG_BYTES.contains(&bytes) {
        return Ok(bytes);
    }
    Err("a log has 4KiB to 1GiB".into())
}

#[cfg(test)]
mod tests {
    use super::{parse_bytes, parse_log_bytes};

    #[test]
    fn a_log_has_bounds() {
        assert_eq!(parse_log_bytes("4KiB"), Ok(4 << 10));
        assert_eq!(parse_log_bytes("1GiB"), Ok(1 << 30));
        for text in ["4095", "2GiB"] {
            assert!(parse_log_bytes(text).expect_err("refused").contains("4KiB to 1GiB"), "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", Ok(0)),
            ("65536", Ok(65_536)),
            ("64KiB", Ok(65_536)),
            ("64 kib", Ok(65_536)),
            ("2MiB", Ok(2 << 20)),
            ("1GiB", Ok(1 << 30)),
            ("", Err("write a number")),
            ("KiB", Err("write a number")),
            ("-1", Err("write a number")),
            ("1kB", Err("is not a unit")),
            ("99999999999999999999", Err("more bytes")),
            ("99999999999GiB", Err("more bytes")),
        ] {
            match (parse_bytes(text), bytes) {
                (Ok(got), Ok(wanted)) => assert_eq!(got, wanted, "{text}"),
                (Err(got), Err(wanted)) => assert!(got.contains(wanted), "{text}: {got}"),
                (got, wanted) => panic!("{text}: {got:?}, not {wanted:?}"),
            }
        }
    }
}
