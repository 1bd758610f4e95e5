//! manx: the command.

fn main() {}
