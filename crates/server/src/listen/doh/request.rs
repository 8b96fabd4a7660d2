//! Finds the DNS message in an HTTP request (RFC 8484 4.1), or the error status.

use crate::limits::{DATAGRAM_BYTES_MAX, HTTP_GET_BYTES_MAX};
use data_encoding::BASE64URL_NOPAD;
use http::{HeaderMap, Method, Request, StatusCode, header};

/// The only path that is served.
pub(super) const PATH: &str = "/dns-query";
/// The media type of messages (RFC 8484 6).
pub(super) const MEDIA_TYPE: &str = "application/dns-message";

/// Where the message of a request is.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// In its target.
    Target(Vec<u8>),
    /// In its body, which is not read yet.
    Body,
}

/// Why a request gets no DNS response: the status, and a sentence for the client's user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BadRequest {
    pub(super) status: StatusCode,
    pub(super) why: &'static str,
}

impl BadRequest {
    const fn new(status: StatusCode, why: &'static str) -> Self {
        Self { status, why }
    }

    /// The body is not a DNS message, or is one that gets no response.
    pub(super) const NO_QUERY: Self = Self::new(StatusCode::BAD_REQUEST, "this is not a DNS query\n");
    /// Any intermediary may repeat a GET (RFC 9110 9.2.1), so it must not change anything.
    pub(super) const CHANGE_BY_GET: Self =
        Self::new(StatusCode::BAD_REQUEST, "GET is for queries; send this with POST\n");
    /// The body is longer than a DNS message can be.
    pub(super) const TOO_LARGE: Self =
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "a DNS message has at most 65535 bytes\n");
    /// The body did not arrive in time.
    pub(super) const TOO_SLOW: Self = Self::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time\n");
    const NOT_HERE: Self = Self::new(StatusCode::NOT_FOUND, "DNS is at /dns-query\n");
    const METHOD: Self = Self::new(StatusCode::METHOD_NOT_ALLOWED, "use GET or POST (RFC 8484 4.1)\n");
    const MEDIA_TYPE: Self =
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the content type must be application/dns-message\n");
    const NO_PARAMETER: Self = Self::new(StatusCode::BAD_REQUEST, "GET needs the parameter `dns` (RFC 8484 4.1.1)\n");
    const NOT_BASE64: Self =
        Self::new(StatusCode::BAD_REQUEST, "`dns` must be base64url without padding (RFC 8484 6)\n");
    const TARGET_TOO_LONG: Self = Self::new(StatusCode::URI_TOO_LONG, "use POST for messages as long as this one\n");
}

/// Checks everything but the body.
pub(super) fn source<B>(request: &Request<B>) -> Result<Source, BadRequest> {
    if request.uri().path() != PATH {
        return Err(BadRequest::NOT_HERE);
    }
    if request.method() == Method::GET {
        let query = request.uri().query().unwrap_or_default();
        let message = query.split('&').find_map(|pair| pair.strip_prefix("dns=")).ok_or(BadRequest::NO_PARAMETER)?;
        // Longer parameters are not decoded.
        if message.len() > HTTP_GET_BYTES_MAX {
            return Err(BadRequest::TARGET_TOO_LONG);
        }
        return BASE64URL_NOPAD.decode(message.as_bytes()).map(Source::Target).map_err(|_| BadRequest::NOT_BASE64);
    }
    if request.method() != Method::POST {
        return Err(BadRequest::METHOD);
    }
    if !has_media_type(request.headers()) {
        return Err(BadRequest::MEDIA_TYPE);
    }
    match request.headers().get(header::CONTENT_LENGTH).map(|value| value.to_str().ok()?.parse::<u64>().ok()) {
        Some(Some(length)) if length > DATAGRAM_BYTES_MAX as u64 => Err(BadRequest::TOO_LARGE),
        _ => Ok(Source::Body),
    }
}

