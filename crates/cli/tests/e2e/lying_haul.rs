//! A remote haul that falsifies each field of each message: the local haul ends in order and does no damage.
//!
//! `LIES="SCENE KEY CHANGE AT, …"` runs only these changes; `LIES_EACH=N` runs N per part of a message instead of a
//! sample of all; `LIES_CHANGES="NAME …"` limits that to these changes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use haul_testkit::Random;
use haul_testkit::lying_haul::{EndedRun, Lies, LyingStage, MessageLie, SCENES, kinds, scene};

use crate::scene::{HAUL, Scene};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        every_kind_of_answer_is_lied_about,
        a_source_that_lies_does_no_harm,
        a_destination_that_lies_does_no_harm,
        a_remote_end_that_lies_to_other_commands_does_no_harm,
        a_remote_end_that_repeats_a_lie_does_not_keep_the_run,
        only_facts_that_the_remote_end_alone_knows_are_believed,
    ]
}

type ToldLie = (&'static haul_testkit::lying_haul::LyingScene, MessageLie);

fn stage(scene: &Scene) -> LyingStage {
    LyingStage::new(scene.path(), scene.tag(), Path::new(HAUL), &std::env::current_exe().unwrap())
}

/// Answers that come only in trouble, or in a run of some time; they are told in the place of others.
const RARE: &[&str] = &["Failed", "TooLarge", "Gone", "HungOperation", "Hashed"];

fn every_kind_of_answer_is_lied_about() {
    let here = Scene::new();
    let all: Vec<_> = SCENES.iter().collect();
    let recorded = stage(&here).record(&all);
    let mut seen = BTreeSet::new();
    let mut instead = BTreeSet::new();
    for (_, lies) in &recorded {
        seen.extend(lies.keys().filter_map(|key| key.strip_prefix("Frame.Response.")));
        let whole = lies.get("Response").into_iter().flat_map(|lies| &lies.changes);
        instead.extend(whole.filter_map(|change| change.strip_prefix("as-")));
    }
    for kind in kinds() {
        assert!(seen.contains(kind) || RARE.contains(&kind), "no command here is answered with {kind}");
        assert!(instead.contains(kind), "{kind} is never told in the place of another answer");
    }
    let count: usize =
        recorded.iter().flat_map(|(_, lies)| lies.values()).map(|lies| lies.changes.len()).sum();
    eprintln!("liars: {count} lies about {} commands", recorded.len());
    assert!(count > 8000, "{count}");
}

/// A sample of the lies about these commands: so many parts of each, each with another change.
fn sample(stage: &LyingStage, names: &[(&str, usize)]) -> Vec<ToldLie> {
    let seed = std::env::var("TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let each: Option<u64> = std::env::var("LIES_EACH").ok().and_then(|each| each.parse().ok());
    let only = std::env::var("LIES_CHANGES").unwrap_or_default();
    let wanted = |change: &str| only.is_empty() || only.split(' ').any(|word| word == change);
    let mut random = Random::new(seed);
    let scenes: Vec<_> = names.iter().map(|(name, _)| scene(name)).collect();
    let mut all = Vec::new();
    for ((scene, lies), (_, count)) in stage.record(&scenes).into_iter().zip(names) {
        let keys: Vec<(&String, &Lies)> = lies.iter().collect();
        let count = if each.is_some() { keys.len() } else { *count };
        for turn in 0..count {
            let (key, lies) = keys[turn * keys.len() / count];
            let mut changes: Vec<&String> = lies.changes.iter().filter(|change| wanted(change)).collect();
            for _ in 0..each.unwrap_or(1).min(changes.len() as u64) {
                let change = changes.swap_remove(random.between(0, changes.len() as u64) as usize).clone();
                let at = (random.between(0, 4) > 0).then(|| random.between(0, lies.count));
                all.push((scene, MessageLie { key: key.clone(), change, at }));
            }
        }
    }
    all
}

/// Tells the lies, or those that `LIES` names, and fails if one of them did harm.
fn tell(stage: &LyingStage, lies: Vec<ToldLie>) -> Vec<(ToldLie, EndedRun)> {
    let named = std::env::var("LIES").ok().map(|text| {
        let parse = |text: &str| {
            let (name, lie) = text.trim().split_once(' ').expect("a command and a lie");
            (scene(name), lie.parse().unwrap())
        };
        text.split(", ").map(parse).collect::<Vec<ToldLie>>()
    });
    let lies = named.unwrap_or(lies);
    let all: Vec<_> = stage.tell(&lies).into_iter().zip(lies).map(|(ended, lie)| (lie, ended)).collect();
    let mut codes: BTreeMap<Option<i32>, usize> = BTreeMap::new();
    for (_, ended) in &all {
        *codes.entry(ended.run.code()).or_default() += 1;
    }
    let count = |what: fn(&EndedRun) -> bool| all.iter().filter(|(_, ended)| what(ended)).count();
    eprintln!(
        "liars: {} lies, {} told, {} believed, {} waited for; exit codes {codes:?}; peak {} MiB; slowest {:?}",
        all.len(),
        count(|ended| ended.told),
        count(|ended| ended.fooled),
        count(|ended| ended.interrupted),
        all.iter().map(|(_, ended)| ended.peak >> 20).max().unwrap_or(0),
        all.iter().map(|(_, ended)| ended.run.took).max().unwrap_or_default(),
    );
    let harm: Vec<String> = all
        .iter()
        .filter(|(_, ended)| !ended.problems.is_empty())
        .map(|((scene, lie), ended)| format!("{} {lie}: {:?}\n{}", scene.name, ended.problems, ended.run))
        .collect();
    assert!(harm.is_empty(), "{} of {} lies did harm:\n{}", harm.len(), all.len(), harm.join("\n"));
    assert!(count(|ended| ended.told) * 10 >= all.len() * 7, "most of them were told");
    all
}

fn a_source_that_lies_does_no_harm() {
    let here = Scene::new();
    let stage = stage(&here);
    let lies = sample(&stage, &[("pull", 40), ("pull-c", 20)]);
    tell(&stage, lies);
}

fn a_destination_that_lies_does_no_harm() {
    let here = Scene::new();
    let stage = stage(&here);
    let lies = sample(&stage, &[("push", 40), ("push-c", 15)]);
    tell(&stage, lies);
}

fn a_remote_end_that_lies_to_other_commands_does_no_harm() {
    let here = Scene::new();
    let stage = stage(&here);
    let lies = sample(
        &stage,
        &[("verify", 15), ("verify-far", 10), ("hash", 15), ("within", 15), ("pipe", 15), ("pipe-from", 15)],
    );
    tell(&stage, lies);
}

fn lie(name: &str, text: &str) -> ToldLie {
    (scene(name), text.parse().unwrap())
}

fn a_remote_end_that_repeats_a_lie_does_not_keep_the_run() {
    let here = Scene::new();
    let stage = stage(&here);
    let lies = vec![
        lie("push", "Response.Write[].Ok as-Stored *"),
        lie("within", "Response.Fetched.outcomes[].Ok as-Stored *"),
        lie("pull", "Response.Scan.found.entries many *"),
        lie("push", "Response.Scan.found.entries many *"),
        lie("pull", "Response.Read.slices none *"),
        lie("within", "Response.Fetched.streams max *"),
        lie("within", "Response.Fetched.wire_bytes max *"),
        lie("pipe", "Frame.Response.Write payload-huge *"),
    ];
    for ((_, lie), ended) in tell(&stage, lies) {
        assert!(ended.told && !ended.interrupted, "{lie}: {}", ended.run);
    }
}

fn only_facts_that_the_remote_end_alone_knows_are_believed() {
    let here = Scene::new();
    let stage = stage(&here);
    let believed = vec![
        // As a source: the kind of an entry, the list of entries, and the content of a file.
        lie("pull", "Response.Scan.found.entries[].mode suid *"),
        lie("pull", "Response.Scan.found.entries none *"),
        lie("pull", "Frame.Response.Read other-content *"),
        // As a destination: the entries there, those written, and those removed.
        lie("push", "Claim.Write committed *"),
        lie("push", "Response.Scan.found.entries none *"),
    ];
    for ((scene, lie), ended) in tell(&stage, believed) {
        // A scan that finds nothing is refused as a mistake.
        let ok = ended.fooled || ended.run.code() == Some(2);
        assert!(ok, "{} {lie}: {}", scene.name, ended.run);
    }
    let found = vec![
        lie("pull", "Frame.Response.Read content-other 0"),
        lie("pull", "Response.Read.slices[].Ok.value[] +1 0"),
        lie("pull", "Response.Read.slices[].Ok.extents none 0"),
        lie("push", "Claim.Write fewer *"),
        lie("push", "Claim.Write more *"),
    ];
    for ((scene, lie), ended) in tell(&stage, found) {
        assert!(ended.told && !ended.fooled, "{} {lie}: {}", scene.name, ended.run);
    }
}
