//! Streams as programs write them, and streams that lie.

use std::process::Command;

use haul_core::{EntryKind, SLICE_LEN};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, proptest};

use crate::index::{MemberIndex, StreamFormat, crc32};
use crate::{IndexFault, Scanner, decode};

/// Scans a stream in pieces of these lengths, in turn.
fn scan(stream: &[u8], lens: &[usize]) -> Result<MemberIndex, IndexFault> {
    let mut scanner = Scanner::default();
    let mut rest = stream;
    for len in lens.iter().cycle() {
        let (piece, left) = rest.split_at((*len).clamp(1, rest.len().max(1)).min(rest.len()));
        scanner.push(piece);
        rest = left;
        if rest.is_empty() {
            break;
        }
    }
    scanner.finish(&[]).map(|packed| decode(&packed).unwrap())
}

fn whole(stream: &[u8]) -> Result<MemberIndex, IndexFault> {
    scan(stream, &[1 << 20])
}

/// The content of a member as the index finds it, checked.
fn content(stream: &[u8], index: &MemberIndex, path: &str) -> Vec<u8> {
    let member = index.members.iter().find(|member| member.head.path.as_bytes() == path.as_bytes()).unwrap();
    let mut out = vec![0; member.len as usize];
    for piece in &member.pieces {
        let bytes = &stream[piece.at as usize..][..piece.len as usize];
        assert!(piece.proves(bytes));
        out[piece.start as usize..][..bytes.len()].copy_from_slice(bytes);
    }
    out
}

fn chunk(kind: u8, path: &str, offset: u64, map: &[(u32, u32)], payload: &[u8]) -> Vec<u8> {
    let mut out = b"XBSTCK01\0".to_vec();
    out.push(kind);
    out.extend((path.len() as u32).to_le_bytes());
    out.extend(path.as_bytes());
    if kind == b'E' {
        return out;
    }
    if kind == b'S' {
        out.extend((map.len() as u32).to_le_bytes());
    }
    let map: Vec<u8> =
        map.iter().flat_map(|(skip, len)| [skip.to_le_bytes(), len.to_le_bytes()].concat()).collect();
    out.extend((payload.len() as u64).to_le_bytes());
    out.extend(offset.to_le_bytes());
    out.extend(crc32(&[&map, payload].concat()).to_le_bytes());
    out.extend(map);
    out.extend(payload);
    out
}

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at / 7 + at % 251) as u8 ^ seed).collect()
}

#[test]
fn chunks_of_two_files_are_found_whatever_the_pieces() {
    let (a, b) = (bytes(5 << 20, 1), bytes(3 << 20, 2));
    let sparse = chunk(b'S', "c.ibd", 0, &[(0, 5), (9000, 7), (11, 0)], b"abcdefghijkl");
    let stream = [
        chunk(b'P', "./db/a.ibd", 0, &[], &a[..2 << 20]),
        chunk(b'P', "b", 0, &[], &b),
        sparse,
        chunk(b'P', "./db/a.ibd", 2 << 20, &[], &a[2 << 20..]),
        chunk(b'E', "b", 0, &[], &[]),
        chunk(b'E', "./db/a.ibd", 0, &[], &[]),
        chunk(b'E', "c.ibd", 0, &[], &[]),
        chunk(b'P', "empty", 0, &[], &[]),
        chunk(b'E', "empty", 0, &[], &[]),
    ]
    .concat();
    let index = whole(&stream).unwrap();
    assert_eq!(
        (index.format, index.len, index.members.len()),
        (StreamFormat::Xbstream, stream.len() as u64, 4)
    );
    assert!(content(&stream, &index, "db/a.ibd") == a && content(&stream, &index, "b") == b);
    assert_eq!(content(&stream, &index, "empty"), b"");
    let c = content(&stream, &index, "c.ibd");
    assert_eq!((c.len(), &c[..5], &c[9005..9012]), (9023, &b"abcde"[..], &b"fghijkl"[..]));
    assert_eq!(index.members[2].allocated(), 12);
    for lens in [&[1000][..], &[1, 13, 100_000], &[SLICE_LEN as usize]] {
        assert_eq!(scan(&stream, lens).unwrap(), index);
    }
}

