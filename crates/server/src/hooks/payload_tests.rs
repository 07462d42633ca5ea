use serde_json::json;

use super::*;

const COMMIT: &str = "59b20b8d5c6ff8d09518454d4dd8b7b30f095ab5";
const ZEROS: &str = "0000000000000000000000000000000000000000";

fn pushes(provider: Provider, event: &str, body: &Value) -> Vec<Push> {
    match read(provider, Some(event), body.to_string().as_bytes()) {
        Ok(Event::Pushes(pushes)) => pushes,
        other => panic!("{other:?}"),
    }
}

fn github(after: &str) -> Value {
    json!({
        "ref": "refs/heads/main", "before": ZEROS, "after": after, "deleted": after == ZEROS, "forced": false,
        "repository": {
            "id": 1, "full_name": "shop/web", "private": true,
            "html_url": "https://github.example/shop/web", "url": "https://github.example/shop/web",
            "git_url": "git://github.example/shop/web.git", "ssh_url": "git@github.example:shop/web.git",
            "clone_url": "https://github.example/shop/web.git", "default_branch": "main",
        },
        "pusher": { "name": "dev-a", "email": "dev-a@shop.example" }, "sender": { "login": "dev-a", "id": 7 },
        "commits": [{ "id": after, "message": "one", "modified": ["web.yaml"] }],
    })
}

#[test]
fn a_push_of_github_names_every_address() {
    let found = pushes(Provider::Github, "push", &github(COMMIT));
    assert_eq!(
        found,
        [Push {
            urls: [
                "https://github.example/shop/web.git",
                "git@github.example:shop/web.git",
                "git://github.example/shop/web.git",
                "https://github.example/shop/web",
            ]
            .map(ToOwned::to_owned)
            .to_vec(),
            reference: Some("refs/heads/main".into()),
            commit: Some(COMMIT.into()),
            pusher: Some("dev-a".into()),
        }]
    );
    assert_eq!(pushes(Provider::Github, "push", &github(ZEROS))[0].commit, None, "the branch went");
}

#[test]
fn a_push_of_gitlab_and_of_its_system_hooks() {
    let body = json!({
        "object_kind": "push", "event_name": "push", "before": ZEROS, "after": COMMIT, "ref": "refs/heads/main",
        "checkout_sha": COMMIT, "user_name": "Developer A", "user_username": "dev-a",
        "project": {
            "name": "web", "web_url": "https://gitlab.example/shop/web",
            "git_ssh_url": "git@gitlab.example:shop/web.git", "git_http_url": "https://gitlab.example/shop/web.git",
            "homepage": "https://gitlab.example/shop/web", "url": "git@gitlab.example:shop/web.git",
            "ssh_url": "git@gitlab.example:shop/web.git", "http_url": "https://gitlab.example/shop/web.git",
        },
        "repository": { "name": "web", "url": "git@gitlab.example:shop/web.git" },
    });
    for event in ["Push Hook", "Tag Push Hook", "System Hook"] {
        let found = pushes(Provider::Gitlab, event, &body);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pusher.as_deref(), Some("dev-a"));
        assert_eq!(found[0].commit.as_deref(), Some(COMMIT));
        for url in [
            "git@gitlab.example:shop/web.git",
            "https://gitlab.example/shop/web.git",
            "https://gitlab.example/shop/web",
        ] {
            assert!(found[0].urls.iter().any(|known| known == url), "{url}");
        }
    }
    let other = json!({ "event_name": "user_create", "username": "dev-b" }).to_string();
    let told = read(Provider::Gitlab, Some("System Hook"), other.as_bytes());
    assert!(matches!(told, Ok(Event::Ignored(_))), "{told:?}");
}

#[test]
fn a_push_of_gitea() {
    let body = json!({
        "ref": "refs/tags/v1", "after": COMMIT, "compare_url": "https://gitea.example/x",
        "repository": {
            "html_url": "https://gitea.example/shop/web", "ssh_url": "ssh://git@gitea.example:2222/shop/web.git",
            "clone_url": "https://gitea.example/shop/web.git", "website": "https://elsewhere.example",
        },
        "pusher": { "login": "dev-a", "username": "dev-a" },
    });
    let found = pushes(Provider::Gitea, "push", &body);
    assert_eq!(found[0].reference.as_deref(), Some("refs/tags/v1"));
    assert_eq!(found[0].urls.len(), 3, "the website is no address of the repository: {:?}", found[0].urls);
}

#[test]
fn bitbucket_cloud_tells_of_each_branch_and_its_addresses_are_worked_out() {
    let branch = |name: &str, hash: &str| json!({ "old": null, "forced": false, "new": { "type": "branch", "name": name, "target": { "hash": hash } } });
    let body = json!({
        "actor": { "display_name": "Developer A", "nickname": "dev-a" },
        "repository": {
            "full_name": "shop/web",
            "links": { "html": { "href": "https://bitbucket.org/shop/web" }, "self": { "href": "https://api.bitbucket.org/2.0/repositories/shop/web" } },
        },
        "push": { "changes": [
            branch("main", COMMIT),
            { "new": null, "old": { "type": "tag", "name": "v1", "target": { "hash": COMMIT } } },
        ] },
    });
    let found = pushes(Provider::Bitbucket, "repo:push", &body);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].reference.as_deref(), Some("refs/heads/main"));
    assert_eq!((found[1].reference.as_deref(), found[1].commit.as_deref()), (Some("refs/tags/v1"), None));
    assert_eq!(found[0].pusher.as_deref(), Some("dev-a"));
    for url in ["https://bitbucket.org/shop/web.git", "git@bitbucket.org:shop/web.git"] {
        assert!(found[0].urls.iter().any(|known| known == url), "{url}: {:?}", found[0].urls);
    }
    let many: Vec<Value> = (0..100).map(|n| branch(&format!("b{n}"), COMMIT)).collect();
    let mut flood = body;
    flood["push"]["changes"] = many.into();
    let found = pushes(Provider::Bitbucket, "repo:push", &flood);
    assert_eq!((found.len(), found[0].reference.as_deref()), (1, None), "too many to tell one by one");
}

