//! Finds the preload libraries, and checks that they are such that this launcher can talk to.
//!
//! `MANX_PRELOAD` names it; otherwise it lies beside the `manx` binary (as a build leaves it) or in
//! `../lib/manx/` (as an installation does). Its ELF file is read, never opened with `dlopen`: its
//! constructors have no business in the launcher. The library that sees requests lies beside it,
//! and is needed only if there is a target for them.

use command::failure::{BROKEN, Failure, reason};
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _, Sym as _};
use object::{Endianness, ReadCache};
use preload_abi::{
    LIBRARY_NAME, REQUESTS_LIBRARY_NAME, REQUESTS_VERSION, REQUESTS_VERSION_SYMBOL, VERSION, VERSION_SYMBOL,
};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The environment variable that names the library.
const PATH_VARIABLE: &str = "MANX_PRELOAD";

/// Finds the library and checks its version. The path is absolute.
///
/// # Errors
/// If there is none, or it is of another version.
pub fn find() -> Result<PathBuf, Failure> {
    let path = match std::env::var_os(PATH_VARIABLE).filter(|v| !v.is_empty()) {
        Some(named) => {
            let named = PathBuf::from(named);
            std::path::absolute(&named).unwrap_or(named)
        }
        None => beside()?,
    };
    check(&path, VERSION_SYMBOL, VERSION)?;
    Ok(path)
}

/// The library that sees requests, which goes with this preload library.
///
/// # Errors
/// If it is not there, or it is of another version.
pub fn requests(preload: &Path) -> Result<PathBuf, Failure> {
    let path = preload.with_file_name(REQUESTS_LIBRARY_NAME);
    check(&path, REQUESTS_VERSION_SYMBOL, REQUESTS_VERSION)?;
    Ok(path)
}

fn beside() -> Result<PathBuf, Failure> {
    let binary = std::env::current_exe().map_err(|error| {
        Failure::new(
            BROKEN,
            format!("cannot tell where manx itself lies: {}", reason(&error)),
            format!("mount /proc, or set {PATH_VARIABLE} to the path of {LIBRARY_NAME}"),
        )
    })?;
    let folder = binary.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(LIBRARY_NAME), folder.join("../lib/manx").join(LIBRARY_NAME)];
    match places.iter().find(|place| place.exists()) {
        Some(place) => Ok(place.canonicalize().unwrap_or_else(|_| place.clone())),
        None => Err(Failure::new(
            BROKEN,
            format!("{LIBRARY_NAME} is neither in {} nor in ../lib/manx from there", folder.display()),
            format!("install it with `cargo xtask install`, or set {PATH_VARIABLE} to its path"),
        )),
    }
}

/// Checks that a library exports a symbol of this name which holds this version.
fn check(path: &Path, symbol: &str, version: u32) -> Result<(), Failure> {
    let broken = |what: &str| {
        Failure::new(
            BROKEN,
            format!("{}: {what}", path.display()),
            format!(
                "install manx, {LIBRARY_NAME} and {REQUESTS_LIBRARY_NAME} together, or correct {PATH_VARIABLE}"
            ),
        )
    };
    let file = File::open(path)
        .map_err(|error| broken(&format!("the preload library cannot be read: {}", reason(&error))))?;
    let held = held(&object::ReadCache::new(file), symbol).map_err(|_| broken("not a shared library"))?;
    match held.map(u32::from_ne_bytes) {
        Some(found) if found == version => Ok(()),
        Some(found) => Err(broken(&format!(
            "speaks version {found} of the launcher's language, this manx speaks {version}"
        ))),
        None => Err(broken("not Manx's preload library, or of a version too old to say so")),
    }
}

/// The four bytes that lie at a symbol which the library exports. Only the table of these symbols
/// is read: a library that is not stripped has another one, and with that a start would take half a
/// millisecond longer.
fn held(bytes: &ReadCache<File>, symbol: &str) -> object::Result<Option<[u8; 4]>> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let symbols = header.sections(endian, bytes)?.symbols(endian, bytes, elf::SHT_DYNSYM)?;
    let is_it = |found: &&elf::Sym64<Endianness>| {
        !found.is_undefined(endian) && symbols.symbol_name(endian, *found) == Ok(symbol.as_bytes())
    };
    let Some(address) = symbols.iter().find(is_it).map(|found| found.st_value(endian)) else {
        return Ok(None);
    };
    let segments = header.program_headers(endian, bytes)?;
    let mut held = segments.iter().filter_map(|one| one.data_range(endian, bytes, address, 4).ok()?);
    Ok(held.next().and_then(|bytes| bytes.try_into().ok()))
}
