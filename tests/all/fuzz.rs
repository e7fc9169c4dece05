//! Readers on inputs that nobody would write: no panic, no hang, no memory without end.
//!
//! An input is made from seeds by a few mutations, and follows from its target, a seed and its number ([`mutation`]), so the
//! message of a failure is enough to make it again: `scripts/fuzz --from NUMBER --inputs 1 TARGET`. The tests run some inputs
//! of each target; scripts/fuzz runs as many as one likes.

use std::io::Write;
use std::time::{Duration, Instant};

use targets::TARGETS;

#[path = "fuzz/guard.rs"]
mod guard;
#[path = "fuzz/mutation.rs"]
mod mutation;
#[path = "fuzz/targets.rs"]
mod targets;

/// Inputs of each target in the short run, and how long it may take.
const INPUTS: u64 = 4000;
const SHORT: Duration = Duration::from_millis(400);

#[test]
fn no_reader_fails_on_mutated_input() {
    for target in TARGETS {
        let done = guard::run(target, 1, 0..INPUTS, Some(Instant::now() + SHORT))
            .unwrap_or_else(|failure| panic!("{failure}"));
        assert!(done > 0, "{}: no input was read", target.name);
    }
}

#[test]
fn an_input_follows_from_its_number() {
    let seeds = vec![b"one".to_vec(), b"another".to_vec()];
    let inputs = |target| (0..50).map(|number| mutation::input(target, 1, number, &seeds)).collect::<Vec<_>>();
    assert_eq!(inputs("a"), inputs("a"));
    assert_ne!(inputs("a"), inputs("b"));
}

/// The long run of scripts/fuzz. A panic does not end it: panics are counted, the first ones shown.
#[test]
#[ignore = "run by scripts/fuzz"]
fn long_run() {
    let setting = |name: &str| std::env::var(format!("SAWMILL_FUZZ_{name}")).ok();
    let number = |name: &str, default: u64| setting(name).map_or(default, |text| text.parse().expect("a number"));
    let (inputs, seed, from) = (number("INPUTS", 10_000), number("SEED", 2), number("FROM", 0));
    let chosen = setting("TARGETS").unwrap_or_default();
    let mut failures = 0;
    for target in TARGETS {
        if !chosen.is_empty() && !chosen.split_whitespace().any(|name| name == target.name) {
            continue;
        }
        let (begun, end) = (Instant::now(), from + inputs);
        let (mut next, mut panics) = (from, 0u64);
        while next < end {
            let Err(failure) = guard::run(target, seed, next..end, None) else { break };
            let at = failure.split("input ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
            next = at.parse::<u64>().expect("a number") + 1;
            panics += 1;
            if panics <= 5 {
                writeln!(std::io::stderr(), "{failure}").expect("stderr is open");
            }
        }
        failures += panics;
        let seconds = begun.elapsed().as_secs_f64();
        let row = format!("| {} | {inputs} | {seconds:.0} | {panics} |", target.name);
        writeln!(std::io::stderr(), "{row}").expect("stderr is open");
    }
    assert_eq!(failures, 0, "inputs that panic");
}
