//! Which addresses a kubeconfig may send us to.
//!
//! Loopback and private networks are where API servers live, so they are allowed. Link-local and instance-metadata
//! addresses never hold one and hand out credentials, so they are refused: as literals when a kubeconfig is read,
//! and after name resolution each time a client is built. What a name server changes afterwards can only make us
//! open a TLS handshake, never send a request: plain HTTP is refused and redirects are not followed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::Uri;
use rustls::pki_types::ServerName;

use super::KubeconfigError;

/// Metadata services outside of the link-local ranges: Azure's wire server, Alibaba's and AWS' IPv6 service.
const METADATA_V4: [Ipv4Addr; 2] = [Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(100, 100, 100, 200)];
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// Whether an address is link-local or known to serve instance metadata.
pub(super) fn is_forbidden(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_link_local() || METADATA_V4.contains(&v4),
        IpAddr::V6(v6) => {
            v6.is_unicast_link_local()
                || v6 == METADATA_V6
                || embedded_v4(v6).is_some_and(|v4| is_forbidden(IpAddr::V4(v4)))
        }
    }
}

/// The IPv4 address inside a NAT64 (`64:ff9b::/96`) or IPv4-compatible (`::/96`) address.
fn embedded_v4(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let [prefix @ .., high, low] = v6.segments();
    let nat64 = prefix == [0x64, 0xff9b, 0, 0, 0, 0];
    let compatible = prefix == [0; 6] && high != 0;
    (nat64 || compatible).then(|| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
}

/// The host of a URI without brackets and zone.
pub(super) fn host(uri: &Uri) -> Option<&str> {
    let host = uri.host()?;
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    Some(host.split('%').next().unwrap_or(host)).filter(|h| !h.is_empty())
}

/// Resolvers read `2852039166`, `0xA9.254.1` or `0251.254.169.254` as IPv4: nothing that a person writes on purpose.
fn is_disguised_number(host: &str) -> bool {
    if host.parse::<IpAddr>().is_ok() {
        return false;
    }
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or(host).to_ascii_lowercase();
    let hex = last.strip_prefix("0x").is_some_and(|h| h.chars().all(|c| c.is_ascii_hexdigit()));
    hex || (!last.is_empty() && last.chars().all(|c| c.is_ascii_digit()))
}

/// Checks the `server` field. `plain_http` is true where the operator's own file may use `kubectl proxy`.
pub(super) fn server(cluster: &str, text: &str, plain_http: bool) -> Result<Uri, KubeconfigError> {
    let bad = |what| KubeconfigError::BadServer { cluster: cluster.to_owned(), what };
    let text = text.trim();
    if text.is_empty() {
        return Err(bad("is missing"));
    }
    // kubectl takes an address without scheme as plain HTTP.
    let uri = text.parse::<Uri>().map_err(|_| bad("is not a URL"))?;
    match uri.scheme_str() {
        Some("https") => {}
        Some("http") if plain_http => {}
        Some("http") | None => return Err(KubeconfigError::PlainHttp { cluster: cluster.to_owned() }),
        Some(_) => return Err(bad("has an unknown scheme")),
    }
    if uri.query().is_some() || text.contains('#') {
        return Err(bad("has a query or fragment"));
    }
    check_authority("server", &uri, || bad("has no valid host"))?;
    Ok(uri)
}

/// Checks the `proxy-url` field. Credentials are allowed in the operator's own file only.
pub(super) fn proxy(cluster: &str, text: &str, own_file: bool) -> Result<Uri, KubeconfigError> {
    let bad = |what| KubeconfigError::BadProxy { cluster: cluster.to_owned(), what };
    let uri = text.trim().parse::<Uri>().map_err(|_| bad("is not a URL"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(bad("has a scheme other than http and https"));
    }
    match check_authority("proxy-url", &uri, || bad("has no valid host")) {
        Err(KubeconfigError::UrlCredentials { .. }) if own_file => {}
        other => other?,
    }
    Ok(uri)
}

fn check_authority(
    field: &'static str,
    uri: &Uri,
    no_host: impl Fn() -> KubeconfigError,
) -> Result<(), KubeconfigError> {
    let authority = uri.authority().ok_or_else(&no_host)?;
    let host = host(uri).ok_or_else(&no_host)?;
    if host.parse::<IpAddr>().is_ok_and(is_forbidden) {
        return Err(KubeconfigError::ForbiddenAddress { field, host: host.to_owned() });
    }
    if is_disguised_number(host) || ServerName::try_from(host).is_err() {
        return Err(no_host());
    }
    if authority.as_str().contains('@') {
        return Err(KubeconfigError::UrlCredentials { field });
    }
    Ok(())
}

/// The proxy that the process environment asks for, the way kubectl reads it.
///
/// Loopback is never proxied; `NO_PROXY` lists hosts, domain suffixes, addresses and CIDR ranges of the *cluster*.
pub(super) fn environment_proxy(server: &Uri, env: &dyn Fn(&str) -> Option<String>) -> Option<Uri> {
    let set = |name: &str| env(name).filter(|value| !value.trim().is_empty());
    let proxy = set("HTTPS_PROXY").or_else(|| set("https_proxy"))?.trim().parse::<Uri>().ok()?;
    let host = host(server)?;
    let loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let excluded = set("NO_PROXY").or_else(|| set("no_proxy")).is_some_and(|list| in_no_proxy(host, &list));
    (!loopback && !excluded).then_some(proxy)
}

fn in_no_proxy(host: &str, list: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let address = host.parse::<IpAddr>().ok();
    list.split(',').map(|entry| entry.trim().to_ascii_lowercase()).filter(|entry| !entry.is_empty()).any(
        |entry| {
            if entry == "*" || entry == host {
                return true;
            }
            if let Some(address) = address {
                return entry.parse::<IpAddr>().is_ok_and(|e| e == address) || in_range(address, &entry);
            }
            let suffix = entry.trim_start_matches("*.").trim_start_matches('.');
            host.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.'))
        },
    )
}

fn in_range(address: IpAddr, range: &str) -> bool {
    let Some((base, bits)) = range.split_once('/') else { return false };
    let (Ok(base), Ok(bits)) = (base.parse::<IpAddr>(), bits.parse::<u32>()) else { return false };
    match (address, base) {
        (IpAddr::V4(a), IpAddr::V4(b)) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            u32::from(a) & mask == u32::from(b) & mask
        }
        (IpAddr::V6(a), IpAddr::V6(b)) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            u128::from(a) & mask == u128::from(b) & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_and_metadata_addresses_are_forbidden_in_every_spelling() {
        for text in [
            "169.254.169.254",
            "169.254.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "::169.254.169.254",
            "fe80::1",
            "febf::1",
            "fd00:ec2::254",
            "168.63.129.16",
            "100.100.100.200",
        ] {
            assert!(is_forbidden(text.parse().unwrap()), "{text}");
        }
        for text in
            ["127.0.0.1", "::1", "10.0.0.1", "192.168.1.1", "0.0.0.0", "fd00::1", "2001:db8::1", "8.8.8.8"]
        {
            assert!(!is_forbidden(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn numbers_that_resolvers_read_as_addresses_are_no_hosts() {
        for text in
            ["https://2852039166", "https://0xA9FEA9FE", "https://169.254.43518", "https://0251.254.169.254"]
        {
            let error = server("c", text, false).unwrap_err();
            assert_eq!(error.reason(), "KubeconfigBadServer", "{text}");
        }
        assert!(server("c", "https://node1.example.org:6443/k8s/clusters/c-1", false).is_ok());
        assert!(server("c", "https://[::1]:6443", false).is_ok());
    }

    #[test]
    fn the_environment_proxy_spares_what_no_proxy_names() {
        let proxied = |server: &str, no_proxy: &str| {
            let env = |name: &str| match name {
                "HTTPS_PROXY" => Some("http://proxy.example.org:3128".to_owned()),
                "NO_PROXY" => Some(no_proxy.to_owned()),
                _ => None,
            };
            environment_proxy(&server.parse().unwrap(), &env).is_some()
        };
        assert!(proxied("https://api.example.org:6443", ""));
        assert!(proxied("https://api.example.org:6443", "other.org, ample.org"));
        assert!(proxied("https://10.1.2.3", "10.2.0.0/16,10.1.2.4"));
        assert!(!proxied("https://127.0.0.1:6443", ""));
        assert!(!proxied("https://localhost:6443", ""));
        assert!(!proxied("https://api.example.org:6443", "a.b, .example.org"));
        assert!(!proxied("https://api.example.org:6443", "EXAMPLE.org"));
        assert!(!proxied("https://api.example.org:6443", "*.example.org"));
        assert!(!proxied("https://api.example.org:6443", "*"));
        assert!(!proxied("https://10.1.2.3", "10.0.0.0/8"));
        assert!(!proxied("https://[fd00::7]", "fd00::/8"));
    }
}
