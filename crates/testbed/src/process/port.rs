//! TCP ports on 127.0.0.1 that stay ours across parallel test processes.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use anyhow::{Context, bail};
use rand::RngExt;

/// A port that no other [`Port`] holds, in this process or another, until it is dropped.
///
/// The kernel hands out its own ports from another range, so an outgoing connection cannot take it between the moment it
/// is found free and the moment a server listens on it, nor while that server restarts.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Finds a free port and locks it.
    pub fn free() -> anyhow::Result<Self> {
        let folder = lock_folder();
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let range = outside_ephemeral();
        let size = u32::from(range.end() - range.start()) + 1;
        let offset = rand::rng().random_range(0..size);
        for step in 0..size {
            let number = range.start() + u16::try_from((offset + step) % size)?;
            let path = folder.join(number.to_string());
            // Two users of one machine may share the folder: a file that belongs to another is a port that is taken.
            let Ok(lock) = File::options().create(true).truncate(false).write(true).open(&path) else {
                continue;
            };
            if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Self { number, _lock: lock });
            }
        }
        bail!("no free TCP port between {} and {} on 127.0.0.1", range.start(), range.end())
    }

    /// The port number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

fn lock_folder() -> PathBuf {
    std::env::temp_dir().join(format!("windlass-ports-{}", rustix::process::getuid().as_raw()))
}

fn outside_ephemeral() -> RangeInclusive<u16> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let bounds: Vec<u16> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    pick_range(bounds.first().copied().unwrap_or(32768), bounds.get(1).copied().unwrap_or(60999))
}

fn pick_range(low: u16, high: u16) -> RangeInclusive<u16> {
    const FIRST: u16 = 20_000;
    if low >= FIRST + 1_000 {
        FIRST..=low - 1
    } else if high <= u16::MAX - 1_000 {
        high + 1..=u16::MAX
    } else {
        // Everything is handed out to connections: the lock and the trial bind still keep our own processes apart.
        FIRST..=u16::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::pick_range;

    #[test]
    fn range_avoids_ports_of_outgoing_connections() {
        assert_eq!(pick_range(32768, 60999), 20_000..=32_767);
        assert_eq!(pick_range(1024, 40_000), 40_001..=65_535);
        assert_eq!(pick_range(1024, 65_535), 20_000..=65_535);
    }
}
