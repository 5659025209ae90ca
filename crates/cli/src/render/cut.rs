//! Text of a limited width.

/// The mark in place of the text that was cut.
const ELLIPSIS: char = '…';

/// The columns that a character takes on a terminal. Where that depends on the terminal, the higher number: a line that
/// is cut too early does no harm.
fn columns(char: char) -> usize {
    let is_symbol = ('\u{2000}'..='\u{2bff}').contains(&char);
    if char < '\u{1100}' || is_symbol { 1 } else { 2 }
}

/// The columns of a text.
pub(super) fn width_of(text: &str) -> usize {
    text.chars().map(columns).sum()
}

/// The text, without its end if it is wider than `width`.
pub(super) fn cut_end(text: &str, width: usize) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    fitting(text.chars(), width).chain([ELLIPSIS]).take(width).collect()
}

/// The text, without its start if it is wider than `width`. Of a path the name matters more.
pub(super) fn cut_start(text: &str, width: usize) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    let end: String = fitting(text.chars().rev(), width).collect();
    // From a directory on, if that leaves enough.
    let end: String = end.chars().rev().collect();
    let whole = end.find('/').filter(|at| *at <= end.len() / 2).map_or(&*end, |at| &end[at..]);
    std::iter::once(ELLIPSIS).chain(whole.chars()).take(width).collect()
}

/// As many characters as fit beside the ellipsis.
fn fitting(chars: impl Iterator<Item = char>, width: usize) -> impl Iterator<Item = char> {
    let mut left = width.saturating_sub(1);
    chars.take_while(move |char| {
        let fits = columns(*char) <= left;
        left = left.saturating_sub(columns(*char));
        fits
    })
}

/// Joins the first of these parts, as many as fit. The second part is cut rather than left out.
pub(super) fn join_fitting(parts: &[String], separator: &str, width: usize) -> String {
    let mut line = String::new();
    for (number, part) in parts.iter().enumerate() {
        let longer = if number == 0 { part.clone() } else { format!("{line}{separator}{part}") };
        if number < 2 {
            line = cut_end(&longer, width);
        } else if width_of(&longer) <= width {
            line = longer;
        } else {
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_at_either_end() {
        assert_eq!(cut_end("abc", 3), "abc");
        assert_eq!(cut_end("abcd", 3), "ab…");
        assert_eq!(cut_end("a\u{5e74}\u{5e74}", 4), "a\u{5e74}…");
        assert_eq!(cut_start("abcd", 3), "…cd");
        assert_eq!(cut_start("some/where/else", 12), "…/where/else");
        assert_eq!(cut_start("some/where/a-name", 12), "…/a-name", "from a directory on");
        assert_eq!(cut_start("some/where/a-long-name", 12), "…a-long-name");
        for width in 0..3 {
            assert!(width_of(&cut_start("abcdef", width)) <= width);
            assert!(width_of(&cut_end("abcdef", width)) <= width);
        }
    }

    #[test]
    fn parts_that_do_not_fit_are_left_out() {
        let parts = ["one", "two", "three"].map(str::to_owned);
        assert_eq!(join_fitting(&parts, ", ", 20), "one, two, three");
        assert_eq!(join_fitting(&parts, ", ", 14), "one, two");
        assert_eq!(join_fitting(&parts, ", ", 7), "one, t…");
        assert_eq!(join_fitting(&[], ", ", 7), "");
    }
}
