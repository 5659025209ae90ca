//! Passwords and codes that an sshd of a test asks for. PAM judges them by a service file that only this sshd sees, so
//! the accounts of the machine do not matter and nothing on it is changed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::needs::tool;

/// The service file of sshd, in whose place the one of the test is mounted.
pub(crate) const SERVICE: &str = "/etc/pam.d/sshd";
/// What the person is told above the question for the code.
pub const CODE_WORDS: &str = "Verification code of your device, please.";

/// What a server asks for, and what it takes.
#[derive(Clone, Copy, Debug)]
pub struct Secrets {
    /// The ways to log in, as `AuthenticationMethods` names them.
    pub methods: &'static str,
    /// The password.
    pub password: &'static str,
    /// The code that is asked for by keyboard-interactive once the password was right. Empty: none is.
    pub code: &'static str,
}

impl Secrets {
    /// Writes the service file and its judge into a folder; gives the path of the service file. Neither holds a secret.
    pub(crate) fn write(&self, dir: &Path) -> PathBuf {
        // sshd tells what has been proved already in SSH_AUTH_INFO_0.
        let script = |name: &str, text: &str| {
            let path = dir.join(name);
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path.display().to_string()
        };
        let judge = script(
            "judge",
            &format!(
                "given=$(tr -d '\\0' | sha256sum)\ncase $SSH_AUTH_INFO_0 in\n\
                 password*) [ \"$given\" = '{}' ] ;;\n*) [ \"$given\" = '{}' ] ;;\nesac",
                digest(self.code),
                digest(self.password)
            ),
        );
        let tell =
            script("tell", &format!("case $SSH_AUTH_INFO_0 in password*) echo '{CODE_WORDS}' ;; esac"));
        let service = dir.join("service");
        let text = format!(
            "auth optional pam_exec.so quiet stdout {tell}\nauth required pam_exec.so quiet expose_authtok {judge}\n\
             auth required pam_permit.so\naccount required pam_permit.so\nsession required pam_permit.so\n\
             password required pam_deny.so\n"
        );
        fs::write(&service, text).unwrap();
        service
    }

    /// The lines of the server's configuration for it.
    pub(crate) fn config(&self) -> String {
        format!(
            "UsePAM yes\nAuthenticationMethods {}\nPasswordAuthentication yes\nKbdInteractiveAuthentication yes\n",
            self.methods
        )
    }
}

/// What `sha256sum` says of it.
fn digest(secret: &str) -> String {
    let mut command = Command::new("sh");
    tool(command.args(["-c", "printf %s \"$0\" | sha256sum", secret])).trim_end().to_owned()
}

/// Why no sshd can be judged so here; `None` if it can.
pub(crate) fn missing() -> Option<String> {
    let below = |dir: &str| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let found = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"].into_iter().any(|dir| {
        let kinds = below(dir).map(|kind| kind.join("security"));
        kinds.chain([Path::new(dir).join("security")]).any(|dir| dir.join("pam_exec.so").exists())
    });
    (!crate::needs::is_root() || !found || !Path::new(SERVICE).exists())
        .then(|| format!("needs root, pam_exec.so and {SERVICE} for logins by password"))
}
