//! The real WiredTiger, by a shared object that was compiled for its library
//! (`bench/engines/wiredtiger_shim.c`).
//!
//! Invariants:
//! 1. `Calls` has the layout of the shim's table: the shim says which one it has, and another is
//!    refused.
//! 2. A `Connection` is open until its last session has ended. Its shared object is never
//!    unloaded.
//! 3. A session is used by one thread at a time: its functions take it by a mutable reference.
//! 4. What the engine shows of its memory is used before the next call.

use super::{Decide, Engine, Failed, SESSIONS_MAX, See, Session, Write};
use libloading::Library;
use std::error::Error as _;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// The layout of the table that this file knows.
const ABI: usize = 1;
const TABLE: &[u8] = b"manx_wiredtiger\0";

/// As mongod opens the engine: with a log that commits do not wait for, and a checkpoint a minute.
const CONFIG: &str = "create,log=(enabled=true),checkpoint=(wait=60,log_size=2GB),\
                      eviction=(threads_min=4,threads_max=4),statistics=(fast)";
/// As mongod makes a collection, but without compression, for which a library may lack the means.
const FORMAT: &CStr = c"key_format=u,value_format=u,memory_page_max=10m,split_pct=90,leaf_value_max=64MB";

#[repr(C)]
struct Bytes {
    data: *const u8,
    size: usize,
}

/// A function of the shim that takes the connection or the session alone.
type Call = unsafe extern "C" fn(*mut c_void) -> c_int;

/// The shim's table; what each function does stands there.
#[repr(C)]
struct Calls {
    abi: usize,
    not_found: c_int,
    rolled_back: c_int,
    version: unsafe extern "C" fn() -> *const c_char,
    words: unsafe extern "C" fn(c_int) -> *const c_char,
    open_connection:
        unsafe extern "C" fn(*const c_char, *const c_char, *const c_char, *mut *mut c_void) -> c_int,
    close_connection: Call,
    open_session: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int,
    close_session: Call,
    begin: Call,
    commit: Call,
    rollback: Call,
    search: unsafe extern "C" fn(*mut c_void, Bytes, *mut Bytes) -> c_int,
    put: unsafe extern "C" fn(*mut c_void, Bytes, Bytes) -> c_int,
    take: unsafe extern "C" fn(*mut c_void, Bytes) -> c_int,
    seek: unsafe extern "C" fn(*mut c_void, Bytes) -> c_int,
    next: Call,
    entry: unsafe extern "C" fn(*mut c_void, *mut Bytes, *mut Bytes) -> c_int,
    reset: Call,
    flush: Call,
}

impl Bytes {
    const NONE: Bytes = Bytes { data: null(), size: 0 };

    fn of(bytes: &[u8]) -> Bytes {
        Bytes { data: bytes.as_ptr(), size: bytes.len() }
    }

    /// # Safety
    /// The engine has just filled it in, and Invariant 4 holds for what comes back.
    unsafe fn shown<'a>(&self) -> &'a [u8] {
        if self.size == 0 {
            return &[];
        }
        // SAFETY: the engine's memory, by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.data, self.size) }
    }
}

impl Calls {
    /// The outcome of a call.
    fn check(&self, error: c_int) -> Result<(), Failed> {
        match error {
            0 => Ok(()),
            error if error == self.rolled_back => Err(Failed::Conflict),
            error => {
                // SAFETY: it returns text that lasts, for any number.
                let words = unsafe { CStr::from_ptr((self.words)(error)) };
                Err(Failed::Engine(words.to_string_lossy().into_owned()))
            }
        }
    }
}

/// A database that is open.
struct Connection {
    calls: &'static Calls,
    connection: *mut c_void,
}

// SAFETY: WiredTiger's connections are for all threads.
unsafe impl Send for Connection {}
// SAFETY: as above.
unsafe impl Sync for Connection {}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: by Invariant 2 no session is left.
        let closed = self.calls.check(unsafe { (self.calls.close_connection)(self.connection) });
        if let Err(failed) = closed {
            eprintln!("manx: the database was not closed: {failed}");
        }
    }
}

/// WiredTiger with one table.
pub struct WiredTiger(Arc<Connection>);

impl fmt::Debug for WiredTiger {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.version())
    }
}

