//! Tests of staging.

use haul_core::Extent;

use super::*;

#[test]
fn a_slice_is_written_over_something_else() {
    let over = |is_dirty, same| {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[b'o'; 9], 0).unwrap();
        let kept = Extent { start: 5, len: 2, same: true };
        let extents = vec![Extent::data(1, 2), kept];
        let data = SliceData { extents, value: haul_core::ChainingValue::default() };
        let content: &[u8] = if same == Same::LeftOut { b"ne" } else { b"newS" };
        overwrite(&Ops::default(), &file, (0, 8), &data, content, Over { is_dirty, same }).unwrap();
        let mut bytes = [0; 9];
        file.read_exact_at(&mut bytes, 0).unwrap();
        String::from_utf8(bytes.to_vec()).unwrap().replace('\0', ".")
    };
    assert_eq!(over(true, Same::Missing), ".ne..wS.o");
    assert_eq!(over(true, Same::There), ".ne..oo.o");
    assert_eq!(over(true, Same::LeftOut), ".ne..oo.o");
    assert_eq!(over(false, Same::Missing), "oneoowSoo");
}
