//! What is wrong in metrics before anything is measured: the run's error, and what lint says of a template.

use std::{str::FromStr, time::Duration};

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use regex::RegexBuilder;
use windlass_api::{
    analysis::{Authentication, Metric, Provider},
    duration::Duration as Span,
};

use super::condition;

/// Something that is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where: `metrics[0].provider`.
    pub field: String,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}. {}", self.field, self.what, self.remedy)
    }
}

/// Providers of Argo Rollouts that are not here.
const ELSEWHERE: [&str; 9] = [
    "cloudWatch",
    "datadog",
    "graphite",
    "influxdb",
    "kayenta",
    "newRelic",
    "plugin",
    "skywalking",
    "wavefront",
];

/// All that is wrong in these metrics, whose arguments are put in.
pub fn problems(metrics: &[Metric]) -> Vec<Problem> {
    let mut found = Vec::new();
    if metrics.is_empty() {
        found.push(problem("metrics", "there is no metric", "Name at least one"));
    }
    for (index, metric) in metrics.iter().enumerate() {
        let field = format!("metrics[{index}]");
        if metrics[..index].iter().any(|other| other.name == metric.name) {
            found.push(problem(
                &field,
                format!("the name {} is taken", metric.name),
                "Give every metric its own name",
            ));
        }
        numbers(&field, metric, &mut found);
        times(&field, metric, &mut found);
        conditions(&field, metric, &mut found);
        provider(&format!("{field}.provider"), &metric.provider, &mut found);
    }
    found
}

fn problem(field: &str, what: impl Into<String>, remedy: &str) -> Problem {
    Problem { field: field.to_owned(), what: what.into(), remedy: remedy.to_owned() }
}

/// A number that may be written as a text.
pub fn whole(number: &IntOrString) -> Option<i64> {
    match number {
        IntOrString::Int(number) => Some(i64::from(*number)),
        IntOrString::String(text) => text.trim().parse().ok(),
    }
}

/// A length of time: `30s`, or a number of seconds.
pub fn time(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(Duration::from_secs(u64::from(seconds)));
    }
    Span::from_str(text).map(Into::into).map_err(|error| error.to_string())
}

/// Whether a name is meant by a pattern: a regular expression that may match anywhere, or `*` for all.
pub fn means(pattern: &str, name: &str) -> bool {
    if pattern == "*" {
        return true;
    }
    RegexBuilder::new(pattern).size_limit(1 << 16).build().is_ok_and(|pattern| pattern.is_match(name))
}

fn numbers(field: &str, metric: &Metric, found: &mut Vec<Problem>) {
    let named = [
        ("count", &metric.count, 0),
        ("failureLimit", &metric.failure_limit, -1),
        ("inconclusiveLimit", &metric.inconclusive_limit, 0),
        ("consecutiveErrorLimit", &metric.consecutive_error_limit, 0),
        ("consecutiveSuccessLimit", &metric.consecutive_success_limit, 0),
    ];
    for (name, number, least) in named {
        let Some(number) = number else { continue };
        let field = format!("{field}.{name}");
        match whole(number) {
            None => found.push(problem(&field, "it is not a whole number", "Write one, such as 3")),
            Some(number) if number < least => {
                found.push(problem(
                    &field,
                    format!("{number} is less than {least}"),
                    "Write a larger number",
                ));
            }
            Some(_) => {}
        }
    }
    let value = |number: &Option<IntOrString>| number.as_ref().and_then(whole).unwrap_or(0);
    let (count, failures) = (value(&metric.count), value(&metric.failure_limit));
    let successes = value(&metric.consecutive_success_limit);
    if successes == 0 && failures == -1 {
        let what = "failureLimit is -1 and there is no consecutiveSuccessLimit: nothing would ever decide";
        found.push(problem(field, what, "Set one of them"));
    }
    if count > 0 && count < failures.max(0) + successes {
        let what = format!("count is {count}, less than failureLimit and consecutiveSuccessLimit together");
        found.push(problem(field, what, "Raise count, or lower the limits"));
    }
    if count > 0 && count < value(&metric.inconclusive_limit) {
        found.push(problem(field, "count is less than inconclusiveLimit", "Raise count, or lower the limit"));
    }
    if count > 1 && metric.interval.as_deref().is_none_or(str::is_empty) {
        found.push(problem(
            field,
            "count is more than 1 and there is no interval",
            "Set interval, such as 30s",
        ));
    }
}

fn times(field: &str, metric: &Metric, found: &mut Vec<Problem>) {
    for (name, text) in [("interval", &metric.interval), ("initialDelay", &metric.initial_delay)] {
        if let Some(text) = text.as_deref().filter(|text| !text.is_empty())
            && let Err(what) = time(text)
        {
            found.push(problem(&format!("{field}.{name}"), what, "Write it like 30s"));
        }
    }
}

fn conditions(field: &str, metric: &Metric, found: &mut Vec<Problem>) {
    let named =
        [("successCondition", &metric.success_condition), ("failureCondition", &metric.failure_condition)];
    for (name, text) in named {
        if let Some(text) = text.as_deref().map(str::trim).filter(|text| !text.is_empty())
            && let Err(what) = condition::check(text)
        {
            let remedy = "Write CEL over result, such as result[0] >= 0.95";
            found.push(problem(&format!("{field}.{name}"), format!("`{text}` {what}"), remedy));
        }
    }
}

fn provider(field: &str, provider: &Provider, found: &mut Vec<Problem>) {
    for name in provider.other.keys() {
        let remedy = "Use prometheus, web, job, sloBurnRate or compare";
        let what = if ELSEWHERE.contains(&name.as_str()) {
            format!("the provider {name} of Argo Rollouts is not supported")
        } else {
            format!("there is no provider {name}")
        };
        found.push(problem(&format!("{field}.{name}"), what, remedy));
    }
    let known = [
        provider.prometheus.is_some(),
        provider.web.is_some(),
        provider.job.is_some(),
        provider.slo_burn_rate.is_some(),
        provider.compare.is_some(),
    ];
    match known.into_iter().filter(|set| *set).count() {
        0 if provider.other.is_empty() => {
            found.push(problem(field, "there is no provider", "Name one, such as prometheus"));
        }
        0 | 1 => {}
        _ => found.push(problem(field, "there is more than one provider", "Make a metric for each")),
    }
    let logins = [
        provider.prometheus.as_ref().and_then(|it| it.server.authentication.as_ref()),
        provider.web.as_ref().and_then(|it| it.authentication.as_ref()),
        provider.slo_burn_rate.as_ref().and_then(|it| it.server.authentication.as_ref()),
        provider.compare.as_ref().and_then(|it| it.server.authentication.as_ref()),
    ];
    for login in logins.into_iter().flatten() {
        authentication(field, login, found);
    }
}

fn authentication(field: &str, login: &Authentication, found: &mut Vec<Problem>) {
    let field = format!("{field}.authentication");
    // An empty object is what Argo Rollouts writes out for a login that is not used.
    for (name, value) in &login.other {
        if value.as_object().is_none_or(|fields| !fields.is_empty()) {
            let what = format!("the login {name} is not supported");
            found.push(problem(
                &format!("{field}.{name}"),
                what,
                "Use oauth2, or a header with a token from a Secret",
            ));
        }
    }
    if let Some(oauth2) = &login.oauth2
        && !oauth2.token_url.is_empty()
        && (oauth2.client_id.is_empty() || oauth2.client_secret.is_empty())
    {
        found.push(problem(&field, "oauth2 needs clientId and clientSecret", "Set both"));
    }
}
