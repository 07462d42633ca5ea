//! How far an update may go above and below the wanted number of pods.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// What both limits are when nothing is said.
const DEFAULT_PERCENT: i64 = 25;

/// How far an update may go above and below the wanted number of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `spec.replicas`.
    pub replicas: i32,
    /// Pods above it.
    pub surge: i32,
    /// Pods below it.
    pub unavailable: i32,
}

impl Limits {
    /// Of a canary or a rolling update: if both come to nothing, one pod may be missing, else nothing could move.
    pub fn rolling(replicas: i32, surge: Option<&IntOrString>, unavailable: Option<&IntOrString>) -> Self {
        let surge = resolve(surge, replicas, true);
        let mut unavailable = resolve(unavailable, replicas, false);
        if surge == 0 && unavailable == 0 {
            unavailable = 1;
        }
        Self { replicas, surge, unavailable: unavailable.min(replicas) }
    }

    /// Of a blue-green update, where the limit bounds restarts only.
    pub fn blue_green(replicas: i32, unavailable: Option<&IntOrString>) -> Self {
        Self { replicas, surge: 0, unavailable: resolve(unavailable, replicas, false).min(replicas) }
    }

    /// The most pods that may be wanted.
    pub fn most(&self) -> i32 {
        self.replicas.saturating_add(self.surge)
    }

    /// The fewest pods that have to stay available.
    pub fn least(&self) -> i32 {
        self.replicas - self.unavailable
    }
}

/// The number, or the percentage of `replicas`; `None` if it is neither.
pub fn number_or_percent(value: &IntOrString) -> Option<(i64, bool)> {
    match value {
        IntOrString::Int(number) => Some((i64::from(*number), false)),
        IntOrString::String(text) => {
            let digits = text.trim().trim_end_matches('%');
            digits.parse::<i64>().ok().filter(|number| *number >= 0).map(|number| (number, true))
        }
    }
}

fn resolve(value: Option<&IntOrString>, replicas: i32, up: bool) -> i32 {
    let (number, percent) =
        value.map_or(Some((DEFAULT_PERCENT, true)), number_or_percent).unwrap_or((0, false));
    let number = number.max(0);
    let pods = if percent {
        let hundredfold = number.saturating_mul(i64::from(replicas.max(0)));
        if up { hundredfold.saturating_add(99) / 100 } else { hundredfold / 100 }
    } else {
        number
    };
    i32::try_from(pods).unwrap_or(i32::MAX / 2).min(i32::MAX / 2)
}
