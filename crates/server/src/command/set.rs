//! SET with its options, the commands that are SET with one of them, and GETEX, which has the same
//! ones about expiry.

use super::syntax::{SYNTAX, integer, is};
use crate::fault::Fault;
use crate::ops::Ops;
use crate::resp::{Args, Replies, Source};

/// What is asked for behind key and value.
#[derive(Clone, Copy, Debug, Default)]
struct Options<'a> {
    /// Only if the key is there, or only if it is not.
    only_if: Option<bool>,
    get: bool,
    keep_ttl: bool,
    /// The key is to expire no more.
    persists: bool,
    /// A time, and how it is meant.
    expiry: Option<(&'a [u8], Unit)>,
}

/// How a time to live is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// Milliseconds.
    pub(super) unit_ms: i64,
    /// From now, not since 1970.
    pub(super) relative: bool,
}

pub(super) const SECONDS: Unit = Unit { unit_ms: 1000, relative: true };
pub(super) const MILLISECONDS: Unit = Unit { unit_ms: 1, relative: true };
pub(super) const UNIX_SECONDS: Unit = Unit { unit_ms: 1000, relative: false };
pub(super) const UNIX_MILLISECONDS: Unit = Unit { unit_ms: 1, relative: false };

impl Unit {
    /// When that is, in milliseconds since 1970; none if it cannot be said in 64 bits.
    pub(super) fn moment_ms(self, time: i64, now_ms: u64) -> Option<i64> {
        let time_ms = time.checked_mul(self.unit_ms)?;
        if self.relative { time_ms.checked_add(i64::try_from(now_ms).ok()?) } else { Some(time_ms) }
    }

    /// The reverse, rounded to the nearest unit.
    pub(super) fn time(self, moment_ms: u64, now_ms: u64) -> i64 {
        let ms = if self.relative { moment_ms.saturating_sub(now_ms) } else { moment_ms };
        let unit_ms = self.unit_ms as u64;
        i64::try_from(ms.saturating_add(unit_ms / 2) / unit_ms).unwrap_or(i64::MAX)
    }
}

impl<'a> Options<'a> {
    /// Those that begin with this argument; `gets`: of GETEX, and not of SET.
    fn read(args: Args<'a>, at: usize, gets: bool) -> Option<Options<'a>> {
        let mut options = Options::default();
        let mut words = args.from(at);
        while let Some(word) = words.next() {
            let unit = match () {
                () if !gets && (is(word, "nx") || is(word, "xx")) => {
                    let only_if = is(word, "xx");
                    if *options.only_if.get_or_insert(only_if) != only_if {
                        return None;
                    }
                    continue;
                }
                () if !gets && is(word, "get") => {
                    options.get = true;
                    continue;
                }
                () if !gets && is(word, "keepttl") => {
                    options.keep_ttl = true;
                    continue;
                }
                () if gets && is(word, "persist") => {
                    options.persists = true;
                    continue;
                }
                () if is(word, "ex") => SECONDS,
                () if is(word, "px") => MILLISECONDS,
                () if is(word, "exat") => UNIX_SECONDS,
                () if is(word, "pxat") => UNIX_MILLISECONDS,
                () => return None,
            };
            // Of several times the last one counts, if all are given in the same way.
            if options.expiry.replace((words.next()?, unit)).is_some_and(|(_, before)| before != unit) {
                return None;
            }
        }
        (!((options.keep_ttl || options.persists) && options.expiry.is_some())).then_some(options)
    }

    /// When the key is to expire, in milliseconds since 1970, if that was asked of this command.
    fn expires_ms(&self, ops: &mut Ops<'_, '_>, command: &[u8]) -> Result<Option<u64>, Fault> {
        let Some((time, unit)) = self.expiry else { return Ok(None) };
        let time = Some(integer(time)?).filter(|time| *time > 0);
        let moment_ms = time.and_then(|time| unit.moment_ms(time, ops.now_ms()));
        let moment_ms = moment_ms.and_then(|ms| u64::try_from(ms).ok());
        Ok(Some(moment_ms.ok_or_else(|| invalid_time(command))?))
    }
}

pub(super) fn set(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    // What nearly all clients send.
    if args.len() == 3 {
        ops.put(&args[1], args.source(2), None)?;
        out.ok();
        return Ok(());
    }
    with(ops, args, args.source(2), Options::read(args, 3, false).ok_or(SYNTAX)?, out)
}

pub(super) fn invalid_time(command: &[u8]) -> String {
    let command = String::from_utf8_lossy(command).to_ascii_lowercase();
    format!("ERR invalid expire time in '{command}' command")
}

fn with(
    ops: &mut Ops<'_, '_>,
    args: Args<'_>,
    value: Source<'_>,
    options: Options<'_>,
    out: &mut Replies,
) -> Result<(), Fault> {
    let key = &args[1];
    let expires_ms = options.expires_ms(ops, &args[0])?;
    let needs_old = options.get || options.keep_ttl || options.only_if.is_some();
    let old = match needs_old {
        true if options.get => ops.string(key)?,
        true => ops.get(key)?,
        false => None,
    };
    let is_wanted = options.only_if.is_none_or(|wanted| wanted == old.is_some());
    if is_wanted {
        let kept_ms = old.as_ref().filter(|_| options.keep_ttl).and_then(|old| old.expires_ms());
        if expires_ms.is_some_and(|expires_ms| expires_ms <= ops.now_ms()) {
            ops.delete(key)?;
        } else {
            ops.put(key, value, expires_ms.or(kept_ms))?;
        }
    }
    match old {
        Some(old) if options.get => out.bulk(old.bytes()),
        _ if options.get || !is_wanted => out.null(),
        _ => out.ok(),
    }
    Ok(())
}

/// SETEX and PSETEX.
pub(super) fn set_expiring(
    ops: &mut Ops<'_, '_>,
    args: Args<'_>,
    unit: Unit,
    out: &mut Replies,
) -> Result<(), Fault> {
    let options = Options { expiry: Some((&args[2], unit)), ..Options::default() };
    with(ops, args, args.source(3), options, out)
}

pub(super) fn setnx(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let is_new = ops.get(&args[1])?.is_none();
    if is_new {
        ops.put(&args[1], args.source(2), None)?;
    }
    out.integer(i64::from(is_new));
    Ok(())
}

/// GET that also changes when the key expires.
pub(super) fn get_ex(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let options = Options::read(args, 2, true).ok_or(SYNTAX)?;
    let key = &args[1];
    let Some(found) = ops.string(key)? else {
        out.null();
        return Ok(());
    };
    match options.expires_ms(ops, &args[0])? {
        Some(expires_ms) if expires_ms <= ops.now_ms() => {
            ops.delete(key)?;
        }
        Some(expires_ms) => ops.put_expiry(key, &found, Some(expires_ms))?,
        None if options.persists && found.expires_ms().is_some() => ops.put_expiry(key, &found, None)?,
        None => {}
    }
    out.bulk(found.bytes());
    Ok(())
}
