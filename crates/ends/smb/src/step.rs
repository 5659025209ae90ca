//! The commands of a chain.

use smb2::client::CompoundOp;
use smb2::msg::close::{CloseRequest, SMB2_CLOSE_FLAG_POSTQUERY_ATTRIB};
use smb2::msg::create::{CreateDisposition, CreateRequest, ImpersonationLevel, ShareAccess};
use smb2::msg::ioctl::{IoctlRequest, SMB2_0_IOCTL_IS_FSCTL};
use smb2::msg::query_directory::{FileInformationClass, QueryDirectoryFlags, QueryDirectoryRequest};
use smb2::msg::query_info::{InfoType, QueryInfoRequest};
use smb2::msg::read::{ReadRequest, SMB2_CHANNEL_NONE};
use smb2::msg::set_info::SetInfoRequest;
use smb2::msg::write::{SMB2_WRITEFLAG_WRITE_THROUGH, WriteRequest};
use smb2::pack::{Pack, WriteCursor};
use smb2::types::flags::FileAccessMask as Access;
use smb2::types::{Command, CreditCharge, FileId, OplockLevel, TreeId};

use super::reparse::{MOST, ReparsePoint};

/// To list a directory.
pub(super) const LIST: u32 = Access::FILE_READ_DATA | Access::FILE_READ_ATTRIBUTES | Access::SYNCHRONIZE;
/// To read a file.
pub(super) const READ: u32 = LIST;
/// To write a file and set its times.
pub(super) const WRITE: u32 = Access::FILE_WRITE_DATA
    | Access::FILE_READ_ATTRIBUTES
    | Access::FILE_WRITE_ATTRIBUTES
    | Access::SYNCHRONIZE;
/// To look at the attributes.
pub(super) const LOOK: u32 = Access::FILE_READ_ATTRIBUTES | Access::SYNCHRONIZE;
/// To set times and attributes.
pub(super) const SET: u32 = LOOK | Access::FILE_WRITE_ATTRIBUTES;
/// To read the security descriptor.
pub(super) const READ_SECURITY: u32 = Access::READ_CONTROL | Access::SYNCHRONIZE;
/// To set the list of permissions.
pub(super) const WRITE_DACL: u32 = Access::WRITE_DAC | Access::SYNCHRONIZE;
/// To set the owner.
pub(super) const WRITE_OWNER: u32 = Access::WRITE_OWNER;
/// To read or set the list of audited accesses.
pub(super) const SACL_ACCESS: u32 = 0x0100_0000;
/// To rename or remove.
pub(super) const DELETE: u32 = Access::DELETE | LOOK;

const DIRECTORY_FILE: u32 = 0x01;
const NON_DIRECTORY_FILE: u32 = 0x40;
/// Links are opened, never followed.
const OPEN_REPARSE_POINT: u32 = 0x20_0000;
const OPEN_FOR_BACKUP_INTENT: u32 = 0x4000;

/// A write with so much content is large.
const LARGE: usize = 64 * 1024;

/// The most bytes of a security descriptor, or of the names of all streams.
const INFO_LEN: u32 = 64 * 1024;

const BASIC: u8 = 4;
const RENAME: u8 = 10;
const LINK: u8 = 11;
const DISPOSITION: u8 = 13;
const END_OF_FILE: u8 = 20;
const STREAMS: u8 = 22;
/// Of file systems, not of files: FileFsFullSizeInformation.
const SPACE: u8 = 7;

const GET_REPARSE_POINT: u32 = 0x0009_00A8;
const SET_REPARSE_POINT: u32 = 0x0009_00A4;

/// The kind of entry that a chain opens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenedKind {
    File,
    Dir,
    Any,
}

/// One command of a chain. Those after the first refer to the file that the first one opens.
pub(super) struct ChainStep<'a> {
    pub(super) command: Command,
    body: Body<'a>,
    charge: u16,
}

enum Body<'a> {
    /// It opens an entry.
    Create(Box<CreateRequest>),
    Write(BorrowedWrite<'a>),
    Other(Box<dyn Pack + 'a>),
}

/// A request to write (MS-SMB2, 2.2.21). That of the library holds a copy of the content.
pub(super) struct BorrowedWrite<'a> {
    offset: u64,
    flags: u32,
    pub(super) data: &'a [u8],
}

impl BorrowedWrite<'_> {
    /// Packs the fields before the content.
    pub(super) fn pack_head(&self, cursor: &mut WriteCursor) {
        cursor.write_u16_le(WriteRequest::STRUCTURE_SIZE);
        // The header of the message and the fixed part of the request come before the content.
        cursor.write_u16_le(64 + 48);
        cursor.write_u32_le(self.data.len() as u32);
        cursor.write_u64_le(self.offset);
        cursor.write_u64_le(FileId::SENTINEL.persistent);
        cursor.write_u64_le(FileId::SENTINEL.volatile);
        // No channel, and nothing that remains.
        cursor.write_u32_le(0);
        cursor.write_u32_le(0);
        cursor.write_u32_le(0);
        cursor.write_u32_le(self.flags);
    }
}

