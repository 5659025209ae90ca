//! The commands of the clients of an SMB share.

use crate::cases::Route;
use crate::link::FAR_IP;
use crate::share::{PASSWORD, SHARE, ShareAccess, USER};
use crate::tool::{Job, Plan, near};

/// Source and target; the one on the share in the words of a client.
fn ends(job: &Job, share: &ShareAccess, words: impl Fn(&str) -> String) -> Option<(String, String)> {
    match job.route {
        Route::Push => Some((job.source.to_owned(), words(share.below(job.target)))),
        Route::Pull => Some((words(share.below(job.source)), job.target.to_owned())),
        Route::Local => None,
    }
}

pub(crate) fn haul(job: &Job) -> Option<Plan> {
    let share = job.share?;
    let (from, to) = ends(job, share, |path| format!("smb://{FAR_IP}/{SHARE}/{path}"))?;
    near(format!(
        "{} copy -q --smb-credentials {} {} {from}/ {to}/",
        job.haul, share.credentials, job.haul_args
    ))
}

pub(crate) fn rclone(job: &Job, transfers: u32) -> Option<Plan> {
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

/// `mput` and `mget` copy into the folder of the share that they are in.
pub(crate) fn smbclient(job: &Job) -> Option<Plan> {
    let share = job.share?;
    let client = format!(
        "smbclient //{FAR_IP}/{SHARE} -s {} -A {} -c 'prompt OFF; recurse ON;",
        share.config, share.credentials
    );
    match job.route {
        Route::Push => {
            let to = share.below(job.target);
            near(format!("{client} mkdir {to}; cd {to}; lcd {}; mput *' > /dev/null", job.source))
        }
        Route::Pull => {
            let (from, to) = (share.below(job.source), job.target);
            near(format!("mkdir -p {to} && {client} cd {from}; lcd {to}; mget *' > /dev/null"))
        }
        Route::Local => None,
    }
}
