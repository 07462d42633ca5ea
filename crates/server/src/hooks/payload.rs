//! What the bodies of the Git servers say, in one form.
//!
//! Only what is asked for is read, and every text is checked for length and odd characters: it ends in requests, status
//! and logs of others.

use serde_json::Value;
use thiserror::Error;

use super::{Provider, Push};

/// Addresses that one push may have.
const MOST_URLS: usize = 16;

/// Branches that one hook may name one by one; more are told as one push without a name.
const MOST_CHANGES: usize = 16;

/// The longest address that is taken.
const LONGEST_URL: usize = 2048;

/// The longest name that is taken.
const LONGEST_NAME: usize = 255;

/// Where `repository` and `project` have addresses.
const URL_KEYS: [&str; 10] = [
    "clone_url",
    "git_http_url",
    "http_url",
    "ssh_url",
    "git_ssh_url",
    "git_url",
    "html_url",
    "web_url",
    "homepage",
    "url",
];

/// What a hook tells.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Somebody tries whether the hook works.
    Ping,
    /// Something was pushed: one entry per branch or tag, at least one.
    Pushes(Vec<Push>),
    /// Something that does not matter here, and why.
    Ignored(String),
}

/// A body that is not what its headers promise. Holds nothing of the body.
#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum Malformed {
    #[error(
        "The body is not JSON (line {line}, column {column}); choose JSON as the content type of the hook."
    )]
    Json { line: usize, column: usize },
    #[error("The request does not say which event it tells of.")]
    NoEvent,
    #[error("The body names no repository: there is no address in it.")]
    NoRepository,
}

/// Reads a body whose sender is known.
pub(super) fn read(provider: Provider, event: Option<&str>, body: &[u8]) -> Result<Event, Malformed> {
    // What is of no interest is not even parsed.
    if let Some(event) = event
        && let Some(told) = by_name(provider, event)
    {
        return Ok(told);
    }
    let body: Value = serde_json::from_slice(body)
        .map_err(|error| Malformed::Json { line: error.line(), column: error.column() })?;
    let pushes = match (provider, event) {
        (Provider::Generic, _) => vec![generic(&body)],
        (_, None) => return Err(Malformed::NoEvent),
        (Provider::Gitlab, Some("System Hook")) => {
            let name = text(&body, &["event_name"]).unwrap_or_default();
            if !["push", "tag_push"].contains(&name.as_str()) {
                return Ok(Event::Ignored("only pushes of system hooks matter here".to_owned()));
            }
            vec![one(&body)]
        }
        (Provider::Bitbucket, _) => bitbucket(&body),
        _ => vec![one(&body)],
    };
    if pushes.iter().any(|push| push.urls.is_empty()) {
        return Err(Malformed::NoRepository);
    }
    Ok(if pushes.is_empty() { Event::Ignored("nothing was moved".to_owned()) } else { Event::Pushes(pushes) })
}

/// Events that are told by their name alone; `None` for those whose body matters.
fn by_name(provider: Provider, event: &str) -> Option<Event> {
    let (pushes, pings): (&[&str], &[&str]) = match provider {
        Provider::Github | Provider::Gitea => (&["push"], &["ping"]),
        Provider::Gitlab => (&["Push Hook", "Tag Push Hook", "System Hook"], &[]),
        Provider::Bitbucket => {
            (&["repo:push", "repo:refs_changed", "mirror:repo_synchronized"], &["diagnostics:ping"])
        }
        Provider::Generic => return None,
    };
    if pushes.contains(&event) {
        return None;
    }
    if pings.contains(&event) {
        return Some(Event::Ping);
    }
    Some(Event::Ignored(format!("only pushes matter here, and this is `{}`", plain(event, 64))))
}

/// GitHub, GitLab and Gitea: one push, one branch or tag.
fn one(body: &Value) -> Push {
    Push {
        urls: urls(body),
        reference: text(body, &["ref"]),
        commit: commit(body, &["after", "checkout_sha"]),
        pusher: pusher(body),
    }
}

/// Anything: the fields that people would think of, and those of the others.
fn generic(body: &Value) -> Push {
    let mut push = one(body);
    let own = body.get("urls").and_then(Value::as_array).into_iter().flatten();
    let own = own.chain(["url", "repository", "repoURL"].into_iter().filter_map(|key| body.get(key)));
    for url in own.filter_map(Value::as_str) {
        add(&mut push.urls, url);
    }
    push.reference = push.reference.or_else(|| text(body, &["reference", "branch", "tag"]));
    push.commit = push.commit.or_else(|| commit(body, &["commit", "revision", "sha"]));
    push.pusher = push.pusher.or_else(|| text(body, &["by", "user", "pusher"]));
    push
}

