//! Structured logs on standard error.
//!
//! One line per event with time, level, target, message and fields, and the fields of the span it happened in: a
//! reconcile has its controller, object and number in every line. Some modules are never logged, whatever the filter
//! asks for: see [`harmless`].

mod lines;

use std::io;

use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::{
    EnvFilter, Layer,
    filter::{FilterExt, ParseError, filter_fn},
    fmt::{self, MakeWriter, format::JsonFields},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::{config::LogFormat, error::CommandError, terminal::Paint};

/// Modules that print what an API server answered, and how much of them may be printed. An answer may be a Secret.
const CAPPED: [(&str, Option<Level>); 6] = [
    // kube-client prints a body that it cannot decode, at WARN, and bodies of errors at DEBUG.
    ("kube_client::client", Some(Level::ERROR)),
    // A watch prints the decoding error, with what it quotes, at DEBUG.
    ("kube_runtime", Some(Level::INFO)),
    // Bytes, headers and frames on the wire.
    ("hyper", Some(Level::INFO)),
    ("h2", Some(Level::INFO)),
    ("rustls", Some(Level::INFO)),
    ("tower_http", None),
];

/// Whether a filter can be read.
pub(crate) fn check(filter: &str) -> Result<(), ParseError> {
    EnvFilter::try_new(filter).map(drop)
}

/// Starts logging to standard error.
pub(crate) fn start(format: LogFormat, filter: &str) -> Result<(), CommandError> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| CommandError::usage("setting logLevel is not a filter").because(error))?;
    subscriber(format, filter, Paint::stderr().is_on(), io::stderr)
        .try_init()
        .map_err(|error| CommandError::failure("cannot start logging").because(error))
}

fn subscriber<W>(
    format: LogFormat,
    filter: EnvFilter,
    colours: bool,
    writer: W,
) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // A cap as one more directive would be no cap: a more special one, or one for a span, would lift it.
    let filter = filter.and(filter_fn(harmless));
    let layer = fmt::layer()
        .event_format(lines::Lines { format })
        .fmt_fields(JsonFields::new())
        .with_ansi(colours && format == LogFormat::Text)
        .with_writer(writer)
        .with_filter(filter);
    tracing_subscriber::registry().with(layer)
}

/// True for what can be printed without printing what an API server answered.
fn harmless(metadata: &Metadata<'_>) -> bool {
    let within = |module: &str| {
        metadata
            .target()
            .strip_prefix(module)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
    };
    CAPPED
        .iter()
        .filter(|(module, _)| within(module))
        .all(|(_, most)| most.is_some_and(|most| *metadata.level() <= most))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
