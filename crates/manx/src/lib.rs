//! Locks, waiting and more for programs whose threads outnumber their CPUs.
