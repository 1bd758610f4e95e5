//! How many CPUs this process can use, and everything that limits it.

use manx::cpu::{CpuBudget, Rounding};

fn main() {
    let budget = CpuBudget::now();
    println!("{budget}");
    for limit in budget.limits() {
        println!("{} {limit}", if limit.binds { '*' } else { ' ' });
    }
    if let Some(weight) = budget.weight() {
        println!("  {weight}");
    }
    let [floor, ceil] = [Rounding::Floor, Rounding::Ceil].map(|rounding| budget.count(rounding));
    println!("threads: {floor}, or {ceil} rounded up");
}
