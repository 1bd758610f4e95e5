//! What the code does at the addresses where threads were seen: its function and file, and whether
//! it waits.
//!
//! Samples are addresses. `modules.rs` finds the file of an address, and `loops.rs` searches that
//! file for loops that wait, but only near these addresses. `blazesym` names the function. A
//! function by which threads poll or yield (`sched_yield`) counts as a wait because of its name.
//!
//! The stack of a thread that waits for a lock tells which function called the lock. Unwinding
//! needs tables and registers. Here it is enough to look for the first word of the stack that is a
//! return address: it points into code, right behind a call. A word that an earlier call left
//! behind may look the same, so the most frequent answer of several waiters counts.
//!
//! A thread that polls is mostly seen in functions that the polling function calls. Such a sample
//! counts for the polling function if a word at the top of its stack returns to it. The same holds
//! for what a loop around a PAUSE calls in every round, but there only the first two return
//! addresses count: the loop's function may call its work, too.

use super::faults::FaultSite;
use super::loops::{WaitingCode, wait_at, waits_around, waits_near};
use super::modules::{Mapping, Modules};
use super::sampler::Seen;
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolizer};
use elf_loops::Code;
use serde::Serialize;
use spinloop::is_polling;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

/// Larger files are not read.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// At how many addresses of a file the code is searched; those with the most samples come first.
const ADDRESSES_MAX: usize = 2000;
/// Beginnings or parts of the names of functions that take a lock. These functions are skipped: the
/// function that called them is reported.
const OF_LOCKS: [&str; 8] =
    ["pthread_", "__pthread_", "__lll_", "lll_", "std::sys", "lock_contended", "__GI_", "__futex"];

/// A function in which threads were seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Place {
    /// The file's name
    pub module: String,
    /// The function, or the address in the file
    pub function: String,
    /// How the wait ends, in words, if the code there waits
    pub waits: Option<&'static str>,
    /// How often threads were seen there
    pub samples: u32,
    /// The threads, and how often each was seen there
    pub threads: BTreeMap<u32, u32>,
}

/// How many return addresses of a sample may belong to a loop around a PAUSE.
const CALLERS_OF_LOOP: usize = 2;

/// Number of return addresses of a sample, beside its own function, that are looked at for a
/// function in which threads wait and have page faults: the lock's function, and memset, are called
/// from there.
const CALLERS_OF_SITE: usize = 2;

