//! Suggestions for misspelled words.

/// Longest word that is compared, in octets. Time and memory of a comparison are the product of the lengths.
const LONGEST: usize = 256;

/// Returns the most similar candidate, if it is similar enough.
pub fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // At most a third of the letters differ, and one in the shortest words.
    let limit = (written.chars().count() / 3).max(1);
    let is_short = |word: &&str| word.len() <= LONGEST;
    if !is_short(&written) {
        return None;
    }
    // Each letter that is missing or too much counts as one that differs.
    let length = written.chars().count();
    let is_alike = |word: &&str| word.chars().count().abs_diff(length) <= limit;
    candidates
        .into_iter()
        .filter(is_short)
        .filter(is_alike)
        .map(|candidate| (distance(written, candidate), candidate))
        .filter(|&(distance, _)| distance <= limit)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbors. Underscores equal
/// hyphens and capitals equal small letters, as these are common mistakes.
fn distance(a: &str, b: &str) -> usize {
    let fold = |text: &str| -> Vec<char> {
        text.chars().map(|c| if c == '_' { '-' } else { c.to_ascii_lowercase() }).collect()
    };
    let (a, b) = (fold(a), fold(b));
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let substitute = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substitute.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_common_misspellings_only() {
        let keys = ["history-length", "reset-timeout-ms", "vlan", "port", "tag"];
        for (written, meant) in [
            ("history_length", Some("history-length")),
            ("histroy-length", Some("history-length")),
            ("VLAN", Some("vlan")),
            ("vlna", Some("vlan")),
            ("ports", Some("port")),
            ("destination", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, keys), meant, "{written}");
        }
        let long = "a".repeat(20 << 20);
        assert_eq!((nearest(&long, [&long[1..]]), nearest("a", [&long[..]])), (None, None));
    }
}
