//! Streams from a program here to a program on the far machine, and the other way round: one file through `cat`.

use crate::cases::DataDirection;
use crate::sshd::SshAccess;
use crate::tool::{BenchCopy, CopyCommands, NC_PORT, near};

/// The command that reads the file at one end, and the command that writes it at the other.
fn programs(job: &BenchCopy) -> Option<(String, String)> {
    let file = job.file?;
    let (from, to) = (format!("{}/{file}", job.source), format!("{}/{file}", job.target));
    Some((format!("cat {from}"), format!("mkdir -p $(dirname {to}) && cat > {to}")))
}

pub(crate) fn haul(job: &BenchCopy) -> Option<CopyCommands> {
    let (ssh, (read, write)) = (job.ssh?, programs(job)?);
    let host = format!("root@{}", ssh.host);
    let options = format!("--into '{write}' -e '{}' --remote-haul {}", ssh.command(), job.haul);
    let words = match job.route {
        DataDirection::Push => format!("{host} {options} -- '{read}'"),
        DataDirection::Pull => format!("--from {host} '{read}' {options}"),
        DataDirection::Local => return None,
    };
    near(format!("{} pipe -q {} {words}", job.haul, job.haul_args))
}

/// Over one TCP connection in the clear, with `squeeze` and `expand` at its ends.
pub(crate) fn nc(job: &BenchCopy, squeeze: &str, expand: &str) -> Option<CopyCommands> {
    let (ssh, (read, write)) = (job.ssh?, programs(job)?);
    let host = &ssh.host;
    let (here, listener) = match job.route {
        DataDirection::Push => (
            format!("{read} | {squeeze}nc -N {host} {NC_PORT}"),
            format!("nc -d -l {host} {NC_PORT} | {expand}({write})"),
        ),
        DataDirection::Pull => (
            format!("nc -d {host} {NC_PORT} | {expand}({write})"),
            format!("{read} | {squeeze}nc -N -l {host} {NC_PORT}"),
        ),
        DataDirection::Local => return None,
    };
    Some(CopyCommands { before: None, near: here, listener: Some(listener) })
}

/// Over one TCP connection in the clear, with buffers at its ends.
pub(crate) fn mbuffer(job: &BenchCopy) -> Option<CopyCommands> {
    let (ssh, (read, write)) = (job.ssh?, programs(job)?);
    let options = "mbuffer -q -m 64M -s 256k";
    match job.route {
        DataDirection::Push => Some(CopyCommands {
            before: None,
            near: format!("{read} | {options} -O {}:{NC_PORT}", ssh.host),
            listener: Some(format!("{options} -I {NC_PORT} | ({write})")),
        }),
        // It listens only where it receives, which is not where the listener starts.
        DataDirection::Pull | DataDirection::Local => None,
    }
}

/// Over one ssh connection.
pub(crate) fn ssh(job: &BenchCopy, option: &str, squeeze: &str, expand: &str) -> Option<CopyCommands> {
    let (access, (read, write)) = (job.ssh?, programs(job)?);
    let shell = shell(access, option);
    near(match job.route {
        DataDirection::Push => format!("{read} | {squeeze}{shell} '{expand}({write})'"),
        DataDirection::Pull => format!("{shell} '{read} | {squeeze}cat' | {expand}({write})"),
        DataDirection::Local => return None,
    })
}

fn shell(access: &SshAccess, option: &str) -> String {
    format!("{}{option} root@{}", access.command(), access.host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_as_typed() {
        let access = SshAccess {
            host: "10.0.0.2".to_owned(),
            port: 2222,
            key: "/k/id".to_owned(),
            config: "/k/config".to_owned(),
        };
        let mut job = BenchCopy {
            route: DataDirection::Push,
            source: "/a",
            target: "/b",
            ssh: Some(&access),
            bucket: None,
            piped: true,
            share: None,
            file: Some("f"),
            haul: "/bin/haul",
            haul_args: "",
        };
        let write = "mkdir -p $(dirname /b/f) && cat > /b/f";
        let push = haul(&job).unwrap().near;
        assert!(
            push.starts_with(&format!("/bin/haul pipe -q  root@10.0.0.2 --into '{write}' -e 'ssh ")),
            "{push}"
        );
        assert!(push.ends_with("' --remote-haul /bin/haul -- 'cat /a/f'"), "{push}");
        let plan = nc(&job, "zstd | ", "zstd -d | ").unwrap();
        assert_eq!(plan.near, "cat /a/f | zstd | nc -N 10.0.0.2 22023");
        assert_eq!(plan.listener.unwrap(), format!("nc -d -l 10.0.0.2 22023 | zstd -d | ({write})"));
        job.route = DataDirection::Pull;
        let pull = haul(&job).unwrap().near;
        assert!(pull.starts_with("/bin/haul pipe -q  --from root@10.0.0.2 'cat /a/f' --into "), "{pull}");
        assert!(ssh(&job, " -C", "", "").unwrap().near.contains(" -C root@10.0.0.2 'cat /a/f | cat' | ("));
        job.file = None;
        assert_eq!(haul(&job), None);
    }
}