impl WiredTiger {
    /// Loads the shim, and opens the database in a folder, or makes one there.
    ///
    /// # Errors
    /// The shim's, or the folder's, in words.
    pub fn open(shim: &Path, folder: &Path, cache_mb: u32) -> Result<WiredTiger, String> {
        // The loader would look for a name without a slash elsewhere.
        let file = std::path::absolute(shim).map_err(|error| error.to_string())?;
        // SAFETY: its initialisers are WiredTiger's, which each program that is linked with it
        // runs.
        let library = unsafe { Library::new(&file) }.map_err(|error| {
            // The loader's own words are the source; they name the file.
            error.source().map_or_else(|| error.to_string(), ToString::to_string)
        })?;
        // SAFETY: a pointer to whatever has this name; its layout is checked below.
        let table: *const Calls = *unsafe { library.get::<*const Calls>(TABLE) }
            .map_err(|_| format!("{}: it is no shim", shim.display()))?;
        // SAFETY: each layout of the table begins with its number.
        let abi = unsafe { table.cast::<usize>().read() };
        if abi != ABI {
            return Err(format!("{}: a shim of layout {abi} in place of {ABI}", shim.display()));
        }
        // Invariant 2.
        std::mem::forget(library);
        // SAFETY: by Invariants 1 and 2.
        let calls: &'static Calls = unsafe { &*table };
        let text = |bytes: &[u8]| CString::new(bytes).map_err(|error| error.to_string());
        let home = text(folder.as_os_str().as_bytes())?;
        let config = text(format!("{CONFIG},cache_size={cache_mb}MB,session_max={SESSIONS_MAX}").as_bytes())?;
        let mut connection = null_mut();
        // SAFETY: three texts with an end, and a place for the result.
        let error = unsafe {
            (calls.open_connection)(home.as_ptr(), config.as_ptr(), FORMAT.as_ptr(), &raw mut connection)
        };
        calls.check(error).map_err(|failed| format!("{}: {failed}", folder.display()))?;
        Ok(WiredTiger(Arc::new(Connection { calls, connection })))
    }
}

impl Engine for WiredTiger {
    fn version(&self) -> String {
        // SAFETY: it returns text that lasts.
        let version = unsafe { CStr::from_ptr((self.0.calls.version)()) }.to_string_lossy();
        // The library says "WiredTiger 3.2.1: (October 17, 2019)".
        version.split(':').next().unwrap_or_default().to_owned()
    }

    fn session(&self) -> Result<Box<dyn Session>, Failed> {
        let (calls, mut session) = (self.0.calls, null_mut());
        // SAFETY: the connection is open, and there is a place for the result.
        calls.check(unsafe { (calls.open_session)(self.0.connection, &raw mut session) })?;
        Ok(Box::new(WiredTigerSession { calls, session, _connection: Arc::clone(&self.0) }))
    }
}

struct WiredTigerSession {
    calls: &'static Calls,
    session: *mut c_void,
    /// Invariant 2.
    _connection: Arc<Connection>,
}

// SAFETY: WiredTiger's sessions may move between threads; Invariant 3.
unsafe impl Send for WiredTigerSession {}

impl WiredTigerSession {
    fn call(&mut self, function: Call) -> Result<(), Failed> {
        // SAFETY: the session is open, and Invariant 3.
        self.calls.check(unsafe { function(self.session) })
    }

    /// Runs `work` as a transaction.
    fn within(
        &mut self,
        work: impl FnOnce(&mut WiredTigerSession) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        let calls = self.calls;
        self.call(calls.begin)?;
        let done = work(self);
        let reset = self.call(calls.reset);
        match done.and(reset) {
            Ok(()) => self.call(calls.commit),
            Err(failed) => {
                // The first error is the one that tells.
                let _ = self.call(calls.rollback);
                Err(failed)
            }
        }
    }

    /// True if there was an entry.
    fn found(&self, error: c_int) -> Result<bool, Failed> {
        if error == self.calls.not_found { Ok(false) } else { self.calls.check(error).map(|()| true) }
    }
}

impl Session for WiredTigerSession {
    fn transact(&mut self, key: &[u8], decide: Decide<'_>) -> Result<(), Failed> {
        self.within(|it| {
            let (calls, session, mut value) = (it.calls, it.session, Bytes::NONE);
            // SAFETY: Invariant 3, here and below.
            let found = it.found(unsafe { (calls.search)(session, Bytes::of(key), &raw mut value) })?;
            // SAFETY: it was found; Invariant 4: `decide` makes no call.
            match decide(found.then(|| unsafe { value.shown() })) {
                Write::Nothing => Ok(()),
                Write::Put(value) => {
                    // SAFETY: as above.
                    calls.check(unsafe { (calls.put)(session, Bytes::of(key), Bytes::of(&value)) })
                }
                // SAFETY: as above.
                Write::Delete => it.found(unsafe { (calls.take)(session, Bytes::of(key)) }).map(drop),
            }
        })
    }

    fn scan(&mut self, from: &[u8], to: &[u8], see: See<'_>) -> Result<(), Failed> {
        self.within(|it| {
            let (calls, session) = (it.calls, it.session);
            // SAFETY: Invariant 3, here and below.
            let mut is_there = it.found(unsafe { (calls.seek)(session, Bytes::of(from)) })?;
            while is_there {
                let (mut key, mut value) = (Bytes::NONE, Bytes::NONE);
                // SAFETY: the cursor stands on an entry.
                calls.check(unsafe { (calls.entry)(session, &raw mut key, &raw mut value) })?;
                // SAFETY: both were filled in; Invariant 4: `see` makes no call.
                let (key, value) = unsafe { (key.shown(), value.shown()) };
                if key >= to || see(key, value).is_break() {
                    break;
                }
                // SAFETY: as above.
                is_there = it.found(unsafe { (calls.next)(session) })?;
            }
            Ok(())
        })
    }

    fn flush(&mut self) -> Result<(), Failed> {
        self.call(self.calls.flush)
    }
}

impl Drop for WiredTigerSession {
    fn drop(&mut self) {
        // Without a transaction it can be closed, and there is nobody to tell if not.
        let _ = self.call(self.calls.close_session);
    }
}
