//! Schedules in stages: the joint graph in a fixed order, stage t ending with the first run of operator t.
//!
//! [`joint`] is the graph, [`stages`] a schedule of it, [`task`] one budget. [`graph`] has several implementations for a run,
//! [`model`] is the linear model of either, over blocks of stages or exact. The rest looks for schedules without a solver: [`starts`] takes those of other methods, [`prices`] weighs time against bytes in every stage
//! ([`occupancy`]), [`anneal`] walks over sets of later runs on a [`timeline`]. Checkmate and
//! Moccasin build on it, MONeT on the graph and the model.

pub mod anneal;
pub mod graph;
pub mod joint;
pub mod model;
pub mod occupancy;
pub mod prices;
pub mod stages;
pub mod starts;
pub mod task;
pub mod timeline;
