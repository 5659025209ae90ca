//! One lie, and how it is written down.

/// One change to a message of the remote end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageLie {
    /// The part of a message, as `Response.Scan.found.entries[].mode`, or the frame itself, as `Frame.Response.Scan`.
    pub key: String,
    /// The name of the change.
    pub change: String,
    /// Which of them on a connection, from 0: only one is changed in a run. `None`: all of them are.
    pub at: Option<u64>,
}

impl std::fmt::Display for MessageLie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = self.at.map_or_else(|| "*".to_owned(), |at| at.to_string());
        write!(f, "{} {} {at}", self.key, self.change)
    }
}

impl std::str::FromStr for MessageLie {
    type Err = String;

    /// Reads the text that its `Display` writes.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("not a lie: {text:?}");
        let mut words = text.split_whitespace();
        let mut word = || words.next().ok_or_else(bad).map(str::to_owned);
        let (key, change, at) = (word()?, word()?, word()?);
        let at = if at == "*" { None } else { Some(at.parse().map_err(|_| bad())?) };
        Ok(Self { key, change, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lie_is_read_as_it_was_written() {
        for at in [None, Some(7)] {
            let lie = MessageLie { key: "Response.Scan.last".to_owned(), change: "other".to_owned(), at };
            assert_eq!(lie.to_string().parse(), Ok(lie));
        }
    }
}
