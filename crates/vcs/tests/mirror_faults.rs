//! Each fault of a server gives its own error, within its time limit, without a secret in it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod mirror_support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use mirror_support::{Bed, eventually, fetch, limits, noise, options, read_all};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use windlass_testbed::git::{Fault, GitServer, Kind};
use windlass_vcs::command::{Category, Git, Limits};
use windlass_vcs::mirror::{MirrorError, MirrorOptions, Mirrors, Tidying};
use windlass_vcs::remote::{CertificateAuthority, Credentials, Hidden, Proxy, Remote};

const SECRET: &str = "planted-secret-42";

fn assert_no_secret(error: &MirrorError) {
    let text = format!("{error} {error:?}");
    assert!(!text.contains(SECRET), "{text}");
    assert!(!text.contains("cGxhbnRlZC"), "{text}");
}

#[tokio::test]
async fn each_answer_of_a_server_has_its_own_category() {
    let bed = Bed::with(MirrorOptions { limits: limits(40, 30), ..options() }).await;
    let remote =
        bed.remote().with_credentials(Credentials::basic("dev", Hidden::new(SECRET)).unwrap()).unwrap();
    bed.server.user("dev", SECRET);
    let mirror = bed.mirrors.mirror(&remote).unwrap();
    fetch(&mirror).await.unwrap();
    bed.repo.commit_files(&[("a.yaml", Some("a: 2\n"))], "second").unwrap();
    for (fault, expected) in [
        (Fault::Unauthorized, Category::Unauthorized),
        (Fault::Forbidden, Category::Forbidden),
        (Fault::TooManyRequests { retry_after: Duration::from_secs(1) }, Category::Throttled),
        (Fault::ServerError, Category::Unavailable),
        (Fault::Disconnect, Category::Unavailable),
        (Fault::Redirect("http://127.0.0.1:1/other.git".to_owned()), Category::Redirected),
        (Fault::answer("text/html", "<html>hello</html>\n"), Category::NotARepository),
        (
            Fault::answer("application/x-git-upload-pack-advertisement", "planted nonsense"),
            Category::NotARepository,
        ),
    ] {
        bed.repo.fault(fault.clone());
        let error = fetch(&mirror).await.unwrap_err();
        assert_eq!(error.category(), expected, "{fault:?}: {error}");
        assert!(error.to_string().contains(expected.hint()), "{error}");
        assert_no_secret(&error);
        bed.repo.clear_faults();
    }
    let missing = Remote::new(&bed.repo.url().replace("app.git", "gone.git")).unwrap();
    let error = fetch(&bed.mirrors.mirror(&missing).unwrap()).await.unwrap_err();
    assert_eq!(error.category(), Category::NotFound, "{error}");
    for (url, expected) in [
        ("http://127.0.0.1:1/a", Category::Unavailable),
        ("http://no-such-host.invalid/a", Category::Unavailable),
    ] {
        let error = fetch(&bed.mirrors.mirror(&Remote::new(url).unwrap()).unwrap()).await.unwrap_err();
        assert_eq!(error.category(), expected, "{error}");
    }
    assert_eq!(fetch(&mirror).await.unwrap().movements.len(), 1, "all is well after all of that");
}

