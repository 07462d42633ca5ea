//! What a Git server sends when somebody pushed.

use std::{fmt::Write as _, time::Duration};

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Tells a controller of a push, signed, and shows the exchange.
pub(super) async fn push(port: u16, secret: &str, body: &str) -> anyhow::Result<()> {
    let signature = signature(secret.as_bytes(), body.as_bytes());
    println!("\n$ curl -X POST http://127.0.0.1:{port}/hooks/generic -d '{body}' \\");
    println!("    -H \"X-Hub-Signature-256: sha256={signature}\"");
    let request = format!(
        "POST /hooks/generic HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         X-Hub-Signature-256: sha256={signature}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let exchange = async {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        anyhow::Ok(answer)
    };
    let answer = tokio::time::timeout(Duration::from_secs(10), exchange).await.context("no answer")??;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    println!("{}", body.trim());
    if !head.starts_with("HTTP/1.1 202") {
        bail!("the hook was not accepted: {answer}");
    }
    Ok(())
}

/// HMAC-SHA256 (RFC 2104), hexadecimal. The key is no longer than a block.
fn signature(key: &[u8], body: &[u8]) -> String {
    let mut block = [0_u8; 64];
    for (place, byte) in block.iter_mut().zip(key) {
        *place = *byte;
    }
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(body).finalize();
    let outer = Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize();
    outer.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_signature_is_that_of_the_standard() {
        // RFC 4231, test case 2.
        assert_eq!(
            super::signature(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }
}
