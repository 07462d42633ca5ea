//! Events as lines, of JSON for programs or of text for people.
//!
//! tracing-subscriber's own formats will not do: its JSON drops the causes of an error, which are what an operator needs,
//! and both print a decoding error in full, which quotes what could not be decoded: see [`scrub`].

use std::{error::Error, fmt};

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields, format::JsonFields, format::Writer},
    registry::LookupSpan,
};

use crate::config::LogFormat;

/// Writes events as lines.
pub(super) struct Lines {
    pub(super) format: LogFormat,
}

/// One event.
struct Line {
    time: String,
    level: Level,
    target: String,
    message: String,
    fields: Map<String, Value>,
    /// The name of the innermost span, and the fields of all.
    span: Map<String, Value>,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let line = Line::of(context, event);
        match self.format {
            LogFormat::Json => writeln!(writer, "{}", line.json()),
            LogFormat::Text => line.text(&mut writer),
        }
    }
}

impl Line {
    fn of<S, N>(context: &FmtContext<'_, S, N>, event: &Event<'_>) -> Self
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
        N: for<'a> FormatFields<'a> + 'static,
    {
        let mut fields = Fields(Map::new());
        event.record(&mut fields);
        let Fields(mut fields) = fields;
        let mut take =
            |name: &str| fields.remove(name).and_then(|value| value.as_str().map(ToOwned::to_owned));
        // Libraries that log by the `log` crate arrive with their target as a field.
        let target = take("log.target").unwrap_or_else(|| event.metadata().target().to_owned());
        let message = take("message").unwrap_or_default();
        fields.retain(|name, _| !name.starts_with("log."));
        let mut span = Map::new();
        for scope in
            context.event_scope().into_iter().flat_map(tracing_subscriber::registry::Scope::from_root)
        {
            span.insert("name".to_owned(), Value::from(scope.name()));
            let extensions = scope.extensions();
            let recorded = extensions.get::<FormattedFields<JsonFields>>();
            if let Some(Ok(Value::Object(fields))) = recorded.map(|fields| serde_json::from_str(fields)) {
                span.extend(fields);
            }
        }
        let time = format!("{:.6}", Timestamp::now());
        Self { time, level: *event.metadata().level(), target, message, fields, span }
    }

    fn json(self) -> Value {
        let mut line = Map::new();
        line.insert("time".to_owned(), Value::from(self.time));
        line.insert("level".to_owned(), Value::from(self.level.as_str().to_lowercase()));
        line.insert("target".to_owned(), Value::from(self.target));
        line.insert("message".to_owned(), Value::from(self.message));
        for (name, value) in self.fields {
            // A field must not take the place of what every line has.
            let taken = line.contains_key(&name) || name == "span";
            line.insert(if taken { format!("field.{name}") } else { name }, value);
        }
        if !self.span.is_empty() {
            line.insert("span".to_owned(), Value::Object(self.span));
        }
        Value::Object(line)
    }

    fn text(mut self, writer: &mut Writer<'_>) -> fmt::Result {
        let colour = match self.level {
            Level::ERROR => "31",
            Level::WARN => "33",
            Level::INFO => "32",
            _ => "2",
        };
        let (begin, end) = if writer.has_ansi_escapes() {
            (format!("\x1b[{colour}m"), "\x1b[0m")
        } else {
            Default::default()
        };
        write!(writer, "{} {begin}{:>5}{end} {}", self.time, self.level, self.target)?;
        if let Some(name) = self.span.remove("name") {
            write!(writer, " {}{{", name.as_str().unwrap_or_default())?;
            for (at, (name, value)) in self.span.iter().enumerate() {
                write!(writer, "{}{name}={value}", if at == 0 { "" } else { " " })?;
            }
            writer.write_char('}')?;
        }
        write!(writer, ": {}", self.message)?;
        for (name, value) in &self.fields {
            write!(writer, " {name}={value}")?;
        }
        writeln!(writer)
    }
}

struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().trim_start_matches("r#").to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, scrub(value.to_owned()));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.put(field, scrub(value.to_string()));
        let mut causes: Vec<Value> = Vec::new();
        let mut next = value.source();
        while let Some(error) = next {
            causes.push(Value::from(scrub(error.to_string())));
            next = error.source();
        }
        if !causes.is_empty() {
            self.0.insert(format!("{}.causes", field.name()), Value::from(causes));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, scrub(format!("{value:?}")));
    }
}

/// Takes out what serde quotes when it cannot decode something: it may be a part of a Secret. Errors arrive in many
/// wrappings and often as text, so this looks at the text.
fn scrub(mut text: String) -> String {
    for quotes in ["invalid type: ", "invalid value: ", "unknown variant `", "unknown field `"] {
        if let Some(begin) = text.find(quotes).map(|at| at + quotes.len()) {
            let end = text[begin..].rfind(", expected").map_or(text.len(), |at| begin + at);
            text.replace_range(begin..end, "(not shown)");
        }
    }
    text
}
