//! Topics of `haul help`, which apply to several commands.

use clap::Command;

use super::foreign::canonical;
use super::parse::command;

/// A topic.
pub(crate) struct Topic {
    /// The name, as typed.
    pub(crate) name: &'static str,
    /// The content in a few words.
    pub(crate) about: &'static str,
    /// The text: a heading, an empty line, and lines of at most 80 columns.
    pub(crate) text: &'static str,
}

/// All topics.
pub(crate) const TOPICS: [Topic; 8] = [
    topic("locations", "how to write hosts, paths and objects", include_str!("topics/locations.txt")),
    topic("patterns", "the language of --exclude and --include", include_str!("topics/patterns.txt")),
    topic("filters", "the rules of --filter, and files of rules", include_str!("topics/filters.txt")),
    topic("units", "sizes, rates, schedules and durations", include_str!("topics/units.txt")),
    topic("config", "settings files and HAUL_* variables", include_str!("topics/config.txt")),
    topic("environment", "the variables that haul reads", include_str!("topics/environment.txt")),
    topic("files", "the files that haul keeps", include_str!("topics/files.txt")),
    topic("exit-codes", "the exit codes, and the way out of each", include_str!("topics/exit-codes.txt")),
];

/// Other names of topics.
const ALIASES: [(&str, &str); 9] = [
    ("location", "locations"),
    ("pattern", "patterns"),
    ("filter", "filters"),
    ("sizes", "units"),
    ("durations", "units"),
    ("settings", "config"),
    ("env", "environment"),
    ("exit", "exit-codes"),
    ("exit-code", "exit-codes"),
];

const fn topic(name: &'static str, about: &'static str, text: &'static str) -> Topic {
    Topic { name, about, text }
}

impl Topic {
    /// The text without its heading.
    pub(crate) fn body(&self) -> &'static str {
        self.text.split_once("\n\n").map_or(self.text, |(_, body)| body)
    }
}

/// The help text of a topic or a command, or of haul itself; `None` if there is no such word.
pub(crate) fn explain(word: Option<&str>) -> Option<String> {
    let mut all = command();
    let Some(word) = word else { return Some(all.render_long_help().to_string()) };
    let name = ALIASES.iter().find(|(alias, _)| *alias == word).map_or(word, |(_, name)| name);
    if let Some(topic) = TOPICS.iter().find(|topic| topic.name == name) {
        return Some(topic.text.to_owned());
    }
    all.build();
    let found = all.find_subcommand_mut(canonical(word)).filter(|found| !Command::is_hide_set(found));
    found.map(|found| found.render_long_help().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_fits_a_terminal() {
        for Topic { name, text, .. } in TOPICS {
            assert!(text.lines().count() <= 45, "{name} is too long");
            for line in text.lines() {
                assert!(line.chars().count() <= 80 && line == line.trim_end(), "{name}: {line}");
            }
            assert!(text.contains("\n\n") && text.ends_with('\n'), "{name}");
        }
    }

    #[test]
    fn topics_and_commands_are_explained() {
        assert!(explain(None).unwrap().contains("haul <COMMAND>"));
        assert!(explain(Some("patterns")).unwrap().starts_with("Patterns of"));
        for (alias, name) in ALIASES {
            let topic = TOPICS.iter().find(|topic| topic.name == name).unwrap();
            assert_eq!(explain(Some(alias)).as_deref(), Some(topic.text), "{alias}");
        }
        assert!(explain(Some("copy")).unwrap().contains("Usage: haul copy"));
        assert!(explain(Some("cp")).unwrap().contains("Usage: haul copy"));
        assert!(explain(Some("agent")).is_none() && explain(Some("nothing")).is_none());
    }

    /// The names in the text about the environment are those that the code reads.
    #[test]
    fn options_in_the_topics_exist() {
        let known: Vec<String> = command()
            .get_subcommands()
            .flat_map(|command| {
                command
                    .get_arguments()
                    .filter_map(|arg| arg.get_long().map(str::to_owned))
                    .collect::<Vec<_>>()
            })
            .collect();
        for Topic { name, text, .. } in TOPICS {
            // Options of other programs stand in the example of a script.
            for line in text.lines().filter(|line| !line.contains("systemd-run")) {
                for word in line
                    .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
                    .filter(|word| word.starts_with("--"))
                {
                    let word = word.trim_start_matches('-');
                    assert!(known.iter().any(|known| known == word) || word == "help", "{name}: --{word}");
                }
            }
        }
    }
}
