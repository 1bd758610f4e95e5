//! A page for the eyes, in one file of HTML, from any result of Manx; and the pictures.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`page()`] | the page: what was run and where, verdicts, pictures, tables, the results' JSON |
//! | `input` | the results, known by their content |
//! | `show` | what the page has of each kind of result, and of two that are compared |
//! | `html` | its parts: tables, pictures, lists of facts |
//! | [`chart`] | pictures as SVG: for a page, and for files of their own |
//! | [`figure`] | numbers for people: three digits, and the unit that suits them |
//!
//! It knows the results by their JSON alone and depends on none of the packages that write them.

pub mod chart;
pub mod figure;
mod html;
mod input;
mod page;
mod show;

pub use input::Fault;
pub use page::{BYTES_MAX, Named, Options, page};
