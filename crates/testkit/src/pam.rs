//! Passwords and one-time codes for an sshd of a test. PAM checks them by a service file that only this sshd sees, so
//! the test neither depends on the accounts of the machine nor changes them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools::{is_root, tool, write_program};

/// The service file of sshd. The file of the test is mounted over it.
pub(crate) const SERVICE: &str = "/etc/pam.d/sshd";
/// The message above the prompt for the code.
pub const CODE_WORDS: &str = "Verification code of your device, please.";

/// The credentials that a server requests and accepts.
#[derive(Clone, Copy, Debug)]
pub struct Secrets {
    /// The value of `AuthenticationMethods`.
    pub methods: &'static str,
    /// The password.
    pub password: &'static str,
    /// The code that keyboard-interactive requests after the correct password. Empty: no code.
    pub code: &'static str,
}

impl Secrets {
    /// Writes the service file and its program to a directory and returns the path of the service file. Neither
    /// contains a secret.
    pub(crate) fn write(&self, dir: &Path) -> PathBuf {
        // SSH_AUTH_INFO_0 lists the methods that have succeeded.
        let script = |name: &str, text: &str| {
            let path = dir.join(name);
            write_program(&path, format!("#!/bin/sh\n{text}\n"));
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

    /// The lines for the configuration of sshd.
    pub(crate) fn config(&self) -> String {
        format!(
            "UsePAM yes\nAuthenticationMethods {}\nPasswordAuthentication yes\nKbdInteractiveAuthentication yes\n",
            self.methods
        )
    }
}

/// The SHA-256 digest in hexadecimal, by `sha256sum`.
fn digest(secret: &str) -> String {
    let mut command = Command::new("sh");
    tool(command.args(["-c", "printf %s \"$0\" | sha256sum", secret])).trim_end().to_owned()
}

/// Why this machine cannot run such an sshd; `None` if it can.
pub(crate) fn missing() -> Option<String> {
    let below = |dir: &str| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let found = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"].into_iter().any(|dir| {
        let kinds = below(dir).map(|kind| kind.join("security"));
        kinds.chain([Path::new(dir).join("security")]).any(|dir| dir.join("pam_exec.so").exists())
    });
    (!is_root() || !found || !Path::new(SERVICE).exists())
        .then(|| format!("needs root, pam_exec.so and {SERVICE} for logins by password"))
}
