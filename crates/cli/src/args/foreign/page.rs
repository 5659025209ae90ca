//! The tables of docs/COMING-FROM.md, compared with the data. `SNAPSHOTS=renew cargo test -p haul coming_from` renews
//! them.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::behind::BEHIND;
use super::commands::{ALIASES, forces, moves, refused, sums};
use super::word::{TOOLS, WordVerdict, words};

/// The line before the tables.
const MARK: &str = "<!-- The rest is generated: SNAPSHOTS=renew cargo test -p haul coming_from -->\n";

fn verdict(verdict: WordVerdict) -> String {
    match verdict {
        WordVerdict::Default => "accepted: haul always does that".to_owned(),
        WordVerdict::DefaultValue(value) => format!("accepted with `{value}`: haul always does that"),
        WordVerdict::Undoes(option) => format!("accepted: the default; undoes an earlier `{option}`"),
        WordVerdict::Same(option) => format!("accepted: the same as `{option}`"),
        WordVerdict::Means(option, value) => format!("accepted: the same as `{option} {value}`"),
        WordVerdict::Hint(advice) => advice.to_owned(),
    }
}

fn row(text: &mut String, words: &str, at: &[&str], haul: &str) {
    let cell = |text: &str| text.replace('|', "\\|");
    let _ = writeln!(text, "| {} | {} | {} |", cell(words), at.join(", "), cell(haul));
}

fn tables() -> String {
    let mut text = String::new();
    for tool in TOOLS {
        let _ = write!(text, "\n## {tool}\n\n| word | `haul ...` | with haul |\n|---|---|---|\n");
        let own = || words().filter(move |word| word.tools.contains(&tool));
        let is_hint = |verdict: &WordVerdict| matches!(verdict, WordVerdict::Hint(_));
        let sorted =
            own().filter(|word| !is_hint(&word.verdict)).chain(own().filter(|word| is_hint(&word.verdict)));
        for word in sorted {
            row(&mut text, &format!("`{}`", word.names.join("` `")), &word.at, &verdict(word.verdict));
        }
        for behind in BEHIND.iter().filter(|behind| behind.tools.contains(&tool)) {
            row(&mut text, &format!("`{}` with a value", behind.name), &behind.at, behind.advice);
        }
    }
    text.push_str("\n## Commands\n\n| command | with haul |\n|---|---|\n");
    for (alias, name) in ALIASES {
        let option = match alias {
            alias if moves(alias) => " --remove-source-files",
            alias if sums(alias) => " -r --summarize`, without the list of `ls",
            _ => "",
        };
        let force = if forces(alias) { "; `-f` and `--force` have no effect" } else { "" };
        let _ = writeln!(text, "| `{alias}` | accepted: the same as `haul {name}{option}`{force} |");
    }
    for (names, advice) in refused() {
        let _ = writeln!(text, "| `{}` | {advice} |", names.join("` `"));
    }
    text
}

#[test]
fn coming_from_has_the_tables_of_the_data() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/COMING-FROM.md");
    let page = fs::read_to_string(&path).unwrap();
    let (head, old) = page.split_once(MARK).expect("the mark");
    let new = tables();
    if old != new && std::env::var_os("SNAPSHOTS").is_some_and(|value| value == "renew") {
        fs::write(&path, format!("{head}{MARK}{new}")).unwrap();
        return;
    }
    assert!(old == new, "docs/COMING-FROM.md is old: SNAPSHOTS=renew cargo test -p haul coming_from");
}
