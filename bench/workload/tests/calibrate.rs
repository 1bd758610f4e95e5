//! `manx bench calibrate` as an experiment: everything is measured once on this machine, and the
//! simulator reads the file that comes of it. No figure is judged: other tests run beside this one.

use platform_sim::machine::Machine;
use report::Report;
use workload::calibrate::{self, Setup};
use workload::harness::{Bench, Silent};

#[test]
fn this_machine_is_measured_and_the_simulator_reads_it() {
    let setup = match Setup::here(3) {
        Ok(setup) => setup,
        Err(error) => return testing::skip(error),
    };
    let mut progress = Silent;
    let mut bench = Bench::new("calibrate", report::Machine::here(), None, &mut progress);
    bench.resolution.pairs_max = Some(1);
    let result = calibrate::measure(&setup, &mut bench);
    let mut report: Report = bench.finish(&result);
    assert_eq!(result, Ok(()));
    let concluded = calibrate::conclude(&mut report, &setup);
    assert_eq!(report.cases(), ["cost", "distance", "speed", "scheduler"]);
    assert_eq!(report.tables.len(), 5);
    assert!(report.tables.iter().all(|table| !table.rows.is_empty()));
    match concluded {
        Ok(text) => {
            let machine = Machine::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert!(machine.cpus().len() >= 2);
            assert!(machine.source.contains("manx bench calibrate"));
        }
        // A figure that a busy machine spoilt is refused, and that is right.
        Err(words) => println!("no file: {words}"),
    }
}
