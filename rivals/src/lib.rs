//! Peers, for side-by-side runs only; outside default-members.
