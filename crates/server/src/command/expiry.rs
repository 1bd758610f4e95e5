//! How long keys live.

use super::NOT_INTEGER;
use super::is;
use super::set::{MILLISECONDS, SECONDS, UNIX_MILLISECONDS, UNIX_SECONDS, Unit};
use crate::fault::Fault;
use crate::numbers::integer;
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

fn set_expiry(
    ops: &mut Ops<'_, '_>,
    (name, unit): (&str, Unit),
    args: Args<'_>,
    out: &mut Replies,
) -> Result<(), Fault> {
    let only = match Only::read(args) {
        Ok(only) => only,
        Err(error) => {
            out.error(&error);
            return Ok(());
        }
    };
    let Some(time) = integer(&args[2]) else {
        out.error(NOT_INTEGER);
        return Ok(());
    };
    let Some(new_ms) = unit.moment_ms(time, ops.now_ms()) else {
        out.error(&format!("ERR invalid expire time in '{name}' command"));
        return Ok(());
    };
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

pub(super) fn expire(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    set_expiry(ops, ("expire", SECONDS), args, out)
}

pub(super) fn pexpire(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    set_expiry(ops, ("pexpire", MILLISECONDS), args, out)
}

pub(super) fn expire_at(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    set_expiry(ops, ("expireat", UNIX_SECONDS), args, out)
}

pub(super) fn pexpire_at(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    set_expiry(ops, ("pexpireat", UNIX_MILLISECONDS), args, out)
}

pub(super) fn persist(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let found = ops.get(&args[1])?.filter(|found| found.expires_ms().is_some());
    if let Some(found) = &found {
        ops.put_expiry(&args[1], found, None)?;
    }
    out.integer(i64::from(found.is_some()));
    Ok(())
}

/// When the key expires; −1 if never, −2 if it is not there.
fn moment(
    ops: &mut Ops<'_, '_>,
    key: &[u8],
    out: &mut Replies,
    say: impl FnOnce(u64, u64) -> u64,
) -> Result<(), Fault> {
    let Some(found) = ops.get(key)? else {
        out.integer(-2);
        return Ok(());
    };
    match found.expires_ms() {
        None => out.integer(-1),
        Some(expires_ms) => out.integer(i64::try_from(say(expires_ms, ops.now_ms())).unwrap_or(i64::MAX)),
    }
    Ok(())
}

pub(super) fn ttl(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    moment(ops, &args[1], out, |expires_ms, now_ms| {
        expires_ms.saturating_sub(now_ms).saturating_add(500) / 1000
    })
}

pub(super) fn pttl(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    moment(ops, &args[1], out, |expires_ms, now_ms| expires_ms.saturating_sub(now_ms))
}

pub(super) fn expire_time(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    moment(ops, &args[1], out, |expires_ms, _| expires_ms.saturating_add(500) / 1000)
}

pub(super) fn pexpire_time(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    moment(ops, &args[1], out, |expires_ms, _| expires_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions() {
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
