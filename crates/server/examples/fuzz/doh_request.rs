//! Any DNS over HTTPS request has a message in its target, announces a body, or gets an error status. The lines of the
//! input are method, target, media type and length.

use crate::limits::HTTP_GET_BYTES_MAX;
use crate::request::{MEDIA_TYPE, Source, source};
use data_encoding::BASE64URL_NOPAD;
use http::{Method, Request};

pub(crate) fn run(bytes: &[u8]) {
    let mut lines = bytes.splitn(4, |&byte| byte == b'\n');
    let [Some(method), Some(target), Some(content_type), Some(length)] = std::array::from_fn(|_| lines.next()) else {
        return;
    };
    let request = Request::builder().method(method).uri(target);
    let request = request.header("content-type", content_type).header("content-length", length).body(());
    let Ok(request) = request else { return };
    match source(&request) {
        Ok(Source::Target(message)) => {
            assert_eq!(request.method(), Method::GET);
            assert!(message.len() <= HTTP_GET_BYTES_MAX * 3 / 4);
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
}
