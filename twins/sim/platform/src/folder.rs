//! What is in a folder of the simulated kernel.

use crate::file::NOT_THERE;
use crate::{procfs, simulation};
use std::ffi::CStr;

/// Calls `each` with the name of every folder in the folder at `path`, until it says that it has
/// seen enough (`false`).
///
/// # Errors
/// There is no such folder, or no program is run.
pub fn each_folder(path: &CStr, mut each: impl FnMut(&[u8]) -> bool) -> Result<(), i32> {
    if !simulation::is_inside() {
        return Err(NOT_THERE);
    }
    let names = simulation::make(|kernel| {
        // It is opened, and read until nothing comes any more.
        (0..3).for_each(|_| kernel.call());
        procfs::folders(kernel, path.to_bytes())
    });
    names.ok_or(NOT_THERE)?.iter().all(|name| each(name.as_bytes()));
    Ok(())
}
