//! Text → values → text, beside a plain serde YAML reader and writer.

use std::hint::black_box;

use anyhow::{Context, ensure};
use serde_json::Value;
use windlass_manifest::{
    canonical::encode,
    parse::{Limits, parse},
};
use windlass_testbed::measure::{Report, cpu};

/// How often all objects are gone through for one figure.
const ROUNDS: usize = 5;

/// Megabytes of `texts` that `work` handles in a CPU second.
fn rate(texts: &[String], mut work: impl FnMut(usize, &str) -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let pid = std::process::id();
    let before = cpu(pid)?;
    for _ in 0..ROUNDS {
        for (index, text) in texts.iter().enumerate() {
            work(index, text)?;
        }
    }
    let bytes = texts.iter().map(String::len).sum::<usize>() * ROUNDS;
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let megabytes = bytes as f64 / 1e6;
    Ok(megabytes / cpu(pid)?.saturating_sub(before).as_secs_f64())
}

/// One text for each object, as files have it.
pub fn measure(objects: &[Value], report: &mut Report) -> anyhow::Result<()> {
    let limits = Limits::default();
    let yaml: Vec<String> = objects.iter().map(encode).collect();
    let json: Vec<String> = objects.iter().map(Value::to_string).collect();
    for (object, text) in objects.iter().zip(&yaml) {
        ensure!(parse(text, &limits)?[0].value == *object, "the text does not say the object");
        ensure!(
            serde_saphyr::from_str::<Value>(text)? == *object,
            "the plain reader does not get the object"
        );
    }

    let parsing = rate(&yaml, |_, text| {
        black_box(parse(text, &limits)?);
        Ok(())
    })?;
    let parsing_json = rate(&json, |_, text| {
        black_box(parse(text, &limits)?);
        Ok(())
    })?;
    let encoding = rate(&yaml, |index, _| {
        black_box(encode(&objects[index]));
        Ok(())
    })?;
    let plain_parsing = rate(&yaml, |_, text| {
        black_box(serde_saphyr::from_str::<Value>(text)?);
        Ok(())
    })?;
    let plain_encoding = rate(&yaml, |index, _| {
        black_box(serde_saphyr::to_string(&objects[index]).context("the plain writer fails")?);
        Ok(())
    })?;

    let trip = |reading: f64, writing: f64| 1.0 / (1.0 / reading + 1.0 / writing);
    report.figure("parse YAML", parsing, "MB/CPU s");
    report.figure("parse JSON", parsing_json, "MB/CPU s");
    report.figure("encode canonical YAML", encoding, "MB/CPU s");
    report.figure("plain serde: parse YAML", plain_parsing, "MB/CPU s");
    report.figure("plain serde: encode YAML", plain_encoding, "MB/CPU s");
    let ratio = trip(plain_parsing, plain_encoding) / trip(parsing, encoding);
    report.below("round trip, share of the plain one's CPU", ratio, "×", 1.0);
    Ok(())
}
