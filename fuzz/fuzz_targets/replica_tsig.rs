//! The target `tsig` of `replica/src/testing/fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| replica::testing::fuzz::tsig(bytes));
