//! HSCAN, SSCAN and ZSCAN: as SCAN, of a collection's members. They come in their order, also those
//! of a sorted set.

use super::scan::{Options, Step, Steps, cursor};
use crate::collection::{Collection, SortedSet};
use crate::fault::Fault;
use crate::names::{self, MEMBERS};
use crate::ops::{Enough, Ops};
use crate::resp::{Args, Replies};
use crate::scores;
use crate::value::Kind;

pub(super) fn hscan(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    scan(ops, args, Kind::Hash, Some(|value| value.into()), out)
}

pub(super) fn zscan(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let score = |value: &[u8]| scores::text(SortedSet::score_in(value)).into_bytes();
    scan(ops, args, Kind::SortedSet, Some(score), out)
}

pub(super) fn sscan(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    scan(ops, args, Kind::Set, None, out)
}

/// What is answered for what a member has.
type Shown = fn(&[u8]) -> Vec<u8>;

/// `shown` is what is answered beside each member, if anything is.
fn scan(
    ops: &mut Ops<'_, '_>,
    args: Args<'_>,
    kind: Kind,
    shown: Option<Shown>,
    out: &mut Replies,
) -> Result<(), Fault> {
    let number = cursor(&args[2])?;
    let (mut found, mut next) = (Vec::new(), 0);
    if let Some(collection) = Collection::find(ops, args.get(1).unwrap_or_default(), kind)? {
        let options = Options::read(args, 3)?;
        let mut steps = Steps::new(&options);
        // The cursor may be one of an earlier incarnation: its member is a place in this one as
        // well.
        let range = match ops.behind_cursor(number, MEMBERS)? {
            Some(name) => collection.behind(names::member_in(&name).unwrap_or_default()),
            None => collection.from(steps.prefix())..collection.all().end,
        };
        collection.members(ops, &range, false, |member, value| {
            match steps.see(member, member.len() + value.len(), true) {
                Step::Enough => return Enough::Yes,
                Step::Other => {}
                Step::Wanted => found.push((member.to_vec(), shown.map(|shown| shown(value)))),
            }
            Enough::No
        })?;
        if let Some(last) = steps.goes_on_behind() {
            next = ops.cursors().behind(&collection.from(last));
        }
    }
    out.array(2);
    out.bulk(itoa::Buffer::new().format(next).as_bytes());
    out.array(found.len() * if shown.is_some() { 2 } else { 1 });
    for (member, value) in &found {
        out.bulk(member);
        value.as_deref().into_iter().for_each(|value| out.bulk(value));
    }
    Ok(())
}