/// Module, function, and how its wait ends if it waits.
type Fact = (String, String, Option<&'static str>);

/// Where a call returns to.
#[derive(Clone, Debug)]
struct Return {
    module: String,
    /// If it has a name
    function: Option<String>,
    file: PathBuf,
    /// In the file
    address: u64,
}

/// A file with code.
struct Module {
    path: PathBuf,
    data: Vec<u8>,
}

/// The code of a process.
pub struct CodeBook {
    modules: Modules,
    files: HashMap<PathBuf, Option<Module>>,
    symbolizer: Symbolizer,
    unreadable: Vec<String>,
    /// What words of stacks return to, if they do.
    returns: HashMap<u64, Option<Return>>,
    /// The code that waits, as far as it was searched.
    waits: HashMap<PathBuf, Vec<WaitingCode>>,
    /// The addresses of samples whose code waits.
    waiting: HashSet<u64>,
    /// The functions of samples, by module and name.
    sites: HashMap<(String, String), FaultSite>,
}

impl CodeBook {
    /// The code of a process with these modules.
    pub fn new(modules: Modules) -> CodeBook {
        CodeBook {
            modules,
            files: HashMap::new(),
            symbolizer: Symbolizer::new(),
            unreadable: Vec::new(),
            returns: HashMap::new(),
            waits: HashMap::new(),
            waiting: HashSet::new(),
            sites: HashMap::new(),
        }
    }

    /// The modules.
    pub fn modules(&self) -> &Modules {
        &self.modules
    }

    /// Files with hot code that could not be read.
    pub fn unreadable(&self) -> &[String] {
        &self.unreadable
    }

    /// Whether the code at this address waits. Known only after [`CodeBook::places`], for the
    /// addresses of its samples.
    pub fn waits_at(&self, address: u64) -> bool {
        self.waiting.contains(&address)
    }

    /// The functions in which threads wait and have page faults, those with the most faults first.
    /// Known only after [`CodeBook::places`].
    pub fn fault_sites(&mut self) -> Vec<FaultSite> {
        let sites = self.sites.drain().map(|(_, site)| site);
        let mut sites: Vec<FaultSite> = sites.filter(|site| site.waiting > 0 && site.faults > 0).collect();
        sites.sort_by_key(|site| (std::cmp::Reverse(site.faults), site.function.clone()));
        sites
    }

    /// The places of samples; those with the most samples first. A sample in a function that a
    /// polling function has called belongs to the polling function.
    pub fn places(&mut self, samples: &HashMap<Seen, u32>) -> Vec<Place> {
        let mut by_file: HashMap<PathBuf, Vec<u64>> = HashMap::new();
        let mut counts: HashMap<u64, u32> = HashMap::new();
        for (seen, &count) in samples {
            *counts.entry(seen.address).or_default() += count;
        }
        for &address in counts.keys() {
            if let Some(Mapping { file: Some(file), .. }) = self.modules.at(address) {
                by_file.entry(file.clone()).or_default().push(address);
            }
        }
        for (file, addresses) in &mut by_file {
            addresses.sort_unstable_by_key(|address| std::cmp::Reverse(counts[address]));
            self.search(file, addresses);
        }
        self.search_callers(samples);
        let mut facts: HashMap<u64, Fact> = HashMap::new();
        for (file, addresses) in by_file {
            self.explain(&file, &addresses, &mut facts);
        }
        let mut waiting: HashMap<u64, u32> = HashMap::new();
        let mut places: HashMap<Fact, Place> = HashMap::new();
        for (seen, &count) in samples {
            let own = facts.get(&seen.address).cloned().unwrap_or_else(|| {
                let what = self
                    .modules
                    .at(seen.address)
                    .map_or("memory that is not mapped any more".into(), Mapping::name);
                (what, "code without a name".into(), None)
            });
            let fact = if own.2.is_some() { own } else { self.called(&seen.callers).unwrap_or(own) };
            if fact.2.is_some() {
                *waiting.entry(seen.address).or_default() += count;
            }
            self.add_to_sites(seen, &fact, count);
            let place = places.entry(fact.clone()).or_insert_with(|| Place {
                module: fact.0,
                function: fact.1,
                waits: fact.2,
                ..Place::default()
            });
            place.samples += count;
            *place.threads.entry(seen.thread).or_default() += count;
        }
        let most = waiting.iter().filter(|(address, waits)| 2 * **waits > counts[*address]);
        self.waiting.extend(most.map(|(address, _)| *address));
        let mut places: Vec<Place> = places.into_values().collect();
        places.sort_by(|one, other| {
            let key = |place: &Place| (std::cmp::Reverse(place.samples), place.function.clone());
            key(one).cmp(&key(other))
        });
        places
    }

    /// Counts samples for their own function and for those that have called it.
    fn add_to_sites(&mut self, seen: &Seen, own: &Fact, count: u32) {
        let is_fault = own.2.is_none() && seen.in_kernel && self.faults_at(seen.address);
        let mut functions = BTreeSet::from([(own.0.clone(), own.1.clone())]);
        let mut number = 0;
        for &word in &seen.callers {
            if number == CALLERS_OF_SITE {
                break;
            }
            let Some(at) = self.returns_to(word) else { continue };
            number += 1;
            functions.extend(at.function.clone().map(|function| (at.module.clone(), function)));
        }
        for (module, function) in functions {
            let key = (module.clone(), function.clone());
            let site = self.sites.entry(key).or_insert_with(|| FaultSite::new(module, function));
            site.add(own.2.is_some(), is_fault, count);
        }
    }

    /// Returns true if a thread that has entered the kernel there did so by a page fault: the
    /// instruction before is no system call.
    fn faults_at(&self, address: u64) -> bool {
        let Some(mapping) = self.modules.at(address) else { return false };
        let module = mapping.file.as_ref().and_then(|file| self.files.get(file)?.as_ref());
        let offset = (address - mapping.start + mapping.offset) as usize;
        module.is_some_and(|module| !is_behind_system_call(&module.data, offset))
    }

    /// The caller that waits by calls, of these words of a stack: a polling function, or a loop
    /// around a PAUSE.
    fn called(&mut self, words: &[u64]) -> Option<Fact> {
        let mut number = 0;
        words.iter().find_map(|&word| {
            let at = self.returns_to(word)?.clone();
            number += 1;
            let waits = self.waits.get(&at.file).filter(|_| number <= CALLERS_OF_LOOP);
            // The call is in the loop; the instruction behind the call may not be.
            let calls = |wait: &&WaitingCode| wait.calls_wait && wait.part.contains(&(at.address - 1));
            let of_loop = waits.and_then(|waits| waits.iter().find(calls)).map(|wait| wait.ends);
            let ends = at.function.as_deref().and_then(polls).or(of_loop)?;
            let function = at.function.unwrap_or_else(|| format!("{:#x}", at.address));
            Some((at.module, function, Some(ends)))
        })
    }

    /// Searches a file for waits near these addresses of the process.
    fn search(&mut self, file: &PathBuf, addresses: &[u64]) {
        let Some(first) = addresses.first().and_then(|address| self.modules.at(*address)).cloned() else {
            return;
        };
        self.open(file, &first);
        let found = self.code(file).map_or_else(Vec::new, |code| {
            let of = |&address: &u64| self.in_file(&code, address);
            let searched: Vec<u64> = addresses.iter().take(ADDRESSES_MAX).filter_map(of).collect();
            waits_near(&code, &searched)
        });
        self.waits.insert(file.clone(), found);
    }

    /// Searches for the loops that call a function with a PAUSE, in which threads were seen.
    fn search_callers(&mut self, samples: &HashMap<Seen, u32>) {
        let addresses: BTreeSet<u64> = samples.keys().map(|seen| seen.address).collect();
        let is_called = |address: &u64| self.wait(*address).is_some_and(|wait| wait.is_called);
        let called: HashSet<u64> = addresses.into_iter().filter(is_called).collect();
        let mut returns: HashMap<PathBuf, BTreeSet<u64>> = HashMap::new();
        for seen in samples.keys().filter(|seen| called.contains(&seen.address)) {
            let first = seen.callers.iter().find_map(|&word| self.returns_to(word).cloned());
            first.map(|at| returns.entry(at.file).or_default().insert(at.address));
        }
        for (file, addresses) in returns {
            let addresses: Vec<u64> = addresses.into_iter().take(ADDRESSES_MAX).collect();
            let found = self.code(&file).map(|code| waits_around(&code, &addresses));
            self.waits.entry(file).or_default().extend(found.unwrap_or_default());
        }
    }

    /// The code of a file that was opened.
    fn code(&self, file: &PathBuf) -> Option<Code<'_>> {
        self.files.get(file)?.as_ref().and_then(|module| Code::parse(&module.data))
    }

    /// An address of the process, as its file numbers it.
    fn in_file(&self, code: &Code<'_>, address: u64) -> Option<u64> {
        let mapping = self.modules.at(address)?;
        code.address_of(address - mapping.start + mapping.offset)
    }

    /// The wait at an address of the process, in a file that was searched.
    fn wait(&self, address: u64) -> Option<&WaitingCode> {
        let file = self.modules.at(address)?.file.as_ref()?;
        wait_at(self.waits.get(file)?, self.in_file(&self.code(file)?, address)?)
    }

    /// Finds module, function and wait of addresses in one file.
    fn explain(&self, file: &PathBuf, addresses: &[u64], facts: &mut HashMap<u64, Fact>) {
        let Some(first) = addresses.first().and_then(|address| self.modules.at(*address)) else { return };
        let module = self.files.get(file).and_then(Option::as_ref);
        let code = self.code(file);
        let waits = self.waits.get(file).map_or(&[][..], Vec::as_slice);
        for &address in addresses {
            let own = code.as_ref().and_then(|code| self.in_file(code, address));
            let name = module.zip(own).and_then(|(module, own)| self.name(module, own));
            let mapping = self.modules.at(address).unwrap_or(first);
            let offset = (address - mapping.start + mapping.offset) as usize;
            let yields = module.is_some_and(|module| is_behind_yield(&module.data, offset));
            let by_name = name.as_deref().and_then(polls).or(yields.then_some(BY_YIELDING));
            let wait = own.and_then(|own| wait_at(waits, own)).map(|wait| wait.ends).or(by_name);
            let name = name.unwrap_or_else(|| format!("{:#x}", own.unwrap_or(address)));
            facts.insert(address, (first.name(), name, wait));
        }
    }

    /// The name of the function that holds an address of a file.
    fn name(&self, module: &Module, address: u64) -> Option<String> {
        let mut elf = Elf::new(&module.path);
        elf.debug_syms = false;
        let found = self.symbolizer.symbolize_single(&Source::Elf(elf), Input::VirtOffset(address)).ok()?;
        found.into_sym().map(|symbol| symbol.name.into_owned())
    }

    /// Reads a file into `files`, unless it is there; `None` there means that it cannot be read.
    fn open(&mut self, file: &PathBuf, mapping: &Mapping) {
        if self.files.contains_key(file) {
            return;
        }
        let read = |path: PathBuf| {
            let is_small = std::fs::metadata(&path).is_ok_and(|found| found.len() <= FILE_BYTES_MAX);
            let data = if is_small { std::fs::read(&path).ok()? } else { return None };
            Some(Module { path, data })
        };
        let module = self.modules.readable(mapping).and_then(read);
        if module.is_none() {
            self.unreadable.push(mapping.name());
        }
        self.files.insert(file.clone(), module);
    }

    /// The functions from which threads with these stacks came to wait, the most frequent first.
    pub fn callers(&mut self, stacks: &[Vec<u64>]) -> Vec<(String, u32)> {
        let mut votes: BTreeMap<String, u32> = BTreeMap::new();
        for caller in stacks.iter().filter_map(|stack| self.caller(stack)) {
            *votes.entry(caller).or_default() += 1;
        }
        let mut votes: Vec<(String, u32)> = votes.into_iter().collect();
        votes.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), name.clone()));
        votes
    }

    /// The function from which a thread with this stack came to wait: the first one outside of the
    /// C library and of functions that take locks.
    pub fn caller(&mut self, stack: &[u64]) -> Option<String> {
        stack.iter().find_map(|&word| {
            self.modules.at(word).filter(|mapping| !mapping.is_of_the_c_library())?;
            let at = self.returns_to(word)?;
            let (module, function) = (&at.module, at.function.as_ref()?);
            let is_of_lock =
                OF_LOCKS.iter().any(|part| function.starts_with(part) || function.contains(part));
            (!is_of_lock).then(|| format!("{function} ({module})"))
        })
    }

    /// Where a call returns to with this word of a stack; `None` if the word is no return address.
    fn returns_to(&mut self, word: u64) -> Option<&Return> {
        if !self.returns.contains_key(&word) {
            let found = self.find_return(word);
            self.returns.insert(word, found);
        }
        self.returns[&word].as_ref()
    }

    fn find_return(&mut self, word: u64) -> Option<Return> {
        let mapping = self.modules.at(word).filter(|mapping| mapping.executable).cloned()?;
        let file = mapping.file.clone()?;
        self.open(&file, &mapping);
        let module = self.files.get(&file)?.as_ref()?;
        let offset = word - mapping.start + mapping.offset;
        if !is_behind_call(&module.data, usize::try_from(offset).ok()?) {
            return None;
        }
        // The call is in the function; the instruction behind the call may be in the next one.
        let call = Code::parse(&module.data)?.address_of(offset - 1)?;
        let function = self.name(module, call);
        Some(Return { module: mapping.name(), function, file, address: call + 1 })
    }
}

