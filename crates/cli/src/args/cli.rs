//! The whole command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::agent::AgentArgs;
use super::bucket::{MbArgs, RbArgs};
use super::config::ConfigArgs;
use super::copy::{CopyArgs, SyncArgs};
use super::get::GetArgs;
use super::hash::HashArgs;
use super::index_stream::IndexStreamArgs;
use super::jobs::JobsArgs;
use super::ls::LsArgs;
use super::pipe::PipeArgs;
use super::plan::PlanArgs;
use super::presign::PresignArgs;
use super::probe::ProbeArgs;
use super::put::PutArgs;
use super::rm::RmArgs;
use super::stat::StatArgs;
use super::verify::VerifyArgs;

const ABOUT: &str =
    "Moves big data sets between machines at the speed of the link, and proves that they arrived";

const AFTER_HELP: &str = "\
Locations:
  PATH                            local file or directory
  [user@]host:PATH                remote host, over ssh (SFTP if haul is missing)
  ssh://[user@]host[:port]/PATH   the same with a port
  sftp://[user@]host[:port]/PATH  always over SFTP
  s3://BUCKET/PREFIX              S3 (put, get, ls and rm: an object)
  gs://BUCKET/PREFIX              Google Cloud Storage
  az://CONTAINER/PREFIX           Azure Blob Storage
  smb://[user@]host/SHARE/PATH    SMB 3 share

  SRC/ means the directory's contents, SRC the directory itself, as in rsync.

Examples:
  haul copy db1:/var/lib/mysql/ /var/lib/mysql/
  haul sync -n /srv/share/ nas:/srv/share/    # list the changes only
  haul verify /srv/share/ nas:/srv/share/     # compare all content
  haul probe /srv/share/ nas:/srv/share/      # predict the time
  haul plan /srv/share/                       # analyse the tree
  haul put s3://backups/db1.xb -- mariadb-backup --backup --stream=xbstream
  haul get s3://backups/db1.xb | mbstream -x
  haul get s3://backups/db1.xb --unpack /restore
  haul pipe db2 --into 'psql shop' -- pg_dump shop    # one program into another

Exit codes:
  0  everything copied and verified    4  connection or login failed
  1  some entries failed               5  destination full or over quota
  2  usage error                     130  interrupted; rerun to resume
  3  verification failed";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "haul", version, about = ABOUT, after_help = AFTER_HELP, max_term_width = 110, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// The command.
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
    Pipe(Box<PipeArgs>),
    Index(Box<IndexStreamArgs>),
    Ls(LsArgs),
    Rm(RmArgs),
    Stat(StatArgs),
    Mb(MbArgs),
    Rb(RbArgs),
    Presign(PresignArgs),
    Jobs(JobsArgs),
    Config(ConfigArgs),
    Plan(Box<PlanArgs>),
    Probe(Box<ProbeArgs>),
    /// Remote side of a transfer, started over ssh by the local haul
    #[command(hide = true)]
    Agent(AgentArgs),
    /// Explain a command or a topic: locations, patterns, filters, units, config, environment, files, exit-codes
    Help {
        /// A command or a topic
        #[arg(value_name = "COMMAND|TOPIC")]
        word: Option<String>,
    },
    /// Print a completion script for a shell
    Completions {
        /// bash, elvish, fish, powershell or zsh
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory
    Man {
        /// An existing directory
        dir: PathBuf,
    },
}
