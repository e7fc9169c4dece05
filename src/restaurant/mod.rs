//! Pitman-Yor restaurants: trees of them, seating, and discounts and strengths by depth.
pub mod merge;
pub mod order;
pub mod owners;
pub mod parameters;
pub mod seating;
pub mod stirling;
pub mod tree;