#[test]
fn streams_that_lie_have_no_index_and_say_why() {
    let good = [chunk(b'P', "a", 0, &[], b"hello"), chunk(b'E', "a", 0, &[], &[])].concat();
    assert!(whole(&good).is_ok());
    let said = |stream: &[u8]| whole(stream).unwrap_err().to_string();
    assert!(said(&good[..good.len() - 3]).contains("ends inside a chunk"));
    assert!(said(&good[..30]).contains("ends inside a chunk"));
    assert!(said(&chunk(b'P', "a", 0, &[], b"hello")).contains("before the end of its file a"));
    let mut long = good.clone();
    long[15] = 9;
    assert!(said(&long).contains("lies about its length"), "{}", said(&long));
    let mut bad = good.clone();
    bad[14 + 1 + 20] ^= 1;
    assert!(said(&bad).contains("a: a chunk is damaged"));
    for name in ["../x", "/etc/passwd", "a/../../x", "."] {
        let stream = [chunk(b'P', name, 0, &[], b"x"), chunk(b'E', name, 0, &[], &[])].concat();
        assert!(said(&stream).contains("not below the directory"), "{name}");
    }
    let twice = [chunk(b'P', "a", 0, &[], b"x"), chunk(b'P', "a", 0, &[], b"y")].concat();
    assert!(said(&twice).contains("two chunks are for one offset"));
    let missing = [chunk(b'P', "a", 0, &[], b"x"), chunk(b'P', "a", 2, &[], b"y")].concat();
    assert!(said(&missing).contains("a chunk is missing"));
    assert!(said(&[&good[..], &good].concat()).contains("two files have this name"));
    let below = [good.clone(), chunk(b'P', "a/b", 0, &[], b"x"), chunk(b'E', "a/b", 0, &[], &[])].concat();
    assert!(said(&below).contains("it is below a, which is not a directory"));
    assert!(said(&chunk(b'S', "a", 0, &[(0, 99)], b"x")).contains("lies about its length"));
    let mut other = good.clone();
    other[9] = b'N';
    assert!(matches!(whole(&other), Err(IndexFault::Unsupported(0, _))));
    assert_eq!(whole(b""), Err(IndexFault::Unknown));
    assert_eq!(whole(&[0; 4096]), Err(IndexFault::Unknown));
    assert_eq!(whole(&bytes(4096, 0)), Err(IndexFault::Unknown));
}

/// Runs a script in a directory of its own, and returns its output.
fn written(script: &str) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let ended = Command::new("bash").args(["-ec", script]).current_dir(directory.path()).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    ended.stdout
}

#[test]
fn tar_of_every_format_is_understood() {
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(130));
    let make = format!(
        "mkdir -p {d}; echo hi > {long}; printf x > small; : > empty; ln -s small link; ln small hard
         mkfifo pipe; truncate -s 9M sparse; printf data | dd of=sparse bs=1 seek=5000000 conv=notrunc status=none
         head -c 9000000 /dev/zero | tr '\\0' 'y' > large",
        d = "d".repeat(120)
    );
    for options in
        ["--format=gnu -S", "--format=pax -S", "--format=pax --sparse-version=0.1 -S", "--format=gnu"]
    {
        let stream = written(&format!("{make}; tar {options} -c --sort=name -f - *"));
        let index = scan(&stream, &[4096, 5, 100_000]).unwrap();
        assert_eq!(index.format, StreamFormat::Tar);
        let find = |path: &str| {
            index.members.iter().find(|member| member.head.path.as_bytes() == path.as_bytes()).unwrap()
        };
        assert_eq!(content(&stream, &index, &long), b"hi\n", "{options}");
        assert_eq!(content(&stream, &index, "large"), vec![b'y'; 9_000_000]);
        let mut sparse = vec![0; 9 << 20];
        sparse[5_000_000..5_000_004].copy_from_slice(b"data");
        assert!(content(&stream, &index, "sparse") == sparse, "{options}");
        assert_eq!(find("sparse").allocated() < 1 << 20, options.contains("-S"), "{options}");
        assert_eq!(find("link").head.kind, EntryKind::Symlink(b"small".to_vec()));
        assert_eq!(find("pipe").head.kind, EntryKind::Fifo);
        assert_eq!(find("small").head.link.as_ref().unwrap().as_bytes(), b"hard");
        assert_eq!(find("empty").len, 0);
        let metadata = find("hard").head.metadata.as_ref().unwrap();
        assert_eq!((metadata.mode, metadata.mtime.sec > 1_600_000_000), (0o644, true));
        assert_eq!(metadata.mtime.nsec > 0, options.contains("pax"));
    }
}

