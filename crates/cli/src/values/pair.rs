//! Names with values.

/// Reads `NAME=VALUE` or `NAME:VALUE`.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_pair(text: &str, between: char) -> Result<(String, String), String> {
    let bad = || format!("`{text}` is not NAME{between}VALUE");
    let (name, value) = text.split_once(between).ok_or_else(bad)?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() { Err(bad()) } else { Ok((name.to_owned(), value.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_split_at_the_first_separator() {
        assert_eq!(parse_pair("a=b=c", '='), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(parse_pair("Content-Type: x/y", ':'), Ok(("Content-Type".to_owned(), "x/y".to_owned())));
        assert!(parse_pair("a", '=').is_err() && parse_pair("=a", '=').is_err());
    }
}
