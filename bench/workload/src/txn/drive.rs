//! A measured process whose store is ours: its functions as the driver in C calls them
//! (`engines/store.c`), which draws, times and accounts as it does for the other engines.
//!
//! Invariants:
//! 1. The driver calls a thread's functions from that thread, with the client that it made there.
//! 2. What a store finds is checked within its transaction: by the driver, through [`Subject`]'s
//!    closures. An error without words is one that the driver has noted.
//! 3. A store that cannot be loaded or looked at ends the process, as it does in the other drivers.

use super::subject::{Checked, Key, Subject, Tried};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

/// What the driver calls. The layout is that of `struct store` in `engines/store.c`.
#[repr(C)]
struct Store {
    engine: *const c_char,
    version: *const c_char,
    subject: *const c_void,
    load: unsafe extern "C" fn(*const c_void, *const Key, *const u8, usize, usize),
    client: unsafe extern "C" fn(*const c_void) -> *mut c_void,
    end: unsafe extern "C" fn(*mut c_void),
    read: unsafe extern "C" fn(*const c_void, *mut c_void, *const c_void, u64, *const Key) -> c_int,
    put: unsafe extern "C" fn(*const c_void, *mut c_void, *const Key, *const u8, usize, bool) -> c_int,
    change: unsafe extern "C" fn(*const c_void, *mut c_void, u64, *const Key, *mut u8, usize) -> c_int,
    scan: unsafe extern "C" fn(*const c_void, *mut c_void, *const c_void, *const Key, usize) -> c_int,
    look: unsafe extern "C" fn(*const c_void, *mut c_void, u64, *const Key, usize),
}

unsafe extern "C" {
    fn store_drive(argc: c_int, argv: *mut *mut c_char, store: *const Store) -> *mut c_char;
    fn store_found(worker: *const c_void, number: u64, value: *const u8, bytes: usize) -> c_int;
    fn store_changed(next: *mut u8, number: u64, value: *const u8, bytes: usize) -> c_int;
    fn store_scanned(worker: *const c_void, key: u64, value: *const u8, bytes: usize) -> c_int;
    fn store_settled(number: u64, value: *const u8, bytes: usize);
    fn store_note(what: *const c_char);
    fn store_fail(what: *const c_char) -> !;
}

/// As `enum tried` in `engines/ycsb.h`.
const DONE: c_int = 0;
const FAILED: c_int = 1;
const CONFLICT: c_int = 2;

/// Runs the workload that the arguments name, and returns the result. A process does it once.
/// What goes wrong ends the process (Invariant 3).
pub fn drive<S: Subject>(subject: &S, arguments: &[String]) -> String {
    let (engine, version) = (words(subject.engine()), words(&subject.version()));
    let store = Store {
        engine: engine.as_ptr(),
        version: version.as_ptr(),
        subject: ptr::from_ref(subject).cast(),
        load: load::<S>,
        client: client::<S>,
        end: end::<S>,
        read: read::<S>,
        put: put::<S>,
        change: change::<S>,
        scan: scan::<S>,
        look: look::<S>,
    };
    let arguments: Vec<CString> =
        ["manx-bench"].into_iter().chain(arguments.iter().map(String::as_str)).map(words).collect();
    let mut pointers: Vec<*mut c_char> =
        arguments.iter().map(|argument| argument.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect();
    // SAFETY: the driver only reads the arguments, which outlive the call as the store does; the
    // text that it returns is ours to free.
    unsafe {
        let text = store_drive(arguments.len() as c_int, pointers.as_mut_ptr(), &store);
        let result = CStr::from_ptr(text).to_string_lossy().trim_end().to_owned();
        libc::free(text.cast());
        result
    }
}

/// As C has it.
fn words(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).expect("what would end it was replaced")
}

/// Invariant 3.
fn fail(why: &str) -> ! {
    // SAFETY: the text is read before the process ends.
    unsafe { store_fail(words(why).as_ptr()) }
}

/// The code of a transaction's outcome for the driver; a failure is noted.
fn code(tried: Tried) -> c_int {
    match tried {
        Tried::Done => DONE,
        Tried::Conflict => CONFLICT,
        Tried::Failed(why) => {
            if !why.is_empty() {
                // SAFETY: the driver copies the text.
                unsafe { store_note(words(&why).as_ptr()) };
            }
            FAILED
        }
    }
}

/// What a check says (Invariant 2).
fn checked(outcome: c_int) -> Checked {
    if outcome == DONE { Ok(()) } else { Err(String::new()) }
}

/// A value as the driver takes it: null for one that is not there.
fn parts(value: Option<&[u8]>) -> (*const u8, usize) {
    value.map_or((ptr::null(), 0), |value| (value.as_ptr(), value.len()))
}

