//! Symbols, looked up in the tables that the loader mapped.
//!
//! The library wraps some functions of the C library and must find the original functions
//! ([`crate::real`]). `dlsym(RTLD_NEXT)` would find them. But `dlsym` is itself wrapped, it may
//! allocate, and the version of its own name would bind the library to one version of glibc. The
//! tables are simple enough: a hash table (`DT_GNU_HASH`) finds the name. If a function has several
//! versions, `DT_VERSYM` says which one a new program gets: the version whose entry does not have
//! the hidden bit. This module takes that version, as `dlsym` would.

use super::dynamic::{self, DT_JMPREL, DT_PLTRELSZ, DT_RELA, DT_RELASZ, Relocation};
use alloc::vec;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::ops::Range;
use libc::Elf64_Sym as Symbol;

/// In a symbol's `st_info`: a function.
const STT_FUNC: u8 = 2;
/// In a symbol's `st_info`: a function that returns the function.
const STT_GNU_IFUNC: u8 = 10;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_SONAME: u64 = 14;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DT_VERSYM: u64 = 0x6fff_fff0;
/// In a `DT_VERSYM` entry: this version is for programs that were linked against it, not for new
/// ones.
const HIDDEN: u16 = 0x8000;

/// The hash of a name in a GNU hash table.
pub const fn hash(name: &CStr) -> u32 {
    let (bytes, mut at, mut hash) = (name.to_bytes(), 0, 5381u32);
    while at < bytes.len() {
        hash = hash.wrapping_mul(33).wrapping_add(bytes[at] as u32);
        at += 1;
    }
    hash
}

/// A module's dynamic symbol table.
pub struct Table {
    bias: usize,
    symbols: *const Symbol,
    strings: *const u8,
    versions: Option<*const u16>,
    hash: *const u32,
    /// Where its own name stands among the strings.
    name: Option<usize>,
    /// Its relocations of functions and of data: the first, and the bytes of all of them.
    relocations: [(*const Relocation, usize); 2],
}

impl Table {
    /// Returns the table of the module that has this dynamic section, if it has one with a GNU
    /// hash; `bias` is what to add to an address in its file.
    ///
    /// # Safety
    /// The section is the loader's, and stays mapped while the table is used.
    pub unsafe fn at(bias: usize, dynamic: usize) -> Option<Table> {
        let (mut symbols, mut strings, mut versions, mut hash, mut name) = (None, None, None, None, None);
        let mut relocations = [(core::ptr::null(), 0); 2];
        // SAFETY: as the caller promised.
        for [tag, value] in unsafe { dynamic::entries(dynamic) } {
            let address = dynamic::in_memory(bias, value as usize);
            match tag {
                DT_STRTAB => strings = Some(address as *const u8),
                DT_SYMTAB => symbols = Some(address as *const Symbol),
                DT_GNU_HASH => hash = Some(address as *const u32),
                DT_VERSYM => versions = Some(address as *const u16),
                DT_SONAME => name = Some(value as usize),
                DT_JMPREL => relocations[0].0 = address as *const Relocation,
                DT_PLTRELSZ => relocations[0].1 = value as usize,
                DT_RELA => relocations[1].0 = address as *const Relocation,
                DT_RELASZ => relocations[1].1 = value as usize,
                _ => {}
            }
        }
        Some(Table { bias, symbols: symbols?, strings: strings?, versions, hash: hash?, name, relocations })
    }

    /// The names that the module uses, most of them of other modules. A name may come several
    /// times. The loader must have relocated the module.
    pub fn uses(&self) -> impl Iterator<Item = &CStr> {
        let tables = self.relocations.iter().filter(|(first, _)| !first.is_null());
        let all = tables.flat_map(|&(first, bytes)| {
            // SAFETY: the loader has read the tables where the dynamic section says that they are.
            unsafe { core::slice::from_raw_parts(first, bytes / size_of::<Relocation>()) }
        });
        all.filter(|one| one.symbol() != 0).map(|one| self.name_of(one.symbol()))
    }

    /// The name that the module gives itself.
    pub fn soname(&self) -> Option<&CStr> {
        // SAFETY: the name is an offset into the string table, whose strings end with a zero.
        self.name.map(|at| unsafe { CStr::from_ptr(self.strings.wrapping_add(at).cast()) })
    }

