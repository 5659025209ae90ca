//! Tools: a program, its commands for a copy, and the properties that its copies keep.

use std::process::Command;

use crate::bucket::BucketAccess;
use crate::cases::DataDirection;
use crate::programs::which;
use crate::share::ShareAccess;
use crate::sshd::SshAccess;

/// The properties that the copies of a tool keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolKeeps {
    /// Names, contents, links, permissions, owners and times.
    Everything,
    /// Names, contents and links.
    Contents,
    /// Nothing: the content is read only.
    Nothing,
}

/// The durability of a copy. Only tools with the same durability are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// A crash may lose the copy.
    Copied,
    /// The copy is on disk when the tool ends.
    Durable,
}

/// A way to copy a tree.
pub(crate) struct Tool {
    /// Name in tables.
    pub(crate) name: &'static str,
    /// Required programs.
    pub(crate) needs: &'static [&'static str],
    /// The properties that its copies keep.
    pub(crate) keeps: ToolKeeps,
    /// The durability of its copies.
    pub(crate) promise: Promise,
    /// The commands for a copy; `None` if the tool cannot do it.
    pub(crate) plan: fn(&BenchCopy) -> Option<CopyCommands>,
}

/// A copy. No path needs quotes.
pub(crate) struct BenchCopy<'a> {
    /// The direction.
    pub(crate) route: DataDirection,
    /// The source tree.
    pub(crate) source: &'a str,
    /// The target. In a first pass only its parent exists.
    pub(crate) target: &'a str,
    /// Access to the remote host, if there is one.
    pub(crate) ssh: Option<&'a SshAccess>,
    /// The object store that is source or target: that of the two which begins with `s3://`.
    pub(crate) bucket: Option<&'a BucketAccess>,
    /// Whether a stream out of the object store goes into another program; else into a file.
    pub(crate) piped: bool,
    /// The share that has source or target, if there is one.
    pub(crate) share: Option<&'a ShareAccess>,
    /// The only file of the source, if it is a single file.
    pub(crate) file: Option<&'a str>,
    /// The program haul.
    pub(crate) haul: &'a str,
    /// More options for haul.
    pub(crate) haul_args: &'a str,
}

/// Shell commands that make a copy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CopyCommands {
    /// A command of the user that is not measured.
    pub(crate) before: Option<String>,
    /// The command of the user. The copy is complete when it has ended.
    pub(crate) near: String,
    /// The command that listens on the remote host at [`NC_PORT`].
    pub(crate) listener: Option<String>,
}

/// The port that `nc` uses.
pub(crate) const NC_PORT: u16 = 22_023;

impl Tool {
    /// Whether this is haul.
    pub(crate) fn is_haul(&self) -> bool {
        self.name.starts_with("haul")
    }

    /// The first required program that is missing.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        self.needs.iter().copied().find(|program| which(program).is_none())
    }

    /// The version of the program.
    pub(crate) fn version(&self, haul: &str) -> String {
        let program = if self.is_haul() { haul } else { self.needs.first().copied().unwrap_or("true") };
        let option = match program {
            "scp" => "-V",
            "mscp" => "-h",
            "s5cmd" => "version",
            _ => "--version",
        };
        let program = if program == "scp" { "ssh" } else { program };
        let Ok(output) = Command::new(program).arg(option).output() else {
            return "unknown".to_owned();
        };
        let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
        let text = String::from_utf8_lossy(&text);
        text.lines().next().unwrap_or("unknown").trim().to_owned()
    }
}

/// A plan with a local command only.
pub(crate) fn near(command: String) -> Option<CopyCommands> {
    Some(CopyCommands { before: None, near: command, listener: None })
}
