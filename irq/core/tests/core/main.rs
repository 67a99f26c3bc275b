//! Tests of the ledger and the policy, without a kernel.

mod conservation;
mod groups;
mod ledger;
mod policy;
mod sample;
