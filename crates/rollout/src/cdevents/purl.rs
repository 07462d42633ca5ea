//! A container image as a package URL.

/// The purl of an image reference: `pkg:oci/<name>@<digest>?repository_url=<repository>&tag=<tag>`.
///
/// The repository is what the reference says. A host that a node would add to a short name is not guessed.
pub fn purl(image: &str) -> String {
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    // A colon before the last slash belongs to a port.
    let tag_at = rest.rfind(':').filter(|colon| rest.rfind('/').is_none_or(|slash| slash < *colon));
    let (repository, tag) = match tag_at {
        Some(colon) => (&rest[..colon], Some(&rest[colon + 1..])),
        None => (rest, None),
    };
    let name = repository.rsplit('/').next().unwrap_or(repository).to_lowercase();
    let mut out = format!("pkg:oci/{}", encode(&name, ""));
    if let Some(digest) = digest {
        out.push('@');
        out.push_str(&encode(digest, ""));
    }
    out.push_str("?repository_url=");
    out.push_str(&encode(repository, "/:"));
    // A digest says which one; without a digest and a tag the reference means this tag.
    if let Some(tag) = tag.or(digest.is_none().then_some("latest")) {
        out.push_str("&tag=");
        out.push_str(&encode(tag, ""));
    }
    out
}

/// Percent-encodes all but the unreserved characters of a URL and those in `kept`.
fn encode(text: &str, kept: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        let letter = char::from(byte);
        if letter.is_ascii_alphanumeric() || "-._~".contains(letter) || kept.contains(letter) {
            out.push(letter);
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::purl;

    #[test]
    fn an_image_becomes_a_package_url() {
        for (image, expected) in [
            ("web", "pkg:oci/web?repository_url=web&tag=latest"),
            ("web:1.2", "pkg:oci/web?repository_url=web&tag=1.2"),
            ("example.com:5000/shop/Web", "pkg:oci/web?repository_url=example.com:5000/shop/Web&tag=latest"),
            ("example.com:5000/shop/web:v1", "pkg:oci/web?repository_url=example.com:5000/shop/web&tag=v1"),
            ("example.com/web@sha256:ab", "pkg:oci/web@sha256%3Aab?repository_url=example.com/web"),
            ("example.com/web:v1@sha256:ab", "pkg:oci/web@sha256%3Aab?repository_url=example.com/web&tag=v1"),
        ] {
            assert_eq!(purl(image), expected);
        }
    }
}
