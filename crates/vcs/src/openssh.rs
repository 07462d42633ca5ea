//! Private keys as OpenSSH stores them, the ECDSA keys whose secret number is short included.
//!
//! OpenSSH stores that number without zeros in front: about one key in 256 is a byte short, with 521 bits every second
//! one. The ssh-key crate (0.6) expects the full length and would refuse those keys.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ssh_key::PrivateKey;

const BEGIN: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";
const END: &str = "-----END OPENSSH PRIVATE KEY-----";
const MAGIC: &[u8] = b"openssh-key-v1\0";

/// The private part is padded to this, with the bytes 1, 2, 3, …
const BLOCK: usize = 8;

/// Reads a private key; an encrypted one comes back encrypted.
pub(crate) fn read(text: &str) -> Result<PrivateKey, ssh_key::Error> {
    PrivateKey::from_openssh(text).or_else(|error| match with_whole_scalar(text) {
        Some(text) => PrivateKey::from_openssh(text),
        None => Err(error),
    })
}

/// The same key with zeros in front of its number; `None` when it is no ECDSA key, or nothing is missing.
fn with_whole_scalar(text: &str) -> Option<String> {
    let body: String = text.trim().strip_prefix(BEGIN)?.strip_suffix(END)?.split_whitespace().collect();
    let bytes = BASE64_STANDARD.decode(body).ok()?;
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let (cipher, kdf, options) = (field(&mut rest)?, field(&mut rest)?, field(&mut rest)?);
    let count = number(&mut rest)?;
    let (public, private) = (field(&mut rest)?, field(&mut rest)?);
    if cipher != b"none" || count != 1 {
        return None;
    }
    let private = pad(private)?;
    let mut out = MAGIC.to_vec();
    for part in [cipher, kdf, options] {
        put(&mut out, part)?;
    }
    out.extend_from_slice(&count.to_be_bytes());
    put(&mut out, public)?;
    put(&mut out, &private)?;
    let encoded = BASE64_STANDARD.encode(out);
    let mut text = format!("{BEGIN}\n");
    for line in encoded.as_bytes().chunks(70) {
        text.push_str(std::str::from_utf8(line).ok()?);
        text.push('\n');
    }
    Some(format!("{text}{END}\n"))
}

/// Two check numbers, type, curve, public point, the number, a comment.
fn pad(private: &[u8]) -> Option<Vec<u8>> {
    let (checks, mut rest) = private.split_at_checked(8)?;
    let (kind, curve, point) = (field(&mut rest)?, field(&mut rest)?, field(&mut rest)?);
    let (scalar, comment) = (field(&mut rest)?, field(&mut rest)?);
    let size: usize = match curve {
        b"nistp256" => 32,
        b"nistp384" => 48,
        b"nistp521" => 66,
        _ => return None,
    };
    let missing = size.checked_sub(scalar.len()).filter(|missing| *missing > 0)?;
    let mut out = checks.to_vec();
    for part in [kind, curve, point, &[&vec![0; missing], scalar].concat(), comment] {
        put(&mut out, part)?;
    }
    let mut padding = 1..=u8::MAX;
    while out.len() % BLOCK != 0 {
        out.push(padding.next()?);
    }
    Some(out)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let (bytes, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u32::from_be_bytes(*bytes))
}

fn field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(number(rest)?).ok()?;
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}

fn put(out: &mut Vec<u8>, field: &[u8]) -> Option<()> {
    out.extend_from_slice(&u32::try_from(field.len()).ok()?.to_be_bytes());
    out.extend_from_slice(field);
    Some(())
}
