//! Reads names and flags of requests.

use super::error::ApiError;
use wire::Name;
use zone::record::ZoneId;

/// The canonical name. `example` is one for the hint.
pub(super) fn parse_name(text: &str, example: &str) -> Result<Name, ApiError> {
    let name: Name = text.parse().map_err(|error| {
        ApiError::bad_request(format!("`{text}` is not a domain name: {error}"), format!("write it as in {example}"))
    })?;
    Ok(name.as_ref().to_canonical())
}

/// The canonical name of a key.
pub(super) fn parse_key_name(text: &str) -> Result<Name, ApiError> {
    parse_name(text, "dhcp.example.")
}

/// The zone with this apex.
pub(super) fn parse_zone(text: &str) -> Result<ZoneId, ApiError> {
    Ok(ZoneId { view: 0, apex: parse_name(text, "example.org.")? })
}

/// The value of a query parameter that is 0 or 1. Without the parameter it is 0.
pub(super) fn parse_flag(parameter: &str, value: Option<&str>) -> Result<bool, ApiError> {
    match value {
        None | Some("0" | "false") => Ok(false),
        Some("1" | "true") => Ok(true),
        Some(other) => Err(ApiError::bad_request(
            format!("`{other}` is not a value of {parameter}"),
            format!("{parameter} is 0 or 1"),
        )),
    }
}
