//! A member of a registry on a twin: no other process is there, so there is none.

use super::error::MembershipError;

/// A member.
#[derive(Debug)]
pub enum Member {}

/// What a member may use.
#[derive(Debug)]
pub enum Share {}

impl Member {
    /// As that of the machine's.
    pub fn set_cap(&self, _cpus: f64) -> Result<(), MembershipError> {
        match *self {}
    }

    /// As that of the machine's.
    pub fn set_demand(&self, _cpus: f64) -> Result<(), MembershipError> {
        match *self {}
    }

    /// As that of the machine's.
    pub fn sweep(&self) -> Result<usize, MembershipError> {
        match *self {}
    }

    /// As that of the machine's.
    pub fn share(&self) -> Result<Share, MembershipError> {
        match *self {}
    }
}

impl Share {
    /// As that of the machine's.
    pub fn cpus(&self) -> f64 {
        match *self {}
    }
}
