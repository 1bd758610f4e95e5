//! A server that speaks the protocol of Redis as something that is measured: `manx serve` and
//! redis-server by the same commands, a connection for each thread.
//!
//! | operation | commands, those sent together on one line |
//! | --- | --- |
//! | read | `GET` |
//! | update | `SET` |
//! | insert | `MULTI`, `SET`, `ZADD` to the index, `EXEC` |
//! | change | `WATCH`, `GET`; |
//! | | `MULTI`, `SET`, `EXEC`: a nil answer is a conflict |
//! | scan | `ZRANGEBYLEX` of the index; |
//! | | `MGET` |
//!
//! 1. The index is a sorted set of all keys, each with the score 0, since Redis has no order among
//!    keys. YCSB's own binding for Redis keeps one too.
//! 2. Keys of records have eight bytes, and no other key has as many.

use super::resp::Connection;
use super::subject::{Checked, Key, Subject, Tried};
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// The sorted set of all keys.
const INDEX: &[u8] = b"idx";

/// A server.
#[derive(Debug)]
pub struct Remote {
    port: u16,
    version: String,
    /// By which records are loaded
    loading: Mutex<Connection>,
}

/// A thread's connection.
#[derive(Debug)]
pub struct Link {
    connection: Connection,
    /// Of the latest scan
    keys: Vec<[u8; 8]>,
}

impl Remote {
    /// Connects to the server that listens at this port.
    ///
    /// # Errors
    /// There is none, or it does not say what it is.
    pub fn connect(port: u16) -> Result<Remote, String> {
        let mut connection = Connection::open(port)?;
        connection.ask(&[b"INFO", b"server"])?;
        connection.send()?;
        let info = String::from_utf8_lossy(connection.bulk()?.unwrap_or_default()).into_owned();
        let of = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        // Manx also says which Redis it is like.
        let version = of("manx_version").map(|version| format!("manx serve {version}"));
        let version = version.or_else(|| Some(format!("redis-server {}", of("redis_version")?)));
        let version =
            version.ok_or_else(|| format!("the server at port {port} does not tell its version"))?;
        Ok(Remote { port, version, loading: Mutex::new(connection) })
    }
}

/// Ends a transaction for which `MULTI` and `commands` commands were asked. The first of these puts
/// a value, and `more` takes the answers of the others.
fn executed(
    connection: &mut Connection,
    commands: usize,
    more: impl FnOnce(&mut Connection) -> Result<(), String>,
) -> Result<Tried, String> {
    connection.ask(&[b"EXEC"])?;
    connection.send()?;
    connection.simple("OK")?;
    (0..commands).try_for_each(|_| connection.simple("QUEUED"))?;
    match connection.array()? {
        None => Ok(Tried::Conflict),
        Some(answers) if answers == commands => {
            connection.simple("OK")?;
            more(connection).map(|()| Tried::Done)
        }
        Some(answers) => Err(format!("a transaction of {commands} commands has {answers} answers")),
    }
}

fn tried(result: Result<Tried, String>) -> Tried {
    result.unwrap_or_else(Tried::Failed)
}

impl Subject for Remote {
    type Client<'a> = Link;

