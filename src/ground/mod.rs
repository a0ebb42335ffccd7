//! The ground floor: texts, sizes, paths and what is printed. Knows neither a run nor a row.

pub mod duration;
pub mod failure;
pub mod format;
pub mod grid;
pub mod host;
pub mod library;
pub mod names;
pub mod output;
pub mod rows;
pub mod size;
pub mod text;
