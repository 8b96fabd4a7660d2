//! Versioned ordered maps in one arena.
//!
//! A store holds many trees, each an ordered map from keys to leaves. A leaf is a string of bytes that contains its own
//! key ([`LeafKey`]); the store does not know its meaning. One writer changes trees and publishes versions. Readers
//! take the newest version with one load and never wait. There is no I/O, no clock and no random source.
//!
//! ```text
//!   writer   put, remove, drop_tree --> seal --> (a queue of sealed versions) --> publish --> retired --> free
//!                                                       `-- rewind --> free
//!   reader   pin --> Pinned --> get, get_batch, trail, locate, pred, succ, iter --> pin again, or offline
//! ```
//!
//! A tree is a qp-trie: a branch looks at one symbol of the key and has a child for each value that occurs, found by
//! counting bits; symbols on which all leaves below agree have no branch. Changing a tree copies the branches between
//! the change and the root, unless they were made in the same version. All blocks lie in one range of addresses and are
//! known by 32-bit handles.
//!
//! Its checks, besides `cargo test`:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p catamaran-store --release --test loom
//! RUSTFLAGS="-Zsanitizer=address --cfg asan" cargo +nightly test -p catamaran-store --target x86_64-unknown-linux-gnu
//! cargo run --release -p catamaran-store --example store_figures
//! ```
//!
//! With `--cfg asan` free blocks of the arena are out of bounds for the sanitizer. Under miri the arena is an
//! allocation.
//!
//! This is the only crate of the core with `unsafe`: `mapping.rs` reserves addresses, `arena.rs` argues reads and
//! writes, `prefault.rs` touches pages before their first use, and `batch.rs` calls code for an optional instruction
//! after it checked that the processor has it.
#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("the arena reserves up to 32 GiB of addresses: a 64-bit target is needed");

pub mod limits;

// Keys, blocks, and their addresses.
mod arena;
mod key;
mod mapping;
mod prefault;
mod size_class;
mod space;
mod vertex;

// Writing: versions, trees, and the store.
mod edit;
mod ledger;
mod store;
mod tree;

// Publishing, and the reuse of memory.
#[cfg(not(loom))]
#[expect(unreachable_pub, reason = "public for the model checker only, see below")]
mod qsbr;
#[cfg(loom)]
pub mod qsbr;
mod reader;

// Reading.
mod batch;
mod iter;
mod path;
mod view;

pub use iter::Leaves;
pub use key::{Alphabet, Key, LeafKey};
pub use ledger::Full;
pub use mapping::ReserveError;
pub use path::{Path, Trail};
pub use prefault::Prefaulter;
pub use reader::{Frozen, Pinned, Reader};
pub use store::{Stats, Store, StoreConfig};
pub use tree::{Tree, Version};
pub use view::View;
