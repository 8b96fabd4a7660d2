//! A web page that contains the address of the client, alone or in other text.

use crate::address::Family;
use crate::limits::{AUTHORITIES_BYTES_MAX, HEAD_BYTES_MAX, LOCATION_SHOWN_MAX, PAGE_BYTES_MAX, PROBE_MS};
use std::io::Read;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use ureq::config::IpFamily;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

/// Gets the page over this family.
pub(super) fn ask(url: &str, family: Family, authorities: &Path) -> Result<IpAddr, String> {
    let ip_family = match family {
        Family::V4 => IpFamily::Ipv4Only,
        Family::V6 => IpFamily::Ipv6Only,
    };
    let config = ureq::Agent::config_builder()
        .ip_family(ip_family)
        // A proxy would hide the address of this machine.
        .proxy(None)
        // A redirect could lead to a server that only this machine can reach.
        .max_redirects(0)
        .max_response_header_size(HEAD_BYTES_MAX)
        .user_agent(concat!("catamaran-ddns/", env!("CARGO_PKG_VERSION")))
        .timeout_global(Some(Duration::from_millis(PROBE_MS)));
    let config = if url.starts_with("https:") { config.tls_config(trust(authorities)?) } else { config };
    let response = ureq::Agent::new_with_config(config.build()).get(url).call().map_err(|error| error.to_string())?;
    if response.status().is_redirection() {
        return Err(redirected(&response));
    }
    let mut page = Vec::new();
    let body = response.into_body().into_reader();
    body.take(PAGE_BYTES_MAX).read_to_end(&mut page).map_err(|error| error.to_string())?;
    find(&page, family).ok_or_else(|| format!("no {} address on the page", family.label()))
}

/// The error for a redirect. Its target is untrusted text, so only printable characters are shown.
fn redirected(response: &ureq::http::Response<ureq::Body>) -> String {
    let to = response.headers().get(ureq::http::header::LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("nowhere");
    let to: String = to.chars().filter(char::is_ascii_graphic).take(LOCATION_SHOWN_MAX).collect();
    format!("the page redirects to {to}, which is not followed; if you trust that URL, use it in the configuration")
}

/// The trusted CAs.
fn trust(authorities: &Path) -> Result<TlsConfig, String> {
    let file_error = |why: String| format!("{}: {why}", authorities.display());
    let pem = crate::files::read_bounded(authorities, AUTHORITIES_BYTES_MAX)
        .map_err(|error| file_error(error.to_string()))?;
    let certificates: Vec<_> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(file_error("the file has no certificate".into()));
    }
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&certificates))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

