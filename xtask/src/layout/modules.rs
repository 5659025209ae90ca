//! The module tree of a crate, and the file that a path leads to.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::source::{Child, FileFacts, Import};

/// A crate: its files that are not tests, and its modules.
pub(crate) struct Crate {
    pub(crate) files: Vec<SourceFile>,
    modules: BTreeMap<Vec<String>, Module>,
}

/// A source file.
pub(crate) struct SourceFile {
    pub(crate) path: PathBuf,
    pub(crate) source: FileFacts,
    /// The path of its module.
    module: Vec<String>,
}

#[derive(Default)]
struct Module {
    file: usize,
    /// The names that `use` brings in, with their paths.
    imports: BTreeMap<String, Vec<Vec<String>>>,
    globs: Vec<Vec<String>>,
}

/// A name that one file takes from another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NameUse {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) name: String,
}

/// Re-exports that a path may go through, so that two that name each other end.
const MOST_STEPS: usize = 32;

impl Crate {
    /// Reads the crate with the root `lib.rs` or `main.rs`, and each file that a `mod` outside of tests names.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut found = Self { files: Vec::new(), modules: BTreeMap::new() };
        let mut waiting = vec![(root.to_owned(), Vec::new())];
        while let Some((path, module)) = waiting.pop() {
            let source = FileFacts::parse(&std::fs::read_to_string(&path)?);
            for child in &source.children {
                let name = [module.as_slice(), &child.scope, std::slice::from_ref(&child.name)].concat();
                waiting.push((child_file(&path, child, path == root), name));
            }
            found.add(SourceFile { path, source, module });
        }
        Ok(found)
    }

    fn add(&mut self, file: SourceFile) {
        let number = self.files.len();
        let scopes = [Vec::new()].into_iter().chain(file.source.inline_modules.iter().cloned());
        for scope in scopes {
            let name = [file.module.as_slice(), &scope].concat();
            self.modules.entry(name).or_default().file = number;
        }
        for Import { scope, path, name } in &file.source.imports {
            let module = [file.module.as_slice(), scope].concat();
            let module = self.modules.entry(module).or_default();
            if name == "*" {
                module.globs.push(path[..path.len() - 1].to_vec());
            } else if name != "_" {
                module.imports.entry(name.clone()).or_default().push(path.clone());
            }
        }
        self.files.push(file);
    }

    /// Every name that a file takes from another file of the crate, through `use` or by its path.
    pub(crate) fn taken(&self) -> Vec<NameUse> {
        let mut all = Vec::new();
        for (from, file) in self.files.iter().enumerate() {
            let imports = file.source.imports.iter().map(|import| (&import.scope, &import.path));
            let paths = file.source.paths.iter().map(|used| (&used.scope, &used.path));
            for (scope, path) in imports.chain(paths) {
                let module = [file.module.as_slice(), scope].concat();
                let found = self.resolve(&module, path, MOST_STEPS);
                all.extend(
                    found.map(|(to, name)| NameUse { from, to, name }).filter(|taken| taken.to != from),
                );
            }
        }
        all.sort();
        all.dedup();
        all
    }

    /// The file that defines the item `path` of `module`, and the name of the item there. `None` for a module, and for
    /// an item of another crate.
    fn resolve(&self, module: &[String], path: &[String], steps: usize) -> Option<(usize, String)> {
        let steps = steps.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        let mut at = module.to_vec();
        let mut rest = rest;
        match first.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => {
                at.pop()?;
                while let Some(("super", after)) =
                    rest.split_first().map(|(first, after)| (first.as_str(), after))
                {
                    at.pop()?;
                    rest = after;
                }
            }
            _ if self.child(module, first).is_some() => at.push(first.clone()),
            _ => {
                // The first segment is a name that this module imports, or a crate.
                let imports = self.modules.get(module)?.imports.get(first)?;
                let own = |import: &&Vec<String>| import.first() != Some(first);
                return imports
                    .iter()
                    .filter(own)
                    .find_map(|import| self.resolve(module, &[import.as_slice(), rest].concat(), steps));
            }
        }
        self.walk(at, rest, steps)
    }

    /// Follows `rest` from the module `at`.
    fn walk(&self, mut at: Vec<String>, mut rest: &[String], steps: usize) -> Option<(usize, String)> {
        loop {
            let (name, after) = rest.split_first()?;
            let module = self.modules.get(&at)?;
            if name == "*" {
                return Some((module.file, name.clone()));
            }
            let is_module = self.child(&at, name).is_some();
            if is_module && !(after.is_empty() && module.imports.contains_key(name)) {
                at.push(name.clone());
                rest = after;
                continue;
            }
            if self.files[module.file].source.defined.contains(name) {
                return Some((module.file, name.clone()));
            }
            if let Some(imports) = module.imports.get(name) {
                return imports
                    .iter()
                    .find_map(|import| self.resolve(&at, &[import.as_slice(), after].concat(), steps));
            }
            let from_glob = |glob: &Vec<String>| {
                let (file, found) = self.resolve(&at, &[glob.as_slice(), rest].concat(), steps)?;
                self.files[file].source.defined.contains(&found).then_some((file, found))
            };
            let globbed = if steps > 0 { module.globs.iter().find_map(from_glob) } else { None };
            return globbed.or_else(|| Some((module.file, name.clone())));
        }
    }

    fn child(&self, module: &[String], name: &str) -> Option<&Module> {
        self.modules.get(&[module, &[name.to_owned()]].concat())
    }
}

