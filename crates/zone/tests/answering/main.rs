//! The zone crate from outside: changes of zones, and answers from them.

extern crate catamaran_zone as zone;

mod changes;
mod common;
mod golden;
mod memory;
mod model;
mod negative;
mod opt;
mod root;
mod signing;
mod validate;
mod zone_messages;
