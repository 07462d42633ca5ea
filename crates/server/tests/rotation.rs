//! The planner together with real certificates, over long times and through damage.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeSet, VecDeque};

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::sample::Index;
use rustls::RootCertStore;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::ring::default_provider;
use rustls::server::ParsedCertificate;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use windlass_server::certificates::{
    AuthorityFacts, Because, CertificateAction, CertificateSpec, KeyFacts, Material, ObservedCertificates,
    Piece, PrivateKey, ServingFacts, SignedBy, bundle, carry_out, observe, plan,
};

const MINUTE: SignedDuration = SignedDuration::from_mins(1);

fn spec() -> CertificateSpec {
    CertificateSpec {
        ca_validity: MINUTE * 60 * 48,
        serving_validity: MINUTE * 60 * 18,
        overlap: MINUTE * 120,
        settle: MINUTE * 10,
        backdate: MINUTE * 5,
        ..CertificateSpec::for_service("webhook", "windlass")
    }
}

fn start() -> Timestamp {
    "2026-06-01T00:00:00Z".parse().unwrap()
}

/// A client that trusts the bundle and nothing else.
fn trusts(bundle: &[u8], serving: &[u8], now: Timestamp) -> Result<(), rustls::Error> {
    let mut roots = RootCertStore::empty();
    for ca in CertificateDer::pem_slice_iter(bundle) {
        roots.add(ca.unwrap()).unwrap();
    }
    let der = CertificateDer::from_pem_slice(serving).unwrap();
    let certificate = ParsedCertificate::try_from(&der)?;
    let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now.as_second().try_into().unwrap()));
    let algorithms = default_provider().signature_verification_algorithms.all;
    verify_server_cert_signed_by_trust_anchor(&certificate, &roots, &[], at, algorithms)
}

/// One replica, its Secret and a configuration that it publishes to.
struct World {
    spec: CertificateSpec,
    material: Material,
    published_since: Option<(String, Timestamp)>,
    steps: Vec<(CertificateAction, Because)>,
}

impl World {
    fn new() -> Self {
        Self { spec: spec(), material: Material::default(), published_since: None, steps: Vec::new() }
    }

    fn observe(&self) -> ObservedCertificates {
        let observed = observe(&self.material, &self.spec, None);
        let serial = observed.next_ca.found().map(|next| next.serial.clone());
        let since = self.published_since.clone().filter(|(known, _)| Some(known) == serial.as_ref());
        ObservedCertificates { next_published_since: since.map(|(_, since)| since), ..observed }
    }

    /// Plans and carries out until there is nothing to do, and publishes. Gives the bundle.
    fn check(&mut self, now: Timestamp) -> Vec<u8> {
        for _ in 0..5 {
            let observed = self.observe();
            let planned = plan(&observed, now);
            if planned.action == CertificateAction::Keep {
                assert!(planned.wake_at.is_some_and(|at| at > now), "{planned:?} at {now}");
                if let (Some(next), None) = (observed.next_ca.found(), observed.next_published_since) {
                    self.published_since = Some((next.serial.clone(), now));
                }
                return bundle(&observed, &self.material, now);
            }
            self.steps.push((planned.action, planned.because));
            self.material = carry_out(planned.action, &self.material, &self.spec, now).unwrap();
        }
        panic!("does not come to rest: {:?}", self.steps);
    }

    fn serving(&self) -> Vec<u8> {
        self.material.serving.clone().unwrap()
    }
}

#[derive(Debug, Clone)]
enum Damage {
    Remove(Index),
    Garble(Index),
    /// Two pieces change places, so that each is sound and in the wrong place.
    Swap(Index, Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        any::<Index>().prop_map(Damage::Remove),
        any::<Index>().prop_map(Damage::Garble),
        (any::<Index>(), any::<Index>()).prop_map(|(a, b)| Damage::Swap(a, b)),
    ]
}

