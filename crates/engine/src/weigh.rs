//! Questions of a bounded weight: a path can take half a megabyte, and a question has to fit into a frame.

/// Weight of what is asked about at once, in bytes.
const MOST: usize = 2 * 1024 * 1024;

/// Cuts a list into runs of at most `count` items and, unless one alone is heavier, of a bounded weight.
pub(crate) fn runs<'a, T>(
    items: &'a [T],
    count: usize,
    weight: impl Fn(&T) -> usize + 'a,
) -> impl Iterator<Item = &'a [T]> {
    let mut rest = items;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut sum = 0;
        let fits = |item: &&T| {
            sum += weight(item);
            sum <= MOST
        };
        let len = rest.iter().take(count).take_while(fits).count().max(1);
        let (run, left) = rest.split_at(len);
        rest = left;
        Some(run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_bounded_by_number_and_by_weight() {
        let items = [1, 1, 1, MOST, MOST * 2, 1, MOST - 1, 1];
        let runs: Vec<&[usize]> = runs(&items, 2, |item| *item).collect();
        assert_eq!(runs, [&items[..2], &items[2..3], &items[3..4], &items[4..5], &items[5..7], &items[7..]]);
    }
}
