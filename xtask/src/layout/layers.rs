//! Checks that each crate depends only on crates of lower layers, as ARCHITECTURE.md draws them.

use std::collections::BTreeMap;

use super::tree::RepositoryFiles;

/// The crates from the lowest layer to the highest. A crate may depend on crates of lower layers only, so no end depends
/// on another end, and neither the engine nor an end on the other.
const LAYERS: [&[&str]; 8] = [
    &["haul-core", "haul-spool", "haul-state", "haul-slowfs"],
    &[
        "haul-threads",
        "haul-wire",
        "haul-codec",
        "haul-index",
        "haul-members",
        "haul-pages",
        "haul-plan",
        "haul-probe",
    ],
    &["haul-transport", "haul-object", "haul-testkit"],
    &["haul-ssh", "haul-ends", "haul-streams"],
    &[
        "haul-engine",
        "haul-local",
        "haul-program",
        "haul-remote",
        "haul-sftp",
        "haul-smb",
        "haul-store",
        "haul-campaign",
        "haul-bench",
    ],
    &["haul-agent"],
    &["haul-job"],
    &["haul"],
];

/// Crates that only tests use: no product crate depends on them, except for its tests.
const FOR_TESTS: [&str; 4] = ["haul-slowfs", "haul-testkit", "haul-campaign", "haul-bench"];

/// Dependencies that break a rule.
pub(crate) fn layers(tree: &RepositoryFiles) -> Vec<String> {
    let layer: BTreeMap<&str, usize> =
        LAYERS.iter().enumerate().flat_map(|(at, names)| names.iter().map(move |name| (*name, at))).collect();
    let mut found = Vec::new();
    for (path, text) in tree.texts("toml").filter(|(path, _)| path.ends_with("Cargo.toml")) {
        let manifest = CargoManifest::parse(text);
        let name = manifest.name.as_str();
        if name.is_empty() || ["xtask", "haul-fuzz"].contains(&name) {
            continue;
        }
        let Some(own) = layer.get(name) else {
            found.push(format!("{}: {name} has no layer in xtask/src/layout/layers.rs", path.display()));
            continue;
        };
        for dependency in &manifest.dependencies {
            let lower = layer.get(dependency.as_str()).is_none_or(|other| other < own);
            if !lower {
                found.push(format!("{}: {name} must not depend on {dependency}", path.display()));
            }
            if FOR_TESTS.contains(&dependency.as_str()) && !FOR_TESTS.contains(&name) {
                found.push(format!(
                    "{}: {dependency} is for tests: move it to dev-dependencies",
                    path.display()
                ));
            }
        }
    }
    found
}

/// The part of a `Cargo.toml` that counts here.
#[derive(Debug, Default, PartialEq, Eq)]
struct CargoManifest {
    name: String,
    /// Crates of this workspace that it depends on, also outside of tests.
    dependencies: Vec<String>,
}

impl CargoManifest {
    fn parse(text: &str) -> Self {
        let mut manifest = Self::default();
        let mut section = "";
        for line in text.lines().map(str::trim) {
            if let Some(header) = line.strip_prefix('[') {
                section = header.trim_matches(['[', ']']);
                if let Some(name) = section.strip_prefix("dependencies.") {
                    manifest.depends(name);
                }
                continue;
            }
            let Some((key, value)) = line.split_once('=') else { continue };
            let (key, value) = (key.trim(), value.trim());
            if section == "package" && key == "name" {
                manifest.name = value.trim_matches('"').to_owned();
            } else if section == "dependencies"
                || section.ends_with(".dependencies") && section.starts_with("target")
            {
                manifest.depends(key.split('.').next().unwrap_or(key));
            }
        }
        manifest
    }

    fn depends(&mut self, name: &str) {
        if name == "haul" || name.starts_with("haul-") {
            self.dependencies.push(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_and_dev_dependencies_are_not() {
        let text = "[package]\nname = \"haul-x\"\n[dependencies]\nhaul-core.workspace = true\nlibc = \"1\"\n\
                    haul-wire = { path = \"..\" }\n[dev-dependencies]\nhaul-testkit.workspace = true\n";
        let want = CargoManifest {
            name: "haul-x".into(),
            dependencies: vec!["haul-core".into(), "haul-wire".into()],
        };
        assert_eq!(CargoManifest::parse(text), want);
    }
}
