//! Checks docs/GLOSSARY.md: a reader has to know all of it.

use std::path::Path;

use super::tree::RepositoryFiles;

/// Terms, at most.
const MOST_TERMS: usize = 40;

/// The problems of the glossary.
pub(crate) fn glossary(tree: &RepositoryFiles) -> Vec<String> {
    let text = tree.all().find(|(path, _)| *path == Path::new("docs/GLOSSARY.md"));
    text.map_or_else(|| vec!["docs/GLOSSARY.md is missing".to_owned()], |(_, text)| problems(text))
}

fn problems(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let terms: Vec<String> = terms(text).map(str::to_lowercase).collect();
    if terms.len() > MOST_TERMS {
        found.push(format!("docs/GLOSSARY.md: {} terms, {MOST_TERMS} are allowed", terms.len()));
    }
    for pair in terms.windows(2).filter(|pair| pair[0] >= pair[1]) {
        found.push(format!("docs/GLOSSARY.md: `{}` belongs before `{}`", pair[1], pair[0]));
    }
    found
}

/// The first column of the table, without its head.
fn terms(text: &str) -> impl Iterator<Item = &str> {
    let rows = text.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    rows.filter_map(|line| line.strip_prefix("| ")?.split(" |").next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_few_and_in_order() {
        let rows = |terms: &[&str]| {
            let rows: String = terms.iter().map(|term| format!("| {term} | x |\n")).collect();
            format!("# Glossary\n\n| term | meaning |\n|---|---|\n{rows}")
        };
        assert_eq!(problems(&rows(&["batch", "end"])), [""; 0]);
        assert_eq!(problems(&rows(&["end", "batch"])), ["docs/GLOSSARY.md: `batch` belongs before `end`"]);
        let many: Vec<String> = (10..51).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(problems(&rows(&many)), ["docs/GLOSSARY.md: 41 terms, 40 are allowed"]);
    }
}
