//! The commands of the clients of an SMB share.

use crate::cases::DataDirection;
use crate::link::FAR_IP;
use crate::share::{PASSWORD, SHARE, ShareAccess, USER};
use crate::tool::{BenchCopy, CopyCommands, near};

/// Source and target; the one on the share in the words of a client.
fn ends(job: &BenchCopy, share: &ShareAccess, words: impl Fn(&str) -> String) -> Option<(String, String)> {
    match job.route {
        DataDirection::Push => Some((job.source.to_owned(), words(share.below(job.target)))),
        DataDirection::Pull => Some((words(share.below(job.source)), job.target.to_owned())),
        DataDirection::Local => None,
    }
}

pub(crate) fn haul(job: &BenchCopy) -> Option<CopyCommands> {
    let share = job.share?;
    let (from, to) = ends(job, share, |path| format!("smb://{FAR_IP}/{SHARE}/{path}"))?;
    near(format!(
        "{} copy -q --smb-credentials {} {} {from}/ {to}/",
        job.haul, share.credentials, job.haul_args
    ))
}

pub(crate) fn rclone(job: &BenchCopy, transfers: u32) -> Option<CopyCommands> {
    let share = job.share?;
    let remote = |path: &str| {
        let password = format!("$(rclone obscure {PASSWORD})");
        format!("\":smb,host={FAR_IP},user={USER},pass='{password}':{SHARE}/{path}\"")
    };
    let (from, to) = ends(job, share, remote)?;
    near(format!(
        "RCLONE_CONFIG=/dev/null rclone copy -q --transfers {transfers} --checkers {transfers} {from} {to}"
    ))
}

/// `mput` and `mget` copy into the directory of the share that they are in.
pub(crate) fn smbclient(job: &BenchCopy) -> Option<CopyCommands> {
    let share = job.share?;
    let client = format!(
        "smbclient //{FAR_IP}/{SHARE} -s {} -A {} -c 'prompt OFF; recurse ON;",
        share.config, share.credentials
    );
    match job.route {
        DataDirection::Push => {
            let to = share.below(job.target);
            near(format!("{client} mkdir {to}; cd {to}; lcd {}; mput *' > /dev/null", job.source))
        }
        DataDirection::Pull => {
            let (from, to) = (share.below(job.source), job.target);
            near(format!("mkdir -p {to} && {client} cd {from}; lcd {to}; mget *' > /dev/null"))
        }
        DataDirection::Local => None,
    }
}
