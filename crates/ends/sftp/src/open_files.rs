//! Open files at the server: haul closes them when the server has answered the requests for them.

use super::conn::{Conn, HandlePermits};
use super::packet::SftpRequest;
use super::pipeline::Pipeline;

/// The handles of open files. All are closed on drop. Nobody waits for the answers: the files were only read.
///
/// A close that is sent with the reads would come before the request for the rest of a short answer.
pub(super) struct FileHandles<'a> {
    conn: &'a Conn,
    handles: Vec<Vec<u8>>,
    /// Released last, when the server has been told to close.
    _right: HandlePermits<'a>,
}

impl<'a> FileHandles<'a> {
    /// Waits for the right to open `count` files.
    pub(super) fn new(conn: &'a Conn, count: usize) -> Self {
        Self { conn, handles: Vec::with_capacity(count), _right: conn.handles(count) }
    }

    /// A file was opened.
    pub(super) fn add(&mut self, handle: &[u8]) {
        self.handles.push(handle.to_vec());
    }
}

impl Drop for FileHandles<'_> {
    fn drop(&mut self) {
        let mut pipeline = Pipeline::new(self.conn);
        self.handles.iter().for_each(|handle| pipeline.ask(&SftpRequest::Close { handle }));
        pipeline.flush();
    }
}
