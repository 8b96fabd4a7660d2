//! The target `backup` of `replica/src/testing/fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| replica::testing::fuzz::backup(bytes));
