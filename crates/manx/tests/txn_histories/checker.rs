//! What anomalies a history of transactions has.
//!
//! The history becomes a graph, in the terms of Adya ("Weak Consistency", 1999), and of Kingsbury
//! and Alvaro ("Elle: Inferring Isolation Anomalies from Experimental Observations", 2020): one
//! transaction is before another since it wrote the version before (*ww*), wrote what the other
//! read (*wr*), read the version before the other's (*rw*), or was over when the other began
//! (*start*). An anomaly is a cycle, and which edges are in it says which:
//!
//! | anomaly | cycle |
//! | --- | --- |
//! | dirty write (G0) | ww and start edges |
//! | circular information flow (G1c) | wr edges as well |
//! | read skew (G-single) | and one rw edge |
//! | long fork (G-nonadjacent) | and rw edges; no two of them follow each other |
//! | write skew (G2) | any |
//!
//! All versions have values of their own, so a read tells which transaction's version it saw. The
//! order of a key's versions is that of the moments at which they were written, between the write
//! and the end of its transaction: exact, if no transaction writes over another one at work; and if
//! one does, the cycle is there all the same. Elements of lists say it once more: a list that was
//! read has all elements of all versions up to it.
//!
//! Cycles are found as strongly connected components (Tarjan, "Depth-first search and linear graph
//! algorithms", 1972). That no two rw edges follow each other is said by two nodes for each
//! transaction: one entered by an rw edge, which is left by others only. Start edges lead over
//! nodes in between, one for each transaction in the order of their ends, so there are not more
//! than a few for each.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A key.
pub type Key = u32;
/// What a version has that no other has.
pub type Element = u64;

/// What a transaction did.
#[derive(Clone, Debug)]
pub enum Op {
    /// It read a register or a list: all elements; the last one is the version.
    Read(Key, Vec<Element>),
    /// It wrote this version, at this moment; of a list: appended it.
    Write(Key, Element, u64),
}

/// A transaction.
#[derive(Clone, Debug, Default)]
pub struct Txn {
    /// What it did, one after another.
    pub ops: Vec<Op>,
    /// It is so; or else it was rolled back.
    pub committed: bool,
    /// A moment before it began.
    pub begun: u64,
    /// A moment after it was over.
    pub over: u64,
}

/// What should not be, each name with the letter of the literature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Anomaly {
    /// A read saw what no transaction wrote.
    Garbage,
    /// A read did not see the transaction's own write before.
    Forgotten,
    /// G0.
    DirtyWrite,
    /// G1a: a read saw what was rolled back.
    AbortedRead,
    /// G1b: a read saw what its transaction wrote over later.
    IntermediateRead,
    /// G1c.
    Circular,
    /// Two wrote over the same version that both had read.
    LostUpdate,
    /// A list has elements missing, or in another order than they were appended.
    TornList,
    /// G-single.
    ReadSkew,
    /// G-nonadjacent.
    LongFork,
    /// G2.
    WriteSkew,
}

/// The transaction that wrote a version.
#[derive(Clone, Copy)]
struct Writer {
    txn: usize,
    is_last: bool,
}

/// The edges of one kind, as lists of the nodes that come next.
type Edges = Vec<BTreeSet<usize>>;

