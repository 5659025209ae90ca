//! A remote haul that says what is not so.

use haul_testkit::lying_haul::{Lie, SCENES, Stage};

use crate::round::Round;

/// Lies in a round: about one command, as what can be said of it is recorded once.
const LIES: usize = 12;

/// Random lies about a random command. Those that nobody could find may end with exit 0 and another tree.
pub(crate) fn lies(round: &mut Round) {
    let this = std::env::current_exe().unwrap();
    let stage = Stage::new(round.path(), &round.world.tag, &round.world.haul, &this);
    let scene = round.below(SCENES.len() as u64) as usize;
    let recorded = stage.record(&[&SCENES[scene]]);
    let mut all = Vec::new();
    for (scene, lies) in &recorded {
        let keys: Vec<_> = lies.iter().collect();
        for _ in 0..LIES {
            let (key, lies) = round.pick(&keys);
            let change = round.pick(&lies.changes.iter().collect::<Vec<_>>()).clone();
            let at = if round.one_in(3) { None } else { Some(round.below(lies.count)) };
            all.push((*scene, Lie { key: key.clone(), change, at }));
        }
    }
    for ((scene, lie), ended) in all.iter().zip(stage.tell(&all)) {
        round.ran();
        round.fault(u64::from(ended.told));
        round.note("lies that only the far end could know, and that were believed", u64::from(ended.fooled));
        for problem in &ended.problems {
            let text = format!("{} {lie}: {problem}: {}", scene.name, ended.run);
            if problem.starts_with("exit 0") { round.wrong(text) } else { round.lost(text) }
        }
    }
    round.all_gone();
}
