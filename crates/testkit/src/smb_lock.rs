//! Another client of an SMB server: it has a file open and shares it with nobody.

use std::time::Duration;

use smb2::Session;
use smb2::client::{CompoundOp, Connection};
use smb2::msg::create::{CreateDisposition, CreateRequest, ImpersonationLevel, ShareAccess};
use smb2::msg::tree_connect::{TreeConnectRequest, TreeConnectRequestFlags};
use smb2::types::flags::FileAccessMask;
use smb2::types::status::NtStatus;
use smb2::types::{Command, CreditCharge, OplockLevel};
use tokio::runtime::{Builder, Runtime};

use crate::smbd::{PASSWORD, SHARE, Smbd, USER};

/// A file that is open until this is dropped.
pub struct SmbLock {
    runtime: Option<Runtime>,
    _conn: Connection,
}

impl SmbLock {
    /// Opens the file at a path on the share, and lets nobody else read, write or delete it.
    #[must_use]
    pub fn new(server: &Smbd, path: &str) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let conn = runtime.block_on(open(server.port(), path)).unwrap();
        Self { runtime: Some(runtime), _conn: conn }
    }
}

impl Drop for SmbLock {
    fn drop(&mut self) {
        // The connection ends with it, and the server then closes the file.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn open(port: u16, path: &str) -> smb2::Result<Connection> {
    let mut conn = Connection::connect(&format!("127.0.0.1:{port}"), Duration::from_secs(5)).await?;
    conn.negotiate().await?;
    let _session = Session::setup(&mut conn, USER, PASSWORD, "").await?;
    let share = format!("\\\\127.0.0.1\\{SHARE}");
    let request = TreeConnectRequest { flags: TreeConnectRequestFlags::default(), path: share };
    let tree_id = conn.execute(Command::TreeConnect, &request, None).await?.header.tree_id;
    let request = CreateRequest {
        requested_oplock_level: OplockLevel::None,
        impersonation_level: ImpersonationLevel::Impersonation,
        desired_access: FileAccessMask::new(
            FileAccessMask::FILE_READ_DATA | FileAccessMask::FILE_WRITE_DATA | FileAccessMask::SYNCHRONIZE,
        ),
        file_attributes: 0,
        share_access: ShareAccess(0),
        create_disposition: CreateDisposition::FileOpen,
        create_options: 0,
        name: path.replace('/', "\\"),
        create_contexts: Vec::new(),
    };
    let op = CompoundOp { command: Command::Create, body: &request, tree_id, credit_charge: CreditCharge(1) };
    let frames = conn.execute_compound(&[op]).await?;
    for frame in frames {
        assert_eq!(frame?.header.status, NtStatus::SUCCESS, "{path} can be opened");
    }
    Ok(conn)
}
