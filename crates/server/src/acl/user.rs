//! A user, and the login of a connection, which sees each change of its user's rights.
//!
//! A login keeps a copy of the rights and their version, so that a command looks at one number
//! that rarely changes. The rights are replaced before the version, and read after it: a login that
//! sees a version sees its rights, or newer ones.

use super::rights::Rights;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, PoisonError};

/// A user.
pub(crate) struct User {
    pub(crate) name: Box<[u8]>,
    rights: Mutex<Arc<Rights>>,
    version: AtomicU64,
}

impl User {
    pub(crate) fn new(name: &[u8], rights: Rights) -> User {
        User { name: name.into(), rights: Mutex::new(Arc::new(rights)), version: AtomicU64::new(0) }
    }

    pub(crate) fn rights(&self) -> Arc<Rights> {
        Arc::clone(&self.rights.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set(&self, rights: Rights) {
        *self.rights.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(rights);
        // Release: pairs with the load in `Login::rights`.
        self.version.fetch_add(1, Release);
    }

    /// As a line of a file.
    pub(crate) fn line(&self) -> Vec<u8> {
        [b"user ", &*self.name, b" ", &self.rights().line()].concat()
    }
}

/// The user that a connection has logged in as.
pub(crate) struct Login {
    pub(crate) user: Arc<User>,
    version: u64,
    rights: Arc<Rights>,
}

impl Login {
    pub(crate) fn new(user: Arc<User>) -> Login {
        // Acquire: as in `rights`.
        let version = user.version.load(Acquire);
        let rights = user.rights();
        Login { user, version, rights }
    }

    /// Whether these are still the user's rights.
    pub(crate) fn is_current(&self) -> bool {
        // Acquire: as in `rights`.
        self.user.version.load(Acquire) == self.version
    }

    /// What the user may do now.
    #[inline]
    pub(crate) fn rights(&mut self) -> &Rights {
        // The rights of this version are there.
        if !self.is_current() {
            *self = Login::new(Arc::clone(&self.user));
        }
        &self.rights
    }
}
