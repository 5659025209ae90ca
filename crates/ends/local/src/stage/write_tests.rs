//! Tests of writing slices.

use haul_core::{ChainingValue, EntryKind, Extent, RelPath};

use super::*;

fn data(extents: Vec<Extent>) -> SliceData {
    SliceData { extents, value: ChainingValue::default() }
}

#[test]
fn a_slice_is_written_over_other_content() {
    let over = |is_dirty, same| {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[b'o'; 9], 0).unwrap();
        let unchanged = Extent { start: 5, len: 2, same: true };
        let data = data(vec![Extent::data(1, 2), unchanged]);
        let content: &[u8] = if same == Same::NotSent { b"ne" } else { b"newS" };
        let output = OutputFile { ops: &Ops::default(), file: &file, is_remote: false };
        overwrite(&output, (0, 8), &data, content, Over { is_dirty, same }).unwrap();
        let mut bytes = [0; 9];
        file.read_exact_at(&mut bytes, 0).unwrap();
        String::from_utf8(bytes.to_vec()).unwrap().replace('\0', ".")
    };
    assert_eq!(over(true, Same::Missing), ".ne..wS.o");
    assert_eq!(over(true, Same::InPlace), ".ne..oo.o");
    assert_eq!(over(true, Same::NotSent), ".ne..oo.o");
    assert_eq!(over(false, Same::Missing), "oneoowSoo");
}

#[test]
fn a_whole_file_gets_its_length_and_missing_content_is_an_error() {
    let entry = Entry::new(RelPath::new(b"f").unwrap(), EntryKind::File, 10);
    let write = |content: &[u8]| {
        let file = tempfile::tempfile().unwrap();
        let data = data(vec![Extent::data(2, 3)]);
        let output = OutputFile { ops: &Ops::default(), file: &file, is_remote: false };
        write_whole(&output, &entry, &data, content).map(|()| file)
    };
    let file = write(b"abc").unwrap();
    let mut bytes = [1; 10];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"\0\0abc\0\0\0\0\0");
    assert_eq!(file.metadata().unwrap().len(), 10);
    assert_eq!(write(b"ab").unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn pieces_follow_each_other() {
    let len = PIECE as u64 * 2 + 5;
    let content: Vec<u8> = (0..len).map(|at| (at / 3 % 251) as u8).collect();
    let entry = Entry::new(RelPath::new(b"f").unwrap(), EntryKind::File, len + 1);
    for is_remote in [false, true] {
        let file = tempfile::tempfile().unwrap();
        let output = OutputFile { ops: &Ops::default(), file: &file, is_remote };
        write_whole(&output, &entry, &data(vec![Extent::data(1, len as u32)]), &content).unwrap();
        output.write_back(0, len);
        let mut bytes = vec![0; content.len()];
        file.read_exact_at(&mut bytes, 1).unwrap();
        assert!(bytes == content);
    }
}
