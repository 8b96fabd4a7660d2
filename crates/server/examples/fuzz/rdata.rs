//! Any rdata of any type is checked, split into fields, and put into canonical form, which is stable. The first two
//! bytes of the input are the type.

use wire::{Rtype, rdata_canonical, rdata_check, rdata_eq, rdata_fields, rdata_lowercase, rdata_names};

pub(crate) fn run(bytes: &[u8]) {
    let Some((rtype, rdata)) = bytes.split_first_chunk() else { return };
    let rtype = Rtype(u16::from_be_bytes(*rtype));
    rdata_names(rtype, rdata).for_each(drop);
    let mut lowered = rdata.to_vec();
    rdata_lowercase(rtype, &mut lowered);
    if rdata_check(rtype, rdata).is_ok() {
        let fields: Vec<u8> = rdata_fields(rtype, rdata).flat_map(|field| field.expect("checked").1.to_vec()).collect();
        assert_eq!(fields, rdata);
        assert_eq!(rdata_check(rtype, &lowered), Ok(()));
        assert!(rdata_eq(rtype, rdata, &lowered));
    }
    // The same bytes after a name that they may point to.
    let message = [&[0; 12][..], b"\x01a\x07example\0", rdata].concat();
    let mut out = Vec::new();
    match rdata_canonical(&message, 23..message.len(), rtype, &mut out) {
        Ok(()) => assert_eq!(rdata_check(rtype, &out), Ok(())),
        Err(_) => assert!(out.is_empty()),
    }
}
