//! An SFTP server in memory, over socket pairs, that can refuse requests and cut connections.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use haul_core::sync::Mutex;
use haul_core::{BufferPool, Error, ErrorKind, Ops, Side};
use haul_ssh::dial::{AfterRefusal, Dial, DialPurpose, DialRefused, DialedLink, Helper};
use haul_ssh::{OpenPipes, Pipes};

use crate::packet::{Attrs, EOF, FAILURE, NO_SUCH_FILE, OK, OP_UNSUPPORTED};
use crate::pool::Pool;
use crate::session::Sftp;
use crate::tree::{DIR, FILE, KIND, LINK};

pub(super) const ALL: [&str; 6] = [
    "posix-rename@openssh.com",
    "hardlink@openssh.com",
    "fsync@openssh.com",
    "lsetstat@openssh.com",
    "statvfs@openssh.com",
    "limits@openssh.com",
];

#[derive(Clone, Debug)]
pub(super) struct ServerNode {
    pub(super) attrs: Attrs,
    /// Content of a file, or the target of a link.
    pub(super) data: Vec<u8>,
}

/// The entries that the server holds, and how it behaves.
pub(super) struct ServerWorld {
    pub(super) nodes: BTreeMap<Vec<u8>, ServerNode>,
    pub(super) extensions: Vec<&'static str>,
    /// Requests by their kind (0 for an extension) and a part of their path that fail with this code.
    pub(super) refused: Vec<(u8, &'static str, u32)>,
    /// The connection is cut when this many more requests have come.
    pub(super) cut_after: Option<u32>,
    /// Whether reads give back other bytes than were written.
    pub(super) corrupts: bool,
    /// The most bytes that one read gives back.
    pub(super) most: usize,
    pub(super) free: u64,
    /// Connections that were opened, and whether more are refused.
    pub(super) opened: u32,
    pub(super) refuses: Option<AfterRefusal>,
    /// The kinds of all requests, in their order.
    pub(super) log: Vec<u8>,
}

impl Default for ServerWorld {
    fn default() -> Self {
        let mut nodes = BTreeMap::new();
        nodes.insert(b"/".to_vec(), dir());
        nodes.insert(b"/home".to_vec(), dir());
        Self {
            nodes,
            extensions: ALL.to_vec(),
            refused: Vec::new(),
            cut_after: None,
            corrupts: false,
            most: usize::MAX,
            free: u64::MAX,
            opened: 0,
            refuses: None,
            log: Vec::new(),
        }
    }
}

fn attrs(mode: u32, size: u64) -> Attrs {
    Attrs { size: Some(size), owner: Some((1, 1)), mode: Some(mode), times: Some((5, 5)) }
}

fn dir() -> ServerNode {
    ServerNode { attrs: attrs(DIR | 0o755, 0), data: Vec::new() }
}

impl ServerWorld {
    pub(super) fn put_dir(&mut self, path: &str) {
        self.nodes.insert(path.as_bytes().to_vec(), dir());
    }

    pub(super) fn put(&mut self, path: &str, data: &[u8]) {
        let node = ServerNode { attrs: attrs(FILE | 0o644, data.len() as u64), data: data.to_vec() };
        self.nodes.insert(path.as_bytes().to_vec(), node);
    }

    pub(super) fn put_link(&mut self, path: &str, target: &str) {
        let node = ServerNode { attrs: attrs(LINK | 0o777, 0), data: target.as_bytes().to_vec() };
        self.nodes.insert(path.as_bytes().to_vec(), node);
    }

    pub(super) fn data(&self, path: &str) -> Option<&[u8]> {
        self.nodes.get(path.as_bytes()).map(|node| &node.data[..])
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.nodes.keys().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
    }

    fn children(&self, path: &[u8]) -> Vec<Vec<u8>> {
        let prefix = if path == b"/" { b"/".to_vec() } else { [path, b"/"].concat() };
        let below = self.nodes.keys().filter_map(|name| name.strip_prefix(&prefix[..]));
        below.filter(|name| !name.is_empty() && !name.contains(&b'/')).map(<[u8]>::to_vec).collect()
    }
}

/// Opens connections to the server.
#[derive(Clone, Default)]
pub(super) struct TestServer(pub(super) Arc<Mutex<ServerWorld>>);

struct Cut(UnixStream);

impl Helper for Cut {
    fn kill(&self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }

