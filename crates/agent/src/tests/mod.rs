//! A peer and the remote end in one process, over connections that can be cut, stalled and damaged.

mod cable;
mod conformance;
mod direct;
mod faults;
mod host;
mod mem;
mod pair;
mod probe;
mod third_party;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use haul_core::digest::slice_len;
use haul_core::{
    Batch, BatchData, BufferPool, Compress, Entry, Outcome, Place, PlaceRoot, Result, SLICE_LEN, Sink,
    SinkOptions, Slice, Source,
};
use haul_remote::{Peer, PeerConfig, Transport};
use haul_ssh::SshConfig;

use cable::Cables;

const MIB: u64 = 1024 * 1024;

fn place(text: &str) -> Place {
    Place { path: text.as_bytes().to_vec(), root: PlaceRoot::Exactly }
}

fn config(streams: u32) -> PeerConfig {
    PeerConfig {
        transport: Transport::Ssh,
        ports: None,
        bind: None,
        congestion: None,
        ssh: SshConfig {
            shell: vec!["ssh".to_owned()],
            shell_given: false,
            family: None,
            timeout: 2,
            persist: None,
        },
        remote_haul: "haul".to_owned(),
        streams,
        max_memory: 64 * MIB,
        iops: None,
        pace: haul_core::Pace::default(),
        compress: Compress::Never,
        hints: None,
        defer: false,
        explains: false,
    }
}

fn connect(cables: &Cables, streams: u32) -> Result<Arc<Peer>> {
    let pool = BufferPool::new(16 * MIB);
    Peer::over(Box::new(cables.clone()), &config(streams), &pool, Arc::new(|_| {}))
}

fn open(peer: &Arc<Peer>) -> (Arc<dyn Source>, Arc<dyn Sink>) {
    let source = peer.open_source(&place("/x"), haul_core::Links::Kept).unwrap();
    (source, peer.open_sink(&place("/x"), &SinkOptions::default()).unwrap())
}

/// A batch of one slice with its content.
fn data_of(pool: &BufferPool, entry: &Arc<Entry>, index: u32, bytes: &[u8]) -> BatchData {
    let start = (u64::from(index) * SLICE_LEN) as usize;
    let part = &bytes[start..start + slice_len(entry.len, index) as usize];
    let mut content = pool.take();
    content.grow(part.len()).unwrap().copy_from_slice(part);
    let batch = Batch { entries: vec![entry.clone()], slices: vec![Slice::whole(0, index)], again: false };
    BatchData {
        batch: Arc::new(batch),
        slices: vec![Ok(mem::prove(entry, index, part))],
        content,
        at_hand: true,
    }
}

fn write(sink: &dyn Sink, data: BatchData) -> Receiver<Vec<Result<Outcome>>> {
    let (sender, receiver) = channel();
    sink.write(data, Box::new(move |outcomes| drop(sender.send(outcomes))));
    receiver
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
