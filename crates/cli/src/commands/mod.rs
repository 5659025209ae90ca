//! One file per command: converts the options, opens the locations, runs the engine and shows the result.

mod agent;
mod bucket;
mod completions;
mod config;
mod copy;
mod dispatch;
mod estimate;
mod fifo;
mod found;
mod get;
mod get_file;
mod get_output;
mod hash;
mod help;
mod jobs;
mod ls;
mod man;
mod members;
mod output;
mod pipe;
mod plan;
mod presign;
mod print;
mod probe;
mod put;
mod rm;
mod selected;
mod start;
mod stat;
mod stream;
mod sync;
mod targets;
mod transfer;
mod unpack;
mod verify;

pub(crate) use dispatch::run;
