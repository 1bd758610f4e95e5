//! Transfers between accounts, a few accounts for each thread. Transfer `n` depends on the thread
//! and `n` alone, so the number of transfers made tells what all accounts must have.

use fastrand::Rng;
use manx::txn::durable::Durable;
use manx::txn::{Change, Data};

const ACCOUNTS: u64 = 12;
const BALANCE: i64 = 1_000;

/// The accounts of one thread after some transfers.
#[derive(Clone, Debug)]
pub struct Model {
    thread: u64,
    pub transfers: u64,
    balances: Vec<i64>,
    /// One of this number of groups is longer than the log, that is to say this long; some are a
    /// quarter of that.
    filling: (u64, usize),
}

impl Model {
    pub fn new(thread: u64, filling: (u64, usize)) -> Model {
        Model { thread, transfers: 0, balances: vec![BALANCE; ACCOUNTS as usize], filling }
    }

    /// Makes the next transfer here; returns it as a batch.
    pub fn transfer(&mut self) -> Vec<Change> {
        let mut random = Rng::with_seed(self.thread << 40 | self.transfers);
        let (from, to, amount) = (random.u64(..ACCOUNTS), random.u64(..ACCOUNTS), random.u64(..50) as i64);
        self.transfers += 1;
        self.balances[from as usize] -= amount;
        self.balances[to as usize] += amount;
        let put =
            |key: String, value: &[u8]| Change::Put { key: key.into_bytes().into(), value: value.into() };
        let account = |it: u64| put(self.account(it), &self.balances[it as usize].to_le_bytes());
        let mut batch = vec![account(from), account(to), put(self.count(), &self.transfers.to_le_bytes())];
        let (one_of, bytes) = self.filling;
        let bytes = match random.u64(..one_of) {
            0 => bytes,
            number if number < one_of / 6 => bytes / 4,
            _ => return batch,
        };
        // All the same: with what was there before, a part of a record may be a whole one.
        batch.push(put(format!("filling{}", self.thread), &vec![0x5A; bytes]));
        batch
    }

    /// Makes transfers here until it has made as many as the store has.
    pub fn follow(&mut self, store: &Durable) {
        let count = number(store, &self.count()).unwrap_or(0) as u64;
        while self.transfers < count {
            self.transfer();
        }
    }

    /// Goes on to the state that the store has, which must be one between these.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn find(&mut self, store: &Durable, told: u64, begun: u64) -> Result<(), String> {
        let thread = self.thread;
        let count = number(store, &self.count()).unwrap_or(0) as u64;
        if count < told.max(self.transfers) || count > begun {
            return Err(format!("thread {thread}: {count} transfers; {told} acknowledged, {begun} begun"));
        }
        self.follow(store);
        let found = |account| number(store, &self.account(account)).unwrap_or(BALANCE);
        let found: Vec<_> = (0..ACCOUNTS).map(found).collect();
        if found != self.balances {
            let balances = &self.balances;
            return Err(format!(
                "thread {thread}: torn, or not in order, after {count}: {found:?}, not {balances:?}"
            ));
        }
        Ok(())
    }

    fn account(&self, account: u64) -> String {
        format!("account{}/{account:02}", self.thread)
    }

    fn count(&self) -> String {
        format!("count{}", self.thread)
    }
}

fn number(store: &Durable, key: &str) -> Option<i64> {
    let value = store.get(key.as_bytes()).expect("read")?;
    Some(i64::from_le_bytes((&*value).try_into().expect("8 bytes")))
}
