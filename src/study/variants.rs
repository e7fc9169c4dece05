//! From variants and a grid to the settings of each job of a study.
//!
//! A grid is the product of its keys' values. Every variant is run once for each point of it, but for the keys that the
//! variant sets itself: these stay as it sets them. So a baseline that has no topics, say, is run once beside models at
//! several numbers of topics.

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// One of `[[variants]]`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct VariantSettings {
    pub name: String,
    /// What is different from the base.
    pub set: Table,
}

/// The settings of one job of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Name of its run folder.
    pub name: String,
    /// The variant that it is of; empty where there is only a grid.
    pub variant: String,
    /// Its point of the grid, without keys that the variant sets.
    pub point: Vec<(String, Value)>,
    /// What is different from the base, the point included.
    pub set: Vec<(String, Value)>,
}

/// Names of files and folders that a study has beside those of its variants.
const TAKEN: [&str; 4] = ["report", "checkpoints", "processes", "model"];

/// Every job of a study, in the order in which they are run.
pub fn expand(variants: &[VariantSettings], grid: &Table) -> Result<Vec<Settings>, String> {
    let grid = values(grid)?;
    let alone = [VariantSettings::default()];
    let variants = if variants.is_empty() { &alone[..] } else { variants };
    if variants[0].name.is_empty() && grid.is_empty() {
        return Err("there is nothing to compare: add [grid] or [[variants]]".to_string());
    }
    let mut all: Vec<Settings> = vec![];
    for variant in variants {
        let set = leaves(&variant.set);
        let free: Vec<&(String, Vec<Value>)> =
            grid.iter().filter(|(key, _)| !set.iter().any(|(own, _)| own == key)).collect();
        for point in points(&free) {
            let settings = Settings {
                name: name(&variant.name, &point, grid.len()),
                variant: variant.name.clone(),
                set: set.iter().chain(&point).cloned().collect(),
                point,
            };
            check_name(&settings.name)?;
            if all.iter().any(|other| other.name == settings.name) {
                return Err(format!("two variants are named {}", settings.name));
            }
            all.push(settings);
        }
    }
    Ok(all)
}

/// The settings in `table`, by key path: `model.topics = 10` and `"model.topics" = 10` are the same.
pub fn leaves(table: &Table) -> Vec<(String, Value)> {
    let mut all = vec![];
    for (key, value) in table {
        match value {
            Value::Table(inner) => {
                all.extend(leaves(inner).into_iter().map(|(rest, value)| (format!("{key}.{rest}"), value)));
            }
            value => all.push((key.clone(), value.clone())),
        }
    }
    all
}

/// The values of each key of a grid.
fn values(grid: &Table) -> Result<Vec<(String, Vec<Value>)>, String> {
    let lists = leaves(grid).into_iter().map(|(key, value)| match value {
        Value::Array(list) if !list.is_empty() && list.iter().all(is_plain) => Ok((key, list)),
        _ => Err(format!("grid: {key} has to be a list of numbers or words, such as [10, 50, 100]")),
    });
    lists.collect()
}

fn is_plain(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_))
}

/// All combinations, the last key changing fastest.
fn points(grid: &[&(String, Vec<Value>)]) -> Vec<Vec<(String, Value)>> {
    let mut points = vec![vec![]];
    for (key, values) in grid {
        let longer = |point: &Vec<(String, Value)>| -> Vec<Vec<(String, Value)>> {
            values.iter().map(|value| [&point[..], &[(key.clone(), value.clone())]].concat()).collect()
        };
        points = points.iter().flat_map(longer).collect();
    }
    points
}

/// `switching-50`; with several keys in the grid, or without variants, they are told: `switching-order-3-topics-50`.
fn name(variant: &str, point: &[(String, Value)], keys: usize) -> String {
    let mut parts: Vec<String> = vec![];
    if !variant.is_empty() {
        parts.push(variant.to_string());
    }
    for (key, value) in point {
        if keys > 1 || variant.is_empty() {
            parts.push(short(key).to_string());
        }
        let is_safe = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        parts.push(shown(value).chars().map(|c| if is_safe(c) { c } else { '_' }).collect());
    }
    parts.join("-")
}

/// The last part of a key path.
pub fn short(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// A value as people write it in a sentence.
pub fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// A name becomes a folder.
fn check_name(name: &str) -> Result<(), String> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() {
        return Err("a variant has no name".to_string());
    }
    if !name.chars().all(is_safe) || name.starts_with(['.', '-']) {
        return Err(format!(
            "variants: the name `{name}` has to be of letters, digits, '.', '_' and '-', and begin with a letter or digit"
        ));
    }
    if TAKEN.contains(&name) || name.ends_with(".previous") || name.contains(".json") || name.ends_with(".toml") {
        return Err(format!("variants: the name `{name}` is that of another file in the run folder"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(name: &str, set: &str) -> VariantSettings {
        VariantSettings { name: name.to_string(), set: set.parse().unwrap() }
    }

    fn names(variants: &[VariantSettings], grid: &str) -> Vec<String> {
        expand(variants, &grid.parse().unwrap()).unwrap().into_iter().map(|settings| settings.name).collect()
    }

    #[test]
    fn a_variant_is_run_at_every_point_that_it_leaves_open() {
        let variants = [variant("hpylm", "model.type = 'hpytm'\nmodel.topics = 1"), variant("full", "")];
        let all = expand(&variants, &"\"model.topics\" = [10, 50]".parse().unwrap()).unwrap();
        let names: Vec<&str> = all.iter().map(|settings| settings.name.as_str()).collect();
        assert_eq!(names, ["hpylm", "full-10", "full-50"]);
        assert!(all[0].point.is_empty());
        assert_eq!(all[2].set, [("model.topics".to_string(), Value::Integer(50))]);
    }

    #[test]
    fn names_tell_keys_where_they_must() {
        assert_eq!(names(&[], "model.topics = [1, 2]"), ["topics-1", "topics-2"]);
        let two = names(&[variant("a", "")], "seed = [1, 2]\nmodel.order = [3, 'infinite']");
        assert_eq!(two, ["a-order-3-seed-1", "a-order-3-seed-2", "a-order-infinite-seed-1", "a-order-infinite-seed-2"]);
    }

    #[test]
    fn what_cannot_be_a_study_is_refused() {
        for (variants, grid, expected) in [
            (vec![], "", "nothing to compare"),
            (vec![], "seed = [1, 1]", "two variants are named seed-1"),
            (vec![variant("a", ""), variant("a", "seed = 2")], "", "two variants are named a"),
            (vec![variant("a", ""), variant("", "seed = 2")], "", "has no name"),
            (vec![variant("a/b", "")], "", "letters, digits"),
            (vec![variant("report", "")], "", "another file"),
            (vec![], "seed = 3", "a list of numbers"),
            (vec![], "seed = []", "a list of numbers"),
        ] {
            let error = expand(&variants, &grid.parse().unwrap()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