#[tokio::test]
async fn a_server_that_hangs_or_drips_ends_at_the_limit() {
    let bed = Bed::with(MirrorOptions { limits: limits(30, 1), ..options() }).await;
    let mirror = bed.mirror();
    bed.repo.fault(Fault::Hang);
    let start = Instant::now();
    let error = fetch(&mirror).await.unwrap_err();
    assert_eq!(error.category(), Category::Timeout, "{error}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    bed.repo.clear_faults();
    fetch(&mirror).await.unwrap();
    // A little from time to time is a sign of life, so the total counts.
    let noise = noise(40_000);
    bed.repo.commit_files(&[("noise", Some(&noise))], "noise").unwrap();
    let mirrors = bed.reopened(MirrorOptions { limits: limits(3, 3), ..options() });
    let mirror = mirrors.mirror(&bed.remote()).unwrap();
    bed.repo.fault_on(Kind::UploadPack, Fault::Slow { bytes_per_sec: 10_000 });
    let error = fetch(&mirror).await.unwrap_err();
    assert_eq!(error.category(), Category::Timeout, "{error}");
    bed.repo.clear_faults();
    // What the killed git left is swept, and the fetch succeeds.
    let fetched = fetch(&mirror).await.unwrap();
    assert_eq!((fetched.movements.len(), fetched.cloned_anew), (1, false));
}

#[tokio::test]
async fn a_transfer_that_breaks_off_or_is_corrupt_leaves_the_mirror_whole() {
    let bed = Bed::new().await;
    let mirror = bed.mirror();
    fetch(&mirror).await.unwrap();
    let noise = noise(40_000);
    bed.repo.commit_files(&[("noise", Some(&noise))], "noise").unwrap();
    bed.repo.fault_on(Kind::UploadPack, Fault::DropMidTransfer { after_bytes: 50_000 });
    let error = fetch(&mirror).await.unwrap_err();
    assert_eq!(error.category(), Category::Unavailable, "{error}");
    bed.repo.fault_on(Kind::UploadPack, Fault::Corrupt { at_byte: 60_000 });
    let error = fetch(&mirror).await.unwrap_err();
    assert_eq!(error.category(), Category::Corrupt, "{error}");
    assert_eq!(read_all(&mirror), 2);
    bed.repo.clear_faults();
    let fetched = fetch(&mirror).await.unwrap();
    assert_eq!((fetched.movements.len(), fetched.cloned_anew), (1, false));
    assert_eq!(read_all(&mirror), 3);
}

#[tokio::test]
async fn more_than_is_allowed_does_not_arrive() {
    let small = Limits { received: Some(100_000), ..limits(60, 60) };
    let bed = Bed::with(MirrorOptions { limits: small, ..options() }).await;
    let mirror = bed.mirror();
    fetch(&mirror).await.unwrap();
    let noise = noise(100_000);
    bed.repo.commit_files(&[("noise", Some(&noise))], "noise").unwrap();
    for _ in 0..2 {
        let error = fetch(&mirror).await.unwrap_err();
        assert_eq!(error.category(), Category::TooLarge, "{error}");
        assert_eq!(read_all(&mirror), 2);
        let packs = mirror.git_dir().join("objects/pack");
        let left = std::fs::read_dir(packs)
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("tmp_"));
        assert_eq!(left.count(), 0, "what arrived in vain takes no room");
    }
    let mirrors = bed.reopened(options());
    let mirror = mirrors.mirror(&bed.remote()).unwrap();
    assert_eq!(fetch(&mirror).await.unwrap().movements.len(), 1);
}

#[tokio::test]
async fn passwords_and_tokens_open_and_wrong_ones_do_not() {
    let bed = Bed::new().await;
    bed.server.user("dev", SECRET).token("bot", "planted-token").set_anonymous_read(false);
    let with = |credentials| bed.remote().with_credentials(credentials).unwrap();
    let error = fetch(&bed.mirror()).await.unwrap_err();
    assert_eq!(error.category(), Category::Unauthorized, "{error}");
    let wrong = with(Credentials::basic("dev", Hidden::new("planted-secret-43")).unwrap());
    let error = fetch(&bed.mirrors.mirror(&wrong).unwrap()).await.unwrap_err();
    assert_eq!(error.category(), Category::Unauthorized, "{error}");
    assert!(!format!("{error:?}").contains("planted"));
    // The mirror stays and takes the new credentials.
    let basic = with(Credentials::basic("dev", Hidden::new(SECRET)).unwrap());
    assert_eq!(fetch(&bed.mirrors.mirror(&basic).unwrap()).await.unwrap().movements.len(), 1);
    let token = with(Credentials::token("planted-token").unwrap());
    fetch(&bed.mirrors.mirror(&token).unwrap()).await.unwrap();
    let in_url = Remote::new(&bed.repo.url_as("dev", SECRET)).unwrap();
    fetch(&bed.mirrors.mirror(&in_url).unwrap()).await.unwrap();
    // Neither is anything of it on disk.
    let found = std::process::Command::new("grep")
        .args(["-r", "-l", "planted"])
        .arg(bed.work.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
}

#[tokio::test]
async fn credentials_do_not_travel_with_a_redirect() {
    let bed = Bed::new().await;
    let elsewhere = GitServer::start().await.unwrap();
    let other = elsewhere.repo_with_files("app", &[("a", "1")]).unwrap();
    let remote = bed.remote().with_credentials(Credentials::token(SECRET).unwrap()).unwrap();
    bed.server.token("dev", SECRET);
    bed.repo.fault(Fault::Redirect(other.url()));
    let error = fetch(&bed.mirrors.mirror(&remote).unwrap()).await.unwrap_err();
    assert_eq!(error.category(), Category::Redirected, "{error}");
    assert!(elsewhere.log().requests().is_empty());
    assert!(bed.server.saw_credentials());
}

#[tokio::test]
async fn a_certificate_authority_of_ones_own_is_trusted_and_an_unknown_one_is_not() {
    let server = GitServer::start_tls().await.unwrap();
    let repo = server.repo_with_files("app", &[("a", "1")]).unwrap();
    let work = tempfile::tempdir().unwrap();
    let mirrors = Mirrors::new(work.path(), options()).unwrap();
    let remote = Remote::new(&repo.url()).unwrap();
    let error = fetch(&mirrors.mirror(&remote).unwrap()).await.unwrap_err();
    assert_eq!(error.category(), Category::Certificate, "{error}");
    let other = GitServer::start_tls().await.unwrap();
    let wrong = remote.clone().with_ca(CertificateAuthority::from_pem(other.ca_pem().unwrap()).unwrap());
    let error = fetch(&mirrors.mirror(&wrong).unwrap()).await.unwrap_err();
    assert_eq!(error.category(), Category::Certificate, "{error}");
    let right = remote.with_ca(CertificateAuthority::from_pem(server.ca_pem().unwrap()).unwrap());
    assert_eq!(fetch(&mirrors.mirror(&right).unwrap()).await.unwrap().movements.len(), 1);
    // The files for the child are gone.
    let left: Vec<_> = std::fs::read_dir(work.path().join("scratch"))
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(left, ["home"]);
}

/// A proxy that passes on `GET http://…` and `CONNECT`, for whoever has the password, and counts.
async fn proxy(authorization: Option<&'static str>) -> (String, Arc<std::sync::atomic::AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = count.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pass_on(client, authorization, counter.clone()));
        }
    });
    (address, count)
}

