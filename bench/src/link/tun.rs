//! TUN devices that pass super-packets.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{Context, Result, ensure};

/// Opens a new TUN device of that name in the network namespace of the calling thread. It goes
/// away with the returned file.
pub(crate) fn open(name: &str) -> Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")
        .context("cannot open /dev/net/tun")?;
    ensure!(name.len() < libc::IFNAMSIZ, "device name {name} too long");
    // SAFETY: all bits zero are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the request is a live, initialised `ifreq`.
    let made = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if made < 0 {
        return Err(std::io::Error::last_os_error())
            .with_context(|| format!("cannot make the TUN device {name}"));
    }
    let offload = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
    // SAFETY: this request takes a plain number.
    let set = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offload)) };
    if set < 0 {
        return Err(std::io::Error::last_os_error())
            .with_context(|| format!("cannot turn on segmentation offload of {name}"));
    }
    Ok(file)
}
