//! The door of the cell in which foreign programs (kustomize, helm) run.
//!
//! Whoever wants a program to run in a cell starts *this* program again with [`Cell::args`]. The fresh process calls
//! [`door`], which gives up what the program does not need, for good, and then becomes that program:
//!
//! ```text
//!  windlass ──spawn──► windlass sandbox --scratch … -- helm template …
//!                        │ limits of the kernel: memory, file size, CPU, processes, open files
//!                        │ files (Landlock): read system folders and the program, write the scratch folder
//!                        │ system calls (seccomp): no sockets, no tracing, no mounts, no new groups of processes
//!                        └─exec──► helm template …
//! ```
//!
//! Guarantees: without the limits and the filter of system calls nothing is run. Landlock is as strong as the kernel
//! has it, down to nothing at all where it is switched off.

mod files;
mod filter;

use std::{
    convert::Infallible,
    ffi::{OsStr, OsString},
    io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::process::{Resource, Rlimit};

/// What an error of the door starts with on standard error: so it is told from an error of the program.
pub const SAYS: &str = "windlass sandbox:";

/// Address space beyond the memory that may be written. Programs in Go reserve much more than they ever use.
const RESERVED: u64 = 16 << 30;

/// What the program may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The only folder that may be written.
    pub scratch: PathBuf,
    /// More files and folders that may be read and executed, besides the system's own.
    pub readable: Vec<PathBuf>,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes that a file may have.
    pub file_bytes: u64,
    /// Seconds of processor time.
    pub cpu_seconds: u64,
    /// Files open at once.
    pub open_files: u64,
    /// Processes and threads of this user at once. The kernel counts all of the user, not only those of the cell.
    pub processes: u64,
}

impl Cell {
    /// A cell with a scratch folder and sane limits.
    pub fn new(scratch: impl Into<PathBuf>) -> Self {
        Self {
            scratch: scratch.into(),
            readable: Vec::new(),
            memory: 1 << 30,
            file_bytes: 64 << 20,
            cpu_seconds: 60,
            open_files: 1024,
            processes: 4096,
        }
    }

    /// The arguments that make [`door`] run a program in this cell.
    pub fn args<A: AsRef<OsStr>>(&self, program: &Path, args: impl IntoIterator<Item = A>) -> Vec<OsString> {
        let mut all: Vec<OsString> = vec!["--scratch".into(), self.scratch.clone().into()];
        for path in &self.readable {
            all.extend(["--read".into(), path.clone().into()]);
        }
        for (flag, value) in [
            ("--memory", self.memory),
            ("--file-bytes", self.file_bytes),
            ("--cpu-seconds", self.cpu_seconds),
            ("--open-files", self.open_files),
            ("--processes", self.processes),
        ] {
            all.extend([flag.into(), value.to_string().into()]);
        }
        all.extend(["--".into(), program.into()]);
        all.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        all
    }

    /// Reads what [`Cell::args`] wrote.
    fn parse(
        args: impl IntoIterator<Item = OsString>,
    ) -> Result<(Self, OsString, Vec<OsString>), SandboxError> {
        let mut args = args.into_iter();
        let mut cell = Self::new(PathBuf::new());
        while let Some(flag) = args.next() {
            if flag == "--" {
                let program = args.next().ok_or(SandboxError::Usage("a program after --"))?;
                if cell.scratch.as_os_str().is_empty() {
                    return Err(SandboxError::Usage("--scratch"));
                }
                return Ok((cell, program, args.collect()));
            }
            let value = args.next().ok_or(SandboxError::Usage("a value after each flag"))?;
            let number = || {
                let parsed = value.to_str().and_then(|text| text.parse::<u64>().ok());
                parsed.ok_or(SandboxError::Usage("numbers for limits"))
            };
            match flag.to_str() {
                Some("--scratch") => cell.scratch = value.into(),
                Some("--read") => cell.readable.push(value.into()),
                Some("--memory") => cell.memory = number()?,
                Some("--file-bytes") => cell.file_bytes = number()?,
                Some("--cpu-seconds") => cell.cpu_seconds = number()?,
                Some("--open-files") => cell.open_files = number()?,
                Some("--processes") => cell.processes = number()?,
                _ => return Err(SandboxError::Usage("only flags it knows")),
            }
        }
        Err(SandboxError::Usage("-- and a program"))
    }
}

