//! Splits `-e COMMAND` into words, as rsync does.

/// Splits at spaces. Single and double quotes keep spaces together; a doubled quote inside quotes is the quote
/// itself; a backslash is nothing special.
///
/// # Errors
/// If a quote is not closed or there is no word.
pub(crate) fn split_words(command: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = command.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (' ', None) => words.extend(word.take()),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, Some(open)) if c == open => {
                if chars.next_if_eq(&open).is_some() {
                    word.get_or_insert_default().push(c);
                } else {
                    quote = None;
                }
            }
            _ => word.get_or_insert_default().push(c),
        }
    }
    if let Some(open) = quote {
        return Err(format!("a {open} is not closed"));
    }
    words.extend(word);
    if words.is_empty() { Err("it is empty".to_owned()) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_as_in_rsync() {
        let split = |text: &str| split_words(text).unwrap().join("|");
        assert_eq!(split("ssh"), "ssh");
        assert_eq!(split("  ssh  -p 2234 "), "ssh|-p|2234");
        assert_eq!(
            split(r#"ssh -o "ProxyCommand nohup ssh firewall nc -w1 %h %p""#),
            "ssh|-o|ProxyCommand nohup ssh firewall nc -w1 %h %p"
        );
        assert_eq!(split("a'b c'd"), "ab cd");
        assert_eq!(split("'it''s'"), "it's");
        assert_eq!(split(r#""a 'b' c""#), "a 'b' c");
        assert_eq!(split(r"a\ b"), r"a\|b");
        assert_eq!(split("ssh ''"), "ssh|");
        assert!(split_words("ssh 'x").is_err() && split_words(" ").is_err() && split_words("").is_err());
    }
}
