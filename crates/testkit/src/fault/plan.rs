//! The faults of a run, in a file.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteDirection {
    /// From the local end to the remote one.
    Up,
    /// From the remote end to the local one.
    Down,
}

/// A selection of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All connections.
    All,
    /// The connection with this number, from 1.
    Only(u32),
    /// The connection with this number and all later ones.
    From(u32),
}

/// The first bytes of each frame of haul. They mark the headers in the stream.
pub const FRAME_MARK: [u8; 4] = [0x89, b'h', b'l', 1];

/// The file of a plan that grows by one byte for each flipped byte.
pub(super) const FLIPS: &str = "flips";

/// A fault. Offsets count from the first byte of the connection in its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkFault {
    /// Flips the byte at this offset.
    Flip(u64),
    /// Flips a byte in the header of this frame, counted from 1. A frame begins with [`FRAME_MARK`].
    FlipHeader(u64),
    /// Cuts the connection after this many bytes.
    Cut(u64),
    /// Stalls this direction after this many bytes.
    Stall(u64),
    /// Limits the rate in bytes per second.
    Rate(u64),
    /// Delays each block by this many milliseconds.
    Delay(u64),
    /// Refuses the connection like an ssh that cannot log in.
    Refuse,
}

/// The faults of a run, and the way to its remote end.
#[derive(Clone, Debug)]
pub struct FaultPlan {
    dir: PathBuf,
    rules: Vec<(Which, ByteDirection, LinkFault)>,
    pub(super) through: Option<String>,
}

impl FaultPlan {
    /// A plan without faults. It creates the directory `dir` for its files.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        fs::create_dir_all(&dir).unwrap_or_else(|error| panic!("cannot make {dir:?}: {error}"));
        let plan = Self { dir, rules: Vec::new(), through: None };
        plan.save();
        plan
    }

    /// Adds a fault.
    #[must_use]
    pub fn with(mut self, which: Which, direction: ByteDirection, fault: LinkFault) -> Self {
        self.rules.push((which, direction, fault));
        self.save();
        self
    }

    /// Limits each direction of each connection to `bytes` per second.
    #[must_use]
    pub fn slow(self, bytes: u64) -> Self {
        self.with(Which::All, ByteDirection::Up, LinkFault::Rate(bytes)).with(
            Which::All,
            ByteDirection::Down,
            LinkFault::Rate(bytes),
        )
    }

    /// Connects to the remote end with this ssh command instead of a local shell.
    #[must_use]
    pub fn through(mut self, ssh: impl Into<String>) -> Self {
        self.through = Some(ssh.into());
        self.save();
        self
    }

    /// The directory of its files.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The number of flipped bytes on all connections.
    #[must_use]
    pub fn flipped(&self) -> u64 {
        fs::metadata(self.dir.join(FLIPS)).map_or(0, |meta| meta.len())
    }

    /// The number of connections so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        let named = |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(b"connection-");
        fs::read_dir(&self.dir).unwrap().filter(|entry| entry.as_ref().is_ok_and(named)).count()
    }

    /// Forgets earlier connections: the next one has the number 1.
    pub fn restart(&self) {
        for number in 1..=self.connections() {
            // A test may have removed the file of a number.
            let _ = fs::remove_file(self.dir.join(format!("connection-{number}")));
        }
    }

    fn save(&self) {
        fs::write(self.dir.join("plan"), self.to_string()).unwrap();
    }

    pub(super) fn parse(dir: &Path, text: &str) -> Option<Self> {
        let mut plan = Self { dir: dir.to_owned(), rules: Vec::new(), through: None };
        for line in text.lines() {
            if let Some(ssh) = line.strip_prefix("through ") {
                plan.through = Some(ssh.to_owned());
                continue;
            }
            let mut words = line.split(' ');
            let which = words.next()?;
            let which = match which.strip_suffix('+') {
                None if which == "*" => Which::All,
                None => Which::Only(which.parse().ok()?),
                Some(from) => Which::From(from.parse().ok()?),
            };
            let direction = if words.next()? == "up" { ByteDirection::Up } else { ByteDirection::Down };
            let (verb, number) = (words.next()?, words.next()?.parse().ok()?);
            let fault = match verb {
                "flip" => LinkFault::Flip(number),
                "flip-header" => LinkFault::FlipHeader(number),
                "cut" => LinkFault::Cut(number),
                "stall" => LinkFault::Stall(number),
                "rate" => LinkFault::Rate(number),
                "delay" => LinkFault::Delay(number),
                "refuse" => LinkFault::Refuse,
                _ => return None,
            };
            plan.rules.push((which, direction, fault));
        }
        Some(plan)
    }

    /// The faults of connection `number` in one direction.
    pub(super) fn of(&self, number: u32, direction: ByteDirection) -> Vec<LinkFault> {
        let applies = |which: &Which| match *which {
            Which::All => true,
            Which::Only(one) => one == number,
            Which::From(first) => first <= number,
        };
        let rules = self.rules.iter().filter(|(which, way, _)| *way == direction && applies(which));
        rules.map(|(_, _, fault)| *fault).collect()
    }
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(ssh) = &self.through {
            writeln!(f, "through {ssh}")?;
        }
        for (which, direction, fault) in &self.rules {
            match which {
                Which::All => f.write_str("*")?,
                Which::Only(number) => write!(f, "{number}")?,
                Which::From(number) => write!(f, "{number}+")?,
            }
            f.write_str(if *direction == ByteDirection::Up { " up " } else { " down " })?;
            match fault {
                LinkFault::Flip(n) => writeln!(f, "flip {n}")?,
                LinkFault::FlipHeader(n) => writeln!(f, "flip-header {n}")?,
                LinkFault::Cut(n) => writeln!(f, "cut {n}")?,
                LinkFault::Stall(n) => writeln!(f, "stall {n}")?,
                LinkFault::Rate(n) => writeln!(f, "rate {n}")?,
                LinkFault::Delay(n) => writeln!(f, "delay {n}")?,
                LinkFault::Refuse => writeln!(f, "refuse 0")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let plan = FaultPlan::new(dir.path())
            .through("ssh -p 1")
            .slow(1000)
            .with(Which::Only(2), ByteDirection::Up, LinkFault::Flip(7))
            .with(Which::From(3), ByteDirection::Down, LinkFault::Refuse);
        let text = fs::read_to_string(dir.path().join("plan")).unwrap();
        let read = FaultPlan::parse(dir.path(), &text).unwrap();
        assert_eq!((&read.rules, &read.through), (&plan.rules, &plan.through));
        assert_eq!(read.of(2, ByteDirection::Up), [LinkFault::Rate(1000), LinkFault::Flip(7)]);
        assert_eq!(read.of(4, ByteDirection::Down), [LinkFault::Rate(1000), LinkFault::Refuse]);
    }
}
