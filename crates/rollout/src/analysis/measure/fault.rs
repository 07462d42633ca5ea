//! Why a measurement could not be taken. Each way to fail has its own words and its own remedy.

/// Why a measurement could not be taken. Texts name the server by scheme, host and port only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The spec itself is wrong.
    #[error("{0}")]
    Spec(String),
    /// No address, or none that can be asked.
    #[error("{0}. Set an http:// or https:// address")]
    Address(String),
    /// Nobody answers.
    #[error(
        "{server} cannot be reached: {why}. Check the address, and that the controller may connect to it"
    )]
    Unreachable {
        /// Who was asked.
        server: String,
        /// The cause, in short.
        why: String,
    },
    /// Its certificate is not trusted.
    #[error("{server} shows a certificate that is not trusted. Give it one that is, or set insecure: true")]
    Certificate {
        /// Who was asked.
        server: String,
    },
    /// The answer took too long.
    #[error("{server} did not answer within {seconds} s. Make the query cheaper, or raise the timeout")]
    TimedOut {
        /// Who was asked.
        server: String,
        /// How long it had.
        seconds: u64,
    },
    /// The connection broke in the middle of the answer.
    #[error("{server} broke off in the middle of its answer. The measurement is tried again")]
    BrokeOff {
        /// Who was asked.
        server: String,
    },
    /// The answer is too large.
    #[error("{server} answered with more than 10 MB. Aggregate in the query, for example with sum()")]
    TooLarge {
        /// Who was asked.
        server: String,
    },
    /// A web page came instead of data.
    #[error(
        "{server} answered with a web page instead of JSON. Check that the address is that of the API and not of a login page or a dashboard"
    )]
    WebPage {
        /// Who was asked.
        server: String,
    },
    /// Something came that is not what was asked for.
    #[error(
        "{server} answered with something that cannot be read: {why}. Check that the address is that of the API"
    )]
    Unreadable {
        /// Who was asked.
        server: String,
        /// What is wrong with it.
        why: String,
    },
    /// The server refused.
    #[error("{server} answered {code}: {why}. {remedy}")]
    Refused {
        /// Who was asked.
        server: String,
        /// The HTTP status.
        code: u16,
        /// What the server said.
        why: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The server sends us elsewhere.
    #[error(
        "{server} redirects to {to}. Headers are not sent to another server: set that address if it is meant"
    )]
    Redirected {
        /// Who was asked.
        server: String,
        /// Where it points to.
        to: String,
    },
    /// The answer has no value at that place.
    #[error("the answer has nothing at {0}. Check jsonPath against what the server answers")]
    NothingThere(String),
}

impl Fault {
    /// One of a few names, for metrics.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Spec(_) => "spec",
            Self::Address(_) => "address",
            Self::Unreachable { .. } => "unreachable",
            Self::Certificate { .. } => "certificate",
            Self::TimedOut { .. } => "timeout",
            Self::BrokeOff { .. } => "broke_off",
            Self::TooLarge { .. } => "too_large",
            Self::WebPage { .. } => "web_page",
            Self::Unreadable { .. } => "unreadable",
            Self::Refused { .. } => "refused",
            Self::Redirected { .. } => "redirected",
            Self::NothingThere(_) => "nothing_there",
        }
    }

    /// What to do about an HTTP status.
    pub(super) const fn remedy(code: u16) -> &'static str {
        match code {
            400 | 422 => "Correct the query",
            401 | 403 => "Give a header or oauth2 that lets the controller in",
            404 | 405 => "Check the address",
            429 => "Ask less often",
            _ => "The server has to be looked at",
        }
    }
}
