//! Bugs that are planted on purpose, one at a time, to see that the simulator or a test finds each of them.
//!
//! They are compiled with the feature `planted` only. Without it, `planted!(Name)` is `false`, and a release build with
//! it does not compile. `cargo xtask sim --planted` runs them; `docs/planted-bugs.md` lists what finds each.

/// Whether one of the named bugs is on: `planted!(HeadKept)`, `planted!(A | B)`.
#[cfg(not(feature = "planted"))]
#[doc(hidden)]
#[macro_export]
macro_rules! planted {
    ($($bug:ident)|+) => {
        false
    };
}

/// Whether one of the named bugs is on: `planted!(HeadKept)`, `planted!(A | B)`.
#[cfg(feature = "planted")]
#[doc(hidden)]
#[macro_export]
macro_rules! planted {
    ($($bug:ident)|+) => {
        $($crate::planted::is($crate::planted::Bug::$bug))||+
    };
}

#[cfg(all(feature = "planted", not(debug_assertions)))]
compile_error!("the feature `planted` plants bugs, so it is not for releases; use the profile `dev` or `gate`");

#[cfg(feature = "planted")]
mod bugs;

#[cfg(feature = "planted")]
pub use bugs::{ALL, Bug, FoundBy, Planted, is, plant};
