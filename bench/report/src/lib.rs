//! Results in a file: schema, percentiles, targets, tables. Knows no lock.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`histogram`] | latencies kept whole; a percentile never comes without the maximum |
//! | [`statistics`] | the median of repeats, and its interval |
//! | [`ratio`] | the ratio of two versions by pairs, and the interval that it lies in |
//! | [`resolution`] | how many pairs that takes |
//! | [`order`] | in which order the versions of a round run |
//! | [`target`] | figures to reach, kept in one file, and the verdict on a measured one |
//! | [`chart`] | panels over one axis, and ratios as colours, as SVG |
//! | [`knee`] | where a curve stops paying |
//! | [`plot`] | percentiles over time, in characters |
//! | [`figure`] | numbers for people: three digits, durations, rates |
//! | [`sheet`] | tables by description: which figure each column shows; figures in the cells of tables |
//! | [`result`] | the file that a bench leaves behind |

pub mod histogram;
pub mod knee;
pub mod order;
pub mod plot;
pub mod ratio;
pub mod resolution;
pub mod result;
pub mod sheet;
pub mod target;

pub use command::machine::{Machine, Ticks};
pub use command::statistics;
pub use command::table::{Column, Table};
pub use histogram::{Counts, Histogram, Summary, Tail};
pub use order::Order;
pub use page::{chart, figure};
pub use ratio::{Compared, Ratio, Samples};
pub use resolution::Resolution;
pub use result::{Report, Run};
pub use sheet::Sheet;
pub use statistics::median;
pub use target::{Target, Verdict};
