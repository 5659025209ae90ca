use super::cache::{BLOCK, DiskCache, DiskFailed, DiskFault, DiskOp, Keep, Trigger};

const ONE: [u8; BLOCK] = [1; BLOCK];
const TWO: [u8; BLOCK] = [2; BLOCK];

fn disk() -> DiskCache {
    DiskCache::new(16 * BLOCK as u64)
}

fn first_byte(disk: &mut DiskCache, block: usize) -> u8 {
    disk.read((block * BLOCK) as u64, 1).unwrap()[0]
}

#[test]
fn flushed_data_survives_a_cut_and_the_rest_is_lost() {
    let mut disk = disk();
    disk.write(0, &ONE).unwrap();
    disk.flush().unwrap();
    disk.write(0, &TWO).unwrap();
    disk.write(BLOCK as u64, &TWO).unwrap();
    assert_eq!((first_byte(&mut disk, 0), first_byte(&mut disk, 1)), (2, 2));
    disk.cut_now(Keep::None);
    assert_eq!(disk.read(0, 1), Err(DiskFailed));
    assert_eq!(disk.write(0, &ONE), Err(DiskFailed));
    assert_eq!(disk.flush(), Err(DiskFailed));
    disk.power_on();
    assert_eq!((first_byte(&mut disk, 0), first_byte(&mut disk, 1)), (1, 0));
}

#[test]
fn a_cut_keeps_the_writes_that_it_is_told_to() {
    let kept = |keep: Keep| {
        let mut disk = disk();
        for block in 0..16 {
            disk.write((block * BLOCK) as u64, &ONE).unwrap();
        }
        disk.cut_now(keep);
        disk.power_on();
        (0..16).filter(|block| first_byte(&mut disk, *block) == 1).collect::<Vec<_>>()
    };
    assert_eq!(kept(Keep::All), (0..16).collect::<Vec<_>>());
    assert_eq!(kept(Keep::First(3)), [0, 1, 2]);
    assert_eq!(kept(Keep::NoContent), (0..16).collect::<Vec<_>>());
    assert_eq!(kept(Keep::Random(5)), kept(Keep::Random(5)));
    let sizes = (0..40).map(|seed| kept(Keep::Random(seed)).len());
    assert!(sizes.clone().any(|size| size < 8) && sizes.clone().any(|size| size > 8));
}

#[test]
fn a_cut_can_lose_content_alone() {
    let mut disk = disk();
    let mut content = vec![0; BLOCK];
    crate::content::fill(3, 0, &mut content);
    disk.write(0, &content).unwrap();
    disk.write(BLOCK as u64, &ONE).unwrap();
    disk.cut_now(Keep::NoContent);
    disk.power_on();
    assert_eq!((first_byte(&mut disk, 0), first_byte(&mut disk, 1)), (0, 1));
}

#[test]
fn an_older_write_of_a_block_can_survive_a_newer_one() {
    let mut disk = disk();
    disk.write(0, &ONE).unwrap();
    disk.write(0, &TWO).unwrap();
    disk.cut_now(Keep::First(1));
    disk.power_on();
    assert_eq!(first_byte(&mut disk, 0), 1);
}

#[test]
fn the_power_goes_at_the_operation_that_is_named() {
    let mut disk = disk();
    disk.cut_at(Trigger::Write(2), Keep::All);
    disk.write(0, &ONE).unwrap();
    disk.flush().unwrap();
    assert_eq!(disk.write(0, &TWO), Err(DiskFailed));
    assert!(disk.is_off());
    disk.power_on();
    assert_eq!(first_byte(&mut disk, 0), 2, "the write is kept, though nobody was told");
    disk.cut_at(Trigger::Flush(1), Keep::None);
    disk.write(0, &ONE).unwrap();
    assert_eq!(disk.flush(), Err(DiskFailed));
    disk.power_on();
    assert_eq!(first_byte(&mut disk, 0), 2, "a flush that was cut is not done");
    disk.write(0, &ONE).unwrap();
    disk.flush().unwrap();
}

#[test]
fn the_operations_fail_that_are_told_to() {
    let mut disk = disk();
    disk.add(DiskFault::of(DiskOp::Write).skip(1).times(2));
    let results: Vec<bool> = (0..5).map(|_| disk.write(0, &ONE).is_ok()).collect();
    assert_eq!(results, [true, false, false, true, true]);
    disk.add(DiskFault::of(DiskOp::Read).bytes(4 * BLOCK as u64..5 * BLOCK as u64));
    assert!(disk.read(0, 4 * BLOCK).is_ok());
    assert!(disk.read(0, 4 * BLOCK + 1).is_err());
    assert!(disk.read(5 * BLOCK as u64, 1).is_ok());
    disk.add(DiskFault::of(DiskOp::Flush).times(1));
    assert!(disk.flush().is_err() && disk.flush().is_ok());
    disk.heal();
    assert!(disk.read(0, 16 * BLOCK).is_ok());
    assert_eq!(disk.counts().failed, 4);
}

#[test]
fn content_is_told_from_metadata() {
    let mut disk = disk();
    disk.add(DiskFault::of(DiskOp::Write).content_only());
    let mut random = vec![0; BLOCK];
    crate::content::fill(3, 0, &mut random);
    assert!(disk.write(0, &random).is_err());
    assert!(disk.write(0, &random[8..]).is_ok(), "other random bytes");
    assert!(disk.write(0, &[&ONE[..], &random[..100]].concat()).is_err(), "part of a block");
}

#[test]
fn parts_of_blocks_are_written_and_read() {
    let mut disk = disk();
    disk.write(100, &ONE).unwrap();
    disk.write(BLOCK as u64 - 2, &[7, 8, 9, 10]).unwrap();
    let read = disk.read(0, 2 * BLOCK).unwrap();
    assert_eq!(read[99..101], [0, 1]);
    assert_eq!(read[BLOCK - 3..BLOCK + 3], [1, 7, 8, 9, 10, 1]);
    assert_eq!(read[BLOCK + 99..BLOCK + 101], [1, 0]);
    assert!(disk.write(16 * BLOCK as u64 - 1, &[1, 2]).is_err(), "beyond the end");
}
