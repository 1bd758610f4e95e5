//! What is run and measured: engines, the inversion experiment, wake-up delays.
