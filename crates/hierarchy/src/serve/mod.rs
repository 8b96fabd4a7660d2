//! Every server of a hierarchy in one process: the queried address decides which zone answers.
//!
//! ```text
//!   Folder --> Emulation (zones, directory) --> Emulator, one per thread --> bytes
//!                                                     \--> Tally
//! ```
//!
//! It has no sockets and no clock: the caller passes each message with its address and time.

// Loading zones; mapping addresses to zones.
mod directory;
mod load;

// Answering, counting, and servers under test.
mod backend;
mod emulator;
mod near_composer;
mod responder;
mod tally;

pub use backend::Backend;
pub use directory::Directory;
pub use emulator::{Emulator, ServerMessage};
pub use load::Emulation;
pub use tally::{Tally, TallyReport, UnnamedAddress, Upstream};
pub use zone::answer::{AnswerKind, Transport};
