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
//!
//! **Why the pictures are drawn here.** A picture is static SVG that a screen reader reads (`role`,
//! `title`, `desc`). Its panels share one numeric axis, linear or logarithmic. Its colours are
//! classes, so that the page's styles choose them, and it is drawn for a wide and for a narrow
//! screen. All of this is 1,400 lines, tests included. No crate does the same (November 2026). The
//! last four come near, and would be most of the build of `manx`:
//!
//! | crate | lines | what is missing |
//! | --- | --- | --- |
//! | `plotters` 0.3.7 | 17,600 | `role`, `title` and `desc`; colours by class |
//! | `poloto` 19.1.2 | 4,200 | `role`, `title` and `desc`; logarithmic axes |
//! | `plotlib` 0.5.1 | 3,400 | `role`, `title` and `desc`; a release since 2020 |
//! | `charming` 0.6.0 | 7,500 | `role`, `title` and `desc`; static SVG needs `deno_core`, a JavaScript engine |
//! | `kuva` 0.6.0 | 95,400 | `role` and `desc` |
//! | `charts-rs` 2.3.0 | 38,100 | colours by class |
//! | `charton` 0.9.0 | 43,900 | colours by class |
//! | `chartlet` 0.23.0 | 85,700 | a stable interface: 0.22.0 and 0.23.0 were released on one day |

pub mod chart;
pub mod figure;
mod html;
mod input;
mod page;
mod show;

pub use input::Fault;
pub use page::{BYTES_MAX, Named, Options, page};
