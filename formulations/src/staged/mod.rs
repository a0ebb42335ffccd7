//! Schedules in stages: the joint graph in a fixed order, stage t ending with the first run of operator t.
//!
//! [`joint`] is the graph, [`stages`] a schedule of it, [`task`] one budget. The rest looks
//! for schedules without a solver: [`starts`] takes those of other methods, [`prices`] weighs time against bytes in every stage
//! ([`occupancy`]), [`repair`] drops what costs least, [`anneal`] walks over sets of later runs on a [`timeline`]. Checkmate and
//! Moccasin build on it; nothing here knows of models.

pub mod anneal;
pub mod joint;
pub mod occupancy;
pub mod prices;
pub mod repair;
pub mod stages;
pub mod starts;
pub mod task;
pub mod timeline;
