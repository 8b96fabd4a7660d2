//! Planted bugs. One at a time is switched on, to check that the simulator or a test finds it.
//!
//! They are compiled only with the feature `planted`. Without it, `planted!(Name)` is `false`. A release build with it
//! does not compile. `cargo xtask sim --planted` runs them. `docs/internals/planted-bugs.md` lists what finds each bug.

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
