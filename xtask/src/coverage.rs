//! `cargo xtask coverage`: line coverage of the engine and three ends by unit and conformance tests.
//!
//! Only this workspace's crates are instrumented: this program is their `RUSTC_WORKSPACE_WRAPPER`, and adds the option to
//! the compiler's. So the dependencies need not be built again. Lines of tests do not count. It needs the component
//! `llvm-tools` of rustup.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::command::{cargo, output, step};
use crate::layout::FileFacts;

/// The measured directories.
const MEASURED: [&str; 4] = ["crates/engine", "crates/ends/local", "crates/ends/remote", "crates/ends/sftp"];

/// The packages whose tests are run: those measured, and the one that serves the remote end.
const PACKAGES: [&str; 5] = ["haul-engine", "haul-local", "haul-remote", "haul-sftp", "haul-agent"];

/// Makes this program the compiler's wrapper.
const WRAPPER: &str = "XTASK_COVERAGE_WRAPPER";

/// Covered lines of a file, and all that could be.
#[derive(Clone, Copy, Default)]
struct LineCounts {
    covered: usize,
    all: usize,
}

impl LineCounts {
    fn percent(self) -> f64 {
        if self.all == 0 { 100.0 } else { 100.0 * self.covered as f64 / self.all as f64 }
    }

    fn plus(self, other: Self) -> Self {
        Self { covered: self.covered + other.covered, all: self.all + other.all }
    }
}

/// Compiles a crate with instrumentation, if cargo has started this program as the compiler's wrapper.
pub(crate) fn compile(mut words: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    std::env::var_os(WRAPPER)?;
    let compiler = words.next()?;
    let status = Command::new(compiler).args(words).args(["-C", "instrument-coverage"]).status();
    let passed = status.is_ok_and(|status| status.success());
    Some(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints a table of the measured crates and their files. `Ok(false)`: a crate has less than `required` percent.
///
/// # Errors
/// If a tool is missing, or a test fails.
pub(crate) fn run(root: &Path, required: f64) -> Result<bool, String> {
    let tools = tools()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let profiles = root.join(target).join("coverage");
    let _ = fs::remove_dir_all(&profiles);
    fs::create_dir_all(&profiles).map_err(|error| format!("{}: {error}", profiles.display()))?;
    let programs = test_programs(root, &profiles)?;
    step("tests", instrumented(root, &profiles)?.args(["--quiet"]))?;
    let merged = profiles.join("all.profdata");
    let raw = raw_profiles(&profiles).map_err(|error| format!("{}: {error}", profiles.display()))?;
    let list = profiles.join("list");
    fs::write(&list, raw.join("\n")).map_err(|error| format!("{}: {error}", list.display()))?;
    let mut merge = Command::new(tools.join("llvm-profdata"));
    merge.args(["merge", "-sparse", "-o"]).arg(&merged).arg("-f").arg(&list);
    output("llvm-profdata", &mut merge)?;
    let mut export = Command::new(tools.join("llvm-cov"));
    export.args(["export", "-format=lcov", "-instr-profile"]).arg(&merged);
    for program in &programs {
        export.arg("-object").arg(program);
    }
    export.arg("-sources").args(MEASURED.iter().map(|dir| root.join(dir).join("src")));
    let files = covered(root, &output("llvm-cov", &mut export)?);
    Ok(table(&files, required))
}

/// The directory of `llvm-cov` and `llvm-profdata` that fit this compiler.
fn tools() -> Result<PathBuf, String> {
    let mut rustc = Command::new("rustc");
    let verbose = output("rustc", rustc.arg("-vV"))?;
    let host = verbose.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    let mut rustc = Command::new("rustc");
    let root = output("rustc", rustc.args(["--print", "sysroot"]))?;
    let tools = Path::new(root.trim()).join("lib/rustlib").join(host).join("bin");
    if tools.join("llvm-cov").exists() {
        return Ok(tools);
    }
    Err("llvm-cov is missing: run `rustup component add llvm-tools`".to_owned())
}

/// `cargo test` of the packages, built with instrumentation.
fn instrumented(root: &Path, profiles: &Path) -> Result<Command, String> {
    let this = std::env::current_exe().map_err(|error| format!("the path of this program: {error}"))?;
    let mut command = cargo(&["test", "--locked", "--lib", "--tests"]);
    command.args(PACKAGES.iter().flat_map(|name| ["--package", name]));
    command.env("RUSTC_WORKSPACE_WRAPPER", this).env(WRAPPER, "1").current_dir(root);
    command.env("LLVM_PROFILE_FILE", profiles.join("%p-%m.profraw"));
    Ok(command)
}

/// Builds the tests. The programs that cargo has made of them.
fn test_programs(root: &Path, profiles: &Path) -> Result<Vec<String>, String> {
    let mut build = instrumented(root, profiles)?;
    let messages = output("build", build.args(["--no-run", "--message-format=json-render-diagnostics"]))?;
    let programs = messages.lines().filter_map(|line| {
        let (_, rest) = line.split_once("\"executable\":\"")?;
        Some(rest.split_once('"')?.0.to_owned())
    });
    Ok(programs.collect())
}

fn raw_profiles(dir: &Path) -> std::io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "profraw") {
            found.push(path.display().to_string());
        }
    }
    Ok(found)
}