/// How a wait in `sched_yield` ends.
const BY_YIELDING: &str = "its callers wait by yielding";

/// How the wait ends, in words, if threads poll or yield by the function of this name.
fn polls(name: &str) -> Option<&'static str> {
    let plain = name.split('@').next().unwrap_or(name);
    if matches!(plain, "sched_yield" | "__sched_yield") {
        return Some(BY_YIELDING);
    }
    is_polling(plain.as_bytes()).then_some("its callers wait by polling")
}

/// Whether the code yields by a system call of its own, which ends at this offset.
fn is_behind_yield(code: &[u8], offset: usize) -> bool {
    // On x86-64: mov $24, %eax; syscall. On AArch64: mov x8, #124; svc #0.
    let call: &[u8] = if cfg!(target_arch = "aarch64") {
        &[0x88, 0x0f, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4]
    } else {
        &[0xb8, 0x18, 0x00, 0x00, 0x00, 0x0f, 0x05]
    };
    offset.checked_sub(call.len()).and_then(|at| code.get(at..offset)) == Some(call)
}

/// Returns true if a system call ends at this offset of the code.
fn is_behind_system_call(code: &[u8], offset: usize) -> bool {
    // SYSCALL, SYSENTER and INT 80h; SVC 0.
    let calls: &[&[u8]] = if cfg!(target_arch = "aarch64") {
        &[&[0x01, 0x00, 0x00, 0xd4]]
    } else {
        &[&[0x0f, 0x05], &[0x0f, 0x34], &[0xcd, 0x80]]
    };
    calls.iter().any(|call| offset.checked_sub(call.len()).and_then(|at| code.get(at..offset)) == Some(call))
}

