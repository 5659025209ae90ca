//! A finding and its words.

use serde::Serialize;

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It costs time, or may surprise.
    Warn,
    /// It spoils the copy.
    Bad,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How grave it is.
    pub level: Level,
    /// The subject of the check.
    pub what: &'static str,
    /// The state that the check found.
    pub found: String,
    /// The advice to the user, if there is a problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    pub(super) fn ok(what: &'static str, found: impl Into<String>) -> Self {
        Self { level: Level::Ok, what, found: found.into(), fix: None }
    }

    pub(super) fn warn(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: Level::Warn, what, found: found.into(), fix: Some(fix.into()) }
    }

    pub(super) fn bad(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: Level::Bad, what, found: found.into(), fix: Some(fix.into()) }
    }
}

/// Bytes in words.
pub(super) fn size(bytes: u64) -> String {
    haul_core::text::bytes_rounded(bytes, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        assert_eq!(size(1000), "1000 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(9 << 40), "9.0 TiB");
        assert_eq!(size(u64::MAX), "16.0 EiB");
    }
}
