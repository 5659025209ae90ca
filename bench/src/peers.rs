//! The table of tools and the commands with which each copies a tree. A new peer is a new value here.

use crate::cases::DataDirection;
use crate::clients;
use crate::pipes;
use crate::share_clients as share;
use crate::sshd::SshAccess;
use crate::tool::{BenchCopy, CopyCommands, NC_PORT, Promise, Tool, ToolKeeps, near};

/// The tool of that name.
pub(crate) fn tool_named(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// All tools.
pub(crate) static TOOLS: &[Tool] = &[
    tool("haul", &[], ToolKeeps::Everything, Promise::Durable, |job| haul(job, "")),
    tool("haul --no-fsync", &[], ToolKeeps::Everything, Promise::Copied, |job| haul(job, " --no-fsync")),
    tool("haul sync", &[], ToolKeeps::Everything, Promise::Durable, haul_sync),
    tool("haul --compress none", &[], ToolKeeps::Everything, Promise::Durable, |job| {
        haul(job, " --compress none")
    }),
    tool("haul --compress zstd:1", &[], ToolKeeps::Everything, Promise::Durable, |job| {
        haul(job, " --compress zstd:1")
    }),
    tool("haul --compress none --persist", &[], ToolKeeps::Everything, Promise::Durable, haul_logged_in),
    tool("haul sftp", &[], ToolKeeps::Everything, Promise::Durable, |job| haul_sftp(job, "")),
    tool("haul sftp --no-fsync", &[], ToolKeeps::Everything, Promise::Copied, |job| {
        haul_sftp(job, " --no-fsync")
    }),
    tool("rsync", &["rsync"], ToolKeeps::Everything, Promise::Copied, |job| rsync(job, "-a")),
    tool("haul --inplace", &[], ToolKeeps::Everything, Promise::Durable, |job| haul(job, " --inplace")),
    tool("haul --delta off", &[], ToolKeeps::Everything, Promise::Durable, |job| haul(job, " --delta off")),
    tool("rsync --inplace", &["rsync"], ToolKeeps::Everything, Promise::Copied, |job| {
        rsync(job, "-a --inplace --no-whole-file")
    }),
    tool("rsync -z", &["rsync"], ToolKeeps::Everything, Promise::Copied, |job| rsync(job, "-az")),
    tool("scp", &["scp"], ToolKeeps::Contents, Promise::Copied, scp),
    tool("tar+ssh", &["tar", "ssh"], ToolKeeps::Everything, Promise::Copied, tar_ssh),
    tool("tar+nc", &["tar", "nc"], ToolKeeps::Everything, Promise::Copied, |job| tar_nc(job, "", "")),
    tool("tar+gzip+nc", &["tar", "gzip", "nc"], ToolKeeps::Everything, Promise::Copied, |job| {
        tar_nc(job, "gzip | ", "gzip -d | ")
    }),
    tool("tar+zstd+nc", &["tar", "zstd", "nc"], ToolKeeps::Everything, Promise::Copied, |job| {
        tar_nc(job, "zstd -q -T2 -1 | ", "zstd -q -d | ")
    }),
    tool("mscp-8", &["mscp"], ToolKeeps::Contents, Promise::Copied, |job| mscp(job, 8)),
    tool("mscp-16", &["mscp"], ToolKeeps::Contents, Promise::Copied, |job| mscp(job, 16)),
    tool("mscp-32", &["mscp"], ToolKeeps::Contents, Promise::Copied, |job| mscp(job, 32)),
    tool("wdt-4", &["wdt"], ToolKeeps::Contents, Promise::Copied, |job| wdt(job, 4)),
    tool("wdt-8", &["wdt"], ToolKeeps::Contents, Promise::Copied, |job| wdt(job, 8)),
    tool("wdt-16", &["wdt"], ToolKeeps::Contents, Promise::Copied, |job| wdt(job, 16)),
    tool("rclone", &["rclone"], ToolKeeps::Contents, Promise::Copied, rclone),
    tool("haul --atomic", &[], ToolKeeps::Everything, Promise::Durable, |job| haul(job, " --atomic")),
    tool("fpsync -n 32", &["fpsync"], ToolKeeps::Everything, Promise::Copied, fpsync),
    tool("rclone local", &["rclone"], ToolKeeps::Contents, Promise::Copied, rclone_local),
    tool("parallel cp", &["parallel", "cp"], ToolKeeps::Contents, Promise::Copied, parallel_cp),
    tool("tar", &["tar"], ToolKeeps::Everything, Promise::Copied, tar_local),
    tool("cp -r", &["cp"], ToolKeeps::Contents, Promise::Copied, |job| cp(job, "-r", false)),
    tool("cp -a", &["cp"], ToolKeeps::Everything, Promise::Copied, |job| cp(job, "-a", false)),
    tool("haul to or from a store", &[], ToolKeeps::Contents, Promise::Copied, clients::haul),
    tool("aws", &["aws"], ToolKeeps::Contents, Promise::Copied, clients::aws),
    tool("s5cmd", &["s5cmd"], ToolKeeps::Contents, Promise::Copied, clients::s5cmd),
    tool("rclone s3", &["rclone"], ToolKeeps::Contents, Promise::Copied, clients::rclone),
    tool("mc", &["mc"], ToolKeeps::Contents, Promise::Copied, clients::mc),
    tool("haul unpack", &["mbstream"], ToolKeeps::Contents, Promise::Durable, clients::unpack),
    tool("haul get+mbstream -p 4", &["mbstream"], ToolKeeps::Contents, Promise::Copied, clients::mbstream),
    tool("haul get, written nowhere", &["mbstream"], ToolKeeps::Nothing, Promise::Copied, clients::discard),
    tool("haul pipe", &[], ToolKeeps::Contents, Promise::Copied, pipes::haul),
    tool("nc", &["nc"], ToolKeeps::Contents, Promise::Copied, |job| pipes::nc(job, "", "")),
    tool("zstd+nc", &["zstd", "nc"], ToolKeeps::Contents, Promise::Copied, |job| {
        pipes::nc(job, "zstd -q -T2 -1 | ", "zstd -q -d | ")
    }),
    tool("mbuffer", &["mbuffer"], ToolKeeps::Contents, Promise::Copied, pipes::mbuffer),
    tool("ssh", &["ssh"], ToolKeeps::Contents, Promise::Copied, |job| pipes::ssh(job, "", "", "")),
    tool("ssh -C", &["ssh"], ToolKeeps::Contents, Promise::Copied, |job| pipes::ssh(job, " -C", "", "")),
    tool("gzip+ssh", &["gzip", "ssh"], ToolKeeps::Contents, Promise::Copied, |job| {
        pipes::ssh(job, "", "gzip | ", "gzip -d | ")
    }),
    tool("haul to or from a share", &[], ToolKeeps::Contents, Promise::Copied, share::haul),
    tool("rclone smb -8", &["rclone"], ToolKeeps::Contents, Promise::Copied, |job| share::rclone(job, 8)),
    tool("rclone smb -32", &["rclone"], ToolKeeps::Contents, Promise::Copied, |job| share::rclone(job, 32)),
    tool("rclone smb -64", &["rclone"], ToolKeeps::Contents, Promise::Copied, |job| share::rclone(job, 64)),
    tool("smbclient", &["smbclient"], ToolKeeps::Contents, Promise::Copied, share::smbclient),
    tool("cp -a + sync -f", &["cp", "sync"], ToolKeeps::Everything, Promise::Durable, |job| {
        cp(job, "-a", true)
    }),
    // For file systems on which cp shares the blocks of files, and reads none.
    tool(
        "cp -a --reflink=never + sync -f",
        &["cp", "sync"],
        ToolKeeps::Everything,
        Promise::Durable,
        |job| cp(job, "-a --reflink=never", true),
    ),
];

const fn tool(
    name: &'static str,
    needs: &'static [&'static str],
    keeps: ToolKeeps,
    promise: Promise,
    plan: fn(&BenchCopy) -> Option<CopyCommands>,
) -> Tool {
    Tool { name, needs, keeps, promise, plan }
}