async fn pass_on(
    client: TcpStream,
    authorization: Option<&'static str>,
    count: Arc<std::sync::atomic::AtomicUsize>,
) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    let (mut head, mut authorized) = (Vec::new(), authorization.is_none());
    loop {
        let mut line = String::new();
        client.read_line(&mut line).await?;
        authorized |= authorization
            .is_some_and(|wanted| line.trim_end() == format!("Proxy-Authorization: Basic {wanted}"));
        if line.trim_end().is_empty() {
            break;
        }
        head.push(line);
    }
    let Some(first) = head.first() else { return Ok(()) };
    if !authorized {
        let answer = b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"proxy\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        return client.get_mut().write_all(answer).await;
    }
    count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    let target = first.split(' ').nth(1).unwrap_or_default().to_owned();
    if first.starts_with("CONNECT ") {
        // The remote's credentials are not for the proxy to see.
        assert!(!head.iter().any(|line| line.to_ascii_lowercase().starts_with("authorization:")), "{head:?}");
        let mut server = TcpStream::connect(&target).await?;
        client.get_mut().write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
        tokio::io::copy_bidirectional(&mut client, &mut server).await?;
        return Ok(());
    }
    // One request a connection is enough for a test.
    let place = target.trim_start_matches("http://").split('/').next().unwrap_or_default().to_owned();
    let mut server = TcpStream::connect(&place).await?;
    for line in &head {
        if !line.to_ascii_lowercase().starts_with("proxy-")
            && !line.to_ascii_lowercase().starts_with("connection:")
        {
            server.write_all(line.as_bytes()).await?;
        }
    }
    server.write_all(b"Connection: close\r\n\r\n").await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_is_used_with_its_password() {
    let server = GitServer::start_tls().await.unwrap();
    let repo = server.repo_with_files("app", &[("a", "1")]).unwrap();
    let work = tempfile::tempdir().unwrap();
    let mirrors = Mirrors::new(work.path(), options()).unwrap();
    let ca = CertificateAuthority::from_pem(server.ca_pem().unwrap()).unwrap();
    server.token("bot", "planted-token").set_anonymous_read(false);
    let token = Credentials::token("planted-token").unwrap();
    let remote = Remote::new(&repo.url()).unwrap().with_ca(ca).with_credentials(token).unwrap();
    // me:planted
    let (address, count) = proxy(Some("bWU6cGxhbnRlZA==")).await;
    let without = remote.clone().with_proxy(Proxy::new(&format!("http://{address}")).unwrap()).unwrap();
    let error = fetch(&mirrors.mirror(&without).unwrap()).await.unwrap_err();
    assert_eq!(error.category(), Category::Unauthorized, "{error}");
    let with = remote.with_proxy(Proxy::new(&format!("http://me:planted@{address}")).unwrap()).unwrap();
    assert_eq!(fetch(&mirrors.mirror(&with).unwrap()).await.unwrap().movements.len(), 1);
    assert!(count.load(std::sync::atomic::Ordering::SeqCst) > 0);
    // Plain HTTP, and a proxy that is not there.
    let bed = Bed::new().await;
    let (address, count) = proxy(None).await;
    let plain = bed.remote().with_proxy(Proxy::new(&address).unwrap()).unwrap();
    assert_eq!(fetch(&bed.mirrors.mirror(&plain).unwrap()).await.unwrap().movements.len(), 1);
    assert!(count.load(std::sync::atomic::Ordering::SeqCst) > 1);
    let gone = bed.remote().with_proxy(Proxy::new("http://127.0.0.1:1").unwrap()).unwrap();
    let error = fetch(&bed.mirrors.mirror(&gone).unwrap()).await.unwrap_err();
    assert_eq!(error.category(), Category::Unavailable, "{error}");
}

