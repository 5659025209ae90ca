//! Names that Windows reserves for devices.

/// Whether Windows, and Samba for its sake, reserves the name, in every directory and with any extension.
#[must_use]
pub fn is_device_name(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).trim_end().to_ascii_uppercase();
    let numbered = |prefix: &str| {
        let number = stem.strip_prefix(prefix).map(|rest| rest.chars().collect::<Vec<_>>());
        matches!(number.as_deref(), Some(['1'..='9' | '¹' | '²' | '³']))
    };
    // Samba alone reserves the last one.
    matches!(&*stem, "CON" | "PRN" | "AUX" | "NUL" | "LOCK$") || numbered("COM") || numbered("LPT")
}

#[cfg(test)]
mod tests {
    use super::is_device_name;

    #[test]
    fn devices_are_known_in_any_case_and_with_any_extension() {
        for name in ["CON", "con", "aux.c", "Nul.tar.gz", "prn ", "LPT1", "COM9.txt", "com³", "lock$"] {
            assert!(is_device_name(name), "{name}");
        }
        for name in ["com0", "com10", "console", "a.con", ".con", "", "com", "lock", "é"] {
            assert!(!is_device_name(name), "{name}");
        }
    }
}
