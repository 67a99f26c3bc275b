//! Parsers of option values.

use std::num::NonZeroU32;

use clap::builder::{PossibleValuesParser, TypedValueParser};

/// A parser of one of these names. Help lists them, and shells complete them.
pub fn one_of<T: Clone + Send + Sync + 'static>(
    all: impl IntoIterator<Item = (&'static str, T)>,
) -> impl TypedValueParser<Value = T> {
    let all: Vec<_> = all.into_iter().collect();
    let names = PossibleValuesParser::new(all.iter().map(|(name, _)| *name));
    names.map(move |chosen| {
        let named = all.iter().find(|(name, _)| *name == chosen);
        named.expect("the parser accepts no other name").1.clone()
    })
}

/// Parses the value of `--sample N`.
///
/// # Errors
/// The value is out of range.
pub fn parse_sample_ratio(text: &str) -> std::result::Result<NonZeroU32, String> {
    const MOST: u32 = 1000;
    match text.parse() {
        Ok(n @ 2..=MOST) => Ok(NonZeroU32::new(n).expect("it is at least 2")),
        _ => {
            Err(format!("use an integer from 2 to {MOST}: packets are sampled for 1/N of the time"))
        }
    }
}
