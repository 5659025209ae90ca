//! Cuts lists into chunks of a bounded weight: one path can take half a megabyte, and each request has to fit into one
//! frame.

/// The largest weight of one chunk, in bytes.
const MAX_WEIGHT: usize = 2 * 1024 * 1024;

/// Cuts a list into chunks of at most `count` items. The weight of a chunk is at most [`MAX_WEIGHT`], unless it is one
/// item that weighs more.
pub(crate) fn chunks<'a, T>(
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
            sum <= MAX_WEIGHT
        };
        let len = rest.iter().take(count).take_while(fits).count().max(1);
        let (chunk, left) = rest.split_at(len);
        rest = left;
        Some(chunk)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_bounded_by_count_and_by_weight() {
        let items = [1, 1, 1, MAX_WEIGHT, MAX_WEIGHT * 2, 1, MAX_WEIGHT - 1, 1];
        let chunks: Vec<&[usize]> = chunks(&items, 2, |item| *item).collect();
        assert_eq!(
            chunks,
            [&items[..2], &items[2..3], &items[3..4], &items[4..5], &items[5..7], &items[7..]]
        );
    }
}
