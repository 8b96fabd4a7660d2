//! Any datagram is classified. If it gets a response, its records can be read and the response is well formed.

use wire::{Composer, EdnsOut, Message, Parsed, Rcode, Section, parse_request, rdata_check};

pub(crate) fn run(bytes: &[u8]) {
    let edns = EdnsOut { payload: 1232, ..EdnsOut::default() };
    let mut buffer = [0; 1232];
    let mut composer = Composer::new(&mut buffer, 1232);
    let edns = match parse_request(bytes) {
        Parsed::Drop(_) => return,
        Parsed::Reject(reject) => {
            composer.start_reject(&reject);
            reject.edns.map(|_| edns)
        }
        Parsed::Request(request) => {
            let mut rdata = Vec::new();
            for section in Section::ALL {
                for record in request.records(section) {
                    let record = record.expect("the parser has checked it");
                    rdata.clear();
                    if record.rdata_canonical(&mut rdata).is_ok() {
                        assert_eq!(rdata_check(record.rtype, &rdata), Ok(()));
                    }
                }
            }
            assert_eq!(request.tsig_view().is_some(), request.tsig.is_some());
            composer.start_response(&request, Rcode::REFUSED, false);
            request.edns.map(|_| edns)
        }
    };
    let len = composer.finish(edns.as_ref());
    let response = Message::parse(&buffer[..len]).expect("the composer made it");
    assert_eq!(response.header().id.to_be_bytes(), bytes[..2]);
    assert!(response.header().qr);
}
