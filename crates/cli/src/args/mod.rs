//! The words of the command line, one file for each command. No logic: what they mean is in `settings`.

mod accepted;
mod advice;
mod agent;
mod compress;
mod copy;
mod delta;
mod encode;
mod fifo;
mod filter;
mod full;
mod get;
mod hash;
mod index;
mod jobs;
mod limits;
mod link;
mod ls;
mod missing;
mod object;
mod output;
mod parse;
mod plan;
mod probe;
mod put;
mod refused;
mod rm;
mod transfer;
mod trust;
mod verify;

#[cfg(test)]
mod bad_values;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub(crate) use accepted::{AcceptedArgs, AcceptedByVerify};
pub(crate) use agent::AgentArgs;
pub(crate) use compress::CompressArgs;
pub(crate) use copy::{CopyArgs, SyncArgs};
pub(crate) use delta::{DeltaArgs, DeltaMode};
pub(crate) use encode::{DecodeArgs, EncodeArgs, Frames};
pub(crate) use fifo::FifoArgs;
pub(crate) use filter::{FilterArgs, FilterWord};
pub(crate) use full::FullArgs;
pub(crate) use get::GetArgs;
pub(crate) use hash::HashArgs;
pub(crate) use index::IndexArgs;
pub(crate) use jobs::{JobsAction, JobsArgs};
pub(crate) use limits::LimitArgs;
pub(crate) use link::LinkArgs;
pub(crate) use ls::LsArgs;
pub(crate) use missing::MissingHaulArgs;
pub(crate) use object::{AddressArgs, MemoryArgs, ObjectArgs, StoreArgs, StoreEndArgs, StoredArgs};
pub(crate) use output::OutputArgs;
pub(crate) use parse::{command, parse};
pub(crate) use plan::PlanArgs;
pub(crate) use probe::ProbeArgs;
pub(crate) use put::PutArgs;
pub(crate) use refused::Refused;
pub(crate) use rm::RmArgs;
pub(crate) use transfer::{TransferArgs, VerifyMode};
pub(crate) use trust::TrustArgs;
pub(crate) use verify::VerifyArgs;

const ABOUT: &str =
    "Moves big data sets between machines at the speed of the link, and proves that they arrived";

const AFTER_HELP: &str = "\
Ends:
  PATH                            on this machine
  [user@]host:PATH                on another one, over ssh (over SFTP where haul is not installed)
  ssh://[user@]host[:port]/PATH
  sftp://[user@]host[:port]/PATH  over SFTP in any case
  s3://BUCKET/PREFIX              in an object store; for put, get, ls and rm an object
  gs://BUCKET/PREFIX              the same at Google
  az://CONTAINER/PREFIX           the same at Azure

  SRC/ is what is in the folder, SRC is the folder itself, as in rsync.

Examples:
  haul copy db1:/var/lib/mysql/ /var/lib/mysql/
  haul sync -n /srv/share/ nas:/srv/share/     what would change?
  haul verify /srv/share/ nas:/srv/share/      is it really there?
  haul probe /srv/share/ nas:/srv/share/       how long will it take?
  haul put s3://backups/db1.xb -- mariadb-backup --backup --stream=xbstream
  haul get s3://backups/db1.xb | mbstream -x
  haul plan /srv/share/                        what is in it?

Exit codes:
  0  all there and verified            4  could not reach or log in
  1  some entries failed               5  the destination is full
  2  usage                           130  interrupted: run it again, it goes on
  3  content did not verify";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "haul", version, about = ABOUT, after_help = AFTER_HELP, max_term_width = 110)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Copy(Box<CopyArgs>),
    Sync(Box<SyncArgs>),
    Verify(Box<VerifyArgs>),
    Hash(Box<HashArgs>),
    Put(Box<PutArgs>),
    Get(Box<GetArgs>),
    Ls(LsArgs),
    Rm(RmArgs),
    Jobs(JobsArgs),
    Plan(Box<PlanArgs>),
    Probe(Box<ProbeArgs>),
    /// The remote end, started over ssh by the local end
    #[command(hide = true)]
    Agent(AgentArgs),
    /// Print a completion script for a shell
    Completions {
        /// bash, elvish, fish, powershell or zsh
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder
    Man {
        /// Where they go; it must exist
        dir: PathBuf,
    },
}