    fn collect(&self, _: Duration) {}

    fn last_words(&self) -> String {
        String::new()
    }

    fn explain(&self) -> Option<DialRefused> {
        None
    }
}

impl Dial for TestServer {
    fn dial(&self, _: DialPurpose) -> Result<DialedLink, DialRefused> {
        let error = Error::new(ErrorKind::Unreachable, Side::Wire, "connect to", "not in this test");
        Err(DialRefused { trouble: AfterRefusal::Fatal, error })
    }

    fn name(&self) -> String {
        "db1".to_owned()
    }
}

impl OpenPipes for TestServer {
    fn start(&self, _: DialPurpose) -> Result<Pipes, DialRefused> {
        let mut world = self.0.lock();
        if let Some(trouble) = world.refuses {
            let error = Error::new(ErrorKind::Unreachable, Side::Wire, "connect to", "refused");
            return Err(DialRefused { trouble, error });
        }
        world.opened += 1;
        drop(world);
        let (ours, theirs) = UnixStream::pair().unwrap();
        let world = self.0.clone();
        thread::spawn(move || serve(&world, theirs));
        let helper = Arc::new(Cut(ours.try_clone().unwrap()));
        Ok(Pipes { from: ours.try_clone().unwrap().into(), to: ours.into(), helper })
    }
}

impl TestServer {
    pub(super) fn world(&self) -> haul_core::sync::MutexGuard<'_, ServerWorld> {
        self.0.lock()
    }

    pub(super) fn pool(&self, streams: u32) -> haul_core::Result<Arc<Pool>> {
        let (dialer, note) = (Box::new(self.clone()), Arc::new(|_: &str| {}));
        Pool::open(dialer, note, Duration::from_secs(5), streams, Arc::new(Ops::default()))
    }

    pub(super) fn session(&self, streams: u32) -> Arc<Sftp> {
        Sftp::over(self.pool(streams).unwrap(), &BufferPool::new(64 * 1024 * 1024))
    }
}

/// Reads the fields of a request.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn u32(&mut self) -> u32 {
        let (head, rest) = self.0.split_first_chunk().unwrap();
        self.0 = rest;
        u32::from_be_bytes(*head)
    }

    fn u64(&mut self) -> u64 {
        (u64::from(self.u32()) << 32) | u64::from(self.u32())
    }

    fn string(&mut self) -> &'a [u8] {
        let len = self.u32() as usize;
        let (head, rest) = self.0.split_at(len);
        self.0 = rest;
        head
    }

    fn attrs_onto(&mut self, node: &mut ServerNode) {
        let flags = self.u32();
        if flags & 1 != 0 {
            let size = self.u64();
            node.attrs.size = Some(size);
            node.data.resize(size as usize, 0);
        }
        if flags & 2 != 0 {
            node.attrs.owner = Some((self.u32(), self.u32()));
        }
        if flags & 4 != 0 {
            let kind = node.attrs.mode.unwrap_or_default() & KIND;
            node.attrs.mode = Some(kind | self.u32() & 0o7777);
        }
        if flags & 8 != 0 {
            node.attrs.times = Some((self.u32(), self.u32()));
        }
    }
}