fn inflict(material: &mut Material, damage: &Damage) {
    let mut data = std::collections::BTreeMap::new();
    material.write_to(&mut data);
    let names: Vec<String> = data.keys().cloned().collect();
    let name = |index: &Index| names[index.index(names.len())].clone();
    match damage {
        Damage::Remove(index) => drop(data.remove(&name(index))),
        Damage::Garble(index) => data.get_mut(&name(index)).unwrap().0.truncate(40),
        Damage::Swap(a, b) => {
            let (first, second) = (data[&name(a)].clone(), data[&name(b)].clone());
            data.insert(name(a), second);
            data.insert(name(b), first);
        }
    }
    *material = Material::from_data(&data);
}

fn authority_facts() -> impl Strategy<Value = Piece<AuthorityFacts>> {
    let found = (-100_i32..50, 1_i32..200, any::<bool>()).prop_map(|(from, life, key)| {
        Piece::Found(AuthorityFacts {
            serial: from.to_string(),
            not_before: start() + MINUTE * 60 * from,
            not_after: start() + MINUTE * 60 * (from + life),
            key: if key { KeyFacts::Usable } else { KeyFacts::Unusable },
        })
    });
    prop_oneof![1 => Just(Piece::Missing), 1 => Just(Piece::Garbage("?".into())), 4 => found]
}

fn serving_facts() -> impl Strategy<Value = Piece<ServingFacts>> {
    let signer = prop_oneof![
        Just(SignedBy::Ca),
        Just(SignedBy::NextCa),
        Just(SignedBy::PreviousCa),
        Just(SignedBy::Nobody)
    ];
    let found = (-100_i32..50, 1_i32..200, any::<bool>(), any::<bool>(), signer).prop_map(
        |(from, life, key, named, signed_by)| {
            Piece::Found(ServingFacts {
                not_before: start() + MINUTE * 60 * from,
                not_after: start() + MINUTE * 60 * (from + life),
                names: if named { spec().names } else { ["other".to_owned()].into() },
                key: if key { KeyFacts::Usable } else { KeyFacts::Unusable },
                signed_by,
            })
        },
    );
    prop_oneof![1 => Just(Piece::Missing), 1 => Just(Piece::Garbage("?".into())), 4 => found]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Replicas look, and the API server learns, any time within the overlap: at every moment everything that
    /// may still be served with is trusted by every bundle that may still be in use.
    #[test]
    fn rotation_never_breaks_trust(pauses in proptest::collection::vec(1_i32..100, 90..120)) {
        let mut world = World::new();
        let mut now = start();
        let mut recent: VecDeque<(Timestamp, Vec<u8>, Vec<u8>)> = VecDeque::new();
        for pause in pauses {
            let bundle = world.check(now);
            recent.push_back((now, world.serving(), bundle));
            // The last one from before the window was in use at its beginning.
            while recent.get(1).is_some_and(|(at, ..)| *at <= now - spec().overlap) {
                recent.pop_front();
            }
            // Most of them are the same.
            let servings: BTreeSet<_> = recent.iter().map(|(_, serving, _)| serving).collect();
            let bundles: BTreeSet<_> = recent.iter().map(|(_, _, bundle)| bundle).collect();
            for serving in servings {
                for bundle in &bundles {
                    prop_assert_eq!(trusts(bundle, serving, now), Ok(()), "at {}: {:?}", now, world.steps);
                }
            }
            now += MINUTE * pause;
        }
        let count = |action| world.steps.iter().filter(|(step, _)| *step == action).count();
        prop_assert_eq!(count(CertificateAction::Create), 1, "{:?}", world.steps);
        prop_assert!(count(CertificateAction::PromoteCa) >= 1, "{:?}", world.steps);
        prop_assert!(count(CertificateAction::RetireCa) >= 1, "{:?}", world.steps);
    }

    /// Whatever is damaged at whatever point of a rotation: the next check ends with a certificate that the
    /// bundle trusts.
    #[test]
    fn damage_is_always_repaired(
        story in proptest::collection::vec((60_i32..400, proptest::option::weighted(0.4, damage())), 20..40),
    ) {
        let mut world = World::new();
        let mut now = start();
        for (pause, damage) in story {
            let bundle = world.check(now);
            prop_assert_eq!(trusts(&bundle, &world.serving(), now), Ok(()), "{:?}", world.steps);
            let again = world.steps.len();
            world.check(now);
            prop_assert_eq!(world.steps.len(), again, "a second check changes nothing");
            now += MINUTE * pause;
            if let Some(damage) = damage {
                inflict(&mut world.material, &damage);
            }
        }
    }
}