#[test]
fn tar_that_lies_has_no_index_and_says_why() {
    let said = |script: &str| whole(&written(script)).unwrap_err().to_string();
    assert!(said("touch x; tar -P -cf - ../$(basename $PWD)/x").contains("not below the directory"));
    assert!(said("touch x; tar -P -cf - $PWD/x").contains("not below the directory"));
    assert!(said("head -c 99999 /dev/zero > x; tar -cf - x | head -c 50000").contains("before its end mark"));
    let linked = "ln -s /etc a; tar -cf 1 a; rm a; mkdir a; touch a/x; tar -rf 1 a/x; cat 1";
    assert!(said(linked).contains("it is below a, which is not a directory"));
    let mut damaged = written("head -c 99999 /dev/zero > x; touch y; tar -cf - x y");
    let second = 512 + 100_352;
    damaged[second] ^= 1;
    assert!(whole(&damaged).unwrap_err().to_string().contains("no header where one has to begin"));
    // The last of several members with one name counts, as in tar.
    let stream = written("echo 1 > x; tar -cf 1 x; echo two > x; tar -rf 1 x; cat 1");
    let index = whole(&stream).unwrap();
    assert_eq!((index.members.len(), &content(&stream, &index, "x")[..]), (1, &b"two\n"[..]));
}

#[test]
fn an_index_survives_no_change() {
    let stream = [chunk(b'P', "a", 0, &[], &bytes(9 << 20, 3)), chunk(b'E', "a", 0, &[], &[])].concat();
    let mut scanner = Scanner::default();
    scanner.push(&stream);
    let packed = scanner.finish(&[7, 9]).unwrap();
    assert_eq!(decode(&packed).unwrap().frames, [7, 9]);
    for len in 0..packed.len() {
        assert!(decode(&packed[..len]).is_err());
    }
    assert!(decode(b"").is_err() && decode(b"nonsense").is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_scanned_in_any_pieces_alike(
        noise in vec(any::<u8>(), 0..600),
        at in any::<u16>(),
        lens in vec(1_usize..2000, 1..5),
        tar in any::<bool>(),
    ) {
        let mut stream = if tar {
            let mut block = vec![0; 512];
            block[..4].copy_from_slice(b"file");
            block[100..107].copy_from_slice(b"0000644");
            block[124..135].copy_from_slice(b"00000000700");
            let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum::<u64>() + 8 * 32;
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            [block, vec![b'x'; 512], vec![0; 1024]].concat()
        } else {
            [chunk(b'S', "a", 0, &[(5, 600)], &[3; 600]), chunk(b'E', "a", 0, &[], &[])].concat()
        };
        prop_assert!(whole(&stream).is_ok());
        let at = usize::from(at) % stream.len();
        stream.splice(at.., noise);
        prop_assert!(scan(&stream, &lens) == whole(&stream));
    }

    #[test]
    fn any_bytes_may_be_an_index(noise in vec(any::<u8>(), 0..300)) {
        let packed = zstd::encode_all(&noise[..], 1).unwrap();
        let _ = (decode(&noise), decode(&packed));
    }
}
