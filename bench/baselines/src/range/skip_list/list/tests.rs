//! What only a test that reaches into the list can do to it: stop in the middle of a release, or
//! stand a newer node before an older one.

use super::*;

fn span(start: u64, end: u64) -> Span<u64> {
    Span::new(start, end).expect("not empty")
}

fn insert(list: &List<u64>, start: u64, end: u64) -> Option<NonNull<Node<u64>>> {
    list.insert(&list.pin(), &span(start, end))
}

fn remove(list: &List<u64>, node: NonNull<Node<u64>>) {
    // SAFETY: the tests give back what they inserted, once.
    unsafe {
        list.release(node);
        list.leave(&list.pin(), node);
    }
}

fn height(node: NonNull<Node<u64>>) -> usize {
    // SAFETY: nodes live as long as their list.
    unsafe { node.as_ref() }.height()
}

/// A node that is linked at more than one level.
fn insert_high(list: &List<u64>, start: u64, end: u64) -> NonNull<Node<u64>> {
    loop {
        let node = insert(list, start, end).expect("nobody holds it");
        if height(node) > 1 {
            return node;
        }
        remove(list, node);
    }
}

fn held(list: &List<u64>) -> Vec<Span<u64>> {
    let _pin = list.pin();
    let mut spans = Vec::new();
    let mut next = list.head[0].load().node();
    while let Some(node) = NonNull::new(next) {
        // SAFETY: met while pinned.
        let reference = unsafe { link(tower(node), 0) }.load();
        if !reference.is_marked() {
            // SAFETY: as above.
            spans.push(unsafe { node.as_ref() }.with_span(Span::clone));
        }
        next = reference.node();
    }
    spans
}

/// The thesis' list fails all requests that overlap from the mark at level 0 on, until the releaser
/// goes on.
#[test]
fn a_releaser_that_stands_still_is_in_nobodys_way() {
    let list = List::new(4, BRANCHING_LOG2);
    for _ in 0..1_000 {
        let node = insert_high(&list, 10, 20);
        for level in (1..height(node)).rev() {
            list.mark(node, level);
            assert!(insert(&list, 5, 11).is_none(), "not released yet, though marked at level {level}");
        }
        list.mark(node, 0);
        // From here on it is released, and the releaser does nothing more for now.
        let pin = list.pin();
        let others = [(10, 20), (5, 11), (19, 30), (0, 50)].map(|(start, end)| {
            let other = insert(&list, start, end).expect("released");
            remove(&list, other);
            other
        });
        let same = insert(&list, 10, 12).expect("released");
        assert!(!others.contains(&node) && same != node, "a node is not used again before it is unlinked");
        // SAFETY: the list's, and marked above.
        unsafe { list.leave(&pin, node) };
        drop(pin);
        assert_eq!(held(&list), [span(10, 12)]);
        remove(&list, same);
    }
    assert_eq!(held(&list), []);
    // Each round takes another slot, because the test holds a pin of its own, and each slot keeps
    // some. Without a way back it would be 6,000.
    assert!(list.allocated() < 1_500, "its last unlinker retired it: {}", list.allocated());
}

/// A newer node that begins at the same place stands before the older one at the upper level, where
/// that is linked.
#[test]
fn a_release_finds_its_node_behind_a_newer_one() {
    let list = List::new(2, BRANCHING_LOG2);
    for _ in 0..1_000 {
        let old = insert_high(&list, 10, 20);
        (0..2).rev().for_each(|level| list.mark(old, level));
        let pin = list.pin();
        // Unlinked by hand from level 0 only, as by a helper that stopped there.
        // SAFETY: met while pinned.
        let next = unsafe { link(tower(old), 0) }.load();
        assert!(list.head[0].replace(old.as_ptr(), next.node()).is_ok(), "nobody else is here");
        // SAFETY: as above.
        let node = unsafe { old.as_ref() };
        node.count_unlinked();
        assert!(!node.is_unlinked(), "it is still linked at level 1");
        assert_eq!(list.head[1].load().node(), old.as_ptr());
        // The newer one, linked at level 1 by a thread that looked there before the older one was
        // marked.
        let new = list.lend(&pin, span(10, 15));
        // SAFETY: lent to this thread; it has two levels.
        let links = unsafe {
            new.as_ref().prepare(2, pin.birth());
            [link(tower(new), 0), link(tower(new), 1)]
        };
        links[0].set(list.head[0].load().node());
        links[1].set(old.as_ptr());
        assert!(
            list.head[0].replace(list.head[0].load().node(), new.as_ptr()).is_ok(),
            "nobody else is here"
        );
        assert!(list.head[1].replace(old.as_ptr(), new.as_ptr()).is_ok(), "nobody else is here");
        // SAFETY: the list's, and marked above.
        unsafe { list.leave(&pin, old) };
        // Others of this slot that were left may be older. SAFETY: the walk of a sweep is over when
        // it retires nodes, and what was retired here is not looked at.
        (0..=200).take_while(|_| !node.is_unlinked()).for_each(|_| unsafe { list.sweep(&pin) });
        assert!(links[1].is_empty(), "the older one is not linked any more");
        drop(pin);
        remove(&list, new);
    }
    assert!(list.allocated() < 200, "and both came back");
}

