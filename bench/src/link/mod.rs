//! An emulated link between two network namespaces, in user space.
//!
//! Each namespace has a TUN device; two threads, one for each direction, read packets from one
//! device, hold them for as long as a link of the wished rate and delay would, and write them to
//! the other. Writing a packet runs the receiving side of the network stack, so the CPU time of
//! these threads includes it.

mod gso;
pub(crate) mod netns;
mod pump;
mod shape;
mod tun;

use std::os::unix::thread::JoinHandleExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use self::gso::MAX_PACKET;
use self::netns::Netns;
use self::pump::{Counters, Pump};
use self::shape::{Loss, Ring, Shaper};
use crate::leftovers::{NETNS_PREFIX, sweep_namespaces};

/// Address in the near namespace.
pub(crate) const NEAR_IP: &str = "10.77.0.1";
/// Address in the far namespace.
pub(crate) const FAR_IP: &str = "10.77.0.2";
/// The network of both addresses.
const NETWORK: &str = "10.77.0.0/24";
/// Name of the device in both namespaces.
const DEVICE: &str = "link0";
/// The smallest default queue.
const MIN_QUEUE: u64 = 4_000_000;

/// The properties of a link.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LinkSpec {
    /// Bits per second in each direction, counted in bytes of IP packets.
    pub(crate) rate: u64,
    /// Time to the other end and back.
    #[serde(serialize_with = "as_seconds")]
    pub(crate) rtt: Duration,
    /// Probability that a segment is lost.
    pub(crate) loss: f64,
    /// The longest packet on the wire.
    pub(crate) mtu: u32,
    /// Bytes that wait before packets are dropped; none: as much as is on the way in one round
    /// trip, and not less than 4 MB.
    pub(crate) queue: Option<u64>,
}

impl LinkSpec {
    /// A link without loss.
    pub(crate) const fn new(rate: u64, rtt: Duration) -> Self {
        Self { rate, rtt, loss: 0.0, mtu: 1500, queue: None }
    }

    /// Bytes that wait before packets are dropped.
    pub(crate) fn queue_bytes(&self) -> u64 {
        let product = (self.rate as f64 / 8.0 * self.rtt.as_secs_f64()) as u64;
        self.queue.unwrap_or_else(|| product.max(MIN_QUEUE))
    }
}

fn as_seconds<S: serde::Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

/// How TCP is set up in both namespaces. Said here rather than taken from the host, so that
/// figures of two hosts compare; the values are those of a stock Linux.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TcpSpec {
    /// Congestion control.
    pub(crate) congestion: String,
    /// Smallest, first and largest receive buffer.
    pub(crate) receive: String,
    /// Smallest, first and largest send buffer.
    pub(crate) send: String,
}

impl Default for TcpSpec {
    fn default() -> Self {
        Self {
            congestion: "cubic".to_owned(),
            receive: "4096 131072 6291456".to_owned(),
            send: "4096 16384 4194304".to_owned(),
        }
    }
}

/// Bytes, segments and drops of one direction.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct LinkTraffic {
    /// Bytes delivered, IP headers included.
    pub(crate) bytes: u64,
    /// Segments delivered.
    pub(crate) packets: u64,
    /// Segments that found the queue full.
    pub(crate) dropped: u64,
    /// Segments lost at random.
    pub(crate) lost: u64,
}

impl LinkTraffic {
    /// The traffic since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes - before.bytes,
            packets: self.packets - before.packets,
            dropped: self.dropped - before.dropped,
            lost: self.lost - before.lost,
        }
    }
}

/// A link that is up.
pub(crate) struct EmulatedLink {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    counters: [Arc<Counters>; 2],
    near: Netns,
    far: Netns,
}

