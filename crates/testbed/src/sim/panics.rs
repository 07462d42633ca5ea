//! Panics anywhere in a run, also in tasks that nobody joins.

use std::{cell::RefCell, panic, sync::Once};

thread_local! {
    static CAUGHT: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Collects the panics of this thread while it lives. A simulated world has one thread, so these are its panics.
pub(crate) struct Panics(());

impl Panics {
    pub(crate) fn watch() -> Self {
        HOOK.call_once(|| {
            let previous = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                let kept = CAUGHT.with_borrow_mut(|caught| {
                    caught.as_mut().map(|caught| caught.push(info.to_string())).is_some()
                });
                if !kept {
                    previous(info);
                }
            }));
        });
        CAUGHT.set(Some(Vec::new()));
        Self(())
    }

    /// The panics so far.
    pub(crate) fn so_far() -> Vec<String> {
        CAUGHT.with_borrow(|caught| caught.clone().unwrap_or_default())
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        CAUGHT.set(None);
    }
}
