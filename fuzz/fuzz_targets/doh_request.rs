//! Any request line and headers of DNS over HTTPS: a message that was in the target, a body to come, or a status.
#![no_main]

#[expect(dead_code, reason = "the server uses more of it")]
#[path = "../../crates/server/src/limits.rs"]
mod limits;
#[expect(dead_code, reason = "the server uses more of it")]
#[path = "../../crates/server/src/listen/doh/request.rs"]
mod request;

use data_encoding::BASE64URL_NOPAD;
use http::{Method, Request};
use libfuzzer_sys::fuzz_target;
use request::{MEDIA_TYPE, Source, source};

fuzz_target!(|input: (&[u8], &str, &[u8], &[u8])| {
    let (method, target, content_type, length) = input;
    let request = Request::builder().method(method).uri(target);
    let request = request.header("content-type", content_type).header("content-length", length).body(());
    let Ok(request) = request else { return };
    match source(&request) {
        Ok(Source::Target(message)) => {
            assert_eq!(request.method(), Method::GET);
            assert!(message.len() <= limits::HTTP_GET_OCTETS_MAX * 3 / 4);
            assert!(request.uri().query().expect("it was there").contains(&BASE64URL_NOPAD.encode(&message)));
        }
        Ok(Source::Body) => {
            assert_eq!(request.method(), Method::POST);
            assert!(
                content_type.to_ascii_lowercase().windows(MEDIA_TYPE.len()).any(|part| part == MEDIA_TYPE.as_bytes())
            );
        }
        Err(bad) => assert!(bad.status.is_client_error()),
    }
});