/// Media types are case-insensitive, and may have parameters (RFC 9110 8.3.1).
fn has_media_type(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case(MEDIA_TYPE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A short version of the fuzz target `doh_request`. Every request has a message, or gets a status from 400 to 499.
    fn check(method: &[u8], target: &str, content_type: &str, length: &str) -> Result<(), TestCaseError> {
        let request = Request::builder().method(method).uri(target);
        let request = request.header("content-type", content_type).header("content-length", length).body(());
        let Ok(request) = request else { return Ok(()) };
        match source(&request) {
            Ok(Source::Target(message)) => {
                prop_assert_eq!(request.method(), Method::GET);
                prop_assert!(message.len() <= HTTP_GET_BYTES_MAX * 3 / 4);
                prop_assert!(request.uri().query().unwrap().contains(&BASE64URL_NOPAD.encode(&message)));
            }
            Ok(Source::Body) => {
                prop_assert_eq!(request.method(), Method::POST);
                prop_assert!(content_type.to_ascii_lowercase().contains(MEDIA_TYPE));
            }
            Err(bad) => prop_assert!(bad.status.is_client_error() && bad.why.ends_with('\n')),
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn any_request_has_a_message_or_a_status(
            method in "GET|POST|HEAD|[A-Z]{1,5}",
            path in "/dns-query|/dns-query/?|/[a-z%/]{0,12}",
            parameters in prop::collection::vec("dns=[A-Za-z0-9_=+/-]{0,40}|[a-z]{0,4}=?[!-~]{0,8}", 0..4),
            content_type in "(application/dns-message|Application/DNS-Message|[ -~]{0,20})(; ?[a-z=]{0,9})?",
            length in "[0-9]{0,20}|[ -~]{0,6}"
        ) {
            let target = format!("{path}?{}", parameters.join("&"));
            check(method.as_bytes(), &target, &content_type, &length)?;
        }

        #[test]
        fn a_message_in_the_target_is_found(
            message in prop::collection::vec(any::<u8>(), 0..600), before in "[a-c=&]{0,9}"
        ) {
            let target = format!("/dns-query?{before}&dns={}", BASE64URL_NOPAD.encode(&message));
            prop_assert_eq!(ask(Method::GET, &target, &[]), Ok(Source::Target(message)));
        }
    }

    fn ask(method: Method, target: &str, headers: &[(&str, &str)]) -> Result<Source, u16> {
        let mut request = Request::builder().method(method).uri(format!("https://dns.example{target}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        source(&request.body(()).unwrap()).map_err(|bad| bad.status.as_u16())
    }

    #[test]
    fn each_rule_has_its_status() {
        let message = Ok(Source::Target(vec![0xFB, 0xFF]));
        assert_eq!(ask(Method::GET, "/dns-query?dns=-_8", &[]), message);
        assert_eq!(ask(Method::GET, "/dns-query?a=b&dns=-_8&dns=x", &[]), message);
        for (target, status) in [
            ("/", 404),
            ("/dns-query/", 404),
            ("/dns-query", 400),
            ("/dns-query?ct&name=example.org", 400),
            ("/dns-query?dns=+/8", 400),
            ("/dns-query?dns=-_8=", 400),
            ("/dns-query?dns=A", 400),
        ] {
            assert_eq!(ask(Method::GET, target, &[]), Err(status), "{target}");
        }
        let long = |count| format!("/dns-query?dns={}", "A".repeat(count));
        assert!(ask(Method::GET, &long(HTTP_GET_BYTES_MAX), &[]).is_ok());
        assert_eq!(ask(Method::GET, &long(HTTP_GET_BYTES_MAX + 1), &[]), Err(414));
        for method in [Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS] {
            assert_eq!(ask(method, "/dns-query?dns=AAAA", &[]), Err(405));
        }
        let post = |headers: &[(&str, &str)]| ask(Method::POST, "/dns-query", headers);
        assert_eq!(post(&[("content-type", "application/dns-message")]), Ok(Source::Body));
        assert_eq!(post(&[("content-type", "Application/DNS-Message; a=b")]), Ok(Source::Body));
        assert_eq!(post(&[("content-type", "application/json")]), Err(415));
        assert_eq!(post(&[]), Err(415));
        let sized = |length| post(&[("content-type", MEDIA_TYPE), ("content-length", length)]);
        assert_eq!(sized("65535"), Ok(Source::Body));
        assert_eq!(sized("65536"), Err(413));
        assert_eq!(sized("99999999999999999999"), Ok(Source::Body), "the body itself is bounded too");
    }
}
