//! One JSON object per line.
//!
//! tracing-subscriber's own JSON writes an error as its outermost sentence and drops the causes, which are what an
//! operator needs; here they are a list beside it.

use std::{error::Error, fmt};

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields, format::JsonFields, format::Writer},
    registry::LookupSpan,
};

/// Writes events as lines of JSON.
pub(super) struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields(Map::new());
        event.record(&mut fields);
        let Fields(mut fields) = fields;
        let mut line = Map::new();
        line.insert("time".to_owned(), Value::from(format!("{:.6}", Timestamp::now())));
        line.insert("level".to_owned(), Value::from(event.metadata().level().as_str().to_lowercase()));
        // Libraries that log by the `log` crate arrive with their target as a field.
        let target = fields.remove("log.target").unwrap_or_else(|| Value::from(event.metadata().target()));
        fields.retain(|name, _| !name.starts_with("log."));
        line.insert("target".to_owned(), target);
        line.insert("message".to_owned(), fields.remove("message").unwrap_or_default());
        // A field must not take the place of what every line has.
        for (name, value) in fields {
            let name = if line.contains_key(&name) || name == "span" { format!("field.{name}") } else { name };
            line.insert(name, value);
        }
        let mut spans = Map::new();
        for span in context.event_scope().into_iter().flatten().collect::<Vec<_>>().into_iter().rev() {
            spans.insert("name".to_owned(), Value::from(span.name()));
            let extensions = span.extensions();
            let recorded = extensions.get::<FormattedFields<JsonFields>>();
            if let Some(Ok(Value::Object(fields))) = recorded.map(|fields| serde_json::from_str(fields)) {
                spans.extend(fields);
            }
        }
        if !spans.is_empty() {
            line.insert("span".to_owned(), Value::Object(spans));
        }
        writeln!(writer, "{}", Value::Object(line))
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
        self.put(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.put(field, value.to_string());
        let causes: Vec<Value> = std::iter::successors(value.source(), |error| error.source())
            .map(|error| Value::from(error.to_string()))
            .collect();
        if !causes.is_empty() {
            self.0.insert(format!("{}.causes", field.name()), Value::from(causes));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}