/// Whether a call ends at this offset of the code.
fn is_behind_call(code: &[u8], offset: usize) -> bool {
    let back = |bytes: usize| offset.checked_sub(bytes).and_then(|at| code.get(at..offset));
    if cfg!(target_arch = "aarch64") {
        let word = back(4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
        // BL, BLR.
        return word.is_some_and(|word| word >> 26 == 0b10_0101 || word & 0xffff_fc1f == 0xd63f_0000);
    }
    // CALL with a distance; CALL through a register or memory: its second byte has 2 in the middle.
    let near = back(5).is_some_and(|bytes| bytes[0] == 0xe8);
    let through =
        (2..=7).any(|length| back(length).is_some_and(|bytes| bytes[0] == 0xff && (bytes[1] >> 3) & 7 == 2));
    near || through
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::process::Process;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_yield_by_a_system_call_is_seen_where_the_call_ends() {
        let code = [0x90, 0xb8, 0x18, 0, 0, 0, 0x0f, 0x05, 0xc3];
        let found: Vec<usize> = (0..=code.len()).filter(|at| is_behind_yield(&code, *at)).collect();
        assert_eq!(found, [8]);
        let other = [0x90, 0xb8, 0x19, 0, 0, 0, 0x0f, 0x05, 0xc3];
        assert!((0..=other.len()).all(|at| !is_behind_yield(&other, at)));
    }

    #[test]
    fn a_return_address_is_behind_a_call() {
        if cfg!(target_arch = "aarch64") {
            return assert!(is_behind_call(&[0, 0, 0, 0x94], 4));
        }
        assert!(is_behind_call(b"\xe8\0\0\0\0", 5));
        assert!(is_behind_call(b"\x90\x90\xff\xd0", 4), "call rax");
        assert!(is_behind_call(b"\xff\x15\0\0\0\0", 6), "call through memory");
        assert!(!is_behind_call(b"\x90\x90\x90\x90\x90", 5));
        assert!(!is_behind_call(b"\xe8\0\0\0\0", 4) && !is_behind_call(b"", 0) && !is_behind_call(b"", 9));
    }

    #[test]
    fn samples_of_one_function_are_one_place() {
        let mut book = CodeBook::new(Modules::of(&Process::myself().unwrap()));
        let here = (is_behind_call as fn(&[u8], usize) -> bool) as usize as u64;
        let seen = |address, thread| Seen { address, thread, ..Seen::default() };
        let samples = HashMap::from([(seen(here, 1), 3), (seen(here + 1, 2), 4), (seen(8, 1), 1)]);
        let places = book.places(&samples);
        assert_eq!(places.iter().map(|place| place.samples).sum::<u32>(), 8);
        assert_eq!((places[0].samples, places[0].threads.len(), places[0].waits), (7, 2, None));
        assert!(places[0].function.contains("is_behind_call"), "{places:?}");
    }

    /// Polls, as Open MPI would.
    #[unsafe(no_mangle)]
    #[inline(never)]
    extern "C" fn opal_progress() {
        std::hint::black_box(is_behind_call as fn(&[u8], usize) -> bool)(&[], 0);
    }

    #[test]
    fn a_sample_in_what_a_polling_function_calls_is_the_polling_functions() {
        opal_progress();
        let mut book = CodeBook::new(Modules::of(&Process::myself().unwrap()));
        let entry = (opal_progress as extern "C" fn()) as usize as u64;
        let returns = (entry..entry + 256).find(|&at| book.called(&[at]).is_some()).expect("a call");
        let here = (is_behind_call as fn(&[u8], usize) -> bool) as usize as u64;
        let seen =
            |callers: &[u64]| Seen { address: here, thread: 1, callers: callers.into(), ..Seen::default() };
        // No stack; a word that returns nowhere; the polling function, behind another one.
        let samples = HashMap::from([(seen(&[]), 1), (seen(&[entry]), 1), (seen(&[here, returns]), 5)]);
        let places = book.places(&samples);
        assert_eq!((places[0].function.as_str(), places[0].samples), ("opal_progress", 5), "{places:?}");
        assert!(places[0].waits.is_some() && places[1].waits.is_none());
        assert_eq!(places[1].samples, 2);
        assert!(book.waits_at(here), "most samples there wait");
    }

    /// This function has a PAUSE, and its loop is in its callers.
    #[cfg(target_arch = "x86_64")]
    #[inline(never)]
    fn relax() {
        // SAFETY: the instruction only takes time.
        unsafe { std::arch::asm!("pause") };
    }

    #[inline(never)]
    fn looks(word: &std::sync::atomic::AtomicUsize) -> usize {
        word.load(std::sync::atomic::Ordering::Acquire)
    }

    #[inline(never)]
    fn works() {
        std::hint::black_box(0);
    }

    /// Looks for work in each round of a wait, and does the work outside of it.
    #[cfg(target_arch = "x86_64")]
    #[inline(never)]
    fn waits_for_work(word: &std::sync::atomic::AtomicUsize) {
        for _ in 0..2 {
            while looks(word) == 0 {
                relax();
            }
            works();
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn what_each_round_of_a_wait_calls_waits_and_its_work_does_not() {
        waits_for_work(&std::sync::atomic::AtomicUsize::new(1));
        let caller = waits_for_work as fn(&std::sync::atomic::AtomicUsize) as usize;
        // SAFETY: the code of this function is longer than that, or other code is behind it.
        let code = unsafe { std::slice::from_raw_parts(caller as *const u8, 192) };
        let returns_from = |callee: usize| {
            let calls = |&at: &usize| {
                let distance = i32::from_le_bytes(code[at - 4..at].try_into().unwrap());
                code[at - 5] == 0xe8 && (caller + at).wrapping_add_signed(distance as isize) == callee
            };
            ((5..192).find(calls).expect("a call") + caller) as u64
        };
        let mut book = CodeBook::new(Modules::of(&Process::myself().unwrap()));
        let mut samples = HashMap::new();
        let looks = looks as fn(&std::sync::atomic::AtomicUsize) -> usize as usize;
        for (callee, count) in [(relax as fn() as usize, 2), (looks, 3), (works as fn() as usize, 4)] {
            let callers = [returns_from(callee)].into();
            samples.insert(Seen { address: callee as u64, thread: 1, callers, ..Seen::default() }, count);
        }
        let places = book.places(&samples);
        let of = |waits: bool| -> Vec<u32> {
            let places = places.iter().filter(|place| place.waits.is_some() == waits);
            places.map(|place| place.samples).collect()
        };
        assert_eq!((of(false), of(true)), (vec![4], vec![3, 2]), "{places:?}");
        let of_loop = places.iter().find(|place| place.samples == 3).unwrap();
        assert!(of_loop.function.contains("waits_for_work"), "{of_loop:?}");
    }

    #[test]
    fn functions_by_which_threads_wait_are_known_by_their_names() {
        assert!(polls("sched_yield@@GLIBC_2.2.5").is_some() && polls("opal_progress").is_some());
        assert_eq!(polls("sched_getcpu"), None);
    }
}