impl EmulatedLink {
    /// Makes two namespaces and the link between them.
    pub(crate) fn new(spec: &LinkSpec, tcp: &TcpSpec) -> Result<Self> {
        sweep_namespaces();
        let pid = std::process::id();
        let near = Netns::new(format!("{NETNS_PREFIX}{pid}n"))?;
        let far = Netns::new(format!("{NETNS_PREFIX}{pid}f"))?;
        let mut tuns = Vec::new();
        for (ns, address) in [(&near, NEAR_IP), (&far, FAR_IP)] {
            let tun = ns.within(|| {
                tune(tcp)?;
                tun::open(DEVICE)
            })?;
            tuns.push(Arc::new(tun));
            let mtu = spec.mtu.to_string();
            ns.ip(&["link", "set", "lo", "up"])?;
            ns.ip(&["addr", "add", &format!("{address}/32"), "dev", DEVICE])?;
            ns.ip(&["link", "set", DEVICE, "mtu", &mtu, "txqueuelen", "8192", "up"])?;
            // By the route and not by sysctl: a namespace may be denied the default of Linux
            // where the host has another one.
            ns.ip(&["route", "add", NETWORK, "dev", DEVICE, "src", address, "congctl", &tcp.congestion])?;
        }
        let mut link =
            Self { stop: Arc::default(), threads: Vec::new(), counters: Default::default(), near, far };
        for (index, name) in ["link-there", "link-back"].iter().enumerate() {
            let pump = pump(spec, index, &tuns, Arc::clone(&link.counters[index]), Arc::clone(&link.stop));
            let thread = std::thread::Builder::new()
                .name((*name).to_owned())
                .spawn(move || pump.run())
                .context("cannot start a thread of the link")?;
            link.threads.push(thread);
        }
        Ok(link)
    }

    /// The namespace that commands are started in.
    pub(crate) fn near(&self) -> &Netns {
        &self.near
    }

    /// The namespace at the other end.
    pub(crate) fn far(&self) -> &Netns {
        &self.far
    }

    /// The traffic from near to far, and from far to near.
    pub(crate) fn traffic(&self) -> [LinkTraffic; 2] {
        self.counters.each_ref().map(|c| LinkTraffic {
            bytes: c.bytes.load(Relaxed),
            packets: c.packets.load(Relaxed),
            dropped: c.dropped.load(Relaxed),
            lost: c.lost.load(Relaxed),
        })
    }

    /// CPU seconds that the threads of the link took.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.threads.iter().map(thread_cpu).sum()
    }
}

impl Drop for EmulatedLink {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Sets up TCP in the namespace of the calling thread.
fn tune(tcp: &TcpSpec) -> Result<()> {
    for (key, value) in [
        ("ipv6/conf/all/disable_ipv6", "1"),
        ("ipv6/conf/default/disable_ipv6", "1"),
        ("ipv4/tcp_rmem", &tcp.receive),
        ("ipv4/tcp_wmem", &tcp.send),
        // No memory of earlier connections: each run begins as the first.
        ("ipv4/tcp_no_metrics_save", "1"),
    ] {
        let path = format!("/proc/sys/net/{key}");
        if key.starts_with("ipv6") && !std::path::Path::new(&path).exists() {
            continue;
        }
        std::fs::write(&path, value).with_context(|| format!("cannot write {value} to {path}"))?;
    }
    Ok(())
}

fn pump(
    spec: &LinkSpec,
    index: usize,
    tuns: &[Arc<std::fs::File>],
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
) -> Pump {
    let delay = spec.rtt / 2;
    let queue = spec.queue_bytes();
    let on_the_way = (spec.rate as f64 / 8.0 * delay.as_secs_f64()) as usize;
    // A quarter more for the headers of small packets, and a few packets for the wrap.
    let capacity = (on_the_way + queue as usize) / 4 * 5 + 8 * MAX_PACKET;
    Pump {
        input: Arc::clone(&tuns[index]),
        output: Arc::clone(&tuns[1 - index]),
        shaper: Shaper::new(spec.rate, delay.as_nanos() as u64, queue),
        loss: Loss::new(spec.loss, index as u64 + 1),
        ring: Ring::new(capacity),
        tick: if delay.is_zero() { 0 } else { (delay.as_nanos() as u64 / 60).clamp(20_000, 500_000) },
        counters,
        stop,
        scratch: Vec::with_capacity(MAX_PACKET),
    }
}

/// CPU seconds of a thread.
fn thread_cpu(thread: &JoinHandle<()>) -> f64 {
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the thread is not joined yet, so its handle is valid; both outputs are live.
    unsafe {
        if libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut clock) != 0
            || libc::clock_gettime(clock, &raw mut time) != 0
        {
            return 0.0;
        }
    }
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
