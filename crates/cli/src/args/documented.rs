//! The commands of haul in the documentation are valid. `e2e::book` runs those of the book; this covers the others too:
//! indented blocks, and options between the lines.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::{RefusedCommand, command, parse};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages, by their paths in the repository, with their texts.
fn pages() -> Vec<(String, String)> {
    let mut paths: Vec<PathBuf> =
        ["README.md", "SEMANTICS.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(PathBuf::from).to_vec();
    for dir in ["docs", "docs/recipes"] {
        for entry in fs::read_dir(root().join(dir)).unwrap() {
            let path = Path::new(dir).join(entry.unwrap().file_name());
            paths.extend(path.extension().is_some_and(|extension| extension == "md").then_some(path));
        }
    }
    let read = |path: PathBuf| (path.display().to_string(), fs::read_to_string(root().join(&path)).unwrap());
    paths.into_iter().map(read).collect()
}

/// The lines of all blocks of code, fenced or indented; a line that ends in a backslash is joined with the next.
fn code(text: &str) -> Vec<String> {
    let (mut lines, mut fenced, mut joined) = (Vec::new(), false, String::new());
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if fence || !fenced && !line.starts_with("    ") {
            continue;
        }
        joined += line.trim();
        if let Some(part) = joined.strip_suffix('\\') {
            joined.truncate(part.len());
        } else {
            lines.push(std::mem::take(&mut joined));
        }
    }
    lines
}

/// The words of each simple command of a line, as a shell splits them.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut word, mut quote) = (vec![Vec::new()], String::new(), None);
    let end = |all: &mut Vec<Vec<String>>, word: &mut String| {
        if !word.is_empty() {
            all.last_mut().unwrap().push(std::mem::take(word));
        }
    };
    for char in line.chars() {
        match (quote, char) {
            (Some(open), _) if open == char => quote = None,
            (None, '\'' | '"') => quote = Some(char),
            (None, ' ') => end(&mut all, &mut word),
            (None, '#') if word.is_empty() => break,
            (None, '|' | ';' | '&' | '(' | ')' | '>' | '<') => {
                end(&mut all, &mut word);
                all.push(Vec::new());
            }
            _ => word.push(char),
        }
    }
    end(&mut all, &mut word);
    all
}

/// The words from `haul` on, if this command runs haul, perhaps on another host or as another user.
fn of_haul(words: &[String]) -> Option<&[String]> {
    let at = words.iter().position(|word| word == "haul")?;
    let before = ["sudo", "ssh", "timeout", "nohup", "if", "then", "do", "time"];
    let leads = words.first().is_some_and(|first| before.contains(&first.as_str()) || first.contains('='));
    (at == 0 || leads && at <= 3).then(|| &words[at..])
}

#[test]
fn commands_in_the_documentation_are_valid() {
    let mut seen = 0;
    for (page, text) in pages() {
        for line in code(&text) {
            for words in commands(&line) {
                let Some(words) = of_haul(&words) else { continue };
                seen += 1;
                if let Err(RefusedCommand::Line(why)) = parse(words.iter().map(OsString::from)) {
                    panic!("{page}: {line}\n{why}");
                }
            }
        }
    }
    assert!(seen > 50, "{seen} commands");
}

#[test]
fn options_between_the_lines_exist() {
    let mut seen = 0;
    let all = command();
    for (page, text) in pages().into_iter().filter(|(page, _)| page != "docs/COMING-FROM.md") {
        for span in text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)) {
            let words: Vec<&str> = span.split_whitespace().collect();
            let ["haul", name, rest @ ..] = words.as_slice() else { continue };
            let Some(found) = all.find_subcommand(super::foreign::canonical(name)) else {
                assert!(
                    ["help", "...", "WORD", "COMMAND"].contains(name) || name.starts_with('-'),
                    "{page}: {span}"
                );
                continue;
            };
            for word in
                rest.iter().take_while(|word| **word != "--").filter_map(|word| word.strip_prefix("--"))
            {
                seen += 1;
                let name = word.split(['=', '[']).next().unwrap();
                let known = found.get_arguments().any(|arg| {
                    arg.get_long() == Some(name)
                        || arg.get_all_aliases().is_some_and(|all| all.contains(&name))
                });
                assert!(known, "{page}: {span}: no option --{name}");
            }
        }
    }
    assert!(seen > 20, "{seen} options");
}
