//! The changes that a part of a message can have.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use super::parts::{MessageField, PartShape, varint};
use super::samples;

/// Bytes of a body at most, with room for a header.
const MOST: usize = haul_wire::MAX_BODY - 100;

/// A change: its name, and the bytes that the part becomes.
pub(crate) type PartChange = (String, Vec<u8>);

/// The texts that replace a text or a name.
fn words() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("empty", Vec::new()),
        ("dot", b".".to_vec()),
        ("dotdot", b"..".to_vec()),
        ("up", b"../canary/new".to_vec()),
        ("up-inside", b"dir/../../canary/new".to_vec()),
        ("absolute", b"/canary-of-haul".to_vec()),
        ("slashes", b"a//b/".to_vec()),
        ("nul", b"a\0b".to_vec()),
        ("escape", "\x1b]0;t\x07\x1b[2J\u{9b}31m\r\nhaul: all there\u{202e}\x7f".into()),
        ("staging", b".haul-0123456789abcdef.part".to_vec()),
        ("journal", b"dir/.haul-0123456789abcdef.journal".to_vec()),
        ("security", b"security.selinux".to_vec()),
        ("capability", b"security.capability".to_vec()),
        ("trusted", b"trusted.overlay.opaque".to_vec()),
        ("acl", b"system.posix_acl_access".to_vec()),
        ("no-text", b"\xff\xfe\x80".to_vec()),
        ("long", vec![b'x'; 300]),
        ("longer", vec![b'x'; 70_000]),
        ("deep", b"d/".repeat(40_000)[..79_999].to_vec()),
        ("vast", b"y/".repeat(400_000)[..799_999].to_vec()),
        ("huge", vec![b'z'; 3 << 20]),
    ]
}

/// The message with a part replaced.
pub(crate) fn replaced(body: &[u8], at: &Range<usize>, with: &[u8]) -> Vec<u8> {
    [&body[..at.start], with, &body[at.end..]].concat()
}

/// Everything that a part can be changed to, in this message.
pub(crate) fn changes(part: &MessageField, body: &[u8]) -> Vec<PartChange> {
    let now = &body[part.at.clone()];
    let mut all: Vec<PartChange> = match &part.shape {
        PartShape::Bool => named([("other", vec![now[0] ^ 1]), ("2", vec![2]), ("255", vec![255])]),
        PartShape::Byte => named([
            ("0", vec![0]),
            ("255", vec![255]),
            ("+1", vec![now[0].wrapping_add(1)]),
            ("7f", vec![0x7f]),
        ]),
        PartShape::Number { bits, signed, value } => numbers(part, *bits, *signed, *value),
        PartShape::Text { head } => texts(now, *head),
        PartShape::List { elements } => list(body, now, elements, part.at.start),
        PartShape::Option { some } => {
            let mut all = named([("2", [&[2], &now[1..]].concat())]);
            if *some {
                all.push(("nothing".to_owned(), vec![0]));
            }
            all
        }
        PartShape::Choice { variants, chosen } => {
            let rest = &now[varint(u128::from(*chosen)).len()..];
            let tag = |number: usize| [&varint(number as u128)[..], rest].concat();
            let mut all: Vec<PartChange> =
                variants.iter().enumerate().map(|(at, name)| (format!("tag-{name}"), tag(at))).collect();
            all.extend(named([("tag-unknown", tag(variants.len())), ("tag-huge", tag(u32::MAX as usize))]));
            all
        }
    };
    // The values of this part in the samples: other variants, and something in the place of nothing.
    if !matches!(part.shape, PartShape::Byte | PartShape::Number { .. } | PartShape::Bool) {
        let room = MOST - body.len().min(MOST);
        let others = donors().get(&part.key).into_iter().flatten();
        all.extend(others.filter(|(_, bytes)| bytes.len() < room).cloned());
    }
    all.retain(|(_, bytes)| bytes != now);
    all
}

fn named<const N: usize>(all: [(&str, Vec<u8>); N]) -> Vec<PartChange> {
    all.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect()
}