/// Bitbucket Cloud (`push.changes`) and Data Center (`changes`): several branches in one hook.
fn bitbucket(body: &Value) -> Vec<Push> {
    let urls = bitbucket_urls(body);
    let pusher =
        body.get("actor").and_then(|actor| text(actor, &["name", "nickname", "display_name", "displayName"]));
    let none = Vec::new();
    let cloud = body.pointer("/push/changes").and_then(Value::as_array);
    let changes = cloud.or_else(|| body.get("changes").and_then(Value::as_array)).unwrap_or(&none);
    if changes.len() > MOST_CHANGES {
        return vec![Push { urls, reference: None, commit: None, pusher }];
    }
    let push = |change: &Value| {
        let (reference, commit) =
            if cloud.is_some() { cloud_change(change) } else { data_center_change(change) };
        Push { urls: urls.clone(), reference, commit, pusher: pusher.clone() }
    };
    changes.iter().map(push).collect()
}

fn cloud_change(change: &Value) -> (Option<String>, Option<String>) {
    let side = ["new", "old"].into_iter().filter_map(|key| change.get(key)).find(|side| side.is_object());
    let reference = side.and_then(|side| {
        let folder = if side.get("type").and_then(Value::as_str) == Some("tag") { "tags" } else { "heads" };
        Some(format!("refs/{folder}/{}", text(side, &["name"])?))
    });
    let commit = change.pointer("/new/target").and_then(|target| commit(target, &["hash"]));
    (reference, commit)
}

fn data_center_change(change: &Value) -> (Option<String>, Option<String>) {
    (change.get("ref").and_then(|reference| text(reference, &["id"])), commit(change, &["toHash"]))
}

/// Bitbucket names addresses under `links`, and not always all of them.
fn bitbucket_urls(body: &Value) -> Vec<String> {
    let mut urls = urls(body);
    let Some(links) = body.pointer("/repository/links") else { return urls };
    let hrefs = |name: &str| -> Vec<String> {
        let entries = match links.get(name) {
            Some(Value::Array(entries)) => entries.iter().collect(),
            Some(entry) => vec![entry],
            None => Vec::new(),
        };
        entries.into_iter().filter_map(|entry| entry.get("href")?.as_str().map(ToOwned::to_owned)).collect()
    };
    for url in hrefs("clone") {
        add(&mut urls, &url);
    }
    for url in hrefs("html") {
        add(&mut urls, &url);
        // Cloud: the addresses to clone from follow from that of the page.
        if let Some((host, path)) = url.strip_prefix("https://").and_then(|rest| rest.split_once('/')) {
            let path = path.trim_end_matches('/');
            add(&mut urls, &format!("https://{host}/{path}.git"));
            add(&mut urls, &format!("git@{host}:{path}.git"));
            add(&mut urls, &format!("ssh://git@{host}/{path}.git"));
        }
    }
    for url in hrefs("self") {
        // Data Center before it named the addresses to clone from: …/projects/KEY/repos/slug/browse
        if let Some((base, rest)) = url.split_once("/projects/")
            && let [key, "repos", slug, ..] = rest.split('/').collect::<Vec<_>>().as_slice()
        {
            add(&mut urls, &format!("{base}/scm/{}/{slug}.git", key.to_lowercase()));
        }
    }
    urls
}

/// The addresses of `repository` and `project`.
fn urls(body: &Value) -> Vec<String> {
    let mut urls = Vec::new();
    for place in ["repository", "project"].into_iter().filter_map(|key| body.get(key)) {
        for url in URL_KEYS.into_iter().filter_map(|key| place.get(key)?.as_str()) {
            add(&mut urls, url);
        }
    }
    urls
}

fn add(urls: &mut Vec<String>, url: &str) {
    let url = url.trim();
    let good = !url.is_empty()
        && url.len() <= LONGEST_URL
        && !url.starts_with('-')
        && !url.chars().any(|c| c.is_control() || c.is_whitespace());
    if good && urls.len() < MOST_URLS && !urls.iter().any(|known| known == url) {
        urls.push(url.to_owned());
    }
}

/// Who pushed, by the name that is most like a login.
fn pusher(body: &Value) -> Option<String> {
    let person = |key: &str| body.get(key).filter(|person| person.is_object());
    let named = |person: &Value| text(person, &["login", "username", "name"]);
    text(body, &["user_username"])
        .or_else(|| person("pusher").and_then(named))
        .or_else(|| person("sender").and_then(named))
        .or_else(|| text(body, &["user_name"]))
}

/// The first of these fields that holds a usable text.
fn text(value: &Value, keys: &[&str]) -> Option<String> {
    keys.iter()
        .filter_map(|key| value.get(*key)?.as_str())
        .map(|text| plain(text, LONGEST_NAME))
        .find(|text| !text.is_empty())
}

/// The first of these fields that holds a commit. Nothing but zeros stands for a branch that went.
fn commit(value: &Value, keys: &[&str]) -> Option<String> {
    let is_commit = |text: &&str| {
        [40, 64].contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_hexdigit())
            && text.bytes().any(|byte| byte != b'0')
    };
    keys.iter().filter_map(|key| value.get(*key)?.as_str()).find(is_commit).map(str::to_ascii_lowercase)
}

/// A text without control characters and of bounded length.
fn plain(text: &str, longest: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(longest).collect::<String>().trim().to_owned()
}

#[cfg(test)]
#[path = "payload_tests.rs"]
mod tests;
