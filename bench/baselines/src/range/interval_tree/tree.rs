//! An interval tree: ranges that may overlap, and a fast answer to which of them overlap a given
//! one.
//!
//! A balanced search tree in the order of first keys, in which each node also knows the highest
//! last key below it (Cormen, Leiserson, Rivest and Stein, "Introduction to algorithms", section
//! 14.3). A search leaves out what ends too early, by that, and what begins too late, by the order.
//! The balance is that of Adelson-Velsky and Landis (1962): the heights of two siblings differ by
//! at most one, so a path from the root has at most 1.44 log2(n) nodes.
//!
//! Nodes stand in one block of memory and are found by number. A removed one is used again.
//!
//! Invariants:
//! 1. What is below a node on the left comes before it in the order of (first key, number), what is
//!    on the right behind it.
//! 2. `height` is 1 more than the greater of its children's, which differ by at most 1; `last_max`
//!    is the highest `last` of the node and all below it.

use std::cmp::Ordering;

/// Instead of a node: there is none.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Node<T> {
    first: u64,
    last: u64,
    last_max: u64,
    /// In the free list: the next free one.
    left: u32,
    right: u32,
    height: u8,
    value: Option<T>,
}

/// Ranges with values. See the module's text.
#[derive(Debug)]
pub(super) struct Tree<T> {
    nodes: Vec<Node<T>>,
    root: u32,
    free: u32,
}

impl<T> Tree<T> {
    pub(super) const fn new() -> Tree<T> {
        Tree { nodes: Vec::new(), root: NONE, free: NONE }
    }

    /// Adds a range, and returns its number.
    pub(super) fn insert(&mut self, first: u64, last: u64, value: T) -> u32 {
        let node =
            Node { first, last, last_max: last, left: NONE, right: NONE, height: 1, value: Some(value) };
        let new = if self.free == NONE {
            self.nodes.push(node);
            // 2^32 nodes would be more than 200 GiB of them.
            (self.nodes.len() - 1) as u32
        } else {
            let new = self.free;
            self.free = self.node(new).left;
            *self.node_mut(new) = node;
            new
        };
        self.root = self.link(self.root, new);
        new
    }

    /// Removes the range of this number, which is there, and returns it.
    pub(super) fn remove(&mut self, old: u32) -> (u64, u64, Option<T>) {
        self.root = self.unlink(self.root, old);
        let free = self.free;
        let node = self.node_mut(old);
        node.left = free;
        let removed = (node.first, node.last, node.value.take());
        self.free = old;
        removed
    }

    /// Shows all ranges that have a key in common with this one.
    #[inline]
    pub(super) fn overlapping(&mut self, first: u64, last: u64, mut show: impl FnMut(&mut T)) {
        self.visit(self.root, first, last, &mut show);
    }

    fn visit(&mut self, at: u32, first: u64, last: u64, show: &mut impl FnMut(&mut T)) {
        if at == NONE || self.node(at).last_max < first {
            return;
        }
        self.visit(self.node(at).left, first, last, show);
        let node = self.node_mut(at);
        if node.first > last {
            return;
        }
        let right = node.right;
        if node.last >= first
            && let Some(value) = &mut node.value
        {
            show(value);
        }
        self.visit(right, first, last, show);
    }

    fn node(&self, at: u32) -> &Node<T> {
        &self.nodes[at as usize]
    }

    fn node_mut(&mut self, at: u32) -> &mut Node<T> {
        &mut self.nodes[at as usize]
    }

    fn compare(&self, one: u32, two: u32) -> Ordering {
        (self.node(one).first, one).cmp(&(self.node(two).first, two))
    }

    /// Adds a node below `at`, and returns the node that stands there then.
    fn link(&mut self, at: u32, new: u32) -> u32 {
        if at == NONE {
            return new;
        }
        if self.compare(new, at) == Ordering::Less {
            let left = self.link(self.node(at).left, new);
            self.node_mut(at).left = left;
        } else {
            let right = self.link(self.node(at).right, new);
            self.node_mut(at).right = right;
        }
        self.balanced(at)
    }

    /// Takes a node out that is `at`, or below it, and returns the node that stands there then.
    fn unlink(&mut self, at: u32, old: u32) -> u32 {
        let &Node { left, right, .. } = self.node(at);
        match self.compare(old, at) {
            Ordering::Less => {
                let left = self.unlink(left, old);
                self.node_mut(at).left = left;
                self.balanced(at)
            }
            Ordering::Greater => {
                let right = self.unlink(right, old);
                self.node_mut(at).right = right;
                self.balanced(at)
            }
            Ordering::Equal if left == NONE => right,
            Ordering::Equal if right == NONE => left,
            Ordering::Equal => {
                // The next one in the order takes its place.
                let (rest, next) = self.unlink_first(right);
                let node = self.node_mut(next);
                node.left = left;
                node.right = rest;
                self.balanced(next)
            }
        }
    }

