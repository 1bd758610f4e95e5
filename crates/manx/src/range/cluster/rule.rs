//! Which request is granted, and which one would close a circle: functions of the list of requests.
//!
//! Requests are served in the order of their places: a request is *granted* when no request before
//! it conflicts with it. Places only grow, so the requests before one are known when it is made;
//! afterwards they can only go. So each request decides for itself, from what it has seen once, and
//! waits until the requests in its way ([`Judgement::blockers`]) are gone.
//!
//! There is one exception, without which an owner would wait for itself. A request that an owner's
//! held range has in its way waits for that owner. If the owner then wants more, it *passes* such a
//! request: it must not wait for it, and it need not, because the request cannot be granted before
//! the owner gives the held range back. So that the owner keeps what it took before that request,
//! it first writes the new range into its earlier requests as well (the owner *grows* them:
//! [`Judgement::grows`]). An upgrade is the usual case: two share a range, and the second of them
//! waits to have it alone.
//!
//! # Invariants
//!
//! 1. Two requests that conflict are never granted at the same time. Of two, the later one has seen
//!    the earlier one, and has waited for it; or it passed it: then the earlier one waits for a
//!    request that covers the later one's range too, until both are given back (Invariant 5).
//! 2. A request that was passed waits directly for what the owner holds. It does not suffice that
//!    it waits for a waiter that waits for the owner: that waiter may give up.
//! 3. A circle of waits is closed by a request only, never by one that goes or shrinks; and growing
//!    a request puts it in the way of none but those that wait for it already, or for the later
//!    request. The request that closes a circle is the one with the highest place in it. It
//!    has all the others before its eyes, so it alone finds the circle, and each circle is found.
//! 4. A request that only tries waits for nothing, so no circle goes through it.
//! 5. A range that is held stands in one or more requests of its owner, and a waiter that wants it
//!    waits for at least one of them. It does not wait for all of them: it knows what was in its
//!    way when it was made, and one of them may have grown since. The list does not tell which
//!    ones it knows, so the owner that passes it grows each request that has come before it and is
//!    in its way now. One of these is a request that it waits for, by this same invariant for the
//!    held range that is in its way.

use super::error::{Deadlock, Link, Participant};
use super::request::{Identity, Part, Request};
use crate::lock::circle::circle;

/// What a request makes of the list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Judgement<'r> {
    /// The requests that it waits for, the last first.
    pub blockers: Vec<&'r Request>,
    /// The own requests that it has to grow, in the order of the list, because the requests that
    /// it passes wait for one of them.
    pub grows: Vec<&'r Request>,
}

/// What `own` has to wait for. Later requests in the list do not count.
pub(super) fn judge<'r>(list: &'r [Request], own: &Request) -> Judgement<'r> {
    let is_passed = |request: &Request| list.iter().any(|held| is_in_the_way(held, request, own));
    let before = list.iter().filter(|it| it.place < own.place && it.claim.conflicts_with(&own.claim));
    let (passed, mut blockers): (Vec<&Request>, Vec<&Request>) = before.partition(|it| is_passed(it));
    blockers.sort_by_key(|request| std::cmp::Reverse(request.place));
    let grows = list.iter().filter(|held| passed.iter().any(|request| is_in_the_way(held, request, own)));
    Judgement { blockers, grows: grows.collect() }
}

/// Whether `held` is a request of the maker of `own`, and is in the way of `request`. (Whether
/// `request` has seen it there, the list does not tell: Invariant 5.)
fn is_in_the_way(held: &Request, request: &Request, own: &Request) -> bool {
    own.claim.joins
        && held.claim.joins
        && held.claim.identity == own.claim.identity
        && held.place < request.place
        && held.claim.conflicts_with(&request.claim)
}

/// The circle that `own` closes, if it does; `show` writes spans.
pub(super) fn closes_circle(
    list: &[Request],
    own: &Request,
    show: impl Fn(&Part) -> String,
) -> Option<Box<Deadlock>> {
    let edges = |identity: Identity| {
        let waiting = list.iter().filter(|it| it.place <= own.place && it.claim.identity == identity);
        let waiting =
            waiting.filter(|it| !it.claim.tries && (identity != own.claim.identity || it.key == own.key));
        let mut edges: Vec<(Identity, Link)> = Vec::new();
        for request in waiting {
            for blocker in judge(list, request).blockers {
                if edges.iter().all(|(known, _)| *known != blocker.claim.identity) {
                    let (waiter, holder) = (participant(request), participant(blocker));
                    let link = Link {
                        waiter,
                        wants: written(request, &show),
                        holder,
                        holds: written(blocker, &show),
                    };
                    edges.push((blocker.claim.identity, link));
                }
            }
        }
        edges
    };
    circle(own.claim.identity, edges).map(|links| Box::new(Deadlock { links }))
}

/// What a request wants or holds, as `show` writes it.
pub(super) fn written(request: &Request, show: impl Fn(&Part) -> String) -> String {
    request.claim.parts.iter().map(show).collect::<Vec<_>>().join(", ")
}

pub(super) fn participant(request: &Request) -> Participant {
    let claim = &request.claim;
    let Identity { session, number } = claim.identity;
    Participant { session_name: claim.name.clone(), session, number, tag: claim.tag }
}

#[cfg(test)]
mod tests;