/// Why a program was not run.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The arguments are not those that [`Cell::args`] writes.
    #[error("this verb is for windlass itself; it needs {0}")]
    Usage(&'static str),
    /// A limit cannot be set.
    #[error("cannot set the limit of {what}")]
    Limit {
        /// Of what.
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The files cannot be fenced off.
    #[error("cannot fence off files")]
    Files(#[source] landlock::RulesetError),
    /// The filter of system calls cannot be made: an architecture that it does not know.
    #[error("cannot make a filter of system calls for this processor")]
    Filter(#[source] seccompiler::BackendError),
    /// The filter of system calls cannot be set.
    #[error("cannot set the filter of system calls")]
    Apply(#[source] seccompiler::Error),
    /// The program cannot be started.
    #[error("cannot start {program}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Runs what the arguments say, in place of this process. Comes back only when that failed.
///
/// To be called in a process that has done nothing else yet and has one thread.
pub fn door(args: impl IntoIterator<Item = OsString>) -> Result<Infallible, SandboxError> {
    let (cell, program, args) = Cell::parse(args)?;
    enter(&cell, &program, &args)
}

/// Gives up everything that the cell does not allow, for good, and becomes the program.
pub fn enter(cell: &Cell, program: &OsStr, args: &[OsString]) -> Result<Infallible, SandboxError> {
    limit(cell)?;
    // Both also make sure that no program can win rights by being set-user-ID.
    files::fence(cell, Path::new(program))?;
    filter::apply()?;
    let source = Command::new(program).args(args).exec();
    Err(SandboxError::Start { program: program.to_string_lossy().into_owned(), source })
}

fn limit(cell: &Cell) -> Result<(), SandboxError> {
    let limits = [
        ("core dumps", Resource::Core, 0),
        ("processor time", Resource::Cpu, cell.cpu_seconds),
        ("file size", Resource::Fsize, cell.file_bytes),
        ("memory", Resource::Data, cell.memory),
        ("address space", Resource::As, cell.memory.saturating_add(RESERVED)),
        ("open files", Resource::Nofile, cell.open_files),
        ("processes", Resource::Nproc, cell.processes),
    ];
    for (what, resource, wanted) in limits {
        // What is stricter already stays so: it cannot be raised without rights.
        let most = rustix::process::getrlimit(resource).maximum.map_or(wanted, |most| most.min(wanted));
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        rustix::process::setrlimit(resource, limit)
            .map_err(|error| SandboxError::Limit { what, source: error.into() })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_arguments_of_a_cell_are_read_as_they_were_written() {
        let mut cell = Cell::new("/scratch");
        cell.readable = vec!["/opt/helm".into(), "/a b".into()];
        cell.memory = 7;
        let args = cell.args(Path::new("/opt/helm"), ["template", "--", "--scratch"]);
        let (read, program, rest) = Cell::parse(args).unwrap();
        assert_eq!(read, cell);
        assert_eq!(program, "/opt/helm");
        assert_eq!(rest, ["template", "--", "--scratch"]);
    }

    #[test]
    fn other_arguments_are_refused() {
        for args in [
            &["--scratch", "/s"][..],
            &["--scratch", "/s", "--"],
            &["--", "program"],
            &["--scratch"],
            &["--memory", "much", "--scratch", "/s", "--", "p"],
            &["--network", "yes", "--scratch", "/s", "--", "p"],
            &[],
        ] {
            let args = args.iter().map(OsString::from);
            assert!(matches!(Cell::parse(args), Err(SandboxError::Usage(_))));
        }
    }
}
