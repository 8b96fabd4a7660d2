//! Every server of a hierarchy in one process: which zone answers depends on the address that was asked.
//!
//! ```text
//!   Folder --> Emulation (zones, directory) --> Emulator, one a thread --> bytes
//!                                                     \--> Tally
//! ```
//!
//! No sockets and no clock: whoever has them says what came to which address, and when.

// Zone files to zones; who serves them.
mod directory;
mod load;

// Bytes to bytes, and what is counted; by servers under test, if there are some.
mod backend;
mod emulator;
mod near;
mod responder;
mod tally;

pub use backend::Backend;
pub use directory::Directory;
pub use emulator::{Asked, Emulator};
pub use load::Emulation;
pub use tally::{Stranger, Tally, Told, Upstream};
pub use zone::answer::{AnswerKind, Transport};
