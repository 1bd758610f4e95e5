//! Access lists: users, and what each of them may do, in Redis's own form.
//!
//! | file | what |
//! | --- | --- |
//! | `catalogue.rs` | the names of all commands, and the categories that they are in |
//! | `rights.rs` | what a user may do, and the rules that say so |
//! | `user.rs` | a user, and the connections that have logged in as one |
//! | `file.rs` | users in a file |
//! | `log.rs` | what was refused |
//!
//! Every connection has a user: first the one that is called `default`, which is always there. A
//! change of a user's rights is seen by the next command of each of its connections.
//!
//! Invariants:
//! 1. The users in the map are those that can log in; the user `default` is one of them.
//! 2. A user that is removed has no rights any more before it leaves the map. So a connection that
//!    logs in at the same moment can do nothing.

mod catalogue;
mod file;
mod log;
mod rights;
mod user;

pub(crate) use catalogue::{CATEGORIES, Catalogue, Categories, Entry};
pub(crate) use log::{Log, Reason};
#[cfg(test)]
pub(crate) use rights::COMMANDS_MAX;
pub(crate) use rights::{Access, Rights, hex, is_word};
pub(crate) use user::{Login, User};

use crate::password::{Password, digest};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The user that each connection begins as.
pub(crate) const DEFAULT: &[u8] = b"default";

type Users = BTreeMap<Box<[u8]>, Arc<User>>;

/// All users.
pub(crate) struct Acl {
    users: Mutex<Users>,
    default: Arc<User>,
    /// What the user `default` may do where no file says otherwise.
    initial: Rights,
    file: Option<PathBuf>,
    pub(crate) log: Log,
}

impl Acl {
    /// With the user `default` alone, which has all rights, and this password or needs none. Others
    /// are in the file, once it is [loaded](Acl::load).
    pub(crate) fn new(password: Option<&Password>, file: Option<PathBuf>) -> Acl {
        let initial = Rights::all(password.map(|password| password.0));
        let default = Arc::new(User::new(DEFAULT, initial.clone()));
        let users = Users::from([(DEFAULT.into(), Arc::clone(&default))]);
        Acl { users: Mutex::new(users), default, initial, file, log: Log::default() }
    }

    fn users(&self) -> MutexGuard<'_, Users> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn default_user(&self) -> &Arc<User> {
        &self.default
    }

    /// Whether a new connection may use the user `default` without logging in.
    pub(crate) fn is_open(&self) -> bool {
        let rights = self.default.rights();
        rights.is_on && rights.needs_no_password
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<Arc<User>> {
        self.users().get(name).cloned()
    }

    /// All of them, in the order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<User>> {
        self.users().values().cloned().collect()
    }

    /// The user of this name, if it may log in with this password.
    pub(crate) fn log_in(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        // The same work whether or not there is such a user.
        let said = digest(password);
        self.get(name).filter(|user| user.rights().admits(&said))
    }

    /// Changes a user by some rules, or makes one: by all rules or, if one of them is wrong, by
    /// none.
    ///
    /// # Errors
    /// The rule that is wrong, and why.
    pub(crate) fn set<'r>(
        &self,
        name: &[u8],
        rules: impl Iterator<Item = &'r [u8]>,
        catalogue: &Catalogue,
    ) -> Result<(), (&'r [u8], &'static str)> {
        let mut users = self.users();
        let mut rights = users.get(name).map_or_else(Rights::default, |user| (*user.rights()).clone());
        for rule in rules {
            rights.apply(rule, catalogue).map_err(|why| (rule, why))?;
        }
        match users.get(name) {
            Some(user) => user.set(rights),
            None => drop(users.insert(name.into(), Arc::new(User::new(name, rights)))),
        }
        Ok(())
    }

    /// Removes a user other than `default`; returns it, if it was there.
    pub(crate) fn remove(&self, name: &[u8]) -> Option<Arc<User>> {
        let mut users = self.users();
        // Invariant 2.
        users.get(name)?.set(Rights::default());
        users.remove(name)
    }

    /// Whether there is a file.
    pub(crate) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Replaces all users by those of the file, if there is one. Returns the users that were
    /// removed or changed: their connections are to be closed. Without an entry of its own the user
    /// `default` is as at the start.
    ///
    /// # Errors
    /// What is wrong with the file; then nothing was changed.
    pub(crate) fn load(&self, catalogue: &Catalogue) -> Result<Vec<Arc<User>>, String> {
        let Some(path) = &self.file else { return Ok(Vec::new()) };
        let mut read = file::read(path, catalogue)?;
        let mut users = self.users();
        let mut changed = Vec::new();
        for (name, user) in &*users {
            if !read.contains_key(name) && **name != *DEFAULT {
                // Invariant 2.
                user.set(Rights::default());
                changed.push(Arc::clone(user));
            }
        }
        self.default.set(read.remove(DEFAULT).unwrap_or_else(|| self.initial.clone()));
        users.retain(|name, _| read.contains_key(name) || **name == *DEFAULT);
        for (name, rights) in read {
            match users.get(&name) {
                Some(user) if *user.rights() == rights => {}
                Some(user) => {
                    user.set(rights);
                    changed.push(Arc::clone(user));
                }
                None => {
                    let user = Arc::new(User::new(&name, rights));
                    users.insert(name, user);
                }
            }
        }
        Ok(changed)
    }

    /// Replaces the file, if there is one, by one that has all users.
    ///
    /// # Errors
    /// The system's, in words.
    pub(crate) fn save(&self) -> Result<(), String> {
        let Some(path) = &self.file else { return Ok(()) };
        // Held, so that an older state does not replace a newer one.
        let users = self.users();
        let lines: Vec<_> = users.values().map(|user| user.line()).collect();
        file::write(path, &lines).map_err(|error| format!("{}: {error}", path.display()))
    }
}
