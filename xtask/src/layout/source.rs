//! Parses the facts of one source file: its modules, imports, paths and functions.

use std::collections::BTreeSet;

use super::lexer::{Token, TokenKind, tokens};
use super::test_code::{closing, without_tests};

/// The facts of one file, without its tests.
#[derive(Default)]
pub(crate) struct FileFacts {
    pub(crate) children: Vec<Child>,
    pub(crate) imports: Vec<Import>,
    pub(crate) paths: Vec<PathUse>,
    pub(crate) functions: Vec<Function>,
    /// Names of the items that the file defines.
    pub(crate) defined: BTreeSet<String>,
    pub(crate) inline_modules: Vec<Vec<String>>,
    /// First and last line of each test item.
    pub(crate) test_lines: Vec<(usize, usize)>,
}

/// `mod name;`
pub(crate) struct Child {
    /// The inline modules around it, from the outermost.
    pub(crate) scope: Vec<String>,
    pub(crate) name: String,
    /// The value of its `#[path]`.
    pub(crate) path: Option<String>,
}

/// One name that a `use` brings in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) scope: Vec<String>,
    pub(crate) path: Vec<String>,
    /// The name in this file; `*` for a glob.
    pub(crate) name: String,
}

/// A path of two segments or more in code.
pub(crate) struct PathUse {
    pub(crate) scope: Vec<String>,
    pub(crate) path: Vec<String>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) lines: usize,
}

/// Keywords that the name of an item follows.
const ITEMS: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union"];

impl FileFacts {
    pub(crate) fn parse(text: &str) -> Self {
        let stripped = without_tests(&tokens(text));
        let source = Self { test_lines: stripped.test_lines, ..Self::default() };
        Parser { tokens: &stripped.tokens, at: 0, depth: 0, scopes: Vec::new(), path: None, source }.run()
    }
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
    /// Inline modules around the current token, each with the depth of its braces.
    scopes: Vec<(String, usize)>,
    /// The value of a `#[path]` that waits for its module.
    path: Option<String>,
    source: FileFacts,
}