/// A pin concerns nodes that were linked when it began, or were lent within its interval, until it
/// ends or is renewed.
#[test]
fn a_pin_keeps_what_lived_in_its_interval_and_nothing_else() {
    let list = List::new(4, BRANCHING_LOG2);
    let pairs = |count: u64| {
        for at in 0..count {
            let node = insert(&list, at % 100, at % 100 + 1).expect("released each time");
            remove(&list, node);
        }
    };
    let batch = |first: u64| -> Vec<_> {
        (first..first + 5_000).map(|at| insert(&list, at, at + 1).expect("free")).collect()
    };
    let old = batch(1_000);
    let still = list.pin();
    pairs(2_200);
    assert!(list.allocated() < 5_200, "what is lent later comes back: {}", list.allocated());
    batch(7_000).into_iter().for_each(|node| remove(&list, node));
    assert!(list.allocated() < 6_500, "a peak, too: {}", list.allocated());
    // By a slot that later pairs leave alone.
    let other = list.pin();
    old.into_iter().for_each(|node| remove(&list, node));
    drop(other);
    pairs(2_200);
    assert!(list.allocated() > 5_000, "it may be at any of those: {}", list.allocated());

    let (new, now) = (batch(1_000), list.allocated());
    assert!(now > 10_000, "none of the old ones is lent: {now}");
    assert!(!still.is_current());
    still.catch_up();
    new.into_iter().for_each(|node| remove(&list, node));
    pairs(2_200);
    assert!(list.allocated() > 10_000, "its interval is longer: {}", list.allocated());
    still.renew();
    pairs(20_000);
    assert!(list.allocated() < 1_500, "they came back: {} of {now}", list.allocated());
}

#[test]
fn levels_are_sorted_samples_of_the_one_below() {
    let list = List::new(HEIGHT_MAX, BRANCHING_LOG2);
    let keys: Vec<u64> = (0..2_000).map(|at| at * 7 % 2_000).collect();
    let nodes: Vec<_> = keys.iter().map(|&key| insert(&list, key, key + 1).expect("free")).collect();
    let starts = |level: usize| {
        let mut starts = Vec::new();
        let mut next = list.head[level].load().node();
        while let Some(node) = NonNull::new(next) {
            // SAFETY: held.
            starts.push(unsafe { node.as_ref() }.with_span(|span| *span.start().expect("bounded")));
            // SAFETY: it was met at this level.
            next = unsafe { link(tower(node), level) }.load().node();
        }
        starts
    };
    let mut below = starts(0);
    assert!(below.iter().copied().eq(0..2_000));
    for level in 1..HEIGHT_MAX {
        let here = starts(level);
        assert!(here.is_sorted() && here.iter().all(|start| below.contains(start)), "level {level}");
        assert!(here.len() < below.len() || below.is_empty(), "level {level}");
        below = here;
    }
    nodes.into_iter().for_each(|node| remove(&list, node));
    let linked = || {
        let mut count = 0;
        let mut next = list.head[0].load().node();
        while let Some(node) = NonNull::new(next) {
            count += 1;
            // SAFETY: nodes live as long as their list.
            next = unsafe { link(tower(node), 0) }.load().node();
        }
        count
    };
    assert!(linked() <= 100, "few are left: {}", linked());
    let pin = list.pin();
    // SAFETY: no node is looked at afterwards.
    (0..100).for_each(|_| unsafe { list.sweep(&pin) });
    assert!(list.head.iter().all(|link| link.load().node().is_null()));
}
