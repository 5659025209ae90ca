//! Definition of the command line, one file per command or group of options. `values` reads the
//! values, `settings` converts them.

mod accepted;
mod agent;
mod bucket;
mod check_value;
mod cli;
mod compress;
mod config;
mod copy;
mod delta;
mod encode;
mod family;
mod fifo;
mod filter;
mod foreign;
mod full;
mod get;
mod given;
mod hash;
mod home;
mod host;
mod index;
mod index_stream;
mod jobs;
mod limits;
mod link;
mod links;
mod list;
mod locked;
mod ls;
mod manifest;
mod missing;
mod object;
mod older;
mod opposites;
mod output;
mod pages;
mod parse;
mod pipe;
mod plan;
mod preserve;
mod presign;
mod probe;
mod put;
mod reach;
mod refused;
mod rm;
mod select;
mod share;
mod short_help;
mod stat;
mod topics;
mod transfer;
mod trust;
mod typed_only;
mod value_missing;
mod verify;

#[cfg(test)]
mod bad_values;
#[cfg(test)]
mod documented;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod tests;

pub(crate) use accepted::AcceptedArgs;
pub(crate) use agent::AgentArgs;
pub(crate) use bucket::{MbArgs, RbArgs};
pub(crate) use check_value::check_value;
#[cfg(test)]
pub(crate) use cli::Cli;
pub(crate) use cli::Command;
pub(crate) use compress::CompressArgs;
pub(crate) use config::{ConfigAction, ConfigArgs};
pub(crate) use copy::{CopyArgs, SyncArgs};
pub(crate) use delta::{DeltaArgs, DeltaMode};
pub(crate) use encode::{DecodeArgs, EncodeArgs};
pub(crate) use family::FamilyArgs;
pub(crate) use fifo::FifoArgs;
#[cfg(test)]
pub(crate) use filter::RuleArgs;
pub(crate) use filter::{FilterArgs, FilterWord, is_rule};
pub(crate) use full::FullArgs;
pub(crate) use get::GetArgs;
pub(crate) use given::{Given, GivenArgs, HostOptions, NamedLocation, StoreOptions};
pub(crate) use hash::HashArgs;
pub(crate) use home::names_files;
pub(crate) use host::HostArgs;
pub(crate) use index::IndexArgs;
pub(crate) use index_stream::IndexStreamArgs;
pub(crate) use jobs::{JobsAction, JobsArgs};
pub(crate) use limits::LimitArgs;
pub(crate) use link::{ConnectionArgs, LinkArgs};
pub(crate) use links::{DirLinksArgs, LinksArgs};
pub(crate) use list::ListArgs;
pub(crate) use locked::LockedArgs;
pub(crate) use ls::LsArgs;
pub(crate) use manifest::ManifestArgs;
pub(crate) use missing::MissingHaulArgs;
pub(crate) use object::{AddressArgs, MemoryArgs, ObjectArgs, StoreArgs, StoreEndArgs, StoredArgs};
pub(crate) use older::OlderArgs;
pub(crate) use opposites::opposite;
pub(crate) use output::OutputArgs;
pub(crate) use pages::PagesArgs;
#[cfg(test)]
pub(crate) use parse::parse;
pub(crate) use parse::{AddedWords, Typed, command, is_settable, parse_with};
pub(crate) use pipe::PipeArgs;
pub(crate) use plan::PlanArgs;
pub(crate) use preserve::PreserveArgs;
pub(crate) use presign::{MethodArg, PresignArgs};
pub(crate) use probe::ProbeArgs;
pub(crate) use put::PutArgs;
pub(crate) use reach::ReachArgs;
pub(crate) use refused::{PIPE_FORMS, RefusedCommand, similar};
pub(crate) use rm::RmArgs;
pub(crate) use select::SelectArgs;
pub(crate) use share::ShareArgs;
pub(crate) use stat::StatArgs;
pub(crate) use topics::{TOPICS, Topic, explain};
pub(crate) use transfer::{TransferArgs, VerifyMode};
pub(crate) use trust::TrustArgs;
pub(crate) use typed_only::{COMMANDS, typed_only};
pub(crate) use verify::VerifyArgs;
