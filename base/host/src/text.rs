//! Texts of messages.

use std::borrow::Cow;

pub use onbeat_netdev::shell_word;

/// Longest part of a message that is shown whole, in octets.
const LONGEST: usize = 4096;
/// Octets of the start and of the end of a longer one.
const ENDS: (usize, usize) = (2048, 1024);

/// Returns a part of a message that contains words of a file or of a command line, which may have any length: of
/// a longer one its start and its end.
#[must_use]
pub fn excerpt(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST {
        return text.into();
    }
    let is_boundary = |at: &usize| text.is_char_boundary(*at);
    let start = (0..=ENDS.0).rev().find(is_boundary).unwrap_or(0);
    let end = (text.len() - ENDS.1..=text.len()).find(is_boundary).unwrap_or(text.len());
    format!("{}... ({} octets) ...{}", &text[..start], end - start, &text[end..]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_ends() {
        assert!(matches!(excerpt(&"x".repeat(LONGEST)), Cow::Borrowed(_)));
        let text = format!("start{}end", "x".repeat(20 << 20));
        let short = excerpt(&text);
        assert!(short.starts_with("startx") && short.ends_with("xend"), "{short}");
        assert!(short.len() < LONGEST && short.contains("... (20968456 octets) ..."), "{short}");
        // A character of more than one octet is not divided.
        for at in 0..4 {
            let text = format!("{}{}", "x".repeat(at), "𝄞".repeat(LONGEST));
            let parts = excerpt(&text).matches('𝄞').count();
            assert!((700..768 + 1).contains(&parts), "{parts}");
        }
    }
}
