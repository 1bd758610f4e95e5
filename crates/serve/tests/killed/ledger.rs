//! What a client knows of its own keys: what was acknowledged, and what it has asked for beyond
//! that.
//!
//! A connection's commands are done in their order, each whole. So after a crash the keys are as
//! after all that was acknowledged and the first few, none or all, of those that were under way.
//! That one rule has everything in it: nothing acknowledged is lost, an MSET and an EXEC are there
//! whole or not at all, a counter has counted what it has answered and at most what it was still
//! asked.

use std::collections::{BTreeMap, VecDeque};

pub type Keys = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a client asks for.
#[derive(Clone, Debug)]
pub enum Op {
    Set(Vec<u8>, Vec<u8>),
    Count(Vec<u8>),
    Delete(Vec<u8>),
    SetAll(Vec<(Vec<u8>, Vec<u8>)>),
    /// Between MULTI and EXEC.
    Exec(Vec<Op>),
}

impl Op {
    fn apply(&self, keys: &mut Keys) {
        match self {
            Op::Set(key, value) => drop(keys.insert(key.clone(), value.clone())),
            Op::Count(key) => {
                let count = count(keys.get(key)).expect("only counters are counted") + 1;
                keys.insert(key.clone(), count.to_string().into_bytes());
            }
            Op::Delete(key) => drop(keys.remove(key)),
            Op::SetAll(pairs) => keys.extend(pairs.iter().cloned()),
            Op::Exec(ops) => ops.iter().for_each(|op| op.apply(keys)),
        }
    }
}

/// A counter's value; one that is not there has 0.
pub fn count(value: Option<&Vec<u8>>) -> Option<u64> {
    value.map_or(Some(0), |value| std::str::from_utf8(value).ok()?.parse().ok())
}

/// A client's own keys.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    sure: Keys,
    pending: VecDeque<Op>,
}

impl Ledger {
    /// This has been sent.
    pub fn asked(&mut self, op: Op) {
        self.pending.push_back(op);
    }

    /// The next one of those that were sent was answered.
    pub fn answered(&mut self) {
        self.pending.pop_front().expect("an answer to something").apply(&mut self.sure);
    }

    pub fn sure(&self) -> &Keys {
        &self.sure
    }

    /// Compares what is there after a crash with what may be, and goes on from it.
    ///
    /// # Errors
    /// What is wrong.
    pub fn recover(&mut self, there: &Keys) -> Result<(), String> {
        let mut may_be = self.sure.clone();
        for done in 0..=self.pending.len() {
            if done > 0 {
                self.pending[done - 1].apply(&mut may_be);
            }
            if may_be == *there {
                *self = Ledger { sure: may_be, pending: VecDeque::new() };
                return Ok(());
            }
        }
        let mut text = String::from("as after nothing and as after no part of what was under way:");
        for key in self.sure.keys().chain(there.keys()) {
            let (sure, there) = (self.sure.get(key), there.get(key));
            if sure != there {
                text += &format!("\n  {}: {}, acknowledged {}", show(key), shown(there), shown(sure));
            }
        }
        for op in &self.pending {
            text += &format!("\n  under way: {}", name(op));
        }
        Err(text)
    }
}

fn name(op: &Op) -> String {
    match op {
        Op::Set(key, value) => format!("SET {} {}", show(key), show(value)),
        Op::Count(key) => format!("INCR {}", show(key)),
        Op::Delete(key) => format!("DEL {}", show(key)),
        Op::SetAll(pairs) => pairs
            .iter()
            .fold("MSET".into(), |text, (key, value)| format!("{text} {} {}", show(key), show(value))),
        Op::Exec(ops) => format!("MULTI {} EXEC", ops.iter().map(name).collect::<Vec<_>>().join("; ")),
    }
}

fn shown(value: Option<&Vec<u8>>) -> String {
    value.map_or("nothing".into(), |value| show(value))
}

/// Bytes for people, not too many.
pub fn show(bytes: &[u8]) -> String {
    let rest = if bytes.len() > 40 { format!("… ({} bytes)", bytes.len()) } else { String::new() };
    format!("{}{rest}", bytes[..bytes.len().min(40)].escape_ascii())
}

/// What all clients write together: in one EXEC a number is counted and two keys get the writer's
/// name. The number's answer says who was when.
#[derive(Debug, Default)]
pub struct Common {
    /// The number at the last recovery.
    base: u64,
    acknowledged: BTreeMap<u64, Vec<u8>>,
    /// Names of those that have no answer.
    pending: Vec<Vec<u8>>,
}

impl Common {
    /// Somebody's were answered with these numbers; some had none.
    pub fn add(&mut self, answered: Vec<(u64, Vec<u8>)>, pending: Option<Vec<u8>>) -> Result<(), String> {
        for (number, name) in answered {
            if let Some(other) = self.acknowledged.insert(number, name.clone()) {
                return Err(format!("{} and {} both were number {number}", show(&other), show(&name)));
            }
        }
        self.pending.extend(pending);
        Ok(())
    }