/// The first address of a family in a text.
fn find(page: &[u8], family: Family) -> Option<IpAddr> {
    let is_of_address = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':');
    page.split(|byte| !is_of_address(byte))
        // A full stop or a colon may follow the address.
        .flat_map(|token| [token, token.strip_suffix(b".").unwrap_or(token), token.strip_suffix(b":").unwrap_or(token)])
        .filter_map(|token| std::str::from_utf8(token).ok()?.parse().ok())
        .find(|address| Family::of(address) == family)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Serves one page over TLS. Returns its port and its CA certificate.
    fn serve_over_tls(page: &'static str) -> (u16, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
        let chain = vec![certificate.der().clone()];
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = Arc::new(versions.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap());
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        // The thread runs until the process exits.
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let connection = rustls::ServerConnection::new(config.clone()).unwrap();
                let mut tls = rustls::StreamOwned::new(connection, stream);
                let mut request = [0; 1_024];
                if tls.read(&mut request).is_ok() {
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", page.len());
                    let _ = tls.write_all((head + page).as_bytes());
                    let _ = tls.flush();
                }
            }
        });
        (port, certificate.pem())
    }

    #[test]
    fn a_page_over_https_counts_if_its_ca_is_trusted() {
        let (port, ca) = serve_over_tls("ip=192.0.2.1");
        let (_, other_ca) = serve_over_tls("");
        let dir = std::env::temp_dir().join(format!("catamaran-ddns-https-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let url = format!("https://127.0.0.1:{port}/");
        let answer = ask(&url, Family::V4, &file("trusted.pem", &format!("{other_ca}{ca}")));
        assert_eq!(answer, Ok("192.0.2.1".parse().unwrap()));
        assert!(ask(&url, Family::V6, &file("trusted.pem", &ca)).is_err(), "there is no way over IPv6");
        let refused = ask(&url, Family::V4, &file("stranger.pem", &other_ca)).unwrap_err();
        assert!(refused.to_lowercase().contains("certificate"), "{refused}");
        assert!(ask(&url, Family::V4, &file("none.pem", "nothing")).unwrap_err().contains("no certificate"));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    /// Serves one response to each client. Returns the port, and the number of clients so far.
    fn serve(response: String) -> (u16, Arc<AtomicUsize>) {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (port, count) = (listener.local_addr().unwrap().port(), Arc::<AtomicUsize>::default());
        let counter = count.clone();
        // The thread runs until the process exits.
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                counter.fetch_add(1, Ordering::Relaxed);
                let _ = stream.read(&mut [0; 1_024]);
                let _ = stream.write_all(response.as_bytes());
            }
        });
        (port, count)
    }

    #[test]
    fn redirects_are_not_followed() {
        let page = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n192.0.2.1".to_owned();
        let (inside, visits) = serve(page);
        let ask = |port| ask(&format!("http://127.0.0.1:{port}/"), Family::V4, Path::new("none"));
        assert_eq!(ask(inside), Ok("192.0.2.1".parse().unwrap()), "the page itself is readable");
        for status in ["301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary Redirect"] {
            let to = format!("http://127.0.0.1:{inside}/");
            let (page, requests) = serve(format!("HTTP/1.1 {status}\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"));
            let refused = ask(page).unwrap_err();
            assert!(refused.contains("not followed") && refused.contains(&to), "{refused}");
            assert_eq!((requests.load(Ordering::Relaxed), visits.load(Ordering::Relaxed)), (1, 1), "{status}");
        }
    }

    #[test]
    fn an_endless_response_is_truncated() {
        let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}192.0.2.1", "x ".repeat(PAGE_BYTES_MAX as usize));
        let (port, _) = serve(endless);
        let ask = |port| ask(&format!("http://127.0.0.1:{port}/"), Family::V4, Path::new("none"));
        assert!(ask(port).unwrap_err().contains("no ipv4 address"), "text beyond the limit is not read");
        let head = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n192.0.2.1", "x".repeat(HEAD_BYTES_MAX));
        assert!(ask(serve(head).0).is_err());
    }

    #[test]
    fn the_address_is_found_among_other_text() {
        let (v4, v6) = ("192.0.2.1".parse().ok(), "2001:db8::1".parse().ok());
        for page in [
            "192.0.2.1",
            "192.0.2.1\n",
            "<html><body>Current IP Address: 192.0.2.1</body></html>",
            "{\"ip\":\"192.0.2.1\",\"v6\":\"2001:db8::1\"}",
            "fl=1\nip=192.0.2.1\nts=1700000000.123\n",
            "You are 192.0.2.1.",
        ] {
            assert_eq!(find(page.as_bytes(), Family::V4), v4, "{page}");
        }
        for page in ["2001:db8::1\r\n", "ip=2001:DB8::1", "[2001:db8::1]:443", "is 2001:db8::1: yes"] {
            assert_eq!(find(page.as_bytes(), Family::V6), v6, "{page}");
        }
        for page in ["", "none", "192.0.2", "1.2.3.4.5", "12:30:45", "\u{fffd}", "2001:db8::1"] {
            assert_eq!(find(page.as_bytes(), Family::V4), None, "{page}");
        }
    }
}
