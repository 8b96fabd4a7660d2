//! The target `frames` of `replica/src/testing/fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| replica::testing::fuzz::frames(bytes));