#[test]
fn bitbucket_data_center_of_old_and_of_today() {
    let mut body = json!({
        "eventKey": "repo:refs_changed", "actor": { "name": "dev-a", "displayName": "Developer A" },
        "repository": {
            "slug": "web", "project": { "key": "SHOP" },
            "links": { "self": [{ "href": "https://git.shop.example/projects/SHOP/repos/web/browse" }] },
        },
        "changes": [{
            "ref": { "id": "refs/heads/main", "displayId": "main", "type": "BRANCH" },
            "fromHash": ZEROS, "toHash": COMMIT, "type": "UPDATE",
        }],
    });
    let found = pushes(Provider::Bitbucket, "repo:refs_changed", &body);
    assert_eq!(found[0].urls, ["https://git.shop.example/scm/shop/web.git"]);
    assert_eq!((found[0].commit.as_deref(), found[0].pusher.as_deref()), (Some(COMMIT), Some("dev-a")));
    body["repository"]["links"]["clone"] = json!([
        { "href": "ssh://git@git.shop.example:7999/shop/web.git", "name": "ssh" },
        { "href": "https://git.shop.example/scm/shop/web.git", "name": "http" },
    ]);
    assert_eq!(pushes(Provider::Bitbucket, "repo:refs_changed", &body)[0].urls.len(), 2);
    body["changes"] = json!([]);
    let told = read(Provider::Bitbucket, Some("repo:refs_changed"), body.to_string().as_bytes());
    assert!(matches!(told, Ok(Event::Ignored(_))), "{told:?}");
}

#[test]
fn a_generic_hook_is_as_short_as_people_write_it() {
    let read = |body: Value| read(Provider::Generic, None, body.to_string().as_bytes());
    let Ok(Event::Pushes(found)) = read(json!({
        "url": "https://git.example/a", "branch": "main", "commit": COMMIT, "by": "ci"
    })) else {
        panic!("not taken")
    };
    assert_eq!(found[0].urls, ["https://git.example/a"]);
    assert_eq!((found[0].reference.as_deref(), found[0].pusher.as_deref()), (Some("main"), Some("ci")));
    assert!(matches!(read(json!({ "urls": ["a", "b", "a"] })), Ok(Event::Pushes(p)) if p[0].urls.len() == 2));
    assert!(matches!(read(github(COMMIT)), Ok(Event::Pushes(p)) if p[0].urls.len() == 4));
    for nothing in
        [json!({}), json!([]), json!("x"), json!({ "url": 1 }), json!({ "url": "--upload-pack=x" })]
    {
        assert_eq!(read(nothing.clone()), Err(Malformed::NoRepository), "{nothing}");
    }
}

#[test]
fn other_events_are_ignored_without_reading_them_and_pings_are_known() {
    for (provider, event) in [
        (Provider::Github, "issues"),
        (Provider::Gitea, "release"),
        (Provider::Gitlab, "Merge Request Hook"),
        (Provider::Bitbucket, "pullrequest:created"),
    ] {
        let told = read(provider, Some(event), b"not even JSON");
        assert!(matches!(&told, Ok(Event::Ignored(why)) if why.contains(event)), "{told:?}");
    }
    assert_eq!(read(Provider::Github, Some("ping"), b""), Ok(Event::Ping));
    assert_eq!(read(Provider::Bitbucket, Some("diagnostics:ping"), b""), Ok(Event::Ping));
}

#[test]
fn malformed_bodies_are_told_without_quoting_them() {
    let told = read(Provider::Github, Some("push"), b"{\n  \"hunter2").unwrap_err();
    assert!(matches!(told, Malformed::Json { line: 2, .. }), "{told:?}");
    assert!(!told.to_string().contains("hunter2"));
    assert_eq!(read(Provider::Github, None, b"{}"), Err(Malformed::NoEvent));
    assert_eq!(read(Provider::Github, Some("push"), b"{}"), Err(Malformed::NoRepository));
    let deep = "[".repeat(100_000);
    assert!(matches!(read(Provider::Generic, None, deep.as_bytes()), Err(Malformed::Json { .. })));
}

#[test]
fn odd_texts_are_left_out_or_cleaned() {
    let mut body = github("../../etc/passwd");
    body["repository"]["clone_url"] = json!("https://a.example/x\r\nHost: b");
    body["repository"]["ssh_url"] = json!(format!("ssh://{}", "x".repeat(5000)));
    body["pusher"]["name"] = json!("dev\u{1b}[31m-a\n");
    let found = &pushes(Provider::Github, "push", &body)[0];
    assert_eq!(found.commit, None);
    assert_eq!(found.pusher.as_deref(), Some("dev[31m-a"));
    assert!(found.urls.iter().all(|url| url.len() < 100 && !url.contains('\r')), "{:?}", found.urls);
}
