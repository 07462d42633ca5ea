//! Fields that are not known: those of Argo Rollouts by what they are, others as what they may be, a slip of the pen.

use windlass_api::rollout::Other;

use super::Findings;

/// Fields of Argo Rollouts that Windlass does not have, and what to use instead.
const ABSENT: [(&str, &str); 12] = [
    ("alb", "use trafficRouting.gatewayAPI"),
    ("ambassador", "use trafficRouting.gatewayAPI"),
    ("apisix", "use trafficRouting.gatewayAPI"),
    ("appMesh", "use trafficRouting.gatewayAPI"),
    ("istio", "use trafficRouting.gatewayAPI: Istio serves the Gateway API too"),
    ("nginx", "use trafficRouting.gatewayAPI"),
    ("smi", "use trafficRouting.gatewayAPI"),
    ("traefik", "use trafficRouting.gatewayAPI: Traefik serves the Gateway API too"),
    ("pingPong", "use canaryService and stableService"),
    ("plugin", "use an analysis step with a job or web metric"),
    ("stickinessConfig", "use strategy.abTest with variant.stickyCookie"),
    ("rolloutPlugin", "use one of the built-in strategies"),
];

/// Refuses every field of `other` by name.
pub(super) fn check(at: &str, other: &Other, findings: &mut Findings) {
    for name in other.keys() {
        let field = format!("{at}.{name}");
        match ABSENT.iter().find(|(absent, _)| absent == name) {
            Some((_, instead)) => {
                let what = format!("`{name}` is a field of Argo Rollouts that Windlass does not have");
                findings.add(field, "UnsupportedField", what, *instead);
            }
            None => findings.add(
                field,
                "UnknownField",
                format!("`{name}` is not a field here"),
                "take it away, or correct its spelling",
            ),
        }
    }
}
