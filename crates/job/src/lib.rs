//! A copy from end to end: opens sources and destinations, plans which source goes where, runs the engine on each part
//! and joins the reports. The command line is one caller: it converts options to a [`JobRequest`] and shows the events
//! that an [`Observer`] receives.
//!
//! Two decisions are made here and nowhere else: which files are compared by blocks (`delta`), and who applies the rate
//! limit (`plan`).

mod delta;
mod ends;
mod ends_config;
mod errors;
mod fan_out;
mod host_config;
mod index;
mod merge;
mod mistakes;
mod mounted;
mod nice;
mod observer;
mod overlap;
mod part;
mod password;
mod place;
mod plan;
mod reach;
mod relative;
mod remove_sources;
mod replacing;
mod requests;
mod run;
mod sha256;
mod share_settings;
mod shares;
mod short_run;
mod siblings;
mod state;
mod stream_ends;
mod tickets;
mod trust;
mod unpack;
mod wildcards;

pub use ends::Ends;
pub use ends_config::{EndsConfig, SideOps};
pub use errors::usage;
pub use haul_engine::Paths;
pub use haul_smb::{ShareOptions, Smb};
pub use host_config::HostConfig;
pub use index::IndexRequest;
pub use merge::merge;
pub use mistakes::{at_destination, at_host, missing_copy, not_found};
pub use observer::Observer;
pub use part::PartReporter;
pub use place::{Landing, destination_place, root_name, source_place};
pub use remove_sources::RemoveSources;
pub use requests::RequestCounts;
pub use run::{CopyJob, JobOutcome, JobRequest};
pub use share_settings::ShareSettings;
pub use state::{hosts_dir, logins_dir};
pub use stream_ends::{
    PipeProgram, create_file, create_index, create_only_file, find_index, open_file, run_programs,
};
pub use trust::TrustRequest;
pub use unpack::{directory_sink, unpack};
pub use wildcards::{
    KeyPattern, MatchingPage, OpenedSource, each_source, exists_key, is_key_pattern, only_object,
    open_sources,
};