/// Source and target, the remote one as `root@host:path`.
fn ends(job: &BenchCopy, ssh: &SshAccess) -> Option<(String, String)> {
    let far = |path: &str| format!("root@{}:{path}", ssh.host);
    match job.route {
        DataDirection::Push => Some((job.source.to_owned(), far(job.target))),
        DataDirection::Pull => Some((far(job.source), job.target.to_owned())),
        DataDirection::Local => None,
    }
}

fn haul(job: &BenchCopy, option: &str) -> Option<CopyCommands> {
    let (haul, more) = (job.haul, job.haul_args);
    let more = if more.is_empty() { String::new() } else { format!(" {more}") };
    match job.ssh {
        None => near(format!("{haul} copy -q{option}{more} {}/ {}/", job.source, job.target)),
        Some(ssh) => {
            let (from, to) = ends(job, ssh)?;
            let shell = ssh.command();
            near(format!("{haul} copy -q{option}{more} {from}/ {to}/ -e '{shell}' --remote-haul {haul}"))
        }
    }
}

/// A copy after a run that has kept its login.
fn haul_logged_in(job: &BenchCopy) -> Option<CopyCommands> {
    let ssh = job.ssh?;
    let copy = haul(job, " --compress none --persist=60")?;
    let (haul, shell) = (job.haul, ssh.command());
    let first = format!("{haul} ls --persist=60 root@{}:/ -e '{shell}' --remote-haul {haul}", ssh.host);
    Some(CopyCommands { before: Some(first), ..copy })
}

