//! HTTP with bounds: time, size, where redirects may lead, and no credential that travels.

use std::{collections::BTreeMap, error::Error as _, time::Duration};

use bytes::{Bytes, BytesMut};
use reqwest::{
    Client, Method, Response, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect::Policy,
};
use serde::Deserialize;
use windlass_api::analysis::{Authentication, Header, OAuth2};

use super::fault::Fault;

/// The largest answer that is read.
pub const LARGEST_ANSWER: usize = 10 << 20;

/// The longest text of a server's refusal that is shown.
const LONGEST_REASON: usize = 300;

/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// Redirects within one server that are followed.
const MOST_REDIRECTS: usize = 5;

/// Connections, shared by all measurements. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Http {
    strict: Client,
    lax: Client,
}

/// One request.
pub(super) struct Request<'a> {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: &'a [Header],
    pub(super) authentication: Option<&'a Authentication>,
    pub(super) insecure: bool,
    pub(super) timeout: Duration,
    pub(super) body: Body,
}

/// What is sent.
pub(super) enum Body {
    None,
    Form(Vec<(&'static str, String)>),
    Text(String),
    Json(String),
}

/// What came back.
pub(super) struct Reply {
    pub(super) server: String,
    pub(super) code: u16,
    pub(super) is_page: bool,
    pub(super) bytes: Bytes,
}

impl Http {
    /// Connections with and without a check of certificates. A process-wide TLS provider has to be installed.
    pub fn new() -> Result<Self, reqwest::Error> {
        let builder = || {
            Client::builder()
                .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(CONNECT)
                .pool_max_idle_per_host(4)
                .pool_idle_timeout(Duration::from_secs(60))
                .redirect(within_one_server())
        };
        Ok(Self { strict: builder().build()?, lax: builder().tls_danger_accept_invalid_certs(true).build()? })
    }

    /// Sends a request and reads the answer, all within its timeout.
    pub(super) async fn send(&self, request: Request<'_>) -> Result<Reply, Fault> {
        let (server, timeout) = (server(&request.url), request.timeout);
        let answer = tokio::time::timeout(timeout, self.exchange(request, &server)).await;
        answer.unwrap_or(Err(Fault::TimedOut { server, seconds: timeout.as_secs() }))
    }

    async fn exchange(&self, request: Request<'_>, server: &str) -> Result<Reply, Fault> {
        let client = if request.insecure { &self.lax } else { &self.strict };
        let mut headers = headers(request.headers)?;
        let oauth2 = request.authentication.and_then(|login| login.oauth2.as_ref());
        if let Some(oauth2) = oauth2.filter(|oauth2| !oauth2.token_url.is_empty()) {
            headers.insert(AUTHORIZATION, token(client, oauth2).await?);
        }
        let mut building = client.request(request.method, request.url);
        building = match request.body {
            Body::None => building,
            Body::Form(fields) => building.form(&fields),
            Body::Text(text) => building.body(text),
            Body::Json(text) => building.header(CONTENT_TYPE, "application/json").body(text),
        };
        let response = building.headers(headers).send().await.map_err(|error| failed(&error, server))?;
        if response.status().is_redirection() {
            let to = response.headers().get("location").and_then(|to| to.to_str().ok()).unwrap_or_default();
            let to = Url::parse(to).map_or_else(|_| "another place".to_owned(), |url| self::server(&url));
            return Err(Fault::Redirected { server: server.to_owned(), to });
        }
        read(response, server).await
    }
}

impl Reply {
    /// The answer as JSON; a web page is a fault of its own.
    pub(super) fn json<T: for<'de> Deserialize<'de>>(&self) -> Result<T, Fault> {
        if self.is_page {
            return Err(Fault::WebPage { server: self.server.clone() });
        }
        serde_json::from_slice(&self.bytes).map_err(|error| Fault::Unreadable {
            server: self.server.clone(),
            why: format!(
                "it is not the JSON that was expected ({:?} at byte {})",
                error.classify(),
                error.column()
            ),
        })
    }

    /// The answer as a refusal. What a web page says is not shown.
    pub(super) fn refused(&self, why: Option<&str>) -> Fault {
        let text = match why {
            Some(why) => why.to_owned(),
            None if self.is_page => "a web page".to_owned(),
            None => String::from_utf8_lossy(&self.bytes).into_owned(),
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let why: String = words.join(" ").chars().take(LONGEST_REASON).collect();
        let why = if why.is_empty() { "without a word".to_owned() } else { why };
        Fault::Refused { server: self.server.clone(), code: self.code, why, remedy: Fault::remedy(self.code) }
    }
}

/// An address that can be asked.
pub(super) fn address(text: &str) -> Result<Url, Fault> {
    let url = Url::parse(text.trim()).map_err(|_| Fault::Address("the address is not a URL".to_owned()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err(Fault::Address(format!("the scheme {} is not asked", url.scheme())));
    }
    Ok(url)
}

/// Who is asked: an address without path, query and credentials.
pub(super) fn server(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default())
}

/// Redirects stay on the server that was named: what is in headers, URLs and bodies is meant for it alone.
fn within_one_server() -> Policy {
    Policy::custom(|attempt| {
        let first = attempt.previous().first().map(Url::origin);
        if attempt.previous().len() > MOST_REDIRECTS || first != Some(attempt.url().origin()) {
            return attempt.stop();
        }
        attempt.follow()
    })
}

fn headers(headers: &[Header]) -> Result<HeaderMap, Fault> {
    let mut map = HeaderMap::new();
    for header in headers {
        let wrong =
            || Fault::Spec(format!("the header {:?} cannot be sent. Correct its name or value", header.key));
        let name: HeaderName = header.key.trim().parse().map_err(|_| wrong())?;
        let mut value: HeaderValue = header.value.trim().parse().map_err(|_| wrong())?;
        value.set_sensitive(true);
        map.insert(name, value);
    }
    Ok(map)
}

/// Asks for a token by client credentials.
async fn token(client: &Client, oauth2: &OAuth2) -> Result<HeaderValue, Fault> {
    #[derive(Deserialize)]
    struct Token {
        access_token: String,
    }
    let url = address(&oauth2.token_url)?;
    let server = server(&url);
    let mut form = BTreeMap::from([("grant_type", "client_credentials".to_owned())]);
    if !oauth2.scopes.is_empty() {
        form.insert("scope", oauth2.scopes.join(" "));
    }
    let request = client.post(url).basic_auth(&oauth2.client_id, Some(&oauth2.client_secret)).form(&form);
    let reply = read(request.send().await.map_err(|error| failed(&error, &server))?, &server).await?;
    if reply.code >= 300 {
        // Its words may quote what was sent.
        return Err(reply.refused(Some("no token was given")));
    }
    let token: Token = reply.json()?;
    let mut value: HeaderValue = format!("Bearer {}", token.access_token)
        .parse()
        .map_err(|_| Fault::Unreadable { server, why: "its token is no header".to_owned() })?;
    value.set_sensitive(true);
    Ok(value)
}

async fn read(mut response: Response, server: &str) -> Result<Reply, Fault> {
    let too_large = || Fault::TooLarge { server: server.to_owned() };
    let code = response.status().as_u16();
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let says_page = kind.to_ascii_lowercase().contains("html");
    if response.content_length().is_some_and(|length| length > LARGEST_ANSWER as u64) {
        return Err(too_large());
    }
    let mut bytes = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(&error, server))? {
        if bytes.len() + chunk.len() > LARGEST_ANSWER {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    let is_page = says_page || bytes.trim_ascii_start().starts_with(b"<");
    Ok(Reply { server: server.to_owned(), code, is_page, bytes: bytes.freeze() })
}

/// Why there is no answer. The error's own text holds the whole URL: only its causes are looked at.
fn failed(error: &reqwest::Error, server: &str) -> Fault {
    let server = server.to_owned();
    let mut causes = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    let last = causes.last().cloned().unwrap_or_default();
    if causes.iter().any(|cause| cause.contains("certificate")) {
        return Fault::Certificate { server };
    }
    if error.is_connect() {
        return Fault::Unreachable { server, why: last.chars().take(LONGEST_REASON).collect() };
    }
    Fault::BrokeOff { server }
}