#[tokio::test]
async fn a_full_disk_is_told_apart() {
    // A `git` that fails as one does on a full disk: filling a real one takes a mount.
    let bed = Bed::new().await;
    let script = bed.work.path().join("git-on-full-disk");
    std::fs::write(&script, "#!/bin/sh\ncase \"$1\" in fetch) echo 'fatal: write error: No space left on device' >&2; exit 128;; esac\nexec git \"$@\"\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let git = bed.mirrors.git().clone().with_program(&script);
    let mirrors = Mirrors::with_git(&bed.work.path().join("full"), git, options()).unwrap();
    let error = fetch(&mirrors.mirror(&bed.remote()).unwrap()).await.unwrap_err();
    assert_eq!(error.category(), Category::DiskFull, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn movements_are_told_in_order_when_a_caller_leaves_meanwhile() {
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let on_move = {
        let heard = heard.clone();
        move |_: &Remote, moves: &[windlass_vcs::mirror::Movement]| {
            heard.lock().unwrap().push("begin".to_owned());
            std::thread::sleep(Duration::from_millis(500));
            heard.lock().unwrap().push(moves[0].to.unwrap().to_string());
        }
    };
    let bed = Bed::with(MirrorOptions { on_move: Some(Arc::new(on_move)), ..options() }).await;
    let mirror = bed.mirror();
    let first = bed.repo.tip().unwrap();
    let cancel = CancellationToken::new();
    let leaving = tokio::spawn({
        let (mirror, cancel) = (mirror.clone(), cancel.clone());
        async move { mirror.fetch(&cancel).await }
    });
    eventually("the movement", || !heard.lock().unwrap().is_empty()).await;
    cancel.cancel();
    assert!(leaving.await.unwrap().is_err());
    let second = bed.repo.commit_files(&[("a.yaml", Some("a: 2\n"))], "second").unwrap();
    fetch(&mirror).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), ["begin", &first, "begin", &second]);
}

#[tokio::test]
async fn tidying_that_fails_is_not_tried_again_at_once() {
    let bed = Bed::new().await;
    let calls = bed.work.path().join("calls");
    let program = bed.work.path().join("program");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = repack ] && echo x >> '{}' && exit 1\nexec git \"$@\"\n",
        calls.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let git = Git::new(&bed.work.path().join("scratch")).unwrap().with_program(program);
    let tidying = Tidying { packs: 1, ..Tidying::default() };
    let mirrors = Mirrors::with_git(bed.work.path(), git, MirrorOptions { tidying, ..options() }).unwrap();
    let mirror = mirrors.mirror(&bed.remote()).unwrap();
    let count = || std::fs::read_to_string(&calls).map_or(0, |text| text.lines().count());
    fetch(&mirror).await.unwrap();
    eventually("tidying", || count() == 1).await;
    for _ in 0..5 {
        fetch(&mirror).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(count(), 1);
}

#[tokio::test]
async fn a_check_that_is_killed_does_not_condemn_the_mirror() {
    let bed = Bed::new().await;
    fetch(&bed.mirror()).await.unwrap();
    let program = bed.work.path().join("program");
    std::fs::write(&program, "#!/bin/sh\n[ \"$1\" = rev-list ] && kill -9 $$\nexec git \"$@\"\n").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let git = Git::new(&bed.work.path().join("scratch")).unwrap().with_program(program);
    let mirrors = Mirrors::with_git(bed.work.path(), git, options()).unwrap();
    let mirror = mirrors.mirror(&bed.remote()).unwrap();
    // As if a process had been killed while it wrote.
    std::fs::write(mirror.folder().join("writing"), "").unwrap();
    let error = fetch(&mirror).await.unwrap_err();
    assert!(error.to_string().contains("memory"), "{error}");
    assert!(!fetch(&bed.mirror()).await.unwrap().cloned_anew, "it was whole all the time");
}