/// A copy that deletes the entries that the source lacks.
fn haul_sync(job: &BenchCopy) -> Option<CopyCommands> {
    if job.route != DataDirection::Local {
        return None;
    }
    let (haul, source, target) = (job.haul, job.source, job.target);
    near(format!("{haul} sync -q {} {source}/ {target}/", job.haul_args))
}

/// A copy over SFTP.
fn haul_sftp(job: &BenchCopy, option: &str) -> Option<CopyCommands> {
    let ssh = job.ssh?;
    let (haul, shell) = (job.haul, ssh.command());
    let far = |path: &str| format!("sftp://root@{}{path}", ssh.host);
    let (from, to) = match job.route {
        DataDirection::Push => (job.source.to_owned(), far(job.target)),
        DataDirection::Pull => (far(job.source), job.target.to_owned()),
        DataDirection::Local => return None,
    };
    near(format!("{haul} copy -q{option} {} {from}/ {to}/ -e '{shell}'", job.haul_args))
}

fn rsync(job: &BenchCopy, options: &str) -> Option<CopyCommands> {
    match job.ssh {
        None => near(format!("rsync {options} {}/ {}/", job.source, job.target)),
        Some(ssh) => {
            let (from, to) = ends(job, ssh)?;
            near(format!("rsync {options} -e '{}' {from}/ {to}/", ssh.command()))
        }
    }
}

fn scp(job: &BenchCopy) -> Option<CopyCommands> {
    let ssh = job.ssh?;
    let (from, to) = ends(job, ssh)?;
    near(format!("scp -q -r -F {} {from} {to}", ssh.config))
}

/// The commands that pack the source and unpack the target.
fn tar(job: &BenchCopy) -> (String, String) {
    let (source, target) = (job.source, job.target);
    (format!("tar -C {source} -cf - ."), format!("tar -C {target} -xpf -"))
}

fn tar_ssh(job: &BenchCopy) -> Option<CopyCommands> {
    let ssh = job.ssh?;
    let (pack, unpack) = tar(job);
    let (shell, host, target) = (ssh.command(), &ssh.host, job.target);
    match job.route {
        DataDirection::Push => near(format!("{pack} | {shell} root@{host} 'mkdir {target} && {unpack}'")),
        DataDirection::Pull => near(format!("mkdir {target} && {shell} root@{host} '{pack}' | {unpack}")),
        DataDirection::Local => None,
    }
}

fn tar_nc(job: &BenchCopy, squeeze: &str, expand: &str) -> Option<CopyCommands> {
    let ssh = job.ssh?;
    let (pack, unpack) = tar(job);
    let (host, target) = (&ssh.host, job.target);
    let (near, listener) = match job.route {
        DataDirection::Push => (
            format!("{pack} | {squeeze}nc -N {host} {NC_PORT}"),
            format!("mkdir {target} && nc -d -l {host} {NC_PORT} | {expand}{unpack}"),
        ),
        DataDirection::Pull => (
            format!("mkdir {target} && nc -d {host} {NC_PORT} | {expand}{unpack}"),
            format!("{pack} | {squeeze}nc -N -l {host} {NC_PORT}"),
        ),
        DataDirection::Local => return None,
    };
    Some(CopyCommands { before: None, near, listener: Some(listener) })
}

fn mscp(job: &BenchCopy, connections: usize) -> Option<CopyCommands> {
    let ssh = job.ssh?;
    let (from, to) = ends(job, ssh)?;
    let (port, key) = (ssh.port, &ssh.key);
    near(format!(
        "mscp -q -n {connections} -P {port} -i {key} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null {from} {to}"
    ))
}

