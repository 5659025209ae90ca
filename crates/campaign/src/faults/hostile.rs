//! A remote haul that lies.

use haul_testkit::lying_haul::{LyingStage, MessageLie, SCENES};

use crate::round::Round;

/// Lies in a round. All are about one command, whose messages are recorded once.
const LIES: usize = 12;

/// Random lies in the messages of a random command. Undetectable lies may end with exit code 0 and other trees.
pub(crate) fn lies(round: &mut Round) {
    let this = std::env::current_exe().unwrap();
    let stage = LyingStage::new(round.path(), &round.world.tag, &round.world.haul, &this);
    let scene = round.below(SCENES.len() as u64) as usize;
    let recorded = stage.record(&[&SCENES[scene]]);
    let mut all = Vec::new();
    for (scene, lies) in &recorded {
        let keys: Vec<_> = lies.iter().collect();
        for _ in 0..LIES {
            let (key, lies) = round.pick(&keys);
            let change = round.pick(&lies.changes.iter().collect::<Vec<_>>()).clone();
            let at = if round.one_in(3) { None } else { Some(round.below(lies.count)) };
            all.push((*scene, MessageLie { key: key.clone(), change, at }));
        }
    }
    for ((scene, lie), ended) in all.iter().zip(stage.tell(&all)) {
        round.ran();
        round.fault(u64::from(ended.told));
        round.note("undetectable lies that were believed", u64::from(ended.fooled));
        for problem in &ended.problems {
            let text = format!("{} {lie}: {problem}: {}", scene.name, ended.run);
            if problem.starts_with("exit 0") { round.wrong(text) } else { round.lost(text) }
        }
    }
    round.all_gone();
}