fn numbers(part: &MessageField, bits: u32, signed: bool, value: u128) -> Vec<PartChange> {
    let most = if bits == 128 { u128::MAX } else { (1 << bits) - 1 };
    let to = |value: u128| varint(value & most);
    let mut all = named([
        ("0", to(0)),
        ("1", to(1)),
        ("2", to(2)),
        ("+1", to(value.wrapping_add(1))),
        ("-1", to(value.wrapping_sub(1))),
        ("max", to(most)),
        ("max-1", to(most - 1)),
        ("half", to(1 << (bits - 1))),
        ("large", to(1 << (bits * 5 / 8))),
        // Longer than any number may be.
        ("wide", vec![0xff; 30]),
    ]);
    if bits < 128 {
        all.push(("over".to_owned(), varint(most + 1)));
    }
    if signed {
        // In zigzag `max` is the lowest and `max-1` the highest.
        all.push(("minus-2".to_owned(), to(3)));
    }
    if part.key.ends_with(".mode") {
        all.extend(named([("suid", to(0o6777)), ("file", to(0o100_644)), ("none", to(0o1000))]));
    }
    if part.key.ends_with(".nsec") {
        // `UTIME_NOW` and `UTIME_OMIT` of utimensat(2), and a whole second.
        all.extend(named([
            ("now", to(0x3fff_ffff)),
            ("omit", to(0x3fff_fffe)),
            ("second", to(1_000_000_000)),
        ]));
    }
    if part.key.ends_with(".len") {
        all.extend(named([("slice", to(4 << 20)), ("slice+1", to((4 << 20) + 1)), ("tera", to(1 << 40))]));
    }
    all
}

fn texts(now: &[u8], head: usize) -> Vec<PartChange> {
    let text = &now[head..];
    let with = |text: &[u8]| [&varint(text.len() as u128)[..], text].concat();
    let told = |len: u128| [&varint(len)[..], text].concat();
    let len = text.len() as u128;
    let mut all: Vec<PartChange> =
        words().iter().map(|(name, word)| ((*name).to_owned(), with(word))).collect();
    all.extend(named([
        ("more", with(&[text, b"a"].concat())),
        ("less", with(&text[..text.len().saturating_sub(1)])),
        ("told+1", told(len + 1)),
        ("told-1", told(len.saturating_sub(1))),
        ("told-max", told(u128::from(u64::MAX))),
        ("told-4g", told(1 << 32)),
    ]));
    let mut flipped = text.to_vec();
    if let Some(byte) = flipped.first_mut() {
        *byte ^= 1;
        all.push(("other".to_owned(), with(&flipped)));
    }
    all
}

fn list(body: &[u8], now: &[u8], elements: &[Range<usize>], start: usize) -> Vec<PartChange> {
    let count = elements.len() as u128;
    let head = elements.first().map_or(now.len(), |first| first.start - start);
    let with = |chosen: &[&Range<usize>]| {
        let bytes: Vec<&[u8]> = chosen.iter().map(|at| &body[(*at).clone()]).collect();
        [&varint(chosen.len() as u128)[..], &bytes.concat()].concat()
    };
    let told = |count: u128| [&varint(count)[..], &now[head..]].concat();
    let all: Vec<&Range<usize>> = elements.iter().collect();
    let mut changes = named([
        ("none", with(&[])),
        ("turned", with(&all.iter().rev().copied().collect::<Vec<_>>())),
        ("told+1", told(count + 1)),
        ("told-1", told(count.saturating_sub(1))),
        ("told-0", told(0)),
        ("told-max", told(u128::from(u64::MAX))),
        ("told-4g", told(1 << 32)),
    ]);
    let Some(last) = all.last() else { return changes };
    let doubled: Vec<&Range<usize>> = all.iter().chain(&[*last]).copied().collect();
    let room = MOST.saturating_sub(body.len());
    let fits = (room / last.len().max(1)).min(3_000_000);
    let repeated = |count: usize| [&varint(count as u128)[..], &body[(*last).clone()].repeat(count)].concat();
    changes.extend(named([
        ("less", with(&all[..all.len() - 1])),
        ("twice", with(&doubled)),
        ("first-for-all", with(&vec![all[0]; all.len()])),
        ("many", repeated(fits.min(2500))),
        ("vast", repeated(fits)),
    ]));
    changes
}

/// The values of each part in the samples: a name and its bytes.
fn donors() -> &'static BTreeMap<String, Vec<PartChange>> {
    static DONORS: OnceLock<BTreeMap<String, Vec<PartChange>>> = OnceLock::new();
    DONORS.get_or_init(|| {
        let mut donors: BTreeMap<String, Vec<PartChange>> = BTreeMap::new();
        for (body, parts) in samples::all() {
            for part in parts {
                let name = match &part.shape {
                    PartShape::Choice { variants, chosen } => format!("as-{}", variants[*chosen as usize]),
                    PartShape::Option { some: true } => "something".to_owned(),
                    PartShape::List { elements } if !elements.is_empty() => "sample".to_owned(),
                    _ => continue,
                };
                let known = donors.entry(part.key).or_default();
                if !known.iter().any(|(other, _)| *other == name) {
                    known.push((name, body[part.at].to_vec()));
                }
            }
        }
        donors
    })
}
