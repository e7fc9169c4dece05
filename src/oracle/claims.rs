//! The claims of Noji & Miyao (2014), section 4, checked one by one on the data of a study.
//!
//! Each check is a rule that is stated with its verdict, so that a reader can disagree with the rule and still use the
//! figures. A claim that names languages is checked for those that the study has.

use super::count::{Order, System};
use super::study::{Study, Treebank};

/// The cost that the paper's claims are about.
pub const COST: usize = 3;

/// The share of configurations that the paper asks for, in percent.
pub const SHARE: f64 = 98.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Holds,
    HoldsInPart,
    Fails,
    /// The study lacks what the claim is about.
    NotTested,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::HoldsInPart => "holds in part",
            Verdict::Fails => "does not hold",
            Verdict::NotTested => "not tested",
        }
    }

    fn of(part: usize, whole: usize) -> Verdict {
        match part {
            _ if whole == 0 => Verdict::NotTested,
            _ if part == whole => Verdict::Holds,
            0 => Verdict::Fails,
            _ => Verdict::HoldsInPart,
        }
    }
}

/// A claim, how it was checked, and what came out.
#[derive(Clone, Debug)]
pub struct Claim {
    pub id: &'static str,
    pub claim: &'static str,
    pub rule: String,
    pub verdict: Verdict,
    pub finding: String,
}

/// Checks every claim that the systems and orders of `study` allow.
pub fn check(study: &Study) -> Vec<Claim> {
    let has = |systems: &[System]| systems.iter().all(|system| study.systems.contains(system));
    let mut claims = Vec::new();
    if has(&[System::LeftCorner]) {
        claims.push(left_corner_reaches_share(study));
    }
    if has(&[System::ArcStandard]) {
        claims.push(arc_standard_suits_head_final(study));
    }
    if has(&[System::ArcEager, System::LeftCorner]) {
        claims.push(arc_eager_needs_more(study));
    }
    if has(&System::ALL) {
        claims.push(left_corner_is_most_uniform(study));
    }
    if study.has_reordered() {
        if has(&[System::LeftCorner]) {
            claims.push(reordering_raises_left_corner(study));
        }
        claims.push(reordering_moves_little_in(study, &["chinese", "hungarian"]));
    }
    claims
}

/// Treebanks with their value of `measure`, largest first.
fn ranked(study: &Study, measure: impl Fn(&Treebank) -> Option<f64>) -> Vec<(&str, f64)> {
    let mut ranked: Vec<(&str, f64)> =
        study.treebanks.iter().filter_map(|t| measure(t).map(|value| (t.name.as_str(), value))).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    ranked
}

fn listed(items: &[(&str, f64)], decimals: usize) -> String {
    let items: Vec<String> = items.iter().map(|(name, value)| format!("{name} {value:.decimals$}")).collect();
    if items.is_empty() { "none".to_string() } else { items.join(", ") }
}

/// Whether `name` speaks of `language`: its treebank, or one of several.
fn is_language(name: &str, language: &str) -> bool {
    name.to_lowercase().split(|c: char| !c.is_alphanumeric()).next() == Some(language)
}

/// Where those of `languages` that the ranking has stand, and how many of them are in its first third.
fn places(ranking: &[(&str, f64)], languages: &[&str]) -> (usize, usize, String) {
    let top = ranking.len().div_ceil(3);
    let named: Vec<(usize, &str)> = (0..)
        .zip(ranking)
        .filter(|(_, (name, _))| languages.iter().any(|language| is_language(name, language)))
        .map(|(place, (name, _))| (place, *name))
        .collect();
    let shown: Vec<String> = named.iter().map(|(place, name)| format!("{name} is no. {}", place + 1)).collect();
    (named.iter().filter(|(place, _)| *place < top).count(), named.len(), shown.join(", "))
}

fn left_corner_reaches_share(study: &Study) -> Claim {
    let ranking = ranked(study, |t| t.percent_within(System::LeftCorner, Order::Original, COST));
    let (reach, miss): (Vec<_>, Vec<_>) = ranking.iter().partition(|(_, percent)| *percent >= SHARE);
    let except_arabic = miss.iter().all(|(name, _)| is_language(name, "arabic"));
    let verdict = match (ranking.len(), except_arabic) {
        (0, _) => Verdict::NotTested,
        (_, true) => Verdict::Holds,
        (_, false) => Verdict::of(reach.len(), ranking.len()),
    };
    Claim {
        id: "left-corner-98",
        claim: "Except for Arabic, the left-corner system covers 98 % of configurations with a memory cost of 3 or less.",
        rule: format!("Holds when no treebank but Arabic is below {SHARE} % at cost {COST}."),
        verdict,
        finding: format!(
            "{} of {} treebanks reach {SHARE} %. Below: {}. Lowest that reach it: {}.",
            reach.len(),
            ranking.len(),
            listed(&miss, 2),
            listed(&reach[reach.len().saturating_sub(3)..], 2),
        ),
    }
}