/// All anomalies in it, each with words about one case.
pub fn anomalies(history: &[Txn], is_list: impl Fn(Key) -> bool) -> BTreeMap<Anomaly, String> {
    let mut found = BTreeMap::new();
    let mut note = |anomaly: Anomaly, txn: usize, what: String| {
        found.entry(anomaly).or_insert_with(|| format!("transaction {txn}: {what}; {:?}", history[txn]));
    };

    let mut writers: HashMap<(Key, Element), Writer> = HashMap::new();
    // Of each key, what was committed: in order, with its transaction.
    let mut chains: HashMap<Key, Vec<(u64, usize, Element)>> = HashMap::new();
    let mut appended: HashMap<Key, Vec<(u64, usize, Element)>> = HashMap::new();
    for (txn, of) in history.iter().enumerate() {
        let mut last = HashMap::new();
        for op in &of.ops {
            if let Op::Write(key, element, at) = *op {
                writers.insert((key, element), Writer { txn, is_last: false });
                last.insert(key, (at, element));
                if of.committed && is_list(key) {
                    appended.entry(key).or_default().push((at, txn, element));
                }
            }
        }
        for (key, (at, element)) in last {
            writers.insert((key, element), Writer { txn, is_last: true });
            if of.committed {
                chains.entry(key).or_default().push((at, txn, element));
            }
        }
    }
    chains.values_mut().chain(appended.values_mut()).for_each(|chain| chain.sort_unstable());
    let place: HashMap<(Key, Element), usize> = chains
        .iter()
        .flat_map(|(&key, chain)| {
            chain.iter().enumerate().map(move |(at, &(.., element))| ((key, element), at))
        })
        .collect();

    let none = || vec![BTreeSet::new(); history.len()];
    let (mut ww, mut wr, mut rw): (Edges, Edges, Edges) = (none(), none(), none());
    for chain in chains.values() {
        for pair in chain.windows(2) {
            ww[pair[0].1].insert(pair[1].1);
        }
    }
    let mut updates: HashMap<(Key, Option<Element>), usize> = HashMap::new();
    for (txn, of) in history.iter().enumerate() {
        let mut own: HashMap<Key, Element> = HashMap::new();
        let mut read: HashMap<Key, Option<Element>> = HashMap::new();
        for op in &of.ops {
            let (key, elements) = match op {
                Op::Read(key, elements) => (*key, elements),
                &Op::Write(key, element, _) => {
                    if own.insert(key, element).is_none()
                        && of.committed
                        && let Some(&before) = read.get(&key)
                        && let Some(other) = updates.insert((key, before), txn)
                    {
                        note(Anomaly::LostUpdate, txn, format!("and {other} updated {before:?} of {key}"));
                    }
                    continue;
                }
            };
            let version = elements.last().copied();
            if let Some(&own) = own.get(&key) {
                if version != Some(own) {
                    note(Anomaly::Forgotten, txn, format!("{key} had {version:?}, and not {own}"));
                }
                continue;
            }
            read.insert(key, version);
            let next = match version {
                None => 0,
                Some(element) => match writers.get(&(key, element)) {
                    None => {
                        note(Anomaly::Garbage, txn, format!("{key} had {element}"));
                        continue;
                    }
                    Some(writer) if !history[writer.txn].committed => {
                        note(Anomaly::AbortedRead, txn, format!("{key} had {element} of {}", writer.txn));
                        continue;
                    }
                    Some(writer) if !writer.is_last => {
                        note(
                            Anomaly::IntermediateRead,
                            txn,
                            format!("{key} had {element} of {}", writer.txn),
                        );
                        continue;
                    }
                    Some(writer) => {
                        if of.committed && writer.txn != txn {
                            wr[writer.txn].insert(txn);
                        }
                        place[&(key, element)] + 1
                    }
                },
            };
            if is_list(key) {
                let all = appended.get(&key).map_or(&[][..], |all| all);
                let same = elements.iter().eq(all.iter().take(elements.len()).map(|(.., element)| element));
                if !same {
                    note(Anomaly::TornList, txn, format!("{key} had {elements:?}, of {all:?}"));
                }
            }
            if of.committed
                && let Some(&(_, later, _)) = chains.get(&key).and_then(|chain| chain.get(next))
                && later != txn
            {
                rw[txn].insert(later);
            }
        }
    }
    cycles(history, &ww, &wr, &rw, &mut note);
    found
}

