//! One encrypted value: `ENC[AES256_GCM,data:…,iv:…,tag:…,type:…]`.

use aes_gcm::{
    AesGcm, KeyInit as _, Nonce,
    aead::{Aead as _, Payload},
    aes::{Aes256, cipher::consts::U32},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Number, Value};

use super::metadata::DataKey;

/// SOPS uses nonces of 32 bytes.
type Cipher = AesGcm<Aes256, U32>;
const NONCE: usize = 32;

const BEGIN: &str = "ENC[AES256_GCM,data:";

/// A decrypted value.
pub(super) enum Plain {
    /// A text, or bytes.
    Text(Vec<u8>),
    /// A number or a truth value.
    Value(Value),
    /// What was a comment in a list.
    Comment,
}

/// Why a value cannot be decrypted. No value is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ValueError {
    /// It is not in the form that SOPS writes.
    #[error("is damaged: it is not in the form that SOPS writes")]
    Form,
    /// It was changed or moved after it was encrypted.
    #[error("was changed or moved after it was encrypted")]
    Sealed,
    /// What comes out does not have the type that it says.
    #[error("does not hold what its type says")]
    Type,
}

/// Whether a text is an encrypted value.
pub(super) fn is_encrypted(text: &str) -> bool {
    text.starts_with(BEGIN) && text.ends_with(']')
}

/// Decrypts a value that is bound to a place.
pub(super) fn decrypt(key: &DataKey, text: &str, place: &str) -> Result<Plain, ValueError> {
    let inner = text.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(']')).ok_or(ValueError::Form)?;
    let (rest, kind) = inner.rsplit_once(",type:").ok_or(ValueError::Form)?;
    let (rest, tag) = rest.rsplit_once(",tag:").ok_or(ValueError::Form)?;
    let (data, iv) = rest.rsplit_once(",iv:").ok_or(ValueError::Form)?;
    let bytes = |text: &str| STANDARD.decode(text).map_err(|_| ValueError::Form);
    let (mut sealed, iv) = (bytes(data)?, bytes(iv)?);
    sealed.extend(bytes(tag)?);
    let nonce: [u8; NONCE] = iv.try_into().map_err(|_| ValueError::Form)?;
    let cipher = Cipher::new(&key.0.into());
    let payload = Payload { msg: &sealed, aad: place.as_bytes() };
    let plain = cipher.decrypt(&Nonce::<U32>::from(nonce), payload).map_err(|_| ValueError::Sealed)?;
    typed(kind, plain)
}

fn typed(kind: &str, plain: Vec<u8>) -> Result<Plain, ValueError> {
    let text = || std::str::from_utf8(&plain).map_err(|_| ValueError::Type);
    Ok(Plain::Value(match kind {
        "str" | "bytes" | "time" => return Ok(Plain::Text(plain)),
        "comment" => return Ok(Plain::Comment),
        "int" => Value::from(text()?.parse::<i64>().map_err(|_| ValueError::Type)?),
        "float" => {
            let number = text()?.parse::<f64>().map_err(|_| ValueError::Type)?;
            Value::Number(Number::from_f64(number).ok_or(ValueError::Type)?)
        }
        "bool" => match text()? {
            "True" | "true" | "TRUE" | "1" | "t" | "T" => Value::Bool(true),
            "False" | "false" | "FALSE" | "0" | "f" | "F" => Value::Bool(false),
            _ => return Err(ValueError::Type),
        },
        _ => return Err(ValueError::Form),
    }))
}
