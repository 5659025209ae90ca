//! The commands of object-store clients for streams and trees.

use crate::bucket::{BucketAccess, XBSTREAM};
use crate::cases::DataDirection;
use crate::tool::{BenchCopy, CopyCommands, near};

/// The commands of one client.
struct Words {
    /// From standard input to an object.
    put: String,
    /// From an object to standard output.
    get: String,
    /// A tree, from one place to another.
    tree: String,
}

/// The plan for a job with a bucket: a stream if the source is a single file.
fn plan(job: &BenchCopy, words: impl Fn(&str, &str) -> Words) -> Option<CopyCommands> {
    let bucket = job.bucket?;
    let (source, target) = (job.source, job.target);
    let command = match (job.route, job.file) {
        (DataDirection::Push, Some(file)) => {
            format!("cat {source}/{file} | {}", words("", &format!("{target}/{file}")).put)
        }
        (DataDirection::Pull, Some(file)) => {
            let directory = file.rsplit_once('/').map_or("", |(directory, _)| directory);
            let get = words(&format!("{source}/{file}"), "").get;
            let through = if job.piped { "| cat " } else { "" };
            format!("mkdir -p {target}/{directory} && {get} {through}> {target}/{file}")
        }
        (DataDirection::Push | DataDirection::Pull, None) => words(source, target).tree,
        (DataDirection::Local, _) => return None,
    };
    near(bucket.with(&command))
}

pub(crate) fn haul(job: &BenchCopy) -> Option<CopyCommands> {
    let (haul, more) = (job.haul, job.haul_args);
    plan(job, |source, target| Words {
        put: format!("{haul} put -q {more} {target}"),
        get: format!("{haul} get -q {more} {source}"),
        tree: format!("{haul} copy -q {more} {source}/ {target}/"),
    })
}

/// The members of a stream into their files.
pub(crate) fn unpack(job: &BenchCopy) -> Option<CopyCommands> {
    let (haul, more, target) = (job.haul, job.haul_args, job.target);
    near(job.bucket?.with(&format!("{haul} get -q {more} {XBSTREAM} --unpack {target}")))
}

/// The same through one pipe, with mbstream at its end.
pub(crate) fn mbstream(job: &BenchCopy) -> Option<CopyCommands> {
    let (haul, more, target) = (job.haul, job.haul_args, job.target);
    let extract = format!("mkdir {target} && {haul} get -q {more} {XBSTREAM} | mbstream -x -p 4 -C {target}");
    near(job.bucket?.with(&extract))
}

/// The stream, without files to write.
pub(crate) fn discard(job: &BenchCopy) -> Option<CopyCommands> {
    let (haul, more) = (job.haul, job.haul_args);
    near(job.bucket?.with(&format!("{haul} get -q {more} {XBSTREAM} | cat > /dev/null")))
}

pub(crate) fn aws(job: &BenchCopy) -> Option<CopyCommands> {
    plan(job, |source, target| Words {
        put: format!("aws s3 cp --quiet - {target}"),
        get: format!("aws s3 cp --quiet {source} -"),
        tree: format!("aws s3 cp --quiet --recursive {source} {target}"),
    })
}

pub(crate) fn s5cmd(job: &BenchCopy) -> Option<CopyCommands> {
    plan(job, |source, target| {
        let from = if source.starts_with("s3://") { format!("'{source}/*'") } else { format!("{source}/") };
        Words {
            put: format!("s5cmd --log error pipe -c 32 -p 16 {target}"),
            get: format!("s5cmd --log error cat -c 32 -p 16 {source}"),
            tree: format!("s5cmd --log error --numworkers 256 cp {from} {target}/"),
        }
    })
}

/// A place in the notation of a client; `other` converts those in a bucket.
fn named(place: &str, other: impl Fn(&str) -> String) -> String {
    if place.starts_with("s3://") { other(place) } else { place.to_owned() }
}

pub(crate) fn rclone(job: &BenchCopy) -> Option<CopyCommands> {
    plan(job, |source, target| {
        let (from, to) = (named(source, BucketAccess::rclone), named(target, BucketAccess::rclone));
        Words {
            put: format!("rclone rcat -q --s3-upload-concurrency 32 --s3-chunk-size 16M {to}"),
            get: format!("rclone cat -q {from}"),
            tree: format!("rclone copy -q --transfers 64 --checkers 64 {from} {to}"),
        }
    })
}

pub(crate) fn mc(job: &BenchCopy) -> Option<CopyCommands> {
    plan(job, |source, target| {
        let at = |place: &str| place.replacen("s3://", "bench/", 1);
        let (from, to) = (named(source, at), named(target, at));
        let mc = "export MC_HOST_bench=http://$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY@${AWS_ENDPOINT_URL#http://}; mc";
        Words {
            put: format!("({mc} pipe --quiet --concurrent 16 --part-size 16MiB {to})"),
            get: format!("({mc} cat {from})"),
            tree: format!("{mc} mirror --quiet {from} {to}"),
        }
    })
}