/// Where the file of a `mod name;` is.
fn child_file(parent: &Path, child: &Child, is_root: bool) -> PathBuf {
    let mut dir = parent.with_file_name("");
    if let Some(path) = &child.path {
        return dir.join(path);
    }
    if !is_root && parent.file_name().is_some_and(|name| name != "mod.rs") {
        dir = parent.with_extension("");
    }
    dir.extend(&child.scope);
    let nested = dir.join(&child.name).join("mod.rs");
    if nested.exists() { nested } else { dir.join(format!("{}.rs", child.name)) }
}

#[cfg(test)]
impl Crate {
    /// A crate of files that exist in memory only, each with the path of its module.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut found = Self { files: Vec::new(), modules: BTreeMap::new() };
        for (name, text) in files {
            let module = name.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
            found.add(SourceFile { path: PathBuf::from(name), source: FileFacts::parse(text), module });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `from -> to: name` of all that is taken.
    fn taken(files: &[(&str, &str)]) -> Vec<String> {
        let krate = Crate::of(files);
        let name = |file: usize| krate.files[file].path.display().to_string();
        krate.taken().iter().map(|t| format!("{} -> {}: {}", name(t.from), name(t.to), t.name)).collect()
    }

    #[test]
    fn imports_and_paths_lead_to_the_file_that_defines_the_name() {
        let files = [
            ("", "mod a; mod b;"),
            ("a", "use crate::b::{self, C}; fn f() { b::g(); crate::b::h(); super::b::i() }"),
            ("b", "struct C; fn g() {} fn h() {} fn i() {}"),
        ];
        assert_eq!(taken(&files), ["a -> b: C", "a -> b: g", "a -> b: h", "a -> b: i"]);
    }

    #[test]
    fn re_exports_lead_to_their_origin_and_modules_alone_to_nothing() {
        let files = [
            ("", "mod a; mod b; pub use a::X; fn root() {}"),
            ("a", "mod c; pub use c::X; pub use c::Y as Z;"),
            ("a::c", "struct X; struct Y; use super::super::root; use std::io;"),
            ("b", "use crate::{X, a}; fn f(z: a::Z) { io::stdin() }"),
        ];
        let want =
            [" -> a::c: X", "a -> a::c: X", "a -> a::c: Y", "a::c -> : root", "b -> a::c: X", "b -> a::c: Y"];
        assert_eq!(taken(&files), want);
    }

    #[test]
    fn globs_and_names_that_mean_each_other_end() {
        let files = [
            ("", "mod a; mod b; pub use a::*; pub use b::X as Y; fn f() { Y::new() }"),
            ("a", "pub fn found() {}"),
            ("b", "use crate::found; pub use crate::Y as X;"),
        ];
        assert_eq!(taken(&files), [" -> a: *", "b -> a: found"]);
    }

    #[test]
    fn inline_modules_belong_to_their_file() {
        let files = [
            ("", "mod a; mod in_here { use super::a::f; fn g() { super::a::h() } }"),
            ("a", "fn x() { crate::in_here::g() }"),
        ];
        assert_eq!(taken(&files), [" -> a: f", " -> a: h", "a -> : g"]);
    }
}