/// # Safety
/// The pointers are a store's own (Invariant 1).
unsafe fn both<'a, S: Subject>(
    subject: *const c_void,
    client: *mut c_void,
) -> (&'a S, &'a mut S::Client<'a>) {
    // SAFETY: `drive` gave the driver the one, `client` the other, which no other thread has.
    unsafe { (&*subject.cast::<S>(), &mut *client.cast()) }
}

unsafe extern "C" fn load<S: Subject>(
    subject: *const c_void,
    keys: *const Key,
    values: *const u8,
    count: usize,
    bytes: usize,
) {
    // SAFETY: `count` keys, and as many values of `bytes` bytes; the store is `drive`'s.
    let (subject, keys, values) = unsafe {
        let values = std::slice::from_raw_parts(values, count * bytes);
        (&*subject.cast::<S>(), std::slice::from_raw_parts(keys, count), values)
    };
    let records: Vec<_> =
        keys.iter().zip(values.chunks(bytes)).map(|(key, value)| (*key, value.to_vec())).collect();
    subject.load(&records).unwrap_or_else(|why| fail(&why));
}

unsafe extern "C" fn client<S: Subject>(subject: *const c_void) -> *mut c_void {
    // SAFETY: the store is `drive`'s.
    let subject = unsafe { &*subject.cast::<S>() };
    Box::into_raw(Box::new(subject.client().unwrap_or_else(|why| fail(&why)))).cast()
}

