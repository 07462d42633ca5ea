//! SSH signatures of commits, as `git` makes them with `gpg.format = ssh`.

use std::{fmt, sync::Arc};

use ring::signature::RsaKeyPair;
use ssh_key::{HashAlg, LineEnding, PrivateKey, SshSig, private::KeypairData, public::KeyData};

use super::rsa;
use crate::openssh;

/// What is signed: `git` accepts a signature for nothing else.
const NAMESPACE: &str = "git";

/// A key that cannot sign. The key itself is never repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not a private key in OpenSSH's own format.
    #[error(
        "the signing key is no private key in OpenSSH format ({reason}); \
         `ssh-keygen -p -f KEY` rewrites an older format"
    )]
    Malformed {
        /// What the parser said.
        reason: String,
    },
    /// A passphrase protects the key, and nobody is here to type it.
    #[error("the signing key is protected by a passphrase; `ssh-keygen -p -N '' -f KEY` takes it off a copy")]
    Encrypted,
    /// An RSA key that no library should sign with.
    #[error("the RSA key cannot sign: its size must be between 2048 and 4096 bits, and its exponent 65537")]
    RsaSize,
    /// A kind of key that cannot sign here: DSA, or one that lives in a hardware token.
    #[error("a key of type {algorithm} cannot sign; use ed25519, ecdsa or rsa")]
    Unsupported {
        /// Its type.
        algorithm: String,
    },
}

/// A commit that could not be signed.
#[derive(Debug, thiserror::Error)]
#[error("cannot sign the commit with the key {fingerprint}")]
pub struct SignError {
    /// Which key.
    pub fingerprint: String,
    /// What went wrong.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// A private key that signs commits.
///
/// The same commit gets the same signature every time, and so the same id. The one exception is ECDSA with 521 bits,
/// for which the library draws a random number.
#[derive(Clone)]
pub struct SshSigner {
    key: PrivateKey,
    rsa: Option<Arc<RsaKeyPair>>,
}

impl SshSigner {
    /// Reads a private key in OpenSSH format: ed25519, ecdsa or rsa, without a passphrase.
    pub fn from_openssh(text: &str) -> Result<Self, KeyError> {
        // Secrets are often stored with Windows line ends, or without the last one.
        let text = format!("{}\n", text.replace("\r\n", "\n").trim());
        let malformed = |error: ssh_key::Error| KeyError::Malformed { reason: error.to_string() };
        let key = openssh::read(&text).map_err(malformed)?;
        if key.is_encrypted() {
            return Err(KeyError::Encrypted);
        }
        let rsa = match key.key_data() {
            KeypairData::Rsa(pair) => Some(Arc::new(rsa::signer(pair).ok_or(KeyError::RsaSize)?)),
            _ => None,
        };
        let signer = Self { key, rsa };
        match signer.sign(b"") {
            Ok(_) => Ok(signer),
            Err(_) => Err(KeyError::Unsupported { algorithm: signer.key.algorithm().to_string() }),
        }
    }

    /// The public half, as a line of an `authorized_keys` or `allowed_signers` file has it.
    pub fn public_key(&self) -> String {
        self.key.public_key().to_openssh().unwrap_or_default()
    }

    /// The name of the key: `SHA256:…`.
    pub fn fingerprint(&self) -> String {
        self.key.fingerprint(HashAlg::Sha256).to_string()
    }

    /// Signs; the result is armored text without a line break at its end.
    pub(super) fn sign(&self, content: &[u8]) -> Result<String, SignError> {
        let failed =
            |source: ssh_key::Error| SignError { fingerprint: self.fingerprint(), source: source.into() };
        let signature = self.signature(content).map_err(failed)?;
        let text = signature.to_pem(LineEnding::LF).map_err(failed)?;
        Ok(text.trim_end().to_owned())
    }

    fn signature(&self, content: &[u8]) -> ssh_key::Result<SshSig> {
        let Some(key) = &self.rsa else {
            return SshSig::sign(&self.key, NAMESPACE, HashAlg::Sha512, content);
        };
        let data = SshSig::signed_data(NAMESPACE, HashAlg::Sha512, content)?;
        let public: KeyData = self.key.public_key().key_data().clone();
        SshSig::new(public, NAMESPACE, HashAlg::Sha512, rsa::sign(key, &data)?)
    }
}

impl fmt::Debug for SshSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SshSigner").field("fingerprint", &self.fingerprint()).finish_non_exhaustive()
    }
}
