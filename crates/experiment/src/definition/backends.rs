//! Addresses of backends: `{one.address}, {other.address}` after the variables are replaced.

use std::net::SocketAddr;

/// Parses addresses with ports, separated by commas. Empty text is no address.
///
/// # Errors
/// A part is not an address with a port.
pub(crate) fn addresses(text: &str) -> Result<Vec<SocketAddr>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let address = |part: &str| {
        let part = part.trim();
        part.parse().map_err(|_| {
            format!("`{part}` is not an address with a port; write for example \"{{dns.address}}\" or 127.0.0.1:53")
        })
    };
    text.split(',').map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_separated_by_commas() {
        let two = ["127.0.0.1:53", "[::1]:5353"].map(|address| address.parse().unwrap());
        assert_eq!(addresses("127.0.0.1:53, [::1]:5353").unwrap(), two);
        assert_eq!(addresses(" ").unwrap(), []);
        for wrong in ["127.0.0.1", "127.0.0.1:53,", "dns.address"] {
            assert!(addresses(wrong).unwrap_err().contains("is not an address with a port"), "{wrong}");
        }
    }
}
