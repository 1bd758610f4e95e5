//! The one door for developers: setup, test, demo, bench, tidy, install.

fn main() {}
