//! One control plane for all tests of a test program.

use std::sync::Once;

use tokio::sync::OnceCell;

use super::ControlPlane;

static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();

impl ControlPlane {
    /// The control plane that all tests of this process share; the first call starts it. Give each test a namespace of
    /// its own with [`ControlPlane::namespace`], and nodes with [`ControlPlane::ensure_nodes`].
    ///
    /// Statics are never dropped: the watchdog of [`crate::process`] ends it with the process.
    pub async fn shared() -> anyhow::Result<&'static Self> {
        SHARED
            .get_or_try_init(|| async {
                let control_plane = Self::builder().name("shared").start().await?;
                print_logs_on_panic();
                Ok(control_plane)
            })
            .await
    }
}

/// A static is not dropped while its test unwinds, so the place of the logs is named by a panic hook.
fn print_logs_on_panic() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            previous(info);
            if let Some(control_plane) = SHARED.get() {
                control_plane.keep_logs();
            }
        }));
    });
}
