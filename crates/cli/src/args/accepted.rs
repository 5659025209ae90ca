//! rsync's requests for progress, which have no option of their own in haul.

use clap::Args;

/// Requests for progress.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AcceptedArgs {
    #[arg(long, hide = true, value_name = "FLAGS", value_parser = parse_info)]
    info: Vec<bool>,
    #[arg(short = 'P', hide = true)]
    partial_progress: bool,
}

impl AcceptedArgs {
    /// Whether progress was requested by `-P` or `--info=progress2`.
    pub(crate) fn progress(&self) -> bool {
        self.partial_progress || self.info.contains(&true)
    }
}

/// Reads rsync's `--info`. Returns whether it requests progress.
fn parse_info(flags: &str) -> Result<bool, String> {
    let mut progress = false;
    for flag in flags.split(',') {
        match flag.to_ascii_lowercase().trim_end_matches(|c: char| c.is_ascii_digit()) {
            "progress" => progress = !flag.ends_with('0'),
            "stats" => {}
            _ => return Err(format!("`{flag}` is not one of progress2 and stats; -v lists each entry")),
        }
    }
    Ok(progress)
}
