//! Questions and answers of the query API.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, bail};
use serde::Deserialize;

/// One value of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Labels, with the name of the metric as `__name__`; none for a scalar.
    pub labels: BTreeMap<String, String>,
    /// The value.
    pub value: f64,
}

#[derive(Deserialize)]
struct Answer {
    status: String,
    #[serde(default)]
    error: String,
    data: Option<Data>,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Vector(Vec<Series>),
    Scalar((f64, String)),
    Matrix(serde::de::IgnoredAny),
    String(serde::de::IgnoredAny),
}

#[derive(Deserialize)]
struct Series {
    metric: BTreeMap<String, String>,
    value: (f64, String),
}

/// Reads the answer to an instant query.
pub(super) fn samples(body: &[u8]) -> anyhow::Result<Vec<Sample>> {
    let answer: Answer = serde_json::from_slice(body).context("this is no answer of the query API")?;
    if answer.status != "success" {
        bail!("prometheus says: {}", answer.error);
    }
    match answer.data.context("the answer has no data")? {
        Data::Vector(series) => series
            .into_iter()
            .map(|Series { metric, value: (_, value) }| Ok(Sample { labels: metric, value: number(&value)? }))
            .collect(),
        Data::Scalar((_, value)) => Ok(vec![Sample { labels: BTreeMap::new(), value: number(&value)? }]),
        Data::Matrix(_) | Data::String(_) => bail!("the answer is neither a vector nor a scalar"),
    }
}

fn number(text: &str) -> anyhow::Result<f64> {
    text.parse().with_context(|| format!("{text:?} is no number"))
}

/// Text as part of a query string.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let vector = br#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"a":"b"},"value":[1.5,"NaN"]},{"metric":{},"value":[1,"+Inf"]}]}}"#;
        let read = samples(vector).expect("valid");
        assert!(read[0].value.is_nan() && read[0].labels["a"] == "b");
        assert!(read[1].value.is_infinite());
        let scalar = samples(br#"{"status":"success","data":{"resultType":"scalar","result":[1,"2.5"]}}"#);
        assert!((scalar.expect("valid")[0].value - 2.5).abs() < f64::EPSILON);
        let failed = samples(br#"{"status":"error","errorType":"bad_data","error":"parse error"}"#);
        assert!(failed.expect_err("an error").to_string().contains("parse error"));
        assert!(samples(br#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#).is_err());
        assert!(samples(b"<html>").is_err());
    }

    #[test]
    fn queries_are_encoded() {
        assert_eq!(encoded("rate(a{b=\"ü\"}[1m])"), "rate%28a%7Bb%3D%22%C3%BC%22%7D%5B1m%5D%29");
    }
}
