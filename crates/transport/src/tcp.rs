//! TCP connections: connecting, and the figures of the kernel (`TCP_INFO`).

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};

/// Connects to the first of `addresses` that answers, trying all at once; `from` is the address of ours to use.
///
/// # Errors
/// The last of the reasons why none could be reached within `timeout`.
pub fn connect_any(
    addresses: &[SocketAddr],
    from: Option<IpAddr>,
    timeout: Duration,
) -> io::Result<TcpStream> {
    let until = Instant::now() + timeout;
    let mut pending = Vec::new();
    let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "there is no address to connect to");
    for address in addresses {
        match begin(*address, from) {
            Ok(socket) => pending.push(socket),
            Err(error) => last = error,
        }
    }
    while !pending.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer"));
        }
        let mut fds: Vec<PollFd<'_>> =
            pending.iter().map(|socket| PollFd::new(socket, PollFlags::OUT)).collect();
        let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = fds.iter().position(|fd| !fd.revents().is_empty());
        drop(fds);
        let Some(at) = ready else { continue };
        let socket = pending.swap_remove(at);
        match sockopt::socket_error(&socket) {
            Ok(Ok(())) => return Ok(socket),
            Ok(Err(error)) | Err(error) => last = error.into(),
        }
    }
    Err(last)
}

fn begin(address: SocketAddr, from: Option<IpAddr>) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    if let Some(from) = from {
        bind(&socket, &SocketAddr::new(from, 0))?;
    }
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}

/// Over a longer round trip than this, BBR is asked for: it neither waits for a loss to find the rate of the link nor
/// halves its own at each (Cardwell et al., ACM Queue 14(5), 2016).
const REMOTE: Duration = Duration::from_millis(5);

/// Bytes of a connection with a long round trip that the kernel holds unsent. With more, a slow connection
/// holds content that another one could have carried by then; with less, it runs dry while this process is held up.
const UNSENT: u32 = 512 * 1024;

/// Suits a connection to its distance, which the kernel knows by now. `congestion` is the control that was asked for.
pub(crate) fn suit(socket: impl AsFd, congestion: Option<&str>) {
    let remote = info(&socket).is_ok_and(|info| info.rtt >= REMOTE);
    if let Some(name) = congestion.or(if remote { Some("bbr") } else { None }) {
        // That a named one can be had was checked before.
        let _ = sockopt::set_tcp_congestion(&socket, name);
    }
    if remote {
        limit_unsent(&socket, UNSENT);
    }
}

/// Has the kernel take no more than `bytes` that it cannot send yet (`TCP_NOTSENT_LOWAT`, tcp(7)).
#[allow(unsafe_code)]
pub fn limit_unsent(socket: impl AsFd, bytes: u32) {
    let len = libc::socklen_t::try_from(size_of::<u32>()).unwrap_or(0);
    // SAFETY: the kernel reads `len` bytes from an integer of that size. A failure leaves things as they were.
    unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw const bytes).cast(),
            len,
        );
    }
}

/// Whether connections may have this congestion control.
///
/// # Errors
/// If the kernel does not have it, or not for everybody.
pub fn check_congestion(name: &str) -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    Ok(sockopt::set_tcp_congestion(&socket, name)?)
}

/// The state of a connection, from the kernel (`TCP_INFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// Segments that were sent again.
    pub retransmits: u32,
    /// The rate at which bytes were last delivered, in bytes per second.
    pub delivery_rate: u64,
    /// For how long it has had something to send.
    pub busy: Duration,
    /// Of this, how long the other end's receive window held it back.
    pub window_limited: Duration,
    /// Of this, how long our send buffer held it back.
    pub buffer_limited: Duration,
    /// The path's MTU, in bytes.
    pub path_mtu: u32,
}

/// Asks the kernel (`TCP_INFO`, tcp(7)).
///
/// # Errors
/// If it is no TCP socket.
#[allow(unsafe_code)]
pub fn info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).unwrap_or(0);
    // SAFETY: the kernel writes at most `len` bytes to memory of that size, which is zeroed: every bit pattern of
    // this struct of integers is valid.
    let info = unsafe {
        let status = libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        );
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        info.assume_init()
    };
    let micros = |n: u64| Duration::from_micros(n);
    Ok(TcpInfo {
        rtt: micros(info.tcpi_rtt.into()),
        retransmits: info.tcpi_total_retrans,
        delivery_rate: info.tcpi_delivery_rate,
        busy: micros(info.tcpi_busy_time),
        window_limited: micros(info.tcpi_rwnd_limited),
        buffer_limited: micros(info.tcpi_sndbuf_limited),
        path_mtu: info.tcpi_pmtu,
    })
}

/// The source address that this host uses for packets to another one. Sends nothing.
#[must_use]
pub fn source_to(to: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Connecting a datagram socket looks up the route; 9 is the port of the discard service.
    socket.connect((to, 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_first_address_that_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let refused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let good = listener.local_addr().unwrap();
        let socket = connect_any(&[refused, good], None, Duration::from_secs(5)).unwrap();
        assert_eq!(socket.peer_addr().unwrap(), good);
        assert!(info(&socket).unwrap().path_mtu > 0);
        let error = connect_any(&[refused], None, Duration::from_secs(5)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(connect_any(&[], None, Duration::ZERO).is_err());
    }

    #[test]
    fn from_the_address_that_was_asked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let from = IpAddr::from([127, 0, 0, 9]);
        let socket =
            connect_any(&[listener.local_addr().unwrap()], Some(from), Duration::from_secs(5)).unwrap();
        assert_eq!(socket.local_addr().unwrap().ip(), from);
    }
}
