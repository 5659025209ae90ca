//! `haul man`.

use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use haul_core::{Error, Result, Side};

use crate::args::{TOPICS, command};
use crate::exit_code::Exit;

/// Topics that are sections of haul(1), with the name of the section. The others are pages of section 7.
const SECTIONS: [(&str, &str); 3] =
    [("exit-codes", "EXIT STATUS"), ("environment", "ENVIRONMENT"), ("files", "FILES")];

/// Writes a manual page for haul, one per command, and one per topic. Makes the directory if it is missing.
///
/// # Errors
/// If the directory cannot be made, or a page cannot be written.
pub(super) fn run(dir: &Path) -> Result<Exit> {
    let mut all = command();
    all.build();
    write_pages(&all, dir).map_err(|error| {
        Error::io(Side::Local, "write manual pages into", &error).on(dir.as_os_str().as_bytes())
    })?;
    Ok(Exit::Done)
}

fn write_pages(all: &Command, dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let mut left = vec![all];
    while let Some(command) = left.pop() {
        left.extend(command.get_subcommands().filter(|below| !below.is_hide_set()));
        let name = command.get_display_name().unwrap_or(command.get_name());
        fs::write(dir.join(format!("{name}.1")), page(command)?)?;
    }
    for topic in pages_of_section_7() {
        let mut text = Vec::new();
        let name = format!("haul-{}", topic.name);
        writeln!(text, ".TH {name} 7 \"\" \"haul {}\"", env!("CARGO_PKG_VERSION"))?;
        section(&mut text, "NAME", &format!("{name} - {}\n", topic.about), false)?;
        section(&mut text, "DESCRIPTION", topic.body(), true)?;
        section(&mut text, "SEE ALSO", "haul(1)\n", false)?;
        fs::write(dir.join(format!("{name}.7")), text)?;
    }
    Ok(())
}

fn pages_of_section_7() -> impl Iterator<Item = &'static crate::args::Topic> {
    TOPICS.iter().filter(|topic| SECTIONS.iter().all(|(name, _)| *name != topic.name))
}

/// The page of a command.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone());
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    let is_main = command.get_name() == "haul";
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    for (title, body) in sections(&notes, is_main) {
        section(&mut text, title, &body, true)?;
    }
    if is_main {
        for (name, title) in SECTIONS {
            for topic in TOPICS.iter().filter(|topic| topic.name == name) {
                section(&mut text, title, topic.body(), true)?;
            }
        }
    }
    let own = if is_main { "" } else { "haul(1), " };
    let others: Vec<String> = pages_of_section_7().map(|topic| format!("haul-{}(7)", topic.name)).collect();
    section(&mut text, "SEE ALSO", &format!("{own}{}\n", others.join(", ")), false)?;
    Ok(text)
}

/// The notes below the options, as sections of a page. The main page has its exit codes from the topic.
fn sections(notes: &str, is_main: bool) -> Vec<(&'static str, String)> {
    let mut found: Vec<(&'static str, String)> = Vec::new();
    for paragraph in notes.split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
        let (title, body) = match paragraph.split_once(":\n") {
            Some(("Examples", body)) => ("EXAMPLES", body),
            Some(("Exit codes", _)) if is_main => continue,
            Some(("Exit codes", body)) => ("EXIT STATUS", body),
            _ => ("NOTES", paragraph),
        };
        match found.last_mut().filter(|(last, _)| *last == title) {
            Some((_, text)) => text.extend(["\n\n", body]),
            None => found.push((title, body.to_owned())),
        }
    }
    found
}

/// Writes a section; `as_it_stands` keeps its lines.
fn section(out: &mut impl Write, title: &str, body: &str, as_it_stands: bool) -> io::Result<()> {
    writeln!(out, ".SH \"{title}\"")?;
    if as_it_stands {
        writeln!(out, ".nf")?;
    }
    for line in body.trim_end().lines() {
        let text = line.replace('\\', "\\e").replace('-', "\\-");
        // At the start of a line these begin a request of roff.
        let guard = if text.starts_with(['.', '\'']) { "\\&" } else { "" };
        writeln!(out, "{guard}{text}")?;
    }
    if as_it_stands {
        writeln!(out, ".fi")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_made() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("share/man1");
        run(&dir).unwrap();
        assert!(dir.join("haul.1").exists());
    }

    #[test]
    fn notes_become_sections() {
        let notes = "Examples:\n  haul a\n  haul b\n\nOne.\n\nTwo.\n\nExit codes:\n  0  good";
        let all =
            [("EXAMPLES", "  haul a\n  haul b"), ("NOTES", "One.\n\nTwo."), ("EXIT STATUS", "  0  good")];
        assert_eq!(sections(notes, false), all.map(|(title, body)| (title, body.to_owned())));
        assert_eq!(sections(notes, true).len(), 2);
    }

    #[test]
    fn text_of_a_section_is_no_request() {
        let mut text = Vec::new();
        section(&mut text, "NOTES", ".a\n'b\nc\\d --e\n", false).unwrap();
        assert_eq!(text, b".SH \"NOTES\"\n\\&.a\n\\&'b\nc\\ed \\-\\-e\n");
    }
}