    /// As [`Ledger::recover`].
    pub fn recover(&mut self, number: u64, names: [Option<&Vec<u8>>; 2]) -> Result<(), String> {
        let last = self.acknowledged.keys().next_back().copied().unwrap_or(self.base);
        let least = (self.base + self.acknowledged.len() as u64).max(last);
        let most = self.base + (self.acknowledged.len() + self.pending.len()) as u64;
        if !(least..=most).contains(&number) {
            return Err(format!("all together counted to {number}, and not to {least}, or {most} at most"));
        }
        let [one, other] = names;
        if one != other {
            return Err(format!("half of an EXEC: {} and {}", shown(one), shown(other)));
        }
        let is_right = match (one, self.acknowledged.get(&number)) {
            (Some(name), Some(right)) => name == right,
            (Some(name), None) => number == self.base || self.pending.contains(name),
            (None, _) => number == 0,
        };
        if !is_right {
            return Err(format!("number {number} is {}'s", shown(one)));
        }
        *self = Common { base: number, ..Common::default() };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        text.as_bytes().to_vec()
    }

    fn keys(pairs: &[(&str, &str)]) -> Keys {
        pairs.iter().map(|(key, value)| (bytes(key), bytes(value))).collect()
    }

    fn set(key: &str, value: &str) -> Op {
        Op::Set(bytes(key), bytes(value))
    }

    /// SET a 1, INCR n and SET a 2 are acknowledged, and these are not: an EXEC of SET b 3 and INCR
    /// n; MSET c 4 d 4; DEL a.
    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        for op in [set("a", "1"), Op::Count(bytes("n")), set("a", "2")] {
            ledger.asked(op);
            ledger.answered();
        }
        ledger.asked(Op::Exec(vec![set("b", "3"), Op::Count(bytes("n"))]));
        ledger.asked(Op::SetAll(vec![(bytes("c"), bytes("4")), (bytes("d"), bytes("4"))]));
        ledger.asked(Op::Delete(bytes("a")));
        ledger
    }

    #[test]
    fn each_beginning_of_what_was_under_way_may_be_there() {
        for there in [
            &[("a", "2"), ("n", "1")][..],
            &[("a", "2"), ("b", "3"), ("n", "2")],
            &[("a", "2"), ("b", "3"), ("c", "4"), ("d", "4"), ("n", "2")],
            &[("b", "3"), ("c", "4"), ("d", "4"), ("n", "2")],
        ] {
            let mut ledger = ledger();
            assert_eq!(ledger.recover(&keys(there)), Ok(()));
            assert_eq!(ledger.sure(), &keys(there), "it goes on from there");
            assert!(ledger.pending.is_empty());
        }
    }

    #[test]
    fn a_loss_is_seen() {
        for (what, there) in [
            ("all", &[][..]),
            ("a key", &[("n", "1")]),
            ("a count", &[("a", "2")]),
            ("the last write", &[("a", "1"), ("n", "1")]),
            ("one of an EXEC", &[("a", "2"), ("n", "2")]),
            ("the other of an EXEC", &[("a", "2"), ("b", "3"), ("n", "1")]),
            ("half of an MSET", &[("a", "2"), ("b", "3"), ("c", "4"), ("n", "2")]),
            ("the first of two under way", &[("a", "2"), ("c", "4"), ("d", "4"), ("n", "1")]),
            ("nothing, but one too many counted", &[("a", "2"), ("b", "3"), ("n", "3")]),
            ("nothing, but a key of nobody", &[("a", "2"), ("n", "1"), ("x", "1")]),
            ("nothing, but a deleted key is back", &[("a", "2"), ("b", "3"), ("c", "4"), ("n", "2")]),
        ] {
            assert!(ledger().recover(&keys(there)).is_err(), "{what} was lost");
        }
    }

    /// Counted from 10: 11 and 12 are acknowledged, and two more were asked for.
    fn common() -> Common {
        let mut common = Common { base: 10, ..Common::default() };
        common.add(vec![(12, bytes("k"))], Some(bytes("l"))).unwrap();
        common.add(vec![(11, bytes("i"))], Some(bytes("j"))).unwrap();
        common
    }

    #[test]
    fn common_keys_have_the_name_of_the_last_number() {
        for (number, name, is_right) in [
            (12, Some("k"), true),
            (13, Some("l"), true),
            (13, Some("j"), true),
            (14, Some("j"), true),
            (11, Some("i"), false),
            (12, Some("i"), false),
            (12, None, false),
            (13, Some("k"), false),
            (15, Some("l"), false),
        ] {
            let name = name.map(bytes);
            let told = common().recover(number, [name.as_ref(), name.as_ref()]);
            assert_eq!(told.is_ok(), is_right, "{number} {name:?}: {told:?}");
        }
        let (one, other) = (bytes("k"), bytes("i"));
        assert!(common().recover(12, [Some(&one), Some(&other)]).is_err(), "half of an EXEC");
        assert!(common().recover(12, [Some(&one), None]).is_err(), "half of an EXEC");
        assert!(common().add(vec![(11, bytes("x"))], None).is_err(), "one number twice");
    }
}