impl Parser<'_> {
    fn run(mut self) -> FileFacts {
        while let Some(token) = self.tokens.get(self.at) {
            match &token.kind {
                TokenKind::Punct('{') => self.depth += 1,
                TokenKind::Punct('}') => {
                    self.scopes.pop_if(|(_, depth)| *depth == self.depth);
                    self.depth = self.depth.saturating_sub(1);
                }
                TokenKind::Word(word) if word == "mod" && self.word(1).is_some() => {
                    self.module();
                    continue;
                }
                TokenKind::Word(word) if word == "use" && !self.is(1, '<') => {
                    self.import();
                    continue;
                }
                TokenKind::Word(word) => {
                    self.item(word);
                    self.path_attribute(word);
                    self.inline_path();
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
        self.source
    }

    fn token(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead)
    }

    fn word(&self, ahead: usize) -> Option<&str> {
        self.token(ahead).and_then(Token::word)
    }

    fn is(&self, ahead: usize, punct: char) -> bool {
        self.token(ahead).is_some_and(|token| token.is(punct))
    }

    fn before(&self, back: usize) -> Option<&Token> {
        self.tokens.get(self.at.checked_sub(back)?)
    }

    fn scope(&self) -> Vec<String> {
        self.scopes.iter().map(|(name, _)| name.clone()).collect()
    }

    fn module(&mut self) {
        let name = self.word(1).unwrap_or_default().to_owned();
        let path = self.path.take();
        if self.is(2, '{') {
            self.depth += 1;
            self.scopes.push((name, self.depth));
            let scope = self.scope();
            self.source.inline_modules.push(scope);
        } else if self.is(2, ';') {
            let scope = self.scope();
            self.source.children.push(Child { scope, name, path });
        }
        self.at += 3;
    }

    fn path_attribute(&mut self, word: &str) {
        let in_attribute = self.before(1).is_some_and(|token| token.is('['))
            && self.before(2).is_some_and(|token| token.is('#'));
        if let Some(Token { kind: TokenKind::Literal(text), .. }) = self.token(2)
            && word == "path"
            && in_attribute
        {
            self.path = Some(text.clone());
        }
    }

    fn item(&mut self, keyword: &str) {
        let Some(name) = self.word(1).filter(|_| ITEMS.contains(&keyword)) else { return };
        let name = name.to_owned();
        if keyword == "fn" {
            self.function(&name);
        }
        self.source.defined.insert(name);
    }

    /// Records the function at the current token, if it has a body.
    fn function(&mut self, name: &str) {
        let mut at = self.at;
        while let Some(token) = self.tokens.get(at) {
            if token.is(';') {
                return;
            }
            if token.is('{') {
                let (first, last) = (self.tokens[self.at].line, self.tokens[closing(self.tokens, at)].line);
                let function = Function { name: name.to_owned(), line: first, lines: last - first + 1 };
                self.source.functions.push(function);
                return;
            }
            at = if token.is('(') || token.is('[') { closing(self.tokens, at) + 1 } else { at + 1 };
        }
    }

    /// Steps over the path at the current word, and records it if it has more than one segment.
    fn inline_path(&mut self) {
        let restriction = self.before(1).is_some_and(|token| token.is_word("in"))
            && self.before(2).is_some_and(|token| token.is('('));
        let absolute = self.before(1).is_some_and(|token| token.kind == TokenKind::PathSep);
        let mut path = vec![self.word(0).unwrap_or_default().to_owned()];
        self.at += 1;
        while self.token(0).is_some_and(|token| token.kind == TokenKind::PathSep) {
            let Some(segment) = self.word(1).map(str::to_owned) else { break };
            path.push(segment);
            self.at += 2;
        }
        if path.len() > 1 && !restriction && !absolute {
            let scope = self.scope();
            self.source.paths.push(PathUse { scope, path });
        }
    }

    /// Reads a `use` with its nested braces.
    fn import(&mut self) {
        self.at += 1;
        let (mut path, mut bases, mut alias) = (Vec::new(), vec![0], None);
        while let Some(token) = self.tokens.get(self.at) {
            self.at += 1;
            match &token.kind {
                TokenKind::Word(word) if word == "as" => {
                    alias = self.word(0).map(str::to_owned);
                    self.at += 1;
                }
                TokenKind::Word(word) => path.push(word.clone()),
                TokenKind::Punct('*') => path.push("*".to_owned()),
                TokenKind::Punct('{') => bases.push(path.len()),
                TokenKind::Punct(end @ (',' | '}' | ';')) => {
                    let base = bases.last().copied().unwrap_or(0);
                    if path.len() > base {
                        self.add_import(path.clone(), alias.take());
                    }
                    if *end == '}' {
                        bases.pop();
                        // After a group comes `,`, `}` or `;`: the group ends its path.
                        path.truncate(bases.last().copied().unwrap_or(0));
                        continue;
                    }
                    path.truncate(base);
                    if *end == ';' {
                        return;
                    }
                }
                _ => {}
            }
        }
    }

    fn add_import(&mut self, mut path: Vec<String>, alias: Option<String>) {
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = alias.or_else(|| path.last().cloned()).unwrap_or_default();
        let scope = self.scope();
        self.source.imports.push(Import { scope, path, name });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(text: &str) -> Vec<String> {
        let found = FileFacts::parse(text).imports;
        found.iter().map(|import| format!("{}={}", import.name, import.path.join("::"))).collect()
    }

    #[test]
    fn nested_braces_and_aliases_are_imports_of_their_own() {
        let text = "use crate::{a::{self, b as c, d::*}, e}; pub(crate) use super::{f}; use g;";
        let want = ["a=crate::a", "c=crate::a::b", "*=crate::a::d::*", "e=crate::e", "f=super::f", "g=g"];
        assert_eq!(imports(text), want);
        assert_eq!(imports("fn a() -> impl Iterator + use<'_> {} use x::{y, };"), ["y=x::y"]);
    }

    #[test]
    fn paths_in_code_and_attributes_are_found() {
        let text = "#[arg(value_parser = crate::size::parse)] struct A; impl A { pub(in crate::x) fn b() { \
                    super::c::<u8>(); d.e(); f::G::h() } }";
        let paths: Vec<String> =
            FileFacts::parse(text).paths.iter().map(|used| used.path.join("::")).collect();
        assert_eq!(paths, ["crate::size::parse", "super::c", "f::G::h"]);
    }

    #[test]
    fn inline_modules_are_scopes() {
        let source = FileFacts::parse("mod a { use super::b; mod c { fn d() {} } } use e::f; mod g;");
        let scopes: Vec<_> = source.imports.iter().map(|import| import.scope.join("::")).collect();
        assert_eq!(scopes, ["a", ""]);
        assert_eq!(source.inline_modules, [vec!["a"], vec!["a", "c"]]);
        assert_eq!(source.children.len(), 1);
    }

    #[test]
    fn functions_have_lengths() {
        let source = FileFacts::parse(
            "trait T { fn a(); }\nfn b(x: [u8; 3])\nwhere\n{\n}\n#[path = \"x.rs\"]\nmod y;",
        );
        assert_eq!(source.functions, [Function { name: "b".into(), line: 2, lines: 4 }]);
        assert_eq!(source.children[0].path.as_deref(), Some("x.rs"));
    }
}
