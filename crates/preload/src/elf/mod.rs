//! The program's modules and their symbols, read where the loader put them.

pub mod holder;
pub mod imports;
pub mod link_map;
pub mod modules;
pub mod relocations;
pub mod symbols;
