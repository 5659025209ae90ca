//! The files and the variables that settings are read from.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::trusted_file;

/// The file of the machine.
const SYSTEM: &str = "/etc/haul/config.toml";
/// The variable that names another file.
const CONFIG: &str = "HAUL_CONFIG";
const PREFIX: &str = "HAUL_";
/// The prefix of the variables for aliases of mc.
pub(super) const MC_HOST: &str = "MC_HOST_";

/// A settings file that may exist.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// The path.
    pub(crate) path: PathBuf,
    /// The user named it, so it must exist.
    is_required: bool,
}

impl Candidate {
    /// The text; `None` if the file is missing. An error is one line.
    fn read(&self) -> Result<Option<String>, String> {
        match trusted_file::read(&self.path)? {
            None if self.is_required => {
                let path = self.path.display();
                Err(format!(
                    "{path}: No such file or directory; {CONFIG} names it (an empty {CONFIG} means no file)"
                ))
            }
            text => Ok(text),
        }
    }

    /// Whether there is something at the path.
    pub(crate) fn exists(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }
}

/// Where the settings of this process are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// The files, the one that takes precedence first.
    pub(crate) files: Vec<Candidate>,
    /// The names of the variables that may be options, without `HAUL_`, and their values.
    pub(super) variables: Vec<(String, OsString)>,
    /// The names of the aliases of mc, without `MC_HOST_`, and their values.
    pub(super) mc_hosts: Vec<(String, OsString)>,
    /// The home directory.
    pub(super) home: Option<PathBuf>,
}

impl Sources {
    /// Those of the environment of this process.
    pub(crate) fn of_process() -> Self {
        Self::of(&|name| env::var_os(name), env::vars_os())
    }

    /// The paths and texts of the files that exist. An error is one line.
    pub(super) fn read(&self) -> Result<Vec<(&Path, String)>, String> {
        let texts = self.files.iter().map(|file| Ok(file.read()?.map(|text| (file.path.as_path(), text))));
        texts.filter_map(Result::transpose).collect()
    }

    /// These files, which must exist, and variables, without `HAUL_`, in a test.
    #[cfg(test)]
    pub(super) fn of_test(paths: Vec<PathBuf>, variables: &[(&str, &str)]) -> Self {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
        let files = paths.into_iter().map(|path| Candidate { path, is_required: true }).collect();
        Self { files, variables, mc_hosts: Vec::new(), home: Some("/home/a".into()) }
    }

    fn of(get: &dyn Fn(&str) -> Option<OsString>, all: impl Iterator<Item = (OsString, OsString)>) -> Self {
        let home = get("HOME").filter(|home| Path::new(home).is_absolute()).map(PathBuf::from);
        let (mut variables, mut aliases) = (Vec::new(), Vec::new());
        for (name, value) in all.filter(|(name, value)| name != CONFIG && !value.is_empty()) {
            let Some(name) = name.to_str() else { continue };
            if let Some(name) = name.strip_prefix(PREFIX) {
                variables.push((name.to_owned(), value));
            } else if let Some(name) = name.strip_prefix(MC_HOST) {
                aliases.push((name.to_owned(), value));
            }
        }
        variables.sort();
        aliases.sort();
        Self { files: files(get, home.as_deref()), variables, mc_hosts: aliases, home }
    }
}

fn files(get: &dyn Fn(&str) -> Option<OsString>, home: Option<&Path>) -> Vec<Candidate> {
    if let Some(named) = get(CONFIG) {
        let is_none = named.is_empty() || named == OsStr::new("/dev/null");
        return if is_none { Vec::new() } else { vec![Candidate { path: named.into(), is_required: true }] };
    }
    let own = get("XDG_CONFIG_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let own = own.or_else(|| Some(home?.join(".config"))).map(|dir| dir.join("haul/config.toml"));
    let all = own.into_iter().chain([PathBuf::from(SYSTEM)]);
    all.map(|path| Candidate { path, is_required: false }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(variables: &[(&str, &str)]) -> Sources {
        let get = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        Sources::of(&get, variables.iter().map(|(name, value)| (name.into(), value.into())))
    }

    fn paths(variables: &[(&str, &str)]) -> Vec<String> {
        sources(variables).files.iter().map(|file| file.path.display().to_string()).collect()
    }

    #[test]
    fn the_file_of_the_user_comes_first() {
        let system = "/etc/haul/config.toml";
        assert_eq!(paths(&[("HOME", "/home/a")]), ["/home/a/.config/haul/config.toml", system]);
        assert_eq!(paths(&[("HOME", "/home/a"), ("XDG_CONFIG_HOME", "/x")]), ["/x/haul/config.toml", system]);
        assert_eq!(paths(&[("XDG_CONFIG_HOME", "relative")]), [system]);
        assert_eq!(paths(&[("HOME", "/home/a"), ("HAUL_CONFIG", "my.toml")]), ["my.toml"]);
        for none in ["", "/dev/null"] {
            assert!(paths(&[("HOME", "/home/a"), ("HAUL_CONFIG", none)]).is_empty());
        }
    }

    #[test]
    fn a_named_file_must_exist() {
        let missing = sources(&[("HAUL_CONFIG", "/nowhere/x")]);
        assert!(missing.files[0].read().unwrap_err().contains("HAUL_CONFIG"));
        assert_eq!(sources(&[("HOME", "/nowhere")]).files[0].read(), Ok(None));
    }

    #[test]
    fn variables_have_a_prefix() {
        let found =
            sources(&[("HAUL_NICE", "1"), ("HAUL_CONFIG", ""), ("HAUL_IOPS", ""), ("NICE", "1")]).variables;
        assert_eq!(found, [("NICE".to_owned(), OsString::from("1"))]);
    }
}