unsafe extern "C" fn end<S: Subject>(client: *mut c_void) {
    // SAFETY: `client` made it, and the driver has done with it.
    drop(unsafe { Box::from_raw(client.cast::<S::Client<'_>>()) });
}

unsafe extern "C" fn read<S: Subject>(
    subject: *const c_void,
    client: *mut c_void,
    worker: *const c_void,
    number: u64,
    key: *const Key,
) -> c_int {
    // SAFETY: Invariant 1; the driver's key.
    let ((subject, client), key) = unsafe { (both::<S>(subject, client), &*key) };
    code(subject.read(client, key, |value| {
        let (value, bytes) = parts(value);
        // SAFETY: the worker is the calling thread's, and the value is there until the call is
        // over.
        checked(unsafe { store_found(worker, number, value, bytes) })
    }))
}

unsafe extern "C" fn put<S: Subject>(
    subject: *const c_void,
    client: *mut c_void,
    key: *const Key,
    value: *const u8,
    bytes: usize,
    fresh: bool,
) -> c_int {
    // SAFETY: Invariant 1; the driver's key and value.
    let ((subject, client), key, value) =
        unsafe { (both::<S>(subject, client), &*key, std::slice::from_raw_parts(value, bytes)) };
    code(if fresh { subject.insert(client, key, value) } else { subject.put(client, key, value) })
}

unsafe extern "C" fn change<S: Subject>(
    subject: *const c_void,
    client: *mut c_void,
    number: u64,
    key: *const Key,
    value: *mut u8,
    bytes: usize,
) -> c_int {
    // SAFETY: as in `put`; the value is the calling thread's room for it.
    let ((subject, client), key, room) =
        unsafe { (both::<S>(subject, client), &*key, std::slice::from_raw_parts_mut(value, bytes)) };
    code(subject.change(client, key, room, |value, next| {
        let (value, bytes) = parts(value);
        // SAFETY: the room is for a value of the size that the driver compares this one's with.
        checked(unsafe { store_changed(next.as_mut_ptr(), number, value, bytes) })
    }))
}

unsafe extern "C" fn scan<S: Subject>(
    subject: *const c_void,
    client: *mut c_void,
    worker: *const c_void,
    key: *const Key,
    records: usize,
) -> c_int {
    // SAFETY: as in `read`.
    let ((subject, client), key) = unsafe { (both::<S>(subject, client), &*key) };
    code(subject.scan(client, key, records, |name, value| {
        let name = name.try_into().map_err(|_| "a scan finds what is no key of a record")?;
        // SAFETY: as in `read`.
        checked(unsafe { store_scanned(worker, u64::from_ne_bytes(name), value.as_ptr(), value.len()) })
    }))
}

unsafe extern "C" fn look<S: Subject>(
    subject: *const c_void,
    client: *mut c_void,
    first: u64,
    keys: *const Key,
    count: usize,
) {
    // SAFETY: Invariant 1; the driver's keys.
    let ((subject, client), keys) =
        unsafe { (both::<S>(subject, client), std::slice::from_raw_parts(keys, count)) };
    let values = subject.look(client, keys).unwrap_or_else(|why| fail(&why));
    for (number, value) in (first..).zip(&values) {
        let (value, bytes) = parts(value.as_deref());
        // SAFETY: the value is there until the call is over.
        unsafe { store_settled(number, value, bytes) };
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::engine::Output;
    use crate::range::run::run_apart;
    use crate::txn::arguments::Way;
    use crate::txn::store::Manx;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    /// The workloads of the driver.
    pub(in crate::txn) const WORKLOADS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "change", "put"];

    /// The driver's arguments for a short run.
    pub(in crate::txn) fn arguments(workload: &str, seconds: f64) -> Vec<String> {
        let arguments = format!(
            "--workload={workload} --seconds={seconds} --records=200 --value-bytes=64 --threads=3 --warm-up=0.01"
        );
        arguments.split(' ').map(str::to_owned).collect()
    }

    /// Runs it in a process of its own, for longer and longer until there is a result that is
    /// `enough`: on a busy machine a run may be over before its threads were on a CPU.
    pub(in crate::txn) fn driven<S: Subject>(
        subject: impl Fn() -> S,
        workload: &str,
        enough: impl Fn(&Result<Output, String>) -> bool,
    ) -> Result<Output, String> {
        let mut seconds = 0.05;
        loop {
            let printed = run_apart(true, || Ok(drive(&subject(), &arguments(workload, seconds))));
            let output = printed.map(|printed| Output::parse(&printed).unwrap());
            if enough(&output) || seconds > 60.0 {
                return output;
            }
            seconds *= 1.5;
        }
    }

    #[test]
    fn every_workload_is_done_and_its_result_is_an_engines() {
        for workload in WORKLOADS {
            let done = |output: &Result<Output, String>| output.as_ref().is_ok_and(|o| o.all.count > 0);
            let output = driven(|| Manx::in_memory(Way::Help), workload, done).unwrap();
            let found = (output.errors, output.threads.len(), output.engine.as_str());
            assert_eq!(found, (0, 3, "manx"), "{workload}: {}", output.first_error);
            let writes = matches!(workload, "change" | "put") || workload != "c" && output.all.count > 1000;
            assert!(!writes || output.verified_updates > 0, "{workload}");
        }
    }

    /// A store that keeps what was loaded and inserted, and shows it at the end, and in scans that
    /// descend.
    #[derive(Default)]
    struct Sieve {
        records: Mutex<BTreeMap<Key, Vec<u8>>>,
        descends: bool,
    }

    impl Subject for Sieve {
        type Client<'a> = u32;

        fn version(&self) -> String {
            "sieve".into()
        }

        fn load(&self, records: &[(Key, Vec<u8>)]) -> Result<(), String> {
            self.records.lock().unwrap().extend(records.iter().cloned());
            Ok(())
        }

        fn client(&self) -> Result<u32, String> {
            Ok(0)
        }

        fn read(&self, _client: &mut u32, _key: &Key, found: impl FnOnce(Option<&[u8]>) -> Checked) -> Tried {
            found(None).into()
        }

        fn put(&self, _client: &mut u32, _key: &Key, _value: &[u8]) -> Tried {
            Tried::Done
        }

        fn insert(&self, _client: &mut u32, key: &Key, value: &[u8]) -> Tried {
            self.load(&[(*key, value.to_vec())]).into()
        }

        /// Each second transaction is a conflict.
        fn change(
            &self,
            tries: &mut u32,
            _key: &Key,
            buffer: &mut [u8],
            next: impl FnOnce(Option<&[u8]>, &mut [u8]) -> Checked,
        ) -> Tried {
            *tries += 1;
            if *tries % 2 == 1 { Tried::Conflict } else { next(Some(&[]), buffer).into() }
        }

        fn scan(
            &self,
            _client: &mut u32,
            _key: &Key,
            _records: usize,
            mut each: impl FnMut(&[u8], &[u8]) -> Checked,
        ) -> Tried {
            if !self.descends {
                return each(b"no key", b"").into();
            }
            let records = self.records.lock().unwrap();
            records.iter().rev().try_for_each(|(key, value)| each(key, value)).into()
        }

        fn look(&self, _client: &mut u32, keys: &[Key]) -> Result<Vec<Option<Vec<u8>>>, String> {
            let loaded = self.records.lock().unwrap();
            Ok(keys.iter().map(|key| loaded.get(key).cloned()).collect())
        }
    }

    #[test]
    fn a_record_that_a_store_does_not_keep_is_found() {
        let lost = driven(Sieve::default, "put", Result::is_err);
        assert!(lost.unwrap_err().contains("status"), "the check at the end ends the process");
        for (workload, descends, why) in [
            ("c", false, "the record is gone"),
            ("change", false, "another size"),
            ("e", false, "no key of a record"),
            ("e", true, "do not ascend"),
        ] {
            let sieve = || Sieve { descends, ..Sieve::default() };
            let failed = |output: &Result<Output, String>| output.as_ref().is_ok_and(|o| o.errors > 0);
            let output = driven(sieve, workload, failed).unwrap();
            assert!(output.first_error.contains(why), "{workload}: {}", output.first_error);
            assert_eq!(output.conflicts > 0, workload == "change");
        }
    }
}
