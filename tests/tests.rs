//! The one integration-test binary.
//!
//! - `oracles`: transition systems against exact answers and on random and real trees
//! - ...

#[path = "all/oracles.rs"]
mod oracles;