fn arc_standard_suits_head_final(study: &Study) -> Claim {
    let ranking = ranked(study, |t| t.percent_within(System::ArcStandard, Order::Original, COST));
    let (top, named, shown) = places(&ranking, &["japanese", "turkish"]);
    let low = ranking.iter().filter(|(_, percent)| *percent < SHARE).count();
    Claim {
        id: "arc-standard-head-final",
        claim: "Arc-standard needs little memory in head-final languages such as Japanese and Turkish only, and behaves poorly in many others.",
        rule: format!(
            "Holds when Japanese and Turkish are in the first third by configurations of cost {COST} or less."
        ),
        verdict: Verdict::of(top, named),
        finding: format!(
            "{}Highest: {}. Lowest: {}. {low} of {} treebanks are below {SHARE} %.",
            if shown.is_empty() { String::new() } else { format!("{shown} of {}. ", ranking.len()) },
            listed(&ranking[..ranking.len().min(4)], 1),
            listed(&ranking[ranking.len().saturating_sub(4)..], 1),
            ranking.len()
        ),
    }
}

fn arc_eager_needs_more(study: &Study) -> Claim {
    let gap = |t: &Treebank| {
        let within = |system| t.percent_within(system, Order::Original, COST);
        Some(within(System::LeftCorner)? - within(System::ArcEager)?)
    };
    let ranking = ranked(study, gap);
    let (top, named, shown) = places(&ranking, &["arabic", "hungarian", "japanese"]);
    Claim {
        id: "arc-eager-gap",
        claim: "In some languages, such as Arabic, Hungarian and Japanese, arc-eager needs more memory while left-corner behaves as elsewhere.",
        rule: format!(
            "Holds when these are in the first third by how many points arc-eager is behind at cost {COST} or less."
        ),
        verdict: Verdict::of(top, named),
        finding: format!(
            "{}Points behind, most: {}; least: {}.",
            if shown.is_empty() { String::new() } else { format!("{shown} of {}. ", ranking.len()) },
            listed(&ranking[..ranking.len().min(5)], 1),
            listed(&ranking[ranking.len().saturating_sub(3)..], 1),
        ),
    }
}

fn left_corner_is_most_uniform(study: &Study) -> Claim {
    let spread = |system: System| {
        let ranking = ranked(study, |t| t.percent_within(system, Order::Original, COST));
        match (ranking.first(), ranking.last()) {
            (Some(most), Some(least)) => most.1 - least.1,
            _ => 0.0,
        }
    };
    let spreads: Vec<(&str, f64)> = System::ALL.map(|system| (system.name(), spread(system))).to_vec();
    let is_least = spreads.iter().all(|(_, s)| *s >= spreads[2].1);
    Claim {
        id: "left-corner-universal",
        claim: "Needing little memory is more universal for left-corner than for the other systems.",
        rule: format!(
            "Holds when the treebanks differ least under left-corner (highest less lowest % at cost {COST} or less)."
        ),
        verdict: match study.treebanks.iter().filter(|t| t.sentences_used > 0).count() {
            0 | 1 => Verdict::NotTested,
            _ if is_least => Verdict::Holds,
            _ => Verdict::Fails,
        },
        finding: format!("Spread in points: {}.", listed(&spreads, 1)),
    }
}

/// How many points of the configurations within [`COST`] reordering takes away.
fn points_lost(t: &Treebank, system: System) -> Option<f64> {
    let within = |order| t.percent_within(system, order, COST);
    Some(within(Order::Original)? - within(Order::Reordered)?)
}

fn reordering_raises_left_corner(study: &Study) -> Claim {
    let ranking = ranked(study, |t| points_lost(t, System::LeftCorner));
    let rise = |t: &Treebank| {
        let mean = |order| t.mean_cost(System::LeftCorner, order);
        Some(mean(Order::Reordered)? - mean(Order::Original)?)
    };
    let rises = ranked(study, rise);
    let risen = rises.iter().filter(|(_, rise)| *rise > 0.0).count();
    Claim {
        id: "reordering-left-corner",
        claim: "Left-corner needs less memory on natural sentences than on the same trees in random order.",
        rule: "Holds when reordering raises the mean left-corner cost in every treebank.".to_string(),
        verdict: Verdict::of(risen, rises.len()),
        finding: format!(
            "It rises in {risen} of {}. Points lost at cost {COST} or less, most: {}; least: {}.",
            rises.len(),
            listed(&ranking[..ranking.len().min(4)], 1),
            listed(&ranking[ranking.len().saturating_sub(4)..], 1),
        ),
    }
}

fn reordering_moves_little_in(study: &Study, languages: &[&str]) -> Claim {
    let system = *study.systems.last().expect("a job has a system");
    let mut ranking = ranked(study, |t| points_lost(t, system).map(f64::abs));
    ranking.reverse();
    let (top, named, shown) = places(&ranking, languages);
    Claim {
        id: "reordering-subtle",
        claim: "For Chinese and Hungarian, reordering makes little difference.",
        rule: format!(
            "Holds when these are in the third of the treebanks that {} moves least (points at cost {COST} or less).",
            system.name()
        ),
        verdict: Verdict::of(top, named),
        finding: format!(
            "{}Moved least: {}.",
            if shown.is_empty() { String::new() } else { format!("{shown} of {}. ", ranking.len()) },
            listed(&ranking[..ranking.len().min(5)], 1),
        ),
    }
}
