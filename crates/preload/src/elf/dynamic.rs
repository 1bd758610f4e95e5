//! The dynamic section of a module: tags and values, among them where the module's tables are.

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
