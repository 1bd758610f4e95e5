//! The parts of an options string: numbers, and bytes that it cannot hold as they are (`%XX`).

/// A number in decimal digits, if it is one.
pub(crate) fn number<N: TryFrom<u64>>(value: &[u8]) -> Option<N> {
    if value.is_empty() {
        return None;
    }
    let number = value.iter().try_fold(0_u64, |n, &b| match b {
        b'0'..=b'9' => n.checked_mul(10)?.checked_add(u64::from(b - b'0')),
        _ => None,
    });
    N::try_from(number?).ok()
}

/// Undoes the `%XX` encoding of `value` into `into` and returns the decoded bytes, or `None` if
/// they do not fit or an escape is malformed.
pub fn decode<'b>(value: &[u8], into: &'b mut [u8]) -> Option<&'b [u8]> {
    let mut length = 0;
    let mut bytes = value.iter().copied();
    while let Some(byte) = bytes.next() {
        let decoded = if byte == b'%' { hex(bytes.next()?)? << 4 | hex(bytes.next()?)? } else { byte };
        *into.get_mut(length)? = decoded;
        length += 1;
    }
    Some(&into[..length])
}

/// A hexadecimal digit.
pub(crate) fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|d| d as u8)
}

/// Writes `value` with what an options string cannot hold as `%XX`.
pub fn encode(value: &[u8], out: &mut impl core::fmt::Write) -> core::fmt::Result {
    for &byte in value {
        match byte {
            b'%' | b',' | 0..=b' ' | 127.. => write!(out, "%{byte:02X}")?,
            _ => out.write_char(byte as char)?,
        }
    }
    Ok(())
}
