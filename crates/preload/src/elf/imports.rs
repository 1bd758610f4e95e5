//! Which words of a module lead to certain functions of others.
//!
//! A call of an imported function goes through a word that the loader fills in. Its place and the function's name stand in
//! the module's relocations.

use super::modules::Module;
use super::relocations;
use super::symbols::Table;
use alloc::vec::Vec;

/// Relocations of words that lead to functions: `R_X86_64_GLOB_DAT` and `R_X86_64_JUMP_SLOT`, or their counterparts.
#[cfg(target_arch = "x86_64")]
const FUNCTIONS: [u32; 2] = [6, 7];
#[cfg(target_arch = "aarch64")]
const FUNCTIONS: [u32; 2] = [1025, 1026];

/// The addresses of the words of `module` that lead to functions with these names.
pub fn slots(module: &Module<'_>, names: &[&str]) -> Vec<u64> {
    let Some(symbols) = Table::of(module) else { return Vec::new() };
    let wanted = |symbol| {
        let name = symbols.name_of(symbol).to_bytes();
        names.iter().any(|known| known.as_bytes() == name)
    };
    relocations::with_addends(module)
        .filter(|one| FUNCTIONS.contains(&one.kind()) && wanted(one.symbol()))
        .map(|one| (module.bias as u64).wrapping_add(one.offset))
        .collect()
}