proptest! {
    /// For any facts at all: a step that can be carried out, and rest only when all is well.
    #[test]
    fn every_plan_can_be_carried_out(
        ca in authority_facts(),
        next_ca in authority_facts(),
        previous_ca in authority_facts(),
        serving in serving_facts(),
        published in proptest::option::of(-50_i32..1),
    ) {
        let now = start();
        let next_published_since = published.map(|hours| start() + MINUTE * 60 * hours);
        let observed =
            ObservedCertificates { spec: spec(), ca, next_ca, previous_ca, serving, next_published_since };
        let issues = |piece: &Piece<AuthorityFacts>| piece.found().is_some_and(|facts| {
            facts.key == KeyFacts::Usable && facts.not_before <= now && now < facts.not_after
        });
        let planned = plan(&observed, now);
        match planned.action {
            CertificateAction::IssueServing => prop_assert!(issues(&observed.ca)),
            CertificateAction::PromoteCa => prop_assert!(issues(&observed.next_ca)),
            CertificateAction::RetireCa => prop_assert!(!observed.previous_ca.is_missing()),
            CertificateAction::Keep => {
                let serving = observed.serving.found().unwrap();
                prop_assert!(serving.not_before <= now && now < serving.not_after);
                prop_assert!(serving.key == KeyFacts::Usable && serving.signed_by != SignedBy::Nobody);
                prop_assert!(planned.wake_at.is_some_and(|at| at > now));
            }
            CertificateAction::Create | CertificateAction::StageCa => {}
        }
    }
}

#[test]
fn keys_of_others_are_told_from_ours() {
    let mut world = World::new();
    world.check(start());
    let mut other = World::new();
    other.check(start());
    world.material.ca_key.clone_from(&other.material.ca_key);
    world.material.serving_key =
        Some(PrivateKey::new("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"));
    let observed = world.observe();
    assert_eq!(observed.ca.found().unwrap().key, KeyFacts::Unusable);
    assert_eq!(observed.serving.found().unwrap().key, KeyFacts::Unusable);
    assert_eq!(observed.serving.found().unwrap().signed_by, SignedBy::Ca);
    // A serving certificate is no CA, whoever puts it there.
    world.material.ca.clone_from(&world.material.serving);
    assert!(matches!(world.observe().ca, Piece::Garbage(_)));
}

#[test]
fn names_and_addresses_are_in_the_certificate() {
    let mut world = World::new();
    world.spec.names.insert("127.0.0.1".into());
    world.spec.names.insert("::1".into());
    world.check(start());
    let observed = world.observe();
    assert_eq!(observed.serving.found().unwrap().names, world.spec.names);
    // The same address written differently is the same address.
    let serving = world.serving();
    world.spec.names.insert("0:0:0:0:0:0:0:1".into());
    world.check(start());
    assert_eq!(world.serving(), serving);
    // Another name wanted later is another certificate, from the same CA.
    let ca = world.material.ca.clone();
    world.spec.names.insert("webhook.example".into());
    world.check(start());
    assert!(world.observe().serving.found().unwrap().names.contains("webhook.example"));
    assert_eq!(world.material.ca, ca);
    // What is neither is an error that names it.
    world.spec.names.insert("not a name é".into());
    let error =
        carry_out(CertificateAction::IssueServing, &world.material, &world.spec, start()).unwrap_err();
    assert!(error.to_string().contains("not a name"), "{error}");
}