impl Pack for BorrowedWrite<'_> {
    fn pack(&self, cursor: &mut WriteCursor) {
        self.pack_head(cursor);
        // A request has one byte at least.
        cursor.write_bytes(if self.data.is_empty() { &[0] } else { self.data });
    }
}

impl<'a> ChainStep<'a> {
    fn new(command: Command, body: impl Pack + 'a) -> Self {
        Self { command, body: Body::Other(Box::new(body)), charge: 1 }
    }

    /// The write, if it has much content.
    pub(super) fn large_write(&self) -> Option<&BorrowedWrite<'a>> {
        match &self.body {
            Body::Write(write) if write.data.len() >= LARGE => Some(write),
            _ => None,
        }
    }

    fn charged(self, bytes: usize) -> Self {
        let charge = bytes.div_ceil(65_536).clamp(1, usize::from(u16::MAX)) as u16;
        Self { charge, ..self }
    }

    pub(super) fn op(&self, tree: TreeId) -> CompoundOp<'_> {
        let credit_charge = CreditCharge(self.charge);
        let body: &dyn Pack = match &self.body {
            Body::Create(request) => &**request,
            Body::Write(write) => write,
            Body::Other(body) => &**body,
        };
        CompoundOp { command: self.command, body, tree_id: Some(tree), credit_charge }
    }

    /// The command with the intent to back the entry up, if it opens one.
    pub(super) fn with_backup_intent(&self) -> Option<ChainStep<'static>> {
        let Body::Create(request) = &self.body else { return None };
        let mut request = request.clone();
        request.create_options |= OPEN_FOR_BACKUP_INTENT;
        Some(ChainStep { command: self.command, body: Body::Create(request), charge: self.charge })
    }

    fn create(path: &str, kind: OpenedKind, access: u32, disposition: CreateDisposition) -> Self {
        let of_kind = match kind {
            OpenedKind::File => NON_DIRECTORY_FILE,
            OpenedKind::Dir => DIRECTORY_FILE,
            OpenedKind::Any => 0,
        };
        let all =
            ShareAccess::FILE_SHARE_READ | ShareAccess::FILE_SHARE_WRITE | ShareAccess::FILE_SHARE_DELETE;
        let request = CreateRequest {
            requested_oplock_level: OplockLevel::None,
            impersonation_level: ImpersonationLevel::Impersonation,
            desired_access: Access::new(access),
            file_attributes: 0,
            share_access: ShareAccess(all),
            create_disposition: disposition,
            create_options: of_kind | OPEN_REPARSE_POINT,
            name: path.to_owned(),
            create_contexts: Vec::new(),
        };
        Self { command: Command::Create, body: Body::Create(Box::new(request)), charge: 1 }
    }

    /// Opens an existing entry.
    pub(super) fn open(path: &str, kind: OpenedKind, access: u32) -> Self {
        Self::create(path, kind, access, CreateDisposition::FileOpen)
    }

    /// Creates an entry that does not exist.
    pub(super) fn make(path: &str, kind: OpenedKind, access: u32) -> Self {
        Self::create(path, kind, access, CreateDisposition::FileCreate)
    }

    /// Opens an entry, or creates it.
    pub(super) fn open_or_make(path: &str, kind: OpenedKind, access: u32) -> Self {
        Self::create(path, kind, access, CreateDisposition::FileOpenIf)
    }

    /// Creates a file, or empties it.
    pub(super) fn make_empty(path: &str, access: u32) -> Self {
        Self::create(path, OpenedKind::File, access, CreateDisposition::FileOverwriteIf)
    }

    /// Writes; with `through`, the server answers when the bytes are on its disk.
    pub(super) fn write(offset: u64, data: &'a [u8], through: bool) -> Self {
        let flags = if through { SMB2_WRITEFLAG_WRITE_THROUGH } else { 0 };
        let body = Body::Write(BorrowedWrite { offset, flags, data });
        Self { command: Command::Write, body, charge: 1 }.charged(data.len())
    }

    /// Reads.
    pub(super) fn read(offset: u64, len: u32) -> Self {
        let request = ReadRequest {
            padding: 0x50,
            flags: 0,
            length: len,
            offset,
            file_id: FileId::SENTINEL,
            minimum_count: 0,
            channel: SMB2_CHANNEL_NONE,
            remaining_bytes: 0,
            read_channel_info: Vec::new(),
        };
        Self::new(Command::Read, request).charged(len as usize)
    }

    /// Asks for `bytes` of the names in a directory that match `pattern`, from where the last answer ended.
    pub(super) fn list(file_id: FileId, pattern: &str, bytes: u32) -> Self {
        let request = QueryDirectoryRequest {
            file_information_class: FileInformationClass::FileDirectoryInformation,
            flags: QueryDirectoryFlags(0),
            file_index: 0,
            file_id,
            output_buffer_length: bytes,
            file_name: pattern.to_owned(),
        };
        Self::new(Command::QueryDirectory, request).charged(bytes as usize)
    }

    fn set(class: u8, buffer: Vec<u8>) -> Self {
        let request = SetInfoRequest {
            info_type: InfoType::File,
            file_info_class: class,
            additional_information: 0,
            file_id: FileId::SENTINEL,
            buffer,
        };
        Self::new(Command::SetInfo, request)
    }

    /// Sets the times of creation, access and modification, and attributes; 0 leaves a value as it is.
    pub(super) fn set_basic([created, accessed, modified]: [u64; 3], attributes: u32) -> Self {
        let mut buffer = Vec::with_capacity(40);
        for time in [created, accessed, modified, 0] {
            buffer.extend(u64::to_le_bytes(time));
        }
        buffer.extend(attributes.to_le_bytes());
        buffer.extend([0; 4]);
        Self::set(BASIC, buffer)
    }

    /// Asks for these parts of the security descriptor.
    pub(super) fn security(parts: u32) -> Self {
        Self::query(InfoType::Security, 0, parts)
    }

    /// Asks for the names and lengths of the streams.
    pub(super) fn streams() -> Self {
        Self::query(InfoType::File, STREAMS, 0)
    }

    /// Asks for the size and the free space of the file system.
    pub(super) fn space() -> Self {
        Self::query(InfoType::Filesystem, SPACE, 0)
    }

    /// Asks for the data of the open reparse point.
    pub(super) fn reparse_point() -> Self {
        Self::control(GET_REPARSE_POINT, MOST as u32, Vec::new())
    }

    /// Makes the open entry, which is new, a reparse point.
    pub(super) fn set_reparse_point(point: &ReparsePoint) -> Self {
        Self::control(SET_REPARSE_POINT, 0, point.bytes().to_vec())
    }

    fn control(code: u32, most: u32, input: Vec<u8>) -> Self {
        let request = IoctlRequest {
            ctl_code: code,
            file_id: FileId::SENTINEL,
            max_input_response: 0,
            max_output_response: most,
            flags: SMB2_0_IOCTL_IS_FSCTL,
            input_data: input,
        };
        Self::new(Command::Ioctl, request)
    }

    fn query(info_type: InfoType, class: u8, parts: u32) -> Self {
        let request = QueryInfoRequest {
            info_type,
            file_info_class: class,
            output_buffer_length: INFO_LEN,
            additional_information: parts,
            flags: 0,
            file_id: FileId::SENTINEL,
            input_buffer: Vec::new(),
        };
        Self::new(Command::QueryInfo, request)
    }

    /// Sets these parts of the security descriptor.
    pub(super) fn set_security(parts: u32, buffer: Vec<u8>) -> Self {
        let request = SetInfoRequest {
            info_type: InfoType::Security,
            file_info_class: 0,
            additional_information: parts,
            file_id: FileId::SENTINEL,
            buffer,
        };
        Self::new(Command::SetInfo, request)
    }

    /// Sets the length.
    pub(super) fn set_len(len: u64) -> Self {
        Self::set(END_OF_FILE, len.to_le_bytes().to_vec())
    }

    /// Renames to a path on the share; with `replaces`, in the place of a file that has it.
    pub(super) fn rename(to: &str, replaces: bool) -> Self {
        Self::set(RENAME, name_buffer(to, replaces))
    }

    /// Makes another name of the file; with `replaces`, in the place of a file that has it.
    pub(super) fn link(to: &str, replaces: bool) -> Self {
        Self::set(LINK, name_buffer(to, replaces))
    }

    /// Removes the open entry.
    pub(super) fn remove() -> Self {
        Self::set(DISPOSITION, vec![1])
    }

    /// Closes the entry that the chain opened, and asks for its attributes.
    pub(super) fn close() -> Self {
        Self::close_of(FileId::SENTINEL)
    }

    /// Closes a handle.
    pub(super) fn close_of(file_id: FileId) -> Self {
        let flags = SMB2_CLOSE_FLAG_POSTQUERY_ATTRIB;
        Self::new(Command::Close, CloseRequest { flags, file_id })
    }
}

/// The new name of a rename or link.
fn name_buffer(to: &str, replaces: bool) -> Vec<u8> {
    let name: Vec<u8> = to.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut buffer = vec![u8::from(replaces), 0, 0, 0, 0, 0, 0, 0];
    buffer.extend([0; 8]);
    buffer.extend((name.len() as u32).to_le_bytes());
    buffer.extend(name);
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_as_the_library_packs_it() {
        for data in [&b""[..], b"some content"] {
            let packed = |request: &dyn Pack| {
                let mut cursor = WriteCursor::new();
                request.pack(&mut cursor);
                cursor.into_inner()
            };
            let known = WriteRequest {
                data_offset: 64 + 48,
                offset: 1 << 40,
                file_id: FileId::SENTINEL,
                channel: 0,
                remaining_bytes: 0,
                write_channel_info_offset: 0,
                write_channel_info_length: 0,
                flags: SMB2_WRITEFLAG_WRITE_THROUGH,
                data: data.to_vec(),
            };
            let borrowed = BorrowedWrite { offset: 1 << 40, flags: SMB2_WRITEFLAG_WRITE_THROUGH, data };
            assert_eq!(packed(&borrowed), packed(&known));
        }
    }
}