    fn symbol(&self, index: u32) -> &Symbol {
        // SAFETY: indices come from the hash table, which names only symbols that exist.
        unsafe { &*self.symbols.wrapping_add(index as usize) }
    }

    fn name(&self, symbol: &Symbol) -> &CStr {
        // SAFETY: the name is an offset into the string table, whose strings end with a zero.
        unsafe { CStr::from_ptr(self.strings.wrapping_add(symbol.st_name as usize).cast()) }
    }

    /// The name of the symbol with this index, which a relocation of the module names.
    pub fn name_of(&self, index: u32) -> &CStr {
        self.name(self.symbol(index))
    }

    /// The address of the function with this index, if it is the module's own.
    pub fn function_of(&self, index: u32) -> Option<usize> {
        let symbol = self.symbol(index);
        let is_own = symbol.st_info & 0xf == STT_FUNC && symbol.st_shndx != 0;
        is_own.then(|| self.bias.wrapping_add(symbol.st_value as usize))
    }

    fn is_default(&self, index: u32) -> bool {
        self.versions.is_none_or(|versions| {
            // SAFETY: there is one version entry for each symbol.
            unsafe { versions.wrapping_add(index as usize).read() & HIDDEN == 0 }
        })
    }

    /// The words of the hash table from `at` on.
    fn word(&self, at: usize) -> u32 {
        // SAFETY: callers stay inside the table, whose layout its first four words give.
        unsafe { self.hash.wrapping_add(at).read() }
    }

    /// (first bucket's word, buckets, first hashed symbol, first chain word)
    fn layout(&self) -> (usize, u32, u32, usize) {
        let (buckets, first, bloom) = (self.word(0), self.word(1), self.word(2));
        let bucket_words = 4 + 2 * bloom as usize;
        (bucket_words, buckets, first, bucket_words + buckets as usize)
    }

    /// Whether there may be a symbol with this hash, by the table's Bloom filter: words of 64 bits,
    /// in which each symbol has two.
    fn may_have(&self, hash: u32) -> bool {
        let (words, shift) = (self.word(2), self.word(3));
        let at = 4 + 2 * (hash / u64::BITS % words.max(1)) as usize;
        let bits = u64::from(self.word(at + 1)) << u32::BITS | u64::from(self.word(at));
        let wanted = 1u64 << (hash % u64::BITS) | 1u64 << (hash.wrapping_shr(shift) % u64::BITS);
        words == 0 || bits & wanted == wanted
    }

    /// Calls `visit` for each hashed symbol of the bucket until it answers true.
    fn walk_bucket(&self, bucket: u32, visit: &mut dyn FnMut(u32, u32) -> bool) {
        let (bucket_words, _, first, chains) = self.layout();
        let mut index = self.word(bucket_words + bucket as usize);
        if index < first {
            return;
        }
        loop {
            let hash = self.word(chains + (index - first) as usize);
            if visit(index, hash) || hash & 1 != 0 {
                return;
            }
            index += 1;
        }
    }

    /// The address of the function `name`, in the version that a new program would be given.
    pub fn function(&self, name: &CStr) -> Option<usize> {
        self.function_by_hash(name, hash(name))
    }

    /// As [`Table::function`]; `hash` is the [`hash`] of the name.
    pub fn function_by_hash(&self, name: &CStr, hash: u32) -> Option<usize> {
        self.find(name, hash).and_then(|symbol| self.address(symbol))
    }

    /// The addresses of the machine code of the function `name`; `None` if the module has no such
    /// function, or if the function is an indirect one.
    pub fn extent(&self, name: &CStr) -> Option<Range<usize>> {
        let symbol = self.find(name, hash(name)).filter(|symbol| symbol.st_info & 0xf == STT_FUNC)?;
        let start = self.bias.wrapping_add(symbol.st_value as usize);
        Some(start..start.saturating_add(symbol.st_size as usize))
    }

