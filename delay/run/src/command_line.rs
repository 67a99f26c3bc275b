//! The command line that applies the remedies of a diagnosis.

use std::fmt;

use onbeat_delay::diagnosis::Cause;

/// A matching command of `onbeat delay`, as given by the user or changed by a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandLine {
    method: &'static str,
    captures: Vec<String>,
    options: Vec<(&'static str, Option<String>)>,
}

impl CommandLine {
    /// `onbeat delay METHOD CAPTURE...`
    pub(super) fn new(method: &'static str, captures: &[&str]) -> Self {
        let captures = captures.iter().map(|capture| (*capture).to_owned()).collect();
        Self { method, captures, options: Vec::new() }
    }

    /// Adds options.
    #[must_use]
    pub(super) fn given(
        mut self,
        options: impl IntoIterator<Item = (&'static str, Option<String>)>,
    ) -> Self {
        self.options.extend(options);
        self
    }

    /// The command with all options that remedy these causes together.
    #[must_use]
    pub(super) fn remedying(&self, causes: &[Cause]) -> Self {
        let mut command = self.clone();
        for cause in causes {
            match *cause {
                Cause::Swapped { .. } => command = command.exchanged(),
                Cause::Translated { .. } => command.set("--nat", None),
                Cause::Replies { .. } => command.set("--reply", None),
                Cause::NoReplies { .. } => command.options.retain(|(name, _)| *name != "--reply"),
                Cause::Cut { octets: Some(octets), .. } => {
                    command.set("--octets", Some(octets.to_string()));
                }
                Cause::ClocksApart { .. } | Cause::ClockSetBack { alone: true, .. }
                    if command.is_of_two() =>
                {
                    command.set("--two-clocks", None);
                }
                Cause::ClockStep { longest_ns, .. } if command.is_of_two() => {
                    command.set("--two-clocks", None);
                    if let Some(longest_ns) = longest_ns {
                        let seconds = longest_ns.unsigned_abs().div_ceil(1_000_000_000);
                        command.set("--longest", Some(format!("{seconds}s")));
                    }
                }
                _ => {}
            }
        }
        command
    }

    fn is_of_two(&self) -> bool {
        self.captures.len() == 2
    }

    /// Returns true if arrivals and departures can be exchanged.
    pub(super) fn is_exchangeable(&self) -> bool {
        self.is_of_two() || self.options.iter().any(|(_, value)| both_sides(value).is_some())
    }

    /// The command with arrivals and departures exchanged.
    #[must_use]
    pub(super) fn exchanged(&self) -> Self {
        let mut command = self.clone();
        command.captures.reverse();
        for (name, value) in &mut command.options {
            match *name {
                "--filter-in" => *name = "--filter-out",
                "--filter-out" => *name = "--filter-in",
                "--vlan" | "--interface" => {
                    if let Some((arrivals, departures)) = both_sides(value) {
                        *value = Some(format!("{departures},{arrivals}"));
                    }
                }
                _ => {}
            }
        }
        command
    }

    /// The command with this option, in quotes.
    pub(super) fn with(&self, name: &'static str, value: Option<&str>) -> String {
        let mut command = self.clone();
        command.set(name, value.map(ToOwned::to_owned));
        command.to_string()
    }

    fn set(&mut self, name: &'static str, value: Option<String>) {
        match self.options.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.options.push((name, value)),
        }
    }
}

/// Splits `IN,OUT` of `--vlan`.
fn both_sides(value: &Option<String>) -> Option<(String, String)> {
    let (arrivals, departures) = value.as_ref()?.split_once(',')?;
    Some((arrivals.to_owned(), departures.to_owned()))
}

impl fmt::Display for CommandLine {
    /// In back quotes, quoted for a shell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`onbeat delay {}", self.method)?;
        for capture in &self.captures {
            write!(f, " {}", quoted(capture))?;
        }
        for (name, value) in &self.options {
            write!(f, " {name}")?;
            if let Some(value) = value {
                write!(f, " {}", quoted(value))?;
            }
        }
        f.write_str("`")
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./,:+%@=".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_remedies_all_causes() {
        let cut = Cause::Cut { side: None, cut: 1, of: 1, octets: Some(40) };
        let translated = Cause::Translated { packets: 9, untranslated: 0 };
        let given = CommandLine::new("match", &["in.pcap", "out.pcap"])
            .given([("--octets", Some("46".into())), ("--filter-in", Some("udp and ip6".into()))]);
        let causes = [cut, translated, Cause::Swapped { packets: 9 }];
        assert_eq!(
            given.remedying(&causes).to_string(),
            "`onbeat delay match out.pcap in.pcap --octets 40 --filter-out 'udp and ip6' --nat`"
        );
        let step = Cause::ClockStep { packets: 9, by_ns: -1, longest_ns: Some(2_500_000_000) };
        assert_eq!(
            CommandLine::new("match", &["a", "b"]).remedying(&[step]).to_string(),
            "`onbeat delay match a b --two-clocks --longest 3s`"
        );
        let apart = [Cause::ClocksApart { by_ns: -1 }, Cause::NoReplies { packets: 9 }];
        let replies = given.given([("--reply", None)]);
        assert_eq!(
            replies.remedying(&apart).to_string(),
            "`onbeat delay match in.pcap out.pcap --octets 46 --filter-in 'udp and ip6' --two-clocks`"
        );
    }

    #[test]
    fn sides_of_one_capture_are_exchanged() {
        let mirrored = CommandLine::new("mirror", &["it's.pcap"]);
        assert!(!mirrored.clone().given([("--direction", None)]).is_exchangeable());
        let mirrored = mirrored.given([("--vlan", Some("101,102".into()))]);
        assert!(mirrored.is_exchangeable());
        let apart = [Cause::Swapped { packets: 9 }, Cause::ClocksApart { by_ns: 5 }];
        assert_eq!(
            mirrored.remedying(&apart).with("--min-matched", Some("7")),
            r"`onbeat delay mirror 'it'\''s.pcap' --vlan 102,101 --min-matched 7`"
        );
    }
}
