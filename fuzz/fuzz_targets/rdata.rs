//! Any rdata of any type: checked, taken apart, put into canonical form, which is stable.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Rtype, rdata_canonical, rdata_check, rdata_eq, rdata_fields, rdata_lowercase, rdata_names};

fuzz_target!(|input: (u16, &[u8])| {
    let (rtype, rdata) = (Rtype(input.0), input.1);
    rdata_names(rtype, rdata).for_each(drop);
    let mut lowered = rdata.to_vec();
    rdata_lowercase(rtype, &mut lowered);
    if rdata_check(rtype, rdata).is_ok() {
        let fields: Vec<u8> = rdata_fields(rtype, rdata).flat_map(|field| field.expect("checked").1.to_vec()).collect();
        assert_eq!(fields, rdata);
        assert_eq!(rdata_check(rtype, &lowered), Ok(()));
        assert!(rdata_eq(rtype, rdata, &lowered));
    }
    // The same octets behind a name that they may point to.
    let message = [&[0; 12][..], b"\x01a\x07example\0", rdata].concat();
    let mut out = Vec::new();
    match rdata_canonical(&message, 22..message.len(), rtype, &mut out) {
        Ok(()) => assert_eq!(rdata_check(rtype, &out), Ok(())),
        Err(_) => assert!(out.is_empty()),
    }
});