    fn engine(&self) -> &'static str {
        "server"
    }

    fn version(&self) -> String {
        self.version.clone()
    }

    fn load(&self, records: &[(Key, Vec<u8>)]) -> Result<(), String> {
        // What a panic left is of no use; that it was one is known.
        let connection = &mut *self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, value) in records {
            connection.ask(&[b"SET", key, value])?;
        }
        connection.begin(2 + 2 * records.len());
        connection.word(b"ZADD")?;
        connection.word(INDEX)?;
        for (key, _) in records {
            connection.word(b"0")?;
            connection.word(key)?;
        }
        connection.send()?;
        records.iter().try_for_each(|_| connection.simple("OK"))?;
        match connection.integer()? {
            added if added == records.len() as i64 => Ok(()),
            added => Err(format!("{added} of {} keys were new to the index", records.len())),
        }
    }

    fn client(&self) -> Result<Link, String> {
        Ok(Link { connection: Connection::open(self.port)?, keys: Vec::new() })
    }

    fn read(
        &self,
        Link { connection, .. }: &mut Link,
        key: &Key,
        found: impl FnOnce(Option<&[u8]>) -> Checked,
    ) -> Tried {
        let read = || {
            connection.ask(&[b"GET", key])?;
            connection.send()?;
            found(connection.bulk()?)
        };
        read().into()
    }

    fn put(&self, Link { connection, .. }: &mut Link, key: &Key, value: &[u8]) -> Tried {
        let mut put = || {
            connection.ask(&[b"SET", key, value])?;
            connection.send()?;
            connection.simple("OK")
        };
        put().into()
    }

    fn insert(&self, Link { connection, .. }: &mut Link, key: &Key, value: &[u8]) -> Tried {
        let mut insert = || {
            connection.ask(&[b"MULTI"])?;
            connection.ask(&[b"SET", key, value])?;
            connection.ask(&[b"ZADD", INDEX, b"0", key])?;
            executed(connection, 2, |connection| match connection.integer()? {
                1 => Ok(()),
                added => Err(format!("{added} of 1 keys were new to the index")),
            })
        };
        tried(insert())
    }

    fn change(
        &self,
        Link { connection, .. }: &mut Link,
        key: &Key,
        buffer: &mut [u8],
        next: impl FnOnce(Option<&[u8]>, &mut [u8]) -> Checked,
    ) -> Tried {
        let change = || {
            connection.ask(&[b"WATCH", key])?;
            connection.ask(&[b"GET", key])?;
            connection.send()?;
            connection.simple("OK")?;
            next(connection.bulk()?, buffer)?;
            connection.ask(&[b"MULTI"])?;
            connection.ask(&[b"SET", key, buffer])?;
            executed(connection, 1, |_| Ok(()))
        };
        tried(change())
    }

    fn scan(
        &self,
        Link { connection, keys }: &mut Link,
        key: &Key,
        records: usize,
        mut each: impl FnMut(&[u8], &[u8]) -> Checked,
    ) -> Tried {
        let mut from = [b'['; 9];
        from[1..].copy_from_slice(key);
        let mut digits = [0; 20];
        let mut scan = || {
            connection.ask(&[
                b"ZRANGEBYLEX",
                INDEX,
                &from,
                b"+",
                b"LIMIT",
                b"0",
                decimal(records, &mut digits),
            ])?;
            connection.send()?;
            keys.clear();
            for _ in 0..connection.array()?.unwrap_or(0) {
                let name = connection.bulk()?.unwrap_or_default();
                keys.push(name.try_into().map_err(|_| "the index holds what is no key of a record")?);
            }
            if keys.is_empty() {
                return Ok(());
            }
            get_many(connection, keys, |key, value| {
                each(key, value.ok_or("the index holds a key without a value")?)
            })
        };
        scan().into()
    }

    fn look(&self, Link { connection, .. }: &mut Link, keys: &[Key]) -> Result<Vec<Option<Vec<u8>>>, String> {
        let mut found = Vec::with_capacity(keys.len());
        get_many(connection, keys, |_, value| {
            found.push(value.map(<[u8]>::to_vec));
            Ok(())
        })?;
        Ok(found)
    }
}

/// Sends one MGET, and calls `each` with each key and its value; `None`: there is no such key.
fn get_many(
    connection: &mut Connection,
    keys: &[Key],
    mut each: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), String>,
) -> Result<(), String> {
    connection.begin(1 + keys.len());
    connection.word(b"MGET")?;
    keys.iter().try_for_each(|key| connection.word(key))?;
    connection.send()?;
    match connection.array()? {
        Some(values) if values == keys.len() => {}
        other => return Err(format!("{} keys have {other:?} values", keys.len())),
    }
    keys.iter().try_for_each(|key| each(key, connection.bulk()?))
}

/// A number in digits, without allocation.
fn decimal(number: usize, digits: &mut [u8; 20]) -> &[u8] {
    let mut rest = &mut digits[..];
    write!(rest, "{number}").expect("no number has more digits");
    let left = rest.len();
    &digits[..20 - left]
}

#[cfg(test)]
mod tests;
