//! Circles of waiters: each waits for the next, and the last for the first.
//!
//! The search is depth first, from the waiter that would close the circle: it comes last, so a
//! circle that there is goes through it. Each member is looked at once.

/// Looks for a circle through `start`. `edges` tells for which members a member waits, and how.
/// Returns the waits of the circle, that of `start` first.
pub(crate) fn circle<N: Copy + PartialEq, L>(
    start: N,
    mut edges: impl FnMut(N) -> Vec<(N, L)>,
) -> Option<Vec<L>> {
    let mut path = Vec::new();
    leads_to(start, start, &mut edges, &mut Vec::new(), &mut path).then_some(path)
}

/// Whether `from` waits, over any number of others, for `goal`; if so `path` has the waits.
fn leads_to<N: Copy + PartialEq, L>(
    from: N,
    goal: N,
    edges: &mut impl FnMut(N) -> Vec<(N, L)>,
    seen: &mut Vec<N>,
    path: &mut Vec<L>,
) -> bool {
    seen.push(from);
    for (next, link) in edges(from) {
        path.push(link);
        if next == goal || !seen.contains(&next) && leads_to(next, goal, edges, seen, path) {
            return true;
        }
        path.pop();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_waits_of_the_circle_are_returned_and_no_others() {
        // 0 waits for 1 and 2, 1 for 3, which waits for none, 2 for 1 and 4, and 4 for 0.
        let waits = [&[1, 2][..], &[3], &[1, 4], &[], &[0]];
        let mut looked_at = Vec::new();
        let edges = |from: usize| {
            looked_at.push(from);
            waits[from].iter().map(|&to| (to, (from, to))).collect()
        };
        assert_eq!(circle(0, edges), Some(vec![(0, 2), (2, 4), (4, 0)]));
        assert_eq!(looked_at, [0, 1, 3, 2, 4]);
        assert_eq!(circle(1, |from| waits[from].iter().map(|&to| (to, ())).collect()), None);
    }
}
