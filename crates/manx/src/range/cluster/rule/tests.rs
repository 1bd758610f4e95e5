//! The rules against a model: a few owners that ask, give up, and give back in any order.
//!
//! The model plays etcd and all the clients. Each waiter does what a client does: it looks at the
//! list once, when it asks, and then waits until what was in its way is gone. The list of what is
//! granted is checked by itself, and circles by another method than the search: the owners that do
//! not wait give back all they have, then the owners that waited for these, and so on; the rest can
//! never go on.

use super::*;
use crate::range::cluster::request::Claim;
use crate::range::raw::Access;
use crate::range::span::Span;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Unless it waits, the owner asks for this range.
    Ask { owner: u64, start: u8, length: u8, shared: bool, tries: bool },
    /// Unless it waits, the owner gives back one of its ranges; if it waits, it gives up.
    GiveBack { owner: u64, index: usize },
    /// The session of the owner ends.
    End { owner: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ask = (0..4_u64, 0..8_u8, 1..5_u8, any::<bool>(), prop::bool::weighted(0.1));
    let ask = ask.prop_map(|(owner, start, length, shared, tries)| Step::Ask {
        owner,
        start,
        length,
        shared,
        tries,
    });
    let back = (0..4_u64, 0..8_usize).prop_map(|(owner, index)| Step::GiveBack { owner, index });
    let end = (0..4_u64).prop_map(|owner| Step::End { owner });
    prop::collection::vec(prop_oneof![6 => ask, 3 => back, 1 => end], 1..60)
}

/// A client's own knowledge of a request of its own.
#[derive(Clone, Debug)]
struct Known {
    place: i64,
    /// What it waits for still, by places.
    blockers: Vec<i64>,
    /// The own requests that carry it as well, by places, once it is granted.
    grows: Vec<i64>,
    granted: bool,
    part: Part,
}

#[derive(Default)]
struct Model {
    revision: i64,
    list: Vec<Request>,
    known: Vec<(u64, Known)>,
}

impl Model {
    fn waits(&self, owner: u64) -> bool {
        self.known.iter().any(|(its, known)| *its == owner && !known.granted)
    }

    fn ask(&mut self, owner: u64, part: Part, tries: bool) -> Result<(), TestCaseError> {
        self.revision += 1;
        let identity = Identity { session: owner as i64 % 2, number: owner };
        let (name, tag) = (String::new(), None);
        let claim = Claim { identity, joins: true, tries, tag, name, parts: vec![part.clone()] };
        let place = self.revision;
        self.list.push(Request { key: place.to_be_bytes().to_vec(), place, version: place, claim });
        let own = self.list.last().expect("just pushed").clone();
        let judgement = judge(&self.list, &own);
        let circle = closes_circle(&self.list, &own, |part| format!("{part:?}"));
        let stuck = self.stuck();
        if tries && !judgement.blockers.is_empty() {
            self.list.pop();
            return Ok(());
        }
        if !tries {
            prop_assert_eq!(circle.is_some(), !stuck.is_empty(), "{:?} of {:?}", circle, self.list);
        }
        if circle.is_some() && !tries {
            self.list.pop();
            return Ok(());
        }
        let blockers = judgement.blockers.iter().map(|request| request.place).collect();
        let grows = judgement.grows.iter().map(|held| held.place).collect();
        self.known.push((owner, Known { place, blockers, grows, granted: false, part }));
        self.settle();
        Ok(())
    }

    /// Each waiter looks whether what it waits for is gone, or has shrunk.
    fn settle(&mut self) {
        let mut goes_on = true;
        while goes_on {
            goes_on = false;
            for index in 0..self.known.len() {
                let Known { place, granted, .. } = self.known[index].1;
                let own = self.list.iter().find(|it| it.place == place).expect("it is known").clone();
                let list = &self.list;
                let is_in_the_way = |blocker: &i64| {
                    list.iter().any(|it| it.place == *blocker && it.claim.conflicts_with(&own.claim))
                };
                let known = &mut self.known[index].1;
                known.blockers.retain(is_in_the_way);
                if !granted && known.blockers.is_empty() {
                    known.granted = true;
                    for held in known.grows.clone() {
                        let part = known.part.clone();
                        let held = self.list.iter_mut().find(|it| it.place == held).expect("it is held");
                        held.claim.parts.push(part);
                    }
                    goes_on = true;
                }
            }
        }
    }

    fn give_back(&mut self, owner: u64, index: usize) {
        let waits = self.waits(owner);
        let of_it = |(its, known): &(u64, Known)| *its == owner && known.granted != waits;
        let candidates: Vec<usize> = (0..self.known.len()).filter(|&at| of_it(&self.known[at])).collect();
        if candidates.is_empty() {
            return;
        }
        let (_, known) = self.known.remove(candidates[index % candidates.len()]);
        if known.granted {
            for place in [known.place].into_iter().chain(known.grows) {
                let held = self.list.iter_mut().find(|it| it.place == place).expect("it is held");
                let at = held.claim.parts.iter().position(|part| *part == known.part).expect("it carries it");
                held.claim.parts.remove(at);
            }
        } else {
            self.list.retain(|it| it.place != known.place);
        }
        self.list.retain(|it| !it.claim.parts.is_empty());
        self.settle();
    }

    fn end(&mut self, owner: u64) {
        self.known.retain(|(its, _)| *its != owner);
        self.list.retain(|it| it.claim.identity.number != owner);
        self.settle();
    }

