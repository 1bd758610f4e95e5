//! Results in a file: schema, percentiles, targets, tables. Knows no lock.
