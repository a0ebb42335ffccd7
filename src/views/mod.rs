//! The upper floor: what is shown of rows, as tables, plots, pages and reproductions. Starts no run.

pub mod aggregate;
pub mod batches;
pub mod best;
pub mod list;
pub mod method_pages;
pub mod plot;
pub mod published;
mod reader_fuzz;
pub mod report;
pub mod reproduce;
pub mod site;
pub mod table;
pub mod trajectory;
