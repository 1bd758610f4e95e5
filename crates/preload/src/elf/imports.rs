//! Which words of a module lead to certain functions of others.
//!
//! A call of an imported function goes through a word that the loader fills in. Its place and the
//! function's name stand in the module's relocations.

use super::modules::Module;
use super::relocations;
use alloc::vec::Vec;
use spinloop::Blocks;

/// Relocations of words that lead to functions: `R_X86_64_GLOB_DAT` and `R_X86_64_JUMP_SLOT`, or
/// their counterparts.
#[cfg(target_arch = "x86_64")]
const FUNCTIONS: [u32; 2] = [6, 7];
#[cfg(target_arch = "aarch64")]
const FUNCTIONS: [u32; 2] = [1025, 1026];

/// The addresses of the words of `module` that lead to functions that block, or to its own
/// functions, and what these mean for a wait.
pub fn blocking(module: &Module<'_>) -> Vec<(u64, Blocks)> {
    let Some(symbols) = module.table() else { return Vec::new() };
    let blocks = |symbol| {
        let by_name = || spinloop::blocking(symbols.name_of(symbol).to_str().ok()?);
        symbols.function_of(symbol).map(|address| Blocks::Own(address as u64)).or_else(by_name)
    };
    relocations::with_addends(module)
        .filter(|one| FUNCTIONS.contains(&one.kind()))
        .filter_map(|one| Some(((module.bias as u64).wrapping_add(one.offset), blocks(one.symbol())?)))
        .collect()
}
