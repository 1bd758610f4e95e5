//! How long keys live.

use super::set::{Unit, invalid_time};
use super::syntax::{integer, is};
use crate::fault::Fault;
use crate::ops::Ops;
use crate::resp::{Args, Replies};

/// Conditions of EXPIRE.
#[derive(Clone, Copy, Debug, Default)]
struct Only {
    without: bool,
    with: bool,
    greater: bool,
    less: bool,
}

impl Only {
    fn read(args: Args<'_>) -> Result<Only, String> {
        let mut only = Only::default();
        for word in args.from(3) {
            let flag = match () {
                () if is(word, "nx") => &mut only.without,
                () if is(word, "xx") => &mut only.with,
                () if is(word, "gt") => &mut only.greater,
                () if is(word, "lt") => &mut only.less,
                () => {
                    return Err(format!("ERR Unsupported option {}", String::from_utf8_lossy(word)));
                }
            };
            *flag = true;
        }
        if only.without && (only.with || only.greater || only.less) {
            return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
        }
        if only.greater && only.less {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(only)
    }

    /// Whether a key that expires at `old_ms` may be given `new_ms`. A key without an expiry counts
    /// as the last one to expire.
    fn allows(self, old_ms: Option<i64>, new_ms: i64) -> bool {
        !(self.without && old_ms.is_some()
            || self.with && old_ms.is_none()
            || self.greater && old_ms.is_none_or(|old_ms| new_ms <= old_ms)
            || self.less && old_ms.is_some_and(|old_ms| new_ms >= old_ms))
    }
}

/// EXPIRE and the like: sets when the key expires.
pub(super) fn expire(
    ops: &mut Ops<'_, '_>,
    args: Args<'_>,
    unit: Unit,
    out: &mut Replies,
) -> Result<(), Fault> {
    let only = Only::read(args)?;
    let new_ms = unit.moment_ms(integer(&args[2])?, ops.now_ms()).ok_or_else(|| invalid_time(&args[0]))?;
    let key = &args[1];
    let found = ops.get(key)?;
    let old_ms = |expires_ms: Option<u64>| expires_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
    let Some(found) = found.filter(|found| only.allows(old_ms(found.expires_ms()), new_ms)) else {
        out.integer(0);
        return Ok(());
    };
    match u64::try_from(new_ms) {
        Ok(new_ms) if new_ms > ops.now_ms() => ops.put_expiry(key, &found, Some(new_ms))?,
        _ => {
            ops.delete(key)?;
        }
    }
    out.integer(1);
    Ok(())
}

pub(super) fn persist(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let found = ops.get(&args[1])?.filter(|found| found.expires_ms().is_some());
    if let Some(found) = &found {
        ops.put_expiry(&args[1], found, None)?;
    }
    out.integer(i64::from(found.is_some()));
    Ok(())
}

/// TTL and the like: when the key expires; −1 if never, −2 if it is not there.
pub(super) fn expires(
    ops: &mut Ops<'_, '_>,
    args: Args<'_>,
    unit: Unit,
    out: &mut Replies,
) -> Result<(), Fault> {
    out.integer(match ops.get(&args[1])?.map(|found| found.expires_ms()) {
        None => -2,
        Some(None) => -1,
        Some(Some(expires_ms)) => unit.time(expires_ms, ops.now_ms()),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_condition_decides_by_the_old_expiry() {
        // NX, XX, GT and LT of a new expiry at 10 ms. A key without expiry counts as one that
        // expires last.
        let without = Only { without: true, ..Only::default() };
        let with = Only { with: true, ..Only::default() };
        let greater = Only { greater: true, ..Only::default() };
        let less = Only { less: true, ..Only::default() };
        for (only, old_ms, allowed) in [
            (Only::default(), None, true),
            (without, None, true),
            (without, Some(1), false),
            (with, None, false),
            (with, Some(1), true),
            (greater, None, false),
            (greater, Some(5), true),
            (greater, Some(10), false),
            (less, None, true),
            (less, Some(15), true),
            (less, Some(10), false),
        ] {
            assert_eq!(only.allows(old_ms, 10), allowed, "{only:?} {old_ms:?}");
        }
    }
}
