//! Users of a testbed server: passwords and tokens that a test sets and takes away at any time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, header};

/// What a request shows of its sender.
#[derive(PartialEq, Eq)]
pub(crate) enum Credentials {
    /// No `Authorization` header.
    Absent,
    /// User name and password.
    Basic {
        /// User name.
        user: String,
        /// Password, or a token in its place.
        password: String,
    },
    /// A token.
    Bearer(String),
    /// A header that cannot be understood.
    Other,
}

/// Reads the `Authorization` header.
pub(crate) fn credentials(headers: &HeaderMap) -> Credentials {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Credentials::Absent };
    let Some((scheme, rest)) = value.to_str().ok().and_then(|value| value.split_once(' ')) else {
        return Credentials::Other;
    };
    if scheme.eq_ignore_ascii_case("bearer") {
        return Credentials::Bearer(rest.trim().to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return Credentials::Other;
    }
    let decoded = STANDARD.decode(rest.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    match decoded.as_deref().and_then(|pair| pair.split_once(':')) {
        Some((user, password)) => Credentials::Basic { user: user.to_owned(), password: password.to_owned() },
        None => Credentials::Other,
    }
}

/// Who may do what on one server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Users {
    users: Arc<Mutex<BTreeMap<String, User>>>,
}

#[derive(Default)]
struct User {
    password: Option<String>,
    token: Option<String>,
    read_only: bool,
}

/// Secrets never show, not even those of a test.
impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("read_only", &self.read_only).finish_non_exhaustive()
    }
}

/// Who sent a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Nobody said who they are.
    Anonymous,
    /// A user with good credentials.
    User {
        /// User name.
        name: String,
        /// Whether the user may change things.
        may_write: bool,
    },
    /// Credentials that no user has.
    Refused,
}

impl Users {
    /// Whether there is no user at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.users().is_empty()
    }

    /// Adds a user or changes the password.
    pub(crate) fn set_password(&self, name: &str, password: &str) {
        self.users().entry(name.to_owned()).or_default().password = Some(password.to_owned());
    }

    /// Adds a user or changes the token.
    pub(crate) fn set_token(&self, name: &str, token: &str) {
        self.users().entry(name.to_owned()).or_default().token = Some(token.to_owned());
    }

    /// Whether a user may change things; users may unless told otherwise. Adds the user when there is none.
    pub(crate) fn set_may_write(&self, name: &str, may_write: bool) {
        self.users().entry(name.to_owned()).or_default().read_only = !may_write;
    }

    /// Takes a user away.
    pub(crate) fn remove(&self, name: &str) {
        self.users().remove(name);
    }

    /// Finds out who sent a request. A token counts as `Bearer` and as the password of any user name, as the large
    /// forges have it.
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Caller {
        let users = self.users();
        let by_token = |token: &str| users.iter().find(|(_, user)| user.token.as_deref() == Some(token));
        let found = match credentials(headers) {
            Credentials::Absent => return Caller::Anonymous,
            Credentials::Other => None,
            Credentials::Bearer(token) => by_token(&token),
            Credentials::Basic { user, password } => users
                .get_key_value(&user)
                .filter(|(_, known)| known.password.as_ref() == Some(&password))
                .or_else(|| by_token(&password)),
        };
        found.map_or(Caller::Refused, |(name, user)| Caller::User {
            name: name.clone(),
            may_write: !user.read_only,
        })
    }

    fn users(&self) -> MutexGuard<'_, BTreeMap<String, User>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(value: &str) -> HeaderMap {
        let value = HeaderValue::from_str(value).expect("valid header");
        HeaderMap::from_iter([(header::AUTHORIZATION, value)])
    }

    fn basic(user: &str, password: &str) -> HeaderMap {
        headers(&format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
    }

    #[test]
    fn callers_are_told_apart() {
        let users = Users::default();
        users.set_password("dev-a", "pass:word");
        users.set_token("robot", "t0ken");
        users.set_may_write("robot", false);
        let dev_a = Caller::User { name: "dev-a".into(), may_write: true };
        let robot = Caller::User { name: "robot".into(), may_write: false };
        assert_eq!(users.caller(&basic("dev-a", "pass:word")), dev_a);
        assert_eq!(users.caller(&basic("dev-a", "other")), Caller::Refused);
        assert_eq!(users.caller(&basic("nobody", "pass:word")), Caller::Refused);
        assert_eq!(users.caller(&basic("x-access-token", "t0ken")), robot);
        assert_eq!(users.caller(&headers("bearer t0ken")), robot);
        assert_eq!(users.caller(&headers("Bearer nonsense")), Caller::Refused);
        assert_eq!(users.caller(&headers("Basic !!!")), Caller::Refused);
        assert_eq!(users.caller(&headers("Negotiate abc")), Caller::Refused);
        assert_eq!(users.caller(&HeaderMap::new()), Caller::Anonymous);
        users.remove("dev-a");
        assert_eq!(users.caller(&basic("dev-a", "pass:word")), Caller::Refused);
    }

    #[test]
    fn a_user_without_password_has_no_empty_password() {
        let users = Users::default();
        users.set_may_write("dev-a", true);
        assert_eq!(users.caller(&basic("dev-a", "")), Caller::Refused);
        assert_eq!(users.caller(&headers("Bearer ")), Caller::Refused);
    }

    #[test]
    fn secrets_do_not_show_in_debug_output() {
        let users = Users::default();
        users.set_password("dev-a", "planted-secret");
        users.set_token("dev-a", "planted-secret");
        assert!(!format!("{users:?}").contains("planted-secret"));
    }
}
