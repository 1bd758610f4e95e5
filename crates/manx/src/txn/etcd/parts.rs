//! Changes of a large batch as bytes: what stands in its parts until they are among the entries.
//!
//! A change is a byte (1: put, 0: delete), the lengths of the key and of the value (32 bits each,
//! little-endian, the value's only of a put), and both.

use crate::txn::Value;

/// What a key gets, or that it goes.
pub(super) type New = (Value, Option<Value>);

/// Cuts changes into parts of at most `bytes_max` bytes, or of one change.
pub(super) fn cut<'a>(
    changes: impl Iterator<Item = (&'a Value, &'a Option<Value>)>,
    bytes_max: usize,
) -> Vec<Vec<u8>> {
    let mut parts = vec![Vec::new()];
    for (key, value) in changes {
        let mut change = vec![u8::from(value.is_some())];
        change.extend(length(key));
        change.extend(value.iter().flat_map(|value| length(value)));
        change.extend(&**key);
        change.extend(value.iter().flat_map(|value| value.iter()));
        match parts.last_mut() {
            Some(part) if part.is_empty() || part.len() + change.len() <= bytes_max => part.extend(change),
            _ => parts.push(change),
        }
    }
    parts
}

/// The length of a key or a value, which is far below 4 GiB (`LIMITS`).
fn length(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes()
}

/// The changes of a part; none if it is damaged.
pub(super) fn join(mut part: &[u8]) -> Option<Vec<New>> {
    let mut changes = Vec::new();
    while let Some((kind, rest)) = part.split_first() {
        part = rest;
        let key_bytes = read_length(&mut part)?;
        let value_bytes = if *kind == 1 { Some(read_length(&mut part)?) } else { None };
        let key = take(&mut part, key_bytes)?;
        let value = match value_bytes {
            Some(bytes) => Some(Value::from(take(&mut part, bytes)?)),
            None => None,
        };
        changes.push((Value::from(key), value));
    }
    Some(changes)
}

fn read_length(from: &mut &[u8]) -> Option<usize> {
    let bytes = take(from, 4)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(bytes)).ok()
}

fn take<'a>(from: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, rest) = from.split_at_checked(bytes)?;
    *from = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn parts_give_back_what_was_cut() {
        let value = |bytes: &[u8]| Some(Value::from(bytes));
        let changes = BTreeMap::from([
            (Value::from(&b""[..]), value(b"empty key")),
            (Value::from(&b"a"[..]), value(b"")),
            (Value::from(&b"b"[..]), None),
            (Value::from(&b"c"[..]), value(&[7; 100])),
            (Value::from(&b"d"[..]), None),
        ]);
        for bytes_max in [1, 20, 30, 1000] {
            let parts = cut(changes.iter(), bytes_max);
            assert!(parts.len() <= 5 && (bytes_max < 1000 || parts.len() == 1));
            let joined = parts.iter().flat_map(|part| join(part).unwrap()).collect::<BTreeMap<_, _>>();
            assert_eq!(joined, changes);
        }
        let part = &cut(changes.iter(), 1000)[0];
        let whole = join(part).unwrap().len();
        for end in 0..part.len() {
            assert!(join(&part[..end]).is_none_or(|changes| changes.len() < whole));
        }
    }
}
