//! Checks the host of a request. An attacker can make a browser send requests to a node: with a name that points at the
//! node (DNS rebinding), or from a page of another site. Header fields reveal both.

use super::error::ApiError;
use super::guard::{Peer, has_token};
use super::state::Api;
use axum::extract::{Extension, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::Response;
use std::sync::Arc;

/// Refuses requests for another host, and changes requested by pages of other sites.
pub(super) async fn check(
    State(api): State<Arc<Api>>,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let host = host_of(&request)?;
    if let (Peer::Tcp { local, .. }, Some(host)) = (peer, &host)
        && !api.hosts.allow(host.host(), local)
        // A page of an attacker does not have the token.
        && !has_token(&api, &request)
    {
        // RFC 9110 15.5.20: the request was directed at a server that is not configured for it.
        return Err(ApiError::new(
            StatusCode::MISDIRECTED_REQUEST,
            "unknown host name",
            "use an address that the node listens on, add the name to `hosts` in [api], or send the token",
        ));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) && is_cross_site(request.headers(), host.as_ref()) {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "cross-site request refused",
            "send the request from the command line, or without the header fields Origin and Sec-Fetch-Site",
        ));
    }
    Ok(next.run(request).await)
}

/// The host of the request. HTTP/1.0 requests may have none.
fn host_of(request: &Request) -> Result<Option<Authority>, ApiError> {
    let mut fields = request.headers().get_all(header::HOST).iter();
    let (field, is_one) = (fields.next(), fields.next().is_none());
    // RFC 9112 3.2: 400 to "any HTTP/1.1 request message that lacks a Host header field and to any request message that
    // contains more than one Host header field line or a Host header field with an invalid field value".
    let bad = || {
        ApiError::bad_request("the request needs exactly one Host header field", "set it to the host name of the node")
    };
    if !is_one || field.is_none() && request.version() == Version::HTTP_11 {
        return Err(bad());
    }
    let named = field.map(|field| Authority::try_from(field.as_bytes())).transpose().map_err(|_| bad())?;
    if named.as_ref().is_some_and(|named| named.as_str().contains('@')) {
        return Err(bad());
    }
    // RFC 9112 3.2.2: the host in a request target of absolute form counts, and the field does not.
    Ok(request.uri().authority().cloned().or(named))
}

/// Whether a browser reports that a page of another site sent the request.
fn is_cross_site(headers: &HeaderMap, host: Option<&Authority>) -> bool {
    let is_other_origin = headers.get_all(header::ORIGIN).iter().any(|origin| {
        let authority =
            origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority);
        authority.is_none_or(|origin| host.is_none_or(|host| !origin.eq_ignore_ascii_case(host.as_str())))
    });
    let fetch = headers.get("sec-fetch-site").map(|site| site.as_bytes());
    is_other_origin || fetch.is_some_and(|site| !matches!(site, b"same-origin" | b"none"))
}
