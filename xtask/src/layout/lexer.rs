//! Splits Rust source into words, punctuation and literals. Comments are dropped.

/// A token and the line that it starts on, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) line: usize,
}

/// The kinds of tokens that the checks tell apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// An identifier or a keyword.
    Word(String),
    /// One character of punctuation, except `::`.
    Punct(char),
    /// `::`
    PathSep,
    /// A string, with its text; a character or a number, with none.
    Literal(String),
}

impl Token {
    /// The identifier or keyword, if this token is one.
    pub(crate) fn word(&self) -> Option<&str> {
        match &self.kind {
            TokenKind::Word(word) => Some(word),
            _ => None,
        }
    }

    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }

    pub(crate) fn is(&self, punct: char) -> bool {
        self.kind == TokenKind::Punct(punct)
    }
}

/// The tokens of `text`. Text that is not Rust gives tokens without meaning, but no error.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let mut lexer = Lexer { chars: text.chars().collect(), at: 0, line: 1 };
    let mut found = Vec::new();
    while let Some(token) = lexer.next_token() {
        found.push(token);
    }
    found
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn bump(&mut self) -> Option<char> {
        let char = self.peek(0)?;
        self.at += 1;
        self.line += usize::from(char == '\n');
        Some(char)
    }

    fn next_token(&mut self) -> Option<Token> {
        self.skip_blanks();
        let (line, char) = (self.line, self.peek(0)?);
        let kind = if char == '"' {
            self.bump();
            TokenKind::Literal(self.quoted('"'))
        } else if char == '\'' {
            self.quote()
        } else if char.is_ascii_digit() {
            self.take_while(is_word_char);
            TokenKind::Literal(String::new())
        } else if is_word_char(char) {
            self.word_or_string()
        } else if char == ':' && self.peek(1) == Some(':') {
            self.at += 2;
            TokenKind::PathSep
        } else {
            self.bump();
            TokenKind::Punct(char)
        };
        Some(Token { kind, line })
    }

    fn skip_blanks(&mut self) {
        while let Some(char) = self.peek(0) {
            if char.is_whitespace() {
                self.bump();
            } else if char == '/' && self.peek(1) == Some('/') {
                self.take_while(|char| char != '\n');
            } else if char == '/' && self.peek(1) == Some('*') {
                self.block_comment();
            } else {
                return;
            }
        }
    }

    /// Block comments nest.
    fn block_comment(&mut self) {
        let mut depth = 0;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => depth += 1,
                (Some('*'), Some('/')) => depth -= 1,
                (None, _) => return,
                _ => {
                    self.bump();
                    continue;
                }
            }
            self.at += 2;
            if depth == 0 {
                return;
            }
        }
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(char) = self.peek(0).filter(|char| keep(*char)) {
            self.bump();
            taken.push(char);
        }
        taken
    }

    /// The rest of a quoted literal, after its opening quote.
    fn quoted(&mut self, end: char) -> String {
        let mut text = String::new();
        while let Some(char) = self.bump() {
            if char == end {
                break;
            }
            text.push(char);
            if char == '\\' {
                text.extend(self.bump());
            }
        }
        text
    }

    /// A character literal, or a lifetime: a lifetime has no closing quote.
    fn quote(&mut self) -> TokenKind {
        self.bump();
        let is_char = self.peek(0) == Some('\\') || self.peek(1) == Some('\'');
        if is_char {
            self.quoted('\'');
        } else {
            self.take_while(is_word_char);
        }
        TokenKind::Literal(String::new())
    }

    /// A word; or a string with a prefix, such as `b"…"`, `r#"…"#` or `c"…"`; or a raw identifier.
    fn word_or_string(&mut self) -> TokenKind {
        let word = self.take_while(is_word_char);
        let prefix = ["r", "b", "c", "br", "cr"].contains(&word.as_str());
        match self.peek(0) {
            Some('"') if prefix && !word.contains('r') => {
                self.bump();
                TokenKind::Literal(self.quoted('"'))
            }
            Some('\'') if word == "b" => {
                self.bump();
                self.quoted('\'');
                TokenKind::Literal(String::new())
            }
            Some('"' | '#') if prefix && word.contains('r') => self.raw(word),
            _ => TokenKind::Word(word),
        }
    }

    fn raw(&mut self, word: String) -> TokenKind {
        let hashes = self.chars[self.at..].iter().take_while(|char| **char == '#').count();
        if self.peek(hashes) != Some('"') {
            if hashes == 1 && word == "r" {
                self.bump();
                return TokenKind::Word(self.take_while(is_word_char));
            }
            return TokenKind::Word(word);
        }
        self.at += hashes + 1;
        let mut text = String::new();
        while let Some(char) = self.bump() {
            let closes = char == '"' && (0..hashes).all(|ahead| self.peek(ahead) == Some('#'));
            if closes {
                self.at += hashes;
                break;
            }
            text.push(char);
        }
        TokenKind::Literal(text)
    }
}

fn is_word_char(char: char) -> bool {
    char == '_' || char.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        tokens(text).iter().filter_map(|token| token.word().map(str::to_owned)).collect()
    }

    #[test]
    fn comments_strings_and_lifetimes_hold_no_words() {
        let text =
            "a /* b /* c */ d */ \"e \\\" f\" 'g' 'h i '\\'' r#\"j \" k\"# b\"l\" b'm' // n\no r#type 1.5e3";
        assert_eq!(words(text), ["a", "i", "o", "type"]);
    }

    #[test]
    fn lines_are_counted_through_literals_and_comments() {
        let lines: Vec<usize> = tokens("a\n/* \n */ b \"\n\" c\nr\"\n\" d").iter().map(|t| t.line).collect();
        assert_eq!(lines, [1, 3, 3, 4, 5, 6]);
    }

    #[test]
    fn path_separators_are_one_token() {
        let kinds: Vec<TokenKind> = tokens("a::b: c").into_iter().map(|token| token.kind).collect();
        let word = |text: &str| TokenKind::Word(text.to_owned());
        assert_eq!(kinds, [word("a"), TokenKind::PathSep, word("b"), TokenKind::Punct(':'), word("c")]);
    }
}