/// The coverage of each file of `lcov`, without the lines of tests.
fn covered(root: &Path, lcov: &str) -> BTreeMap<PathBuf, LineCounts> {
    let mut files: BTreeMap<PathBuf, LineCounts> = BTreeMap::new();
    let mut file = PathBuf::new();
    let mut tests = BTreeSet::new();
    for line in lcov.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            file = Path::new(path).strip_prefix(root).map(Path::to_owned).unwrap_or_default();
            tests = test_lines(Path::new(path));
        }
        let Some((number, count)) = line.strip_prefix("DA:").and_then(|rest| rest.split_once(',')) else {
            continue;
        };
        let is_test = number.parse().is_ok_and(|number: usize| tests.contains(&number));
        if !is_test && !is_test_file(&file) {
            let lines = files.entry(file.clone()).or_default();
            lines.all += 1;
            lines.covered += usize::from(count != "0");
        }
    }
    files
}

fn is_test_file(path: &Path) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.as_os_str().is_empty()
        || stem.ends_with("tests")
        || path.components().any(|part| part.as_os_str() == "tests")
}

fn test_lines(path: &Path) -> BTreeSet<usize> {
    let source = FileFacts::parse(&fs::read_to_string(path).unwrap_or_default());
    source.test_lines.into_iter().flat_map(|(first, last)| first..=last).collect()
}

/// Prints the table. Returns whether each crate has the required percentage.
fn table(files: &BTreeMap<PathBuf, LineCounts>, required: f64) -> bool {
    let mut passed = true;
    let row = |name: &str, lines: LineCounts| {
        println!("{name:<44} {:>6} {:>6} {:>6.1} %", lines.covered, lines.all, lines.percent());
    };
    println!("{:<44} {:>6} {:>6} {:>8}", "", "lines", "of", "");
    for dir in MEASURED {
        let mut sum = LineCounts::default();
        for (path, lines) in files.iter().filter(|(path, _)| path.starts_with(dir)) {
            row(&path.display().to_string(), *lines);
            sum = sum.plus(*lines);
        }
        row(&format!("{dir} (all)"), sum);
        passed &= sum.percent() >= required;
    }
    passed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_by_file_and_tests_are_left_out() {
        let lcov = "SF:/r/crates/engine/src/a.rs\nDA:1,5\nDA:2,0\nend_of_record\nSF:/r/crates/x/src/tests/b.rs\nDA:1,1\n";
        let files = covered(Path::new("/r"), lcov);
        assert_eq!(files.len(), 1);
        let lines = files[Path::new("crates/engine/src/a.rs")];
        assert_eq!((lines.covered, lines.all), (1, 2));
    }
}
