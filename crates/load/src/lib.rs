//! The load engine. It sends queries on time, and measures when and how they are answered.
//!
//! ```text
//!   workload, schedule, population --+
//!   trace --> mutation --> replay ---+--> engine (send, match) --> measure
//!                                                              --> per_query (a row for each query)
//! ```
//!
//! It knows neither reports nor servers: its callers store the results and start the servers.
#![forbid(unsafe_code)]

pub mod limits;

// Queries.
pub mod workload;
// Changes of traces.
pub mod mutation;

// When queries are sent, and by which client.
pub mod population;
pub mod replay;
pub mod schedule;
// Synthetic traces.
pub mod synthesis;
// A fast hash of messages.
pub mod byte_hash;
// Sends queries and matches answers.
pub mod engine;
// Records of single queries.
pub mod per_query;