    /// The symbol of the function `name`, in the version that a new program would be given.
    fn find(&self, name: &CStr, hash: u32) -> Option<&Symbol> {
        let (_, buckets, _, _) = self.layout();
        if buckets == 0 || !self.may_have(hash) {
            return None;
        }
        let mut found = None;
        self.walk_bucket(hash % buckets, &mut |index, other| {
            let symbol = self.symbol(index);
            let same = (hash ^ other) < 2 && symbol.st_shndx != 0 && self.name(symbol) == name;
            let is_function = matches!(symbol.st_info & 0xf, STT_FUNC | STT_GNU_IFUNC);
            if same && is_function && self.is_default(index) {
                found = Some(symbol);
            }
            found.is_some()
        });
        found
    }

    /// The address of a symbol's function. For an indirect function, calls it to get the address.
    fn address(&self, symbol: &Symbol) -> Option<usize> {
        let address = self.bias.wrapping_add(symbol.st_value as usize);
        match symbol.st_info & 0xf {
            STT_FUNC => Some(address),
            STT_GNU_IFUNC => {
                // SAFETY: an indirect function's address is a function that returns the one to
                // call.
                let choose: extern "C" fn() -> usize = unsafe { core::mem::transmute(address) };
                Some(choose())
            }
            _ => None,
        }
    }

    /// Calls `visit` with the name and the code of each named function, until it answers false.
    pub fn each_function<'t>(&'t self, visit: &mut dyn FnMut(&'t CStr, Range<usize>) -> bool) {
        let (_, buckets, _, _) = self.layout();
        let mut more = true;
        for bucket in 0..buckets {
            self.walk_bucket(bucket, &mut |index, _| {
                let symbol = self.symbol(index);
                if symbol.st_info & 0xf == STT_FUNC && symbol.st_shndx != 0 {
                    let start = self.bias.wrapping_add(symbol.st_value as usize);
                    more = visit(self.name(symbol), start..start.saturating_add(symbol.st_size as usize));
                }
                !more
            });
            if !more {
                return;
            }
        }
    }

    /// Calls `visit` with the name and the start of each named function that `address` lies in,
    /// until it answers false. Walks the whole table: for reports and filters.
    pub fn each_enclosing<'t>(&'t self, address: usize, visit: &mut dyn FnMut(&'t CStr, usize) -> bool) {
        self.each_function(&mut |name, code| !code.contains(&address) || visit(name, code.start));
    }

    /// Of each address, the first function that it lies in: its name and its start. Walks the whole
    /// table once. The addresses must be in ascending order.
    pub fn enclosing_all(&self, addresses: &[usize]) -> Vec<Option<(&CStr, usize)>> {
        let mut found = vec![None; addresses.len()];
        self.each_function(&mut |name, code| {
            let first = addresses.partition_point(|address| *address < code.start);
            let inside = addresses[first..].iter().take_while(|address| **address < code.end).count();
            for place in &mut found[first..first + inside] {
                place.get_or_insert((name, code.start));
            }
            true
        });
        found
    }

    /// The name and the start of the first named function that `address` lies in.
    pub fn enclosing(&self, address: usize) -> Option<(&CStr, usize)> {
        let mut first = None;
        self.each_enclosing(address, &mut |name, start| {
            first = Some((name, start));
            false
        });
        first
    }
}

#[cfg(test)]
mod tests {
    use super::super::modules::each;

    #[test]
    fn names_the_function_around_an_address() {
        // SAFETY: looks a name up.
        let qsort = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"qsort".as_ptr()) } as usize;
        let mut found = None;
        each(&mut |module| {
            if module.holds(qsort) {
                let table = module.table().expect("a table");
                let enclosing = table.enclosing(qsort + 2);
                assert_eq!(table.enclosing_all(&[0, qsort, qsort + 2]), [None, enclosing, enclosing]);
                found = enclosing.map(|(name, start)| (name.to_owned(), start));
            }
            found.is_none()
        });
        assert_eq!(found, Some((c"qsort".to_owned(), qsort)));
    }

    #[test]
    fn a_functions_code_has_an_end() {
        // SAFETY: looks a name up.
        let abs = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"abs".as_ptr()) } as usize;
        let mut found = None;
        each(&mut |module| {
            if module.holds(abs) {
                found = module.table().expect("a table").extent(c"abs");
            }
            found.is_none()
        });
        let extent = found.expect("the C library names it");
        assert!(extent.start == abs && extent.contains(&abs) && extent.len() < 100, "{extent:?}");
    }
}
