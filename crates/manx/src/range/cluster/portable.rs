//! Keys that every machine writes in the same way.
//!
//! Invariant: encodings are in the order of their keys, compared as slices of bytes are. So spans
//! are compared as spans of bytes, and etcd needs to know nothing about the type of the keys.

use crate::range::key::Key;
use crate::range::span::Span;
use std::fmt;

/// A key that can be locked on several machines.
///
/// ```
/// use manx::range::cluster::Portable;
///
/// assert!((-1_i64).encode() < 0_i64.encode());
/// assert_eq!(u32::decode(&7_u32.encode()), Some(7));
/// assert_eq!(u32::decode(b"no number"), None);
/// ```
pub trait Portable: Key + Send + Sync {
    /// The key as bytes, which are in the order of the keys. The same key has the same bytes on
    /// every machine; an order that breaks this makes locks that do not exclude each other.
    fn encode(&self) -> Vec<u8>;

    /// The key with these bytes; `None` if there is none. It is used for messages only.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Portable for $type {
            fn encode(&self) -> Vec<u8> {
                // The sign becomes the highest bit, upside down.
                let mut bytes = self.to_be_bytes();
                bytes[0] ^= if <$type>::MIN == 0 { 0 } else { 1 << 7 };
                bytes.to_vec()
            }

            fn decode(bytes: &[u8]) -> Option<$type> {
                let mut bytes: [u8; size_of::<$type>()] = bytes.try_into().ok()?;
                bytes[0] ^= if <$type>::MIN == 0 { 0 } else { 1 << 7 };
                Some(<$type>::from_be_bytes(bytes))
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, i8, i16, i32, i64);

impl Portable for Vec<u8> {
    fn encode(&self) -> Vec<u8> {
        self.clone()
    }

    fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }
}

impl Portable for String {
    fn encode(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }

    fn decode(bytes: &[u8]) -> Option<String> {
        String::from_utf8(bytes.to_vec()).ok()
    }
}

/// The span as a span of bytes.
pub(super) fn encoded<K: Portable>(span: &Span<K>) -> Span<Vec<u8>> {
    Span::of_ends(span.start().map(K::encode), span.end().map(K::encode))
}

/// A span of bytes as its keys are written; as bytes if they are no such keys.
pub(super) fn shown<K: Portable>(span: &Span<Vec<u8>>) -> String {
    struct Shown<'a, K>(&'a Span<Vec<u8>>, std::marker::PhantomData<K>);
    impl<K: Portable> fmt::Display for Shown<'_, K> {
        fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.write(to, |bytes, to| match K::decode(bytes) {
                Some(key) => key.show(to),
                None => bytes.show(to),
            })
        }
    }
    Shown::<K>(span, std::marker::PhantomData).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn encodings_are_in_the_order_of_the_keys(a: i64, b: i64, c: u32, d: u32, e: String, f: String) {
            prop_assert_eq!(a.cmp(&b), a.encode().cmp(&b.encode()));
            prop_assert_eq!(c.cmp(&d), c.encode().cmp(&d.encode()));
            prop_assert_eq!(e.cmp(&f), e.encode().cmp(&f.encode()));
            prop_assert_eq!(i64::decode(&a.encode()), Some(a));
            prop_assert_eq!(String::decode(&e.encode()), Some(e));
        }
    }

    #[test]
    fn spans_are_written_as_their_keys() {
        assert_eq!(shown::<u64>(&encoded(&Span::new(3_u64, 7).unwrap())), "3..7");
        assert_eq!(shown::<i8>(&encoded(&Span::from(-3_i8))), "-3..");
        assert_eq!(shown::<u64>(&Span::from(b"ab".to_vec())), "\"ab\"..");
    }
}
