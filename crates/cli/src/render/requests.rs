//! Counts of requests to object stores, for people.

use haul_job::RequestCounts;
use indicatif::HumanCount;

use super::wording::count;

/// The counts of all kinds that are not zero.
pub(super) fn requests_text(counts: &RequestCounts) -> String {
    let RequestCounts { put, get, list, delete, retried } = *counts;
    let kinds = [(put, "PUT"), (get, "GET"), (list, "LIST"), (delete, "DELETE")];
    let kinds = kinds.into_iter().filter(|(number, _)| *number > 0);
    let kinds: Vec<String> = kinds.map(|(number, name)| format!("{} {name}", HumanCount(number))).collect();
    let retries = if retried > 0 { format!(", {} retried", HumanCount(retried)) } else { String::new() };
    format!("{}: {}{retries}", count(put + get + list + delete, "request", "requests"), kinds.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kinds_with_requests_are_listed() {
        let counts = RequestCounts { put: 1200, get: 1, retried: 2, ..RequestCounts::default() };
        assert_eq!(requests_text(&counts), "1,201 requests: 1,200 PUT, 1 GET, 2 retried");
    }
}
