//! The form of the tables: text files with a row in each line, in columns that `|` separates. `#` begins a comment.

/// The rows of a table. A row without the last column has that of the row above it.
pub(super) fn rows<const N: usize>(text: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    let mut last = "";
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(move |line| {
        let mut columns = line.splitn(N, '|').map(str::trim);
        let row = std::array::from_fn(|at| columns.next().unwrap_or(if at + 1 == N { last } else { "" }));
        last = row[N - 1];
        row
    })
}
