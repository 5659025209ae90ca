//! The machines of the book: each has directories of its own (`/srv`, `/var`, `/mnt`, `/root`, ...) and the programs of
//! this machine. They reach each other by name, through a real sshd.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_testkit::needs::tool;
use haul_testkit::process::{kill, tagged};
use haul_testkit::store::{ACCESS_KEY, AZURE_ACCOUNT, AZURE_KEY, SECRET_KEY, azurite, endpoint};
use haul_testkit::{CommandRun, Finished, LongLink, Scratch, SshdOptions, write_program};

use super::page::root;
use crate::scene::{HAUL, Scene};

/// The machine on which the commands of a page run. The others see it under this name too.
pub(super) const HERE: &str = "here";

/// The output of the commands of a page, by the numbers of their blocks.
pub(super) const OUTPUT: &str = "/opt/haul/output";

/// Directories that a machine shares with this one.
const SHARED: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// The tools of a hidden test, beside the programs of the machine: `same A B` compares two trees with rsync, and
/// `$HOSTS/NAME` is the root of another machine, and `$S3` begins the name of a bucket for rclone.
const PRELUDE: &str = "set -eu
HOSTS=/opt/haul/hosts
S3=\":s3,provider=Other,env_auth=true,endpoint='$AWS_ENDPOINT_URL':\"
same() {
    differences=$(rsync -naHAXic --delete --numeric-ids --modify-window=-1 --filter='-x system.*' \"$1/\" \"$2/\")
    [ -z \"$differences\" ] || { echo \"$1 and $2 differ:\"; echo \"$differences\" | head -n 20; exit 1; }
}
";

pub(super) struct Machines {
    // Dropped first: its server must not start a session any more.
    scene: Scene,
    roots: Scratch,
}

impl Machines {
    /// The machine [`HERE`] and those of the names `others`.
    pub(super) fn new(others: &[&str]) -> Self {
        let roots = Scratch::new();
        let session = roots.join("session");
        let lines = vec!["AcceptEnv BOOK_HOST".to_owned()];
        let force_command = Some(format!("sh {}", session.display()));
        let machines = Self { scene: Scene::with_sshd(SshdOptions { lines, force_command }), roots };
        machines.write("enter", include_str!("enter.sh"), 0o755);
        // A machine with a `forced` command runs that, as `command=` in its authorized_keys would.
        let enter = machines.enter("$BOOK_HOST").join(" ");
        let forced = machines.roots.join("$BOOK_HOST.forced");
        let text = format!(
            "export SSH_ORIGINAL_COMMAND\nif [ -e \"{0}\" ]; then SSH_COMMAND=$(cat \"{0}\"); else \
             SSH_COMMAND=$SSH_ORIGINAL_COMMAND; fi\nexec {enter} /bin/sh -c \"$SSH_COMMAND\"\n",
            forced.display(),
        );
        fs::write(&session, text).unwrap();
        for name in [HERE].iter().chain(others) {
            machines.add(name, others);
        }
        machines
    }

    /// A path of a machine, as this process sees it.
    pub(super) fn at(&self, name: &str, path: &str) -> PathBuf {
        self.roots.join(name).join(path.trim_start_matches('/'))
    }

    /// Makes the login at this machine run one command, whatever the client asks for.
    pub(super) fn force(&self, name: &str, command: &str) {
        self.write(&format!("{name}.forced"), command, 0o644);
    }

    /// Runs a script with bash on the machine [`HERE`].
    pub(super) fn run(&self, script: &str) -> Finished {
        fs::write(self.at(HERE, "/opt/haul/page"), format!("{PRELUDE}{script}")).unwrap();
        let words = self.enter(HERE);
        let run =
            CommandRun::new(&words[0], self.scene.tag()).args(&words[1..]).args(["bash", "/opt/haul/page"]);
        let azure = format!("http://{}/{AZURE_ACCOUNT}", azurite());
        let run = run
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
            .env("AWS_ENDPOINT_URL", format!("http://{}", endpoint()))
            .env("AZURE_STORAGE_ENDPOINT", azure)
            .env("AZURE_STORAGE_KEY", AZURE_KEY)
            .limit(Duration::from_secs(300))
            .finish();
        // Servers that the page has started.
        tagged(self.scene.tag()).into_iter().for_each(kill);
        run
    }

    /// The command that enters a machine; its arguments are the command to run there.
    fn enter(&self, name: &str) -> Vec<String> {
        let at = |path: &str| self.roots.join(path).display().to_string();
        let words = ["unshare", "--mount", "--propagation", "private", &at("enter"), &at(name), HAUL];
        words.map(str::to_owned).to_vec()
    }

    fn write(&self, name: &str, text: &str, mode: u32) {
        let path = self.roots.join(name);
        write_program(&path, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn add(&self, name: &str, others: &[&str]) {
        let make = |path: &str| fs::create_dir_all(self.at(name, path)).unwrap();
        for dir in SHARED {
            match fs::read_link(Path::new("/").join(dir)) {
                Ok(target) => symlink(target, self.at(name, dir)).unwrap(),
                Err(_) if Path::new("/").join(dir).is_dir() => make(dir),
                Err(_) => {}
            }
        }
        for dir in ["dev", "proc", "sys", ".etc", "etc", "run/mysqld", "srv", "mnt", "root/.ssh", "tmp"] {
            make(dir);
        }
        for dir in ["opt/haul/bin", "opt/haul/output", "opt/haul/packaging", "var/lib", "var/log", "var/tmp"]
        {
            make(dir);
        }
        for dir in ["tmp", "var/tmp", "run/mysqld", "var/log"] {
            fs::set_permissions(self.at(name, dir), fs::Permissions::from_mode(0o1777)).unwrap();
        }
        // Files of a page go beside these links, not into the directory of this machine.
        for entry in fs::read_dir("/etc").unwrap().flatten() {
            let target = Path::new("/.etc").join(entry.file_name());
            symlink(target, self.at(name, "etc").join(entry.file_name())).unwrap();
        }
        fs::write(self.at(name, "opt/haul/bin/haul"), "").unwrap();
        for (program, text) in
            [("systemctl", include_str!("systemctl.sh")), ("sudo", "#!/bin/sh\nexec env \"$@\"\n")]
        {
            self.write(&format!("{name}/opt/haul/bin/{program}"), text, 0o755);
        }
        for file in ["haul-sync@.service", "haul-sync@.timer"] {
            let text = fs::read_to_string(root().join("packaging").join(file)).unwrap();
            self.write(&format!("{name}/opt/haul/packaging/{file}"), &text, 0o644);
        }
        self.let_in(name, others);
        if name == HERE {
            // A tree of the tests is judged beside the tree that it was copied from.
            fs::create_dir(self.at(HERE, "opt/haul/hosts")).unwrap();
        }
    }

    /// Puts a long link between the machine [`HERE`] and another one: a round trip takes 60 ms, and one connection
    /// carries 10 MiB in a second.
    pub(super) fn far_away(&self, name: &str) -> LongLink {
        let sshd = self.scene.sshd();
        let delay = Duration::from_millis(30);
        let server = SocketAddr::new(sshd.host().parse().unwrap(), sshd.port());
        let link = LongLink::new(server, delay, (10 << 20) * 30 / 1000);
        let config = self.at(HERE, "root/.ssh/config");
        let others = fs::read_to_string(&config).unwrap();
        // The first value of an option counts. The key is known under the port of the server.
        let way = format!(
            "Host {name}\n  Port {}\n  HostKeyAlias [{}]:{}\n",
            link.port(),
            sshd.host(),
            sshd.port()
        );
        fs::write(&config, way + &others).unwrap();
        // Connections of haul's own would take another way: all machines have one address.
        let settings = self.at(HERE, "root/.config/haul");
        fs::create_dir_all(&settings).unwrap();
        fs::write(settings.join("config.toml"), "[defaults]\ntransport = \"ssh\"\n").unwrap();
        link
    }

    /// Gives a machine the key and the names of all others.
    fn let_in(&self, name: &str, others: &[&str]) {
        let sshd = self.scene.sshd();
        let ssh = |file: &str| self.at(name, "root/.ssh").join(file);
        fs::copy(sshd.client_key(), ssh("id_ed25519")).unwrap();
        fs::copy(sshd.known_hosts(), ssh("known_hosts")).unwrap();
        tool(Command::new("chown").args(["-R", "0:0"]).arg(self.at(name, "root")));
        let mut config: String = [HERE]
            .iter()
            .chain(others)
            .map(|host| format!("Host {host}\n  SetEnv BOOK_HOST={host}\n"))
            .collect();
        config += &format!(
            "Host *\n  HostName {}\n  Port {}\n  User root\n  BatchMode yes\n  LogLevel ERROR\n",
            sshd.host(),
            sshd.port()
        );
        fs::write(ssh("config"), config).unwrap();
        tool(Command::new("chmod").args(["-R", "go="]).arg(self.at(name, "root/.ssh")));
    }
}
