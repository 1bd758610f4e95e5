//! The tables: medians over the rounds, percentiles beside the maximum and the slowest thread's
//! share.

use super::{AS_IS, BOOST, HEADLINE, PAIR, SWEEP, sweep_case};
use report::{Report, Sheet};

/// A row for each version of each case.
pub const TABLE: &str = "
    ?case = case | variant = version | runs [] = count max_ns | throughput [op/s] = throughput_per_s
    of as it is [] = ratio throughput_per_s | 95 % [] = interval throughput_per_s
    mean [µs] = mean_ns | p50 [µs] = p50_ns | p99.9 [ms] = p999_ns | max [ms] = max_ns
    worst max [ms] = worst max_ns | slowest thread [of mean] = slowest_of_mean";

/// Adds one table a case, and one for figure 4.
pub fn tables(report: &mut Report) {
    let sweep = SWEEP.map(sweep_case);
    let figure_4 = "8 to 80 threads, think 300 µs, without boost and with 4 boosted threads (figure 4)";
    let single = [HEADLINE, BOOST, PAIR].map(|case| (case, vec![case]));
    for (title, cases) in single.into_iter().chain([(figure_4, sweep.iter().map(String::as_str).collect())]) {
        report.show(Sheet::new(TABLE).over(AS_IS).of(report, title, &cases));
    }
}
