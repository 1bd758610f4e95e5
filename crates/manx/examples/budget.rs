//! How many CPUs this process can use, and everything that limits it.
//!
//! `--plain` prints the same for programs, and `--follow N` the number now and each of the next N
//! that it becomes: the emulated guest of `cargo xtask guest` runs both.

use manx::cpu::{BudgetWatch, CpuBudget, Rounding};
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => show(),
        ["--plain"] => plain(),
        ["--follow", count] if count.parse::<u32>().is_ok() => follow(count.parse().unwrap_or(0)),
        _ => {
            eprintln!("usage: budget [--plain | --follow N]");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn show() {
    let budget = CpuBudget::now();
    println!("{budget}");
    for limit in budget.limits() {
        println!("{} {limit}", if limit.binds { '*' } else { ' ' });
    }
    if let Some(weight) = budget.weight() {
        println!("  {weight}");
    }
    println!("threads: {}, or {} rounded up", budget.count(Rounding::Floor), budget.count(Rounding::Ceil));
}

fn plain() {
    let budget = CpuBudget::now();
    println!("found {}", budget.cpus());
    println!("threads {} {}", budget.count(Rounding::Floor), budget.count(Rounding::Ceil));
    println!("why {budget}");
    if let Some(weight) = budget.weight() {
        println!("weight {weight}");
    }
}

fn follow(count: u32) {
    let mut watch = BudgetWatch::new();
    println!("{}", watch.cpus());
    for _ in 0..count {
        let budget = loop {
            match watch.changed() {
                Some(budget) => break budget,
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        println!("{}", budget.cpus());
    }
}
