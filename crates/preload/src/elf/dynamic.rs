//! The dynamic section of a module: tags and values, among them where the module's tables are; and
//! an entry of its tables of relocations.

/// The tags of the tables of relocations with addends: of functions, and of data, and their sizes.
pub const DT_JMPREL: u64 = 23;
/// See above.
pub const DT_PLTRELSZ: u64 = 2;
/// See above.
pub const DT_RELA: u64 = 7;
/// See above.
pub const DT_RELASZ: u64 = 8;

/// A relocation with an addend: an entry of a table.
#[repr(C)]
pub struct Relocation {
    /// Where the word is, less the bias.
    pub offset: u64,
    info: u64,
    /// What is added.
    pub addend: i64,
}

impl Relocation {
    /// The kind, which says what the loader writes into the word; such as `RELATIVE`.
    pub fn kind(&self) -> u32 {
        self.info as u32
    }

    /// The number of the symbol that the relocation names.
    pub fn symbol(&self) -> u32 {
        (self.info >> 32) as u32
    }
}

/// The entries of the dynamic section at `dynamic`, as tags and values.
///
/// # Safety
/// The section is the loader's, and stays mapped while the entries are read.
pub unsafe fn entries(dynamic: usize) -> impl Iterator<Item = [u64; 2]> {
    let mut at = Some(dynamic as *const [u64; 2]);
    core::iter::from_fn(move || {
        let place = at?;
        // SAFETY: the section ends with an entry of tag zero, behind which nothing is read.
        let entry = unsafe { place.read() };
        at = (entry[0] != 0).then(|| place.wrapping_add(1));
        at.map(|_| entry)
    })
}

/// The place in memory that an address in a dynamic section means. The loader has relocated these
/// addresses, except in a section that it may not write to (the kernel's vDSO).
pub fn in_memory(bias: usize, address: usize) -> usize {
    if address < bias { address + bias } else { address }
}
