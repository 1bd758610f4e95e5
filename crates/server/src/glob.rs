//! Patterns as `KEYS` and `SCAN` have them: `*` any bytes, `?` any byte, `[a-z]` one of these,
//! `[^a]` none of these, `\` the next byte as it is.
//!
//! It takes at most as many steps as pattern and text have bytes, multiplied: when what follows a
//! star fits nowhere, only the last star is tried elsewhere, since one before it could do nothing
//! that the last one cannot.

/// Whether all of `text` fits the pattern.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Behind the last star, and the text that it does not yet cover.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            star = Some((p, t));
            continue;
        }
        let next = match text.get(t) {
            None if p == pattern.len() => return true,
            None => return false,
            Some(byte) => one(&pattern[p..], *byte),
        };
        if let Some(taken) = next {
            (p, t) = (p + taken, t + 1);
        } else if let Some((behind, covered)) = star {
            (p, t) = (behind, covered + 1);
            star = Some((behind, covered + 1));
        } else {
            return false;
        }
    }
}

/// If the pattern's first part fits the byte: how long that part is.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', class @ ..] => {
            let (fits, taken) = in_class(class, byte);
            fits.then_some(1 + taken)
        }
        [other, ..] => (*other == byte).then_some(1),
    }
}

/// Returns whether the byte is in the class, and how long the class is, its bracket included. A
/// class that is not closed ends with the pattern.
fn in_class(class: &[u8], byte: u8) -> (bool, usize) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    while let Some(first) = class.get(at) {
        match (first, &class[at + 1..]) {
            (b']', _) => {
                at += 1;
                break;
            }
            (b'\\', [escaped, ..]) => {
                found |= *escaped == byte;
                at += 2;
            }
            (low, [b'-', high, ..]) => {
                let (low, high) = (low.min(high), low.max(high));
                found |= (*low..=*high).contains(&byte);
                at += 3;
            }
            (single, _) => {
                found |= *single == byte;
                at += 1;
            }
        }
    }
    (found != negated, at)
}

/// What every text that fits begins with.
pub(crate) fn prefix(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
    &pattern[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, fits) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "abc", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "ab ba", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h[\\]]", "h]", true),
            ("h\\*", "h*", true),
            ("h\\*", "hx", false),
            ("[a", "a", true),
            ("a\\", "a\\", true),
            ("a?", "a", false),
            ("**a", "bca", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_of_stars_takes_no_time() {
        let pattern = b"a*".repeat(200);
        assert!(!matches(&[&pattern[..], b"b"].concat(), &b"a".repeat(5_000)));
    }

    #[test]
    fn the_prefix_that_all_matches_begin_with() {
        assert_eq!(prefix(b"user:*"), b"user:");
        assert_eq!(prefix(b"user"), b"user");
        assert_eq!(prefix(b"[u]ser"), b"");
        assert_eq!(prefix(b"a\\*"), b"a");
    }
}
