//! `cargo xtask check`: the checks that take two minutes on two processors once everything is built, without root.

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::thread;

use crate::command::{cargo, step};
use crate::layout;
use crate::links;

/// Integration tests that are not part of the quick check: they need root, servers and half an hour.
const SLOW: [&str; 1] = ["e2e"];

/// The fuzz targets, a workspace of their own.
const FUZZ: &str = "fuzz/Cargo.toml";

/// Runs the checks; the first that fails ends it. `Ok(false)`: the layout or links have problems, which were
/// printed.
///
/// # Errors
/// If another check fails.
pub(crate) fn run(root: &Path) -> Result<bool, String> {
    step("format", cargo(&["fmt", "--all", "--check"]).current_dir(root))?;
    let fuzz_format = ["fmt", "--manifest-path", FUZZ, "--check"];
    step("format of the fuzz targets", cargo(&fuzz_format).current_dir(root))?;
    println!("== layout");
    let layout = layout::run(root, &[]).map_err(|error| format!("layout: {error}"))?;
    println!("== links");
    let links = links::run(root).map_err(|error| format!("links: {error}"))?;
    // The slow tests are not among all targets, because `cargo test` alone does not run them.
    for targets in [&["--all-targets"][..], &["--test", SLOW[0]]] {
        let lints = [&["clippy", "--locked", "--quiet", "--workspace"], targets, &["--", "-D", "warnings"]];
        step("lints", cargo(&lints.concat()).current_dir(root))?;
    }
    let fuzz_types = ["check", "--locked", "--quiet", "--manifest-path", FUZZ];
    step("types of the fuzz targets", cargo(&fuzz_types).current_dir(root))?;
    unit_tests(root)?;
    Ok(layout && links)
}

/// All tests but the slow ones. The whole workspace is always built, since a choice of packages is a choice of their
/// libraries' features, and each choice would build those libraries again.
///
/// # Errors
/// If a directory of tests cannot be read, or a test fails.
fn unit_tests(root: &Path) -> Result<(), String> {
    let names = integration_tests(root).map_err(|error| format!("list the tests: {error}"))?;
    let inside = ["--lib".to_owned(), "--bins".to_owned()];
    let integration: Vec<String> = names.into_iter().flat_map(|name| ["--test".to_owned(), name]).collect();
    // Many of them wait for a link or a process, so more of them run than there are processors.
    let threads = 2 * thread::available_parallelism().map_or(1, NonZero::get);
    let tests = |kinds: &[&[String]]| {
        let mut command = cargo(&["test", "--locked", "--quiet", "--workspace"]);
        command.args(kinds.concat()).env("RUST_TEST_THREADS", threads.to_string()).current_dir(root);
        command
    };
    step("build of the tests", tests(&[&inside, &integration]).arg("--no-run"))?;
    // For the same reason two of their programs run at a time. cargo alone runs one.
    let mut others = tests(&[&integration]);
    let others = thread::spawn(move || others.output());
    let done = step("unit tests", &mut tests(&[&inside]));
    let others =
        others.join().map_err(|_| "integration tests: the thread that runs them ended".to_owned())?;
    let others = others.map_err(|error| format!("integration tests: {error}"))?;
    println!("== integration tests");
    print!("{}{}", String::from_utf8_lossy(&others.stdout), String::from_utf8_lossy(&others.stderr));
    if !others.status.success() {
        return Err(format!("integration tests: {}", others.status));
    }
    done
}

/// The names of the integration tests of all crates, without the slow ones.
fn integration_tests(root: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for parent in ["crates", "crates/ends"] {
        for krate in fs::read_dir(root.join(parent))? {
            let Ok(tests) = fs::read_dir(krate?.path().join("tests")) else { continue };
            for test in tests {
                let path = test?.path();
                let is_test = path.extension().is_some_and(|extension| extension == "rs")
                    || path.join("main.rs").exists();
                let name =
                    path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                if is_test && !SLOW.contains(&name.as_str()) {
                    names.push(name);
                }
            }
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}