    /// Takes out the first of the nodes at and below `at`; returns the node that stands there then,
    /// and that one.
    fn unlink_first(&mut self, at: u32) -> (u32, u32) {
        let &Node { left, right, .. } = self.node(at);
        if left == NONE {
            return (right, at);
        }
        let (rest, first) = self.unlink_first(left);
        self.node_mut(at).left = rest;
        (self.balanced(at), first)
    }

    /// Restores Invariant 2 where a child has grown or shrunk by one, and returns the node that
    /// stands there then.
    fn balanced(&mut self, at: u32) -> u32 {
        let &Node { left, right, .. } = self.node(at);
        match self.height(left) - self.height(right) {
            2.. => {
                let &Node { left: outer, right: inner, .. } = self.node(left);
                if self.height(inner) > self.height(outer) {
                    let left = self.rotated_left(left);
                    self.node_mut(at).left = left;
                }
                self.rotated_right(at)
            }
            ..=-2 => {
                let &Node { left: inner, right: outer, .. } = self.node(right);
                if self.height(inner) > self.height(outer) {
                    let right = self.rotated_right(right);
                    self.node_mut(at).right = right;
                }
                self.rotated_left(at)
            }
            _ => {
                self.refresh(at);
                at
            }
        }
    }

    fn rotated_left(&mut self, at: u32) -> u32 {
        let top = self.node(at).right;
        self.node_mut(at).right = self.node(top).left;
        self.node_mut(top).left = at;
        self.refresh(at);
        self.refresh(top);
        top
    }

    fn rotated_right(&mut self, at: u32) -> u32 {
        let top = self.node(at).left;
        self.node_mut(at).left = self.node(top).right;
        self.node_mut(top).right = at;
        self.refresh(at);
        self.refresh(top);
        top
    }

    fn height(&self, at: u32) -> i32 {
        if at == NONE { 0 } else { i32::from(self.node(at).height) }
    }

    fn last_max(&self, at: u32) -> u64 {
        if at == NONE { 0 } else { self.node(at).last_max }
    }

    /// Works out what a node knows of those below it.
    fn refresh(&mut self, at: u32) {
        let &Node { left, right, last, .. } = self.node(at);
        let height = 1 + self.height(left).max(self.height(right)) as u8;
        let last_max = last.max(self.last_max(left)).max(self.last_max(right));
        let node = self.node_mut(at);
        node.height = height;
        node.last_max = last_max;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks the invariants of all that is `at` and below, and returns its height, its highest
    /// last key and how many there are.
    fn check(tree: &Tree<(u64, u64)>, at: u32) -> (i32, u64, usize) {
        if at == NONE {
            return (0, 0, 0);
        }
        let node = tree.node(at);
        assert_eq!(node.value, Some((node.first, node.last)));
        let (left, right) = (check(tree, node.left), check(tree, node.right));
        for (child, order) in [(node.left, Ordering::Less), (node.right, Ordering::Greater)] {
            assert!(child == NONE || tree.compare(child, at) == order);
        }
        assert!((left.0 - right.0).abs() <= 1);
        assert_eq!(i32::from(node.height), 1 + left.0.max(right.0));
        assert_eq!(node.last_max, node.last.max(left.1).max(right.1));
        (i32::from(node.height), node.last_max, 1 + left.2 + right.2)
    }

    proptest! {
        /// What is there, and what overlaps, is as in a plain list.
        #[test]
        fn it_is_balanced_and_finds_what_overlaps(
            steps in prop::collection::vec((0..3_u8, 0..40_u64, 0..40_u64), 1..300)
        ) {
            let mut tree = Tree::new();
            let mut list: Vec<(u32, u64, u64)> = Vec::new();
            for (step, one, two) in steps {
                let (first, last) = (one.min(two), one.max(two));
                if step == 0 && !list.is_empty() {
                    let (number, first, last) = list.swap_remove(one as usize % list.len());
                    prop_assert_eq!(tree.remove(number), (first, last, Some((first, last))));
                } else {
                    list.push((tree.insert(first, last, (first, last)), first, last));
                }
                prop_assert_eq!(check(&tree, tree.root).2, list.len());
                let mut found = Vec::new();
                tree.overlapping(first, last, |&mut range| found.push(range));
                let mut expected: Vec<_> = list
                    .iter()
                    .filter(|range| range.1 <= last && first <= range.2)
                    .map(|range| (range.1, range.2))
                    .collect();
                found.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn ascending_ranges_make_no_list_of_it() {
        let mut tree = Tree::new();
        let numbers: Vec<u32> = (0..1024).map(|key| tree.insert(key, key, (key, key))).collect();
        let (height, _, count) = check(&tree, tree.root);
        assert!(height <= 11 && count == 1024, "{height}");
        for number in numbers {
            tree.remove(number);
        }
        assert_eq!((tree.root, tree.nodes.len()), (NONE, 1024));
        tree.insert(7, 7, (7, 7));
        assert_eq!(tree.nodes.len(), 1024);
    }
}
