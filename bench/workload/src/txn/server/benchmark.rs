//! What redis-benchmark prints, of two commands one after the other.

use std::collections::BTreeMap;

/// The commands, and how the names of their figures begin.
const COMMANDS: [(&str, &str); 2] = [("SET", "set"), ("GET", "get")];
const NS_IN_MS: f64 = 1e6;

/// The figures of both commands.
///
/// # Errors
/// If they are not there, or of fewer requests.
pub(super) fn parse(text: &str, requests: u64) -> Result<BTreeMap<String, f64>, String> {
    let mut values = BTreeMap::new();
    for (command, name) in COMMANDS {
        let title = format!("====== {command} ======");
        let missing = |what: &str| format!("{command}: no {what}");
        let (_, part) = text.split_once(&title).ok_or_else(|| missing("such part"))?;
        let part = part.split("======").next().unwrap_or(part);
        let completed = part.lines().find_map(|line| line.trim().split_once(" requests completed"));
        if completed.and_then(|(count, _)| count.rsplit(' ').next()?.parse().ok()) != Some(requests) {
            return Err(format!("{command}: not {requests} requests"));
        }
        let rate = part.lines().find_map(|line| {
            line.trim().strip_prefix("throughput summary: ")?.split(' ').next()?.parse::<f64>().ok()
        });
        values.insert(format!("{name}_per_s"), rate.ok_or_else(|| missing("throughput"))?);
        let (_, distribution) =
            part.split_once("Latency by percentile distribution:").ok_or_else(|| missing("percentiles"))?;
        // `99.902% <= 6.943 milliseconds (cumulative count 19982)`, up to an empty line.
        let steps: Vec<(f64, f64)> = (distribution.lines().skip(1))
            .map_while(|line| {
                let (percent, rest) = line.trim().split_once("% <= ")?;
                Some((percent.parse().ok()?, rest.split(' ').next()?.parse().ok()?))
            })
            .collect();
        let at = |percent: f64| {
            let found = steps.iter().find(|(to, _)| *to >= percent);
            found.map(|(_, ms)| ms * NS_IN_MS).ok_or_else(|| missing("percentiles"))
        };
        for (figure, percent) in [("p50", 50.0), ("p99", 99.0), ("p999", 99.9), ("max", 100.0)] {
            values.insert(format!("{name}_{figure}_ns"), at(percent)?);
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(command: &str, requests: u64, rate: f64) -> String {
        format!(
            "====== {command} ======\n  {requests} requests completed in 0.28 seconds\n  50 parallel clients\n\n\
             Latency by percentile distribution:\n0.000% <= 0.111 milliseconds (cumulative count 1)\n\
             50.000% <= 0.407 milliseconds (cumulative count 10000)\n99.219% <= 4.775 milliseconds (cumulative count 19846)\n\
             99.902% <= 6.943 milliseconds (cumulative count 19982)\n100.000% <= 7.063 milliseconds (cumulative count 20000)\n\n\
             Cumulative distribution of latencies:\n100.000% <= 9.103 milliseconds (cumulative count 20000)\n\n\
             Summary:\n  throughput summary: {rate} requests per second\n"
        )
    }

    #[test]
    fn both_commands_have_their_figures() {
        let text =
            format!("\r                  \n{}\n{}", part("SET", 20000, 70671.38), part("GET", 20000, 9.5));
        let values = parse(&text, 20000).unwrap();
        assert_eq!(values["set_per_s"], 70671.38);
        assert_eq!(values["get_per_s"], 9.5);
        let latencies =
            ["p50", "p99", "p999", "max"].map(|figure| values[&format!("set_{figure}_ns")].round());
        assert_eq!(latencies, [407_000.0, 4_775_000.0, 6_943_000.0, 7_063_000.0]);
    }

    #[test]
    fn output_that_is_not_whole_is_refused() {
        let set = part("SET", 20000, 1.0);
        assert_eq!(parse(&set, 20000).unwrap_err(), "GET: no such part");
        assert_eq!(parse(&set, 30000).unwrap_err(), "SET: not 30000 requests");
        let without = set.replace("throughput", "speed");
        assert_eq!(parse(&without, 20000).unwrap_err(), "SET: no throughput");
        let without = set.replace("% <= ", "% < ");
        assert_eq!(parse(&without, 20000).unwrap_err(), "SET: no percentiles");
    }
}