fn string(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

fn encode_attrs(attrs: &Attrs) -> Vec<u8> {
    let mut bytes = 0xf_u32.to_be_bytes().to_vec();
    bytes.extend(attrs.size.unwrap().to_be_bytes());
    let ((uid, gid), (accessed, modified)) = (attrs.owner.unwrap(), attrs.times.unwrap());
    for number in [uid, gid, attrs.mode.unwrap(), accessed, modified] {
        bytes.extend(number.to_be_bytes());
    }
    bytes
}

fn status(code: u32) -> (u8, Vec<u8>) {
    (101, [&code.to_be_bytes()[..], &string(b"said"), &string(b"")].concat())
}

/// The open handles of one connection: the path, and the names that a listing has left.
type OpenHandles = HashMap<Vec<u8>, (Vec<u8>, Vec<Vec<u8>>)>;

fn serve(world: &Mutex<ServerWorld>, mut stream: UnixStream) {
    let mut handles = OpenHandles::new();
    let mut next = 0_u32;
    loop {
        let mut len = [0; 4];
        if stream.read_exact(&mut len).is_err() {
            return;
        }
        let mut packet = vec![0; u32::from_be_bytes(len) as usize];
        if stream.read_exact(&mut packet).is_err() {
            return;
        }
        let mut world = world.lock();
        if packet[0] == 1 {
            let mut body = vec![2, 0, 0, 0, 3];
            for name in &world.extensions {
                body.extend([string(name.as_bytes()), string(b"1")].concat());
            }
            let _ = stream.write_all(&string(&body));
            continue;
        }
        match &mut world.cut_after {
            Some(0) => {
                world.cut_after = None;
                let _ = stream.shutdown(Shutdown::Both);
                return;
            }
            Some(left) => *left -= 1,
            None => {}
        }
        let (kind, id) = (packet[0], packet[1..5].to_vec());
        world.log.push(kind);
        let (answer, body) = handle(&mut world, &mut handles, &mut next, kind, &packet[5..]);
        drop(world);
        let _ = stream.write_all(&string(&[&[answer][..], &id, &body].concat()));
    }
}

fn handle(
    world: &mut ServerWorld,
    handles: &mut OpenHandles,
    next: &mut u32,
    kind: u8,
    body: &[u8],
) -> (u8, Vec<u8>) {
    let mut fields = Fields(body);
    if kind == 200 {
        return extended(world, handles, &mut fields);
    }
    let first = fields.string().to_vec();
    let path = handles.get(&first).map_or(first.clone(), |(path, _)| path.clone());
    let text = String::from_utf8_lossy(&path).into_owned();
    let refusal = world.refused.iter().find(|(of, part, _)| *of == kind && text.contains(part));
    if let Some((_, _, code)) = refusal {
        return status(*code);
    }
    let exists = world.nodes.contains_key(&path);
    let is_dir = world.nodes.get(&path).is_some_and(|node| node.attrs.mode.unwrap() & KIND == DIR);
    let parent = path.iter().rposition(|byte| *byte == b'/').map_or(&b"/"[..], |at| &path[..at.max(1)]);
    let has_parent = world.nodes.contains_key(parent);
    match kind {
        3 => {
            let flags = fields.u32();
            if (!exists && flags & 8 == 0) || !has_parent {
                return status(NO_SUCH_FILE);
            }
            if is_dir || exists && flags & 0x20 != 0 {
                return status(FAILURE);
            }
            let new = ServerNode { attrs: attrs(FILE | 0o600, 0), data: Vec::new() };
            world.nodes.entry(path.clone()).or_insert(new);
            open(handles, next, path, Vec::new())
        }
        4 => {
            handles.remove(&first);
            status(OK)
        }
        5 => {
            let (offset, len) = (fields.u64() as usize, fields.u32() as usize);
            if !handles.contains_key(&first) {
                return status(FAILURE);
            }
            let data = &world.nodes[&path].data;
            if offset >= data.len() {
                return status(EOF);
            }
            let end = data.len().min(offset + len.min(world.most));
            let mut bytes = data[offset..end].to_vec();
            if world.corrupts {
                bytes[0] ^= 1;
            }
            (103, string(&bytes))
        }
        6 => {
            let offset = fields.u64() as usize;
            let bytes = fields.string();
            let Some(node) = world.nodes.get_mut(&path) else { return status(NO_SUCH_FILE) };
            if node.data.len() < offset + bytes.len() {
                node.data.resize(offset + bytes.len(), 0);
            }
            node.data[offset..offset + bytes.len()].copy_from_slice(bytes);
            node.attrs.size = Some(node.data.len() as u64);
            status(OK)
        }
        7 | 8 | 17 => match world.nodes.get(&path) {
            Some(node) => (105, encode_attrs(&node.attrs)),
            None => status(NO_SUCH_FILE),
        },
        9 | 10 => match world.nodes.get_mut(&path) {
            Some(node) => {
                fields.attrs_onto(node);
                status(OK)
            }
            None => status(NO_SUCH_FILE),
        },
        11 if is_dir => {
            let names = world.children(&path);
            open(handles, next, path, names)
        }
        12 => {
            let left = &mut handles.get_mut(&first).unwrap().1;
            if left.is_empty() {
                return status(EOF);
            }
            let some: Vec<Vec<u8>> = left.drain(..left.len().min(3)).collect();
            let mut body = (some.len() as u32).to_be_bytes().to_vec();
            for name in some {
                let full = [parent_of(&path), name.clone()].concat();
                body.extend([string(&name), string(b"ls"), encode_attrs(&world.nodes[&full].attrs)].concat());
            }
            (104, body)
        }
        13 if exists && !is_dir => {
            world.nodes.remove(&path);
            status(OK)
        }
        14 if !exists && has_parent => {
            world.nodes.insert(path, dir());
            status(OK)
        }
        15 if is_dir && world.children(&path).is_empty() => {
            world.nodes.remove(&path);
            status(OK)
        }
        16 => (104, [&1_u32.to_be_bytes()[..], &string(b"/home"), &string(b""), &[0; 4]].concat()),
        18 => rename(world, &path, fields.string(), false),
        19 if exists => {
            let target = &world.nodes[&path].data;
            (104, [&1_u32.to_be_bytes()[..], &string(target), &string(b""), &[0; 4]].concat())
        }
        20 => {
            let at = fields.string().to_vec();
            let node = ServerNode { attrs: attrs(LINK | 0o777, 0), data: path };
            world.nodes.insert(at, node);
            status(OK)
        }
        11 | 13 | 15 | 19 if !exists => status(NO_SUCH_FILE),
        14 if !exists => status(NO_SUCH_FILE),
        _ => status(FAILURE),
    }
}

fn parent_of(path: &[u8]) -> Vec<u8> {
    if path == b"/" { b"/".to_vec() } else { [path, b"/"].concat() }
}

fn open(handles: &mut OpenHandles, next: &mut u32, path: Vec<u8>, names: Vec<Vec<u8>>) -> (u8, Vec<u8>) {
    *next += 1;
    let handle = next.to_be_bytes().to_vec();
    handles.insert(handle.clone(), (path, names));
    (102, string(&handle))
}

fn rename(world: &mut ServerWorld, from: &[u8], to: &[u8], replaces: bool) -> (u8, Vec<u8>) {
    if world.nodes.contains_key(to) && !replaces {
        return status(FAILURE);
    }
    match world.nodes.remove(from) {
        Some(node) => {
            world.nodes.insert(to.to_vec(), node);
            status(OK)
        }
        None => status(NO_SUCH_FILE),
    }
}

fn extended(world: &mut ServerWorld, handles: &OpenHandles, fields: &mut Fields<'_>) -> (u8, Vec<u8>) {
    let name = String::from_utf8_lossy(fields.string()).into_owned();
    if let Some((_, _, code)) = world.refused.iter().find(|(of, part, _)| *of == 0 && name.contains(part)) {
        return status(*code);
    }
    let numbers = |numbers: &[u64]| numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    match &name[..] {
        "limits@openssh.com" => (201, numbers(&[256 * 1024, 255 * 1024, 255 * 1024, 100])),
        "statvfs@openssh.com" => {
            let free = world.free;
            (201, numbers(&[1, 1, free, free, free, 10, 10, 10, 0, 0, 255]))
        }
        "posix-rename@openssh.com" => {
            let (from, to) = (fields.string(), fields.string());
            if world.nodes.get(to).is_some_and(|node| node.attrs.mode.unwrap() & KIND == DIR) {
                return status(FAILURE);
            }
            rename(world, from, to, true)
        }
        "hardlink@openssh.com" => {
            let (of, at) = (fields.string(), fields.string());
            match world.nodes.get(of).cloned() {
                Some(node) => {
                    world.nodes.insert(at.to_vec(), node);
                    status(OK)
                }
                None => status(NO_SUCH_FILE),
            }
        }
        "fsync@openssh.com" if handles.contains_key(fields.string()) => status(OK),
        "lsetstat@openssh.com" => {
            let path = fields.string();
            match world.nodes.get_mut(path) {
                Some(node) => {
                    fields.attrs_onto(node);
                    status(OK)
                }
                None => status(NO_SUCH_FILE),
            }
        }
        _ => status(OP_UNSUPPORTED),
    }
}