fn wdt(job: &BenchCopy, ports: usize) -> Option<CopyCommands> {
    let ssh = job.ssh?;
    let (shell, host) = (ssh.command(), &ssh.host);
    let receive = format!("wdt -num_ports {ports} -directory {}", job.target);
    let send = format!("wdt -num_ports {ports} -directory {} -", job.source);
    match job.route {
        DataDirection::Push => near(format!("{shell} root@{host} {receive} -hostname {host} | {send}")),
        DataDirection::Pull => {
            let here = crate::link::NEAR_IP;
            near(format!("{receive} -hostname {here} | {shell} root@{host} {send}"))
        }
        DataDirection::Local => None,
    }
}

fn rclone(job: &BenchCopy) -> Option<CopyCommands> {
    let ssh = job.ssh?;
    let (host, port, key) = (&ssh.host, ssh.port, &ssh.key);
    let far = |path: &str| format!(":sftp,host={host},port={port},user=root,key_file={key}:{path}");
    let (from, to) = match job.route {
        DataDirection::Push => (job.source.to_owned(), far(job.target)),
        DataDirection::Pull => (far(job.source), job.target.to_owned()),
        DataDirection::Local => return None,
    };
    near(format!(
        "rclone copy --config /dev/null -q --transfers 16 --checkers 16 --create-empty-src-dirs '{from}' '{to}'"
    ))
}

/// The directory of fpsync's run state is temporary.
fn fpsync(job: &BenchCopy) -> Option<CopyCommands> {
    let (source, target) = (job.source, job.target);
    let copy = format!("mkdir -p {target} && fpsync -n 32 -f 200 -t $d {source}/ {target}/");
    (job.route == DataDirection::Local)
        .then(|| near(format!("d=$(mktemp -d); {copy}; s=$?; rm -rf $d; exit $s")))
        .flatten()
}

fn rclone_local(job: &BenchCopy) -> Option<CopyCommands> {
    let (source, target) = (job.source, job.target);
    let options = "--config /dev/null -q --transfers 64 --checkers 64 --create-empty-src-dirs";
    (job.route == DataDirection::Local)
        .then(|| near(format!("rclone copy {options} {source} {target}")))
        .flatten()
}

/// Creates the directories first, then copies 100 files per process. Keeps no times.
fn parallel_cp(job: &BenchCopy) -> Option<CopyCommands> {
    let (source, target) = (job.source, job.target);
    let directories =
        format!("mkdir -p {target} && cd {source} && find . -type d | (cd {target} && xargs mkdir -p)");
    let files = format!("find . -type f | parallel -j32 -X -n 100 cp --parents -t {target} {{}}");
    (job.route == DataDirection::Local).then(|| near(format!("{directories} && {files}"))).flatten()
}

fn tar_local(job: &BenchCopy) -> Option<CopyCommands> {
    let (pack, unpack) = tar(job);
    (job.route == DataDirection::Local)
        .then(|| near(format!("mkdir {} && {pack} | {unpack}", job.target)))
        .flatten()
}

fn cp(job: &BenchCopy, option: &str, flush: bool) -> Option<CopyCommands> {
    if job.route != DataDirection::Local {
        return None;
    }
    // -T: works whether the target exists or not.
    let (source, target) = (job.source, job.target);
    let flush = if flush { format!(" && sync -f {target}") } else { String::new() };
    near(format!("cp {option} -T {source} {target}{flush}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_as_typed() {
        let ssh = SshAccess {
            host: "10.0.0.2".to_owned(),
            port: 2222,
            key: "/k/id".to_owned(),
            config: "/k/config".to_owned(),
        };
        let mut job = BenchCopy {
            route: DataDirection::Push,
            source: "/a",
            target: "/b",
            ssh: Some(&ssh),
            bucket: None,
            piped: true,
            share: None,
            file: None,
            haul: "/bin/haul",
            haul_args: "",
        };
        let near = |name: &str, job: &BenchCopy| (tool_named(name).unwrap().plan)(job).unwrap().near;
        let haul = near("haul", &job);
        assert!(haul.starts_with("/bin/haul copy -q /a/ root@10.0.0.2:/b/ -e 'ssh "), "{haul}");
        assert!(haul.ends_with("' --remote-haul /bin/haul"), "{haul}");
        job.route = DataDirection::Pull;
        assert_eq!(near("scp", &job), "scp -q -r -F /k/config root@10.0.0.2:/a /b");
        job.route = DataDirection::Local;
        job.ssh = None;
        assert_eq!(near("haul --no-fsync", &job), "/bin/haul copy -q --no-fsync /a/ /b/");
        assert_eq!(near("cp -a + sync -f", &job), "cp -a -T /a /b && sync -f /b");
        assert_eq!((tool_named("scp").unwrap().plan)(&job), None);
    }
}