    /// The owners that can never go on.
    fn stuck(&self) -> Vec<u64> {
        let mut left = self.list.clone();
        loop {
            let waiting = |it: &Request| !it.claim.tries && !judge(&self.list, it).blockers.is_empty();
            let done = |identity: Identity| {
                let requests = left.iter().filter(|it| it.claim.identity == identity);
                requests.filter(|it| waiting(it)).all(|it| {
                    let blockers = judge(&self.list, it).blockers;
                    blockers
                        .iter()
                        .all(|blocker| left.iter().all(|it| it.claim.identity != blocker.claim.identity))
                })
            };
            let Some(identity) = left.iter().map(|it| it.claim.identity).find(|&identity| done(identity))
            else {
                return left.iter().map(|it| it.claim.identity.number).collect();
            };
            left.retain(|it| it.claim.identity != identity);
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for (index, (owner, known)) in self.known.iter().enumerate() {
            for (other, its) in &self.known[index + 1..] {
                let conflict = owner != other
                    && known.part.1.conflicts_with(its.part.1)
                    && known.part.0.overlaps(&its.part.0);
                prop_assert!(!(conflict && known.granted && its.granted), "{:?} and {:?}", known, its);
            }
        }
        prop_assert_eq!(self.stuck(), Vec::<u64>::new(), "a circle that was not told: {:?}", self.list);
        // What nothing is in the way of is granted.
        let left_waiting = self.known.iter().filter(|(_, known)| !known.granted);
        for (_, known) in left_waiting {
            let own = self.list.iter().find(|it| it.place == known.place).expect("it is known");
            prop_assert!(!judge(&self.list, own).blockers.is_empty(), "{:?} in {:?}", known, self.list);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if testing::full() { 20_000 } else { 1000 }))]
    #[test]
    fn nothing_is_granted_twice_and_every_circle_is_told_to_the_request_that_closes_it(steps in steps()) {
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Ask { owner, start, length, shared, tries } if !model.waits(owner) => {
                    let span = Span::new(vec![start], vec![start + length]).expect("a range");
                    let access = if shared { Access::Shared } else { Access::Exclusive };
                    model.ask(owner, (span, access), tries)?;
                }
                Step::Ask { .. } => {}
                Step::GiveBack { owner, index } => model.give_back(owner, index),
                Step::End { owner } => model.end(owner),
            }
            model.check()?;
        }
    }
}

fn request(place: i64, owner: u64, range: std::ops::Range<u8>, access: Access) -> Request {
    let identity = Identity { session: 1, number: owner };
    let span = Span::new(vec![range.start], vec![range.end]).expect("a range");
    let (name, tag, parts) = (format!("m{owner}"), Some(owner), vec![(span, access)]);
    let claim = Claim { identity, joins: true, tries: false, tag, name, parts };
    Request { key: vec![place as u8], place, version: place, claim }
}

fn blockers(list: &[Request], index: usize) -> Vec<i64> {
    judge(list, &list[index]).blockers.iter().map(|request| request.place).collect()
}

#[test]
fn requests_are_served_in_the_order_of_their_places() {
    use Access::{Exclusive, Shared};
    let list = [
        request(3, 1, 0..10, Shared),
        request(5, 2, 5..15, Shared),
        request(8, 3, 9..12, Exclusive),
        request(9, 4, 10..11, Shared),
        request(10, 5, 20..30, Exclusive),
    ];
    let all: Vec<_> = (0..5).map(|index| blockers(&list, index)).collect();
    assert_eq!(all, [vec![], vec![], vec![5, 3], vec![8], vec![]]);
}

#[test]
fn an_upgrade_passes_a_request_that_waits_for_it() {
    use Access::{Exclusive, Shared};
    let mut list =
        vec![request(1, 1, 0..10, Shared), request(2, 2, 0..10, Exclusive), request(3, 1, 0..10, Exclusive)];
    let judgement = judge(&list, &list[2]);
    assert_eq!(judgement, Judgement { blockers: vec![], grows: vec![&list[0]] });
    // The second one shares the range too: the upgrades are in each other's way.
    list = vec![
        request(1, 1, 0..10, Shared),
        request(2, 2, 0..10, Shared),
        request(3, 1, 0..10, Exclusive),
        request(4, 2, 0..10, Exclusive),
    ];
    assert_eq!(blockers(&list, 2), [2]);
    assert_eq!(closes_circle(&list, &list[2], |_| String::new()), None);
    let circle = closes_circle(&list, &list[3], |(span, access)| format!("{access:?} {span:?}")).unwrap();
    let links: Vec<_> = circle.links.iter().map(|link| (link.waiter.tag, link.holder.tag)).collect();
    assert_eq!(links, [(Some(2), Some(1)), (Some(1), Some(2))]);
    assert!(circle.to_string().contains("m2 (session 1, owner 2, tag 2) waits for Exclusive"), "{circle}");
}

#[test]
fn an_owner_grows_all_requests_that_a_passed_one_may_wait_for() {
    use Access::Exclusive;
    // Owner 1 has passed a request by its second one, so its first one has grown, and carries 1..4
    // too. Owner 3 came before that: it waits for the second one alone.
    let mut list = vec![
        request(2, 1, 4..5, Exclusive),
        request(5, 1, 1..4, Exclusive),
        request(6, 3, 0..2, Exclusive),
        request(7, 1, 0..1, Exclusive),
    ];
    let grown = list[1].claim.parts[0].clone();
    list[0].claim.parts.push(grown);
    // If it grew the first one alone, owner 3 would go on when 1..4 is given back.
    assert_eq!(judge(&list, &list[3]), Judgement { blockers: vec![], grows: vec![&list[0], &list[1]] });
}