/// Notes the anomalies that are cycles, each only if it is not one of those before.
fn cycles(
    history: &[Txn],
    ww: &Edges,
    wr: &Edges,
    rw: &Edges,
    note: &mut impl FnMut(Anomaly, usize, String),
) {
    let txns = history.len();
    // Behind the transactions: one node for each end, in their order.
    let mut ends: Vec<usize> = (0..txns).filter(|&txn| history[txn].committed).collect();
    ends.sort_unstable_by_key(|&txn| history[txn].over);
    let mut start = vec![Vec::new(); txns + ends.len()];
    for (at, &txn) in ends.iter().enumerate() {
        start[txn].push(txns + at);
        if at + 1 < ends.len() {
            start[txns + at].push(txns + at + 1);
        }
    }
    for txn in (0..txns).filter(|&txn| history[txn].committed) {
        let before = ends.partition_point(|&other| history[other].over < history[txn].begun);
        if before > 0 {
            start[txns + before - 1].push(txn);
        }
    }
    let with = |kinds: &[&Edges]| {
        let mut graph = start.clone();
        for kind in kinds {
            for (from, to) in kind.iter().enumerate() {
                graph[from].extend(to);
            }
        }
        graph
    };
    let component = |graph: &[Vec<usize>]| components(graph).into_iter().find(|found| found.len() > 1);
    let name = |component: &[usize]| {
        let all: Vec<usize> =
            component.iter().map(|node| node % start.len()).filter(|&node| node < txns).collect();
        let first = all.iter().copied().min().unwrap_or(0);
        (first, format!("a cycle among {:?}", all.into_iter().collect::<BTreeSet<_>>()))
    };
    let mut noted = |anomaly, found: &[usize]| {
        let (first, words) = name(found);
        note(anomaly, first, words);
    };

    if let Some(found) = component(&with(&[ww])) {
        noted(Anomaly::DirtyWrite, &found);
    }
    let flow = with(&[ww, wr]);
    let flow_components = components(&flow);
    if let Some(found) = flow_components.iter().find(|found| found.len() > 1) {
        // It is another one only if a wr edge is needed.
        if component(&with(&[ww])).is_none() {
            noted(Anomaly::Circular, found);
        }
        return;
    }
    let all = with(&[ww, wr, rw]);
    if component(&all).is_none() {
        return;
    }
    // Two nodes each: entered by an rw edge, or not.
    let nodes = start.len();
    let mut twice: Vec<Vec<usize>> = flow.iter().chain(&flow).cloned().collect();
    for (from, to) in rw.iter().enumerate() {
        twice[from].extend(to.iter().map(|&to| to + nodes));
    }
    let fork = component(&twice);
    let single = fork
        .as_ref()
        .and_then(|_| (0..txns).find(|&from| rw[from].iter().any(|&to| reaches(&flow, to, from))));
    match (single, fork) {
        (Some(txn), _) => noted(Anomaly::ReadSkew, &[txn]),
        (None, Some(fork)) => noted(Anomaly::LongFork, &fork),
        (None, None) => noted(Anomaly::WriteSkew, &component(&all).expect("there is one")),
    }
}

fn reaches(graph: &[Vec<usize>], from: usize, to: usize) -> bool {
    let mut seen = vec![false; graph.len()];
    let mut next = vec![from];
    while let Some(node) = next.pop() {
        if node == to {
            return true;
        }
        if !std::mem::replace(&mut seen[node], true) {
            next.extend(&graph[node]);
        }
    }
    false
}

/// The strongly connected components, by Tarjan's algorithm without recursion.
fn components(graph: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const NEW: usize = usize::MAX;
    let mut index = vec![NEW; graph.len()];
    let mut low = vec![0; graph.len()];
    let mut on_stack = vec![false; graph.len()];
    let (mut stack, mut found, mut count) = (Vec::new(), Vec::new(), 0);
    for root in 0..graph.len() {
        let mut path = if index[root] == NEW { vec![(root, 0)] } else { Vec::new() };
        while let Some((node, edge)) = path.last_mut() {
            let (at, edge_at) = (*node, *edge);
            if edge_at == 0 && index[at] == NEW {
                (index[at], low[at]) = (count, count);
                count += 1;
                stack.push(at);
                on_stack[at] = true;
            }
            if let Some(&to) = graph[at].get(edge_at) {
                *edge += 1;
                if index[to] == NEW {
                    path.push((to, 0));
                } else if on_stack[to] {
                    low[at] = low[at].min(index[to]);
                }
                continue;
            }
            path.pop();
            if let Some(&(above, _)) = path.last() {
                low[above] = low[above].min(low[at]);
            }
            if low[at] == index[at] {
                let begin = stack.iter().rposition(|&node| node == at).expect("on the stack");
                let component = stack.split_off(begin);
                component.iter().for_each(|&node| on_stack[node] = false);
                found.push(component);
            }
        }
    }
    found
}
