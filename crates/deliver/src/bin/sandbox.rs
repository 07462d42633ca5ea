//! The door of the cell as a program of its own, for tests of this crate. Production uses `windlass sandbox`.

use std::{error::Error as _, process::ExitCode};

use windlass_deliver::sandbox;

fn main() -> ExitCode {
    match sandbox::door(std::env::args_os().skip(1)) {
        Ok(never) => match never {},
        Err(error) => {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            eprintln!("{} {error}{cause}", sandbox::SAYS);
            ExitCode::FAILURE
        }
    }
}
