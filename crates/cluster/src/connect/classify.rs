//! What went wrong between us and an API server, told from the types of the errors.

use std::{error::Error, io};

use rustls::{AlertDescription, CertificateError, Error as TlsError};

use super::RequestTimeout;

/// Kinds of failure below HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// The host name has no address.
    Unresolvable,
    /// Nothing listens there.
    ConnectionRefused,
    /// No route to the address.
    Unreachable,
    /// The connection was cut.
    ConnectionLost,
    /// No answer in time.
    Timeout,
    /// The server's certificate comes from somebody we do not trust.
    CertificateUntrusted,
    /// The server's certificate has ended or not begun.
    CertificateExpired,
    /// The server's certificate is for another name.
    CertificateNameMismatch,
    /// The server does not accept our certificate.
    ClientCertificateRejected,
    /// The other side speaks no TLS, or none that we speak.
    NotTls,
}

/// The kind of a failed request, `None` when it is none of these.
///
/// Every error of the chain is looked at, also those inside of [`io::Error`]. TLS says more than I/O, so it wins.
pub fn transport(error: &(dyn Error + 'static)) -> Option<Transport> {
    let mut io_kind = None;
    let mut current = Some(error);
    // A chain is short; the bound guards against one that cycles.
    for _ in 0..32 {
        let Some(error) = current else { break };
        if let Some(found) = of_one(error, &mut io_kind) {
            return Some(found);
        }
        current = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            // `source` of an io::Error skips the error that it wraps.
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    io_kind
}

fn of_one(error: &(dyn Error + 'static), io_kind: &mut Option<Transport>) -> Option<Transport> {
    if let Some(error) = error.downcast_ref::<TlsError>() {
        return of_tls(error);
    }
    if error.is::<RequestTimeout>() || error.is::<tokio::time::error::Elapsed>() {
        return Some(Transport::Timeout);
    }
    if let Some(error) = error.downcast_ref::<io::Error>() {
        *io_kind = of_io(error.kind()).or(*io_kind);
        return None;
    }
    // hyper-util keeps its type for a failed look-up private.
    if error.to_string().starts_with("dns error") {
        return Some(Transport::Unresolvable);
    }
    None
}

fn of_io(kind: io::ErrorKind) -> Option<Transport> {
    use io::ErrorKind;
    match kind {
        ErrorKind::ConnectionRefused => Some(Transport::ConnectionRefused),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::AddrNotAvailable => {
            Some(Transport::Unreachable)
        }
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::NotConnected
        | ErrorKind::UnexpectedEof => Some(Transport::ConnectionLost),
        ErrorKind::TimedOut => Some(Transport::Timeout),
        _ => None,
    }
}

fn of_tls(error: &TlsError) -> Option<Transport> {
    match error {
        TlsError::InvalidCertificate(error) => Some(match error {
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Transport::CertificateExpired,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Transport::CertificateNameMismatch
            }
            _ => Transport::CertificateUntrusted,
        }),
        TlsError::AlertReceived(alert) => Some(match alert {
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRequired
            | AlertDescription::UnknownCA
            // An authority that was made anew under its old name: the signature does not match.
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied => Transport::ClientCertificateRejected,
            _ => Transport::NotTls,
        }),
        TlsError::InvalidMessage(_)
        | TlsError::PeerIncompatible(_)
        | TlsError::PeerMisbehaved(_)
        | TlsError::InappropriateMessage { .. }
        | TlsError::InappropriateHandshakeMessage { .. } => Some(Transport::NotTls),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thiserror::Error;

    #[derive(Debug, Error)]
    #[error("outer")]
    struct Outer(#[source] Box<dyn Error + Send + Sync>);

    fn wrapped(inner: impl Into<Box<dyn Error + Send + Sync>>) -> Outer {
        Outer(Box::new(Outer(inner.into())))
    }

    #[test]
    fn an_error_inside_of_an_io_error_is_found() {
        let tls = TlsError::InvalidCertificate(CertificateError::UnknownIssuer);
        let error = wrapped(io::Error::new(io::ErrorKind::InvalidData, tls));
        assert_eq!(transport(&error), Some(Transport::CertificateUntrusted));
        let alert = TlsError::AlertReceived(AlertDescription::CertificateRequired);
        let error = wrapped(io::Error::new(io::ErrorKind::ConnectionReset, alert));
        assert_eq!(transport(&error), Some(Transport::ClientCertificateRejected));
    }

    #[test]
    fn io_kinds_and_time_outs_are_told_apart() {
        let io = |kind| transport(&wrapped(io::Error::from(kind)));
        assert_eq!(io(io::ErrorKind::ConnectionRefused), Some(Transport::ConnectionRefused));
        assert_eq!(io(io::ErrorKind::TimedOut), Some(Transport::Timeout));
        assert_eq!(io(io::ErrorKind::UnexpectedEof), Some(Transport::ConnectionLost));
        assert_eq!(io(io::ErrorKind::PermissionDenied), None);
        assert_eq!(transport(&wrapped(RequestTimeout(std::time::Duration::ZERO))), Some(Transport::Timeout));
    }
}
