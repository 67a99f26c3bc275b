//! Metrics in the text format of Prometheus, version 0.0.4, and files of them for the textfile collector of node_exporter.

use std::fmt::{Display, Write as _};
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// Grows, and restarts from 0 with its program.
    Counter,
    /// Any value.
    Gauge,
}

/// Names and values of labels.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// Text under construction. All samples of a metric follow each other.
#[derive(Debug, Default)]
pub struct MetricsText(String);

impl MetricsText {
    /// Adds a metric. `help` has no full stop.
    pub fn metric(&mut self, name: &str, kind: MetricType, help: &str) -> Samples<'_> {
        let kind = match kind {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
        };
        let _ = writeln!(self.0, "# HELP {name} {help}.\n# TYPE {name} {kind}");
        Samples { text: &mut self.0, name: name.to_owned() }
    }

    /// Returns the text.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

/// The samples of a metric.
#[derive(Debug)]
pub struct Samples<'a> {
    text: &'a mut String,
    name: String,
}

impl Samples<'_> {
    /// Adds a sample.
    pub fn add(&mut self, labels: Labels<'_>, value: impl Display) {
        self.text.push_str(&self.name);
        let mut separator = '{';
        for (label, value) in labels {
            let _ = write!(self.text, "{separator}{label}=\"{}\"", escaped(value));
            separator = ',';
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

/// Nanoseconds as seconds, exactly.
#[must_use]
pub fn seconds(ns: i128) -> String {
    const SECOND: u128 = 1_000_000_000;
    let sign = if ns < 0 { "-" } else { "" };
    let ns = ns.unsigned_abs();
    format!("{sign}{}.{:09}", ns / SECOND, ns % SECOND)
}

/// Escapes the characters that end a label's value.
fn escaped(value: &str) -> impl Display {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Errors of a file of metrics.
#[derive(Debug, thiserror::Error)]
pub enum MetricsFileError {
    /// The collector reads no file of this name.
    #[error("file {0:?} does not end in .prom, which the collector requires; add it")]
    Name(PathBuf),
    /// It cannot be written.
    #[error(
        "file {path:?} cannot be written: {source}; the user of this command must be able to write to its directory"
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// A file for the textfile collector.
#[derive(Debug, Clone)]
pub struct MetricsFile(PathBuf);

impl MetricsFile {
    /// Checks the name of a file.
    ///
    /// # Errors
    /// [`MetricsFileError::Name`].
    pub fn new(path: PathBuf) -> Result<Self, MetricsFileError> {
        match path.extension().is_some_and(|extension| extension == "prom") {
            true => Ok(Self(path)),
            false => Err(MetricsFileError::Name(path)),
        }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Replaces the file as a whole: the collector reads no part of one.
    ///
    /// # Errors
    /// [`MetricsFileError::Write`]; the file has its former content.
    pub fn replace(&self, text: &str) -> Result<(), MetricsFileError> {
        let name = self.0.file_name().unwrap_or_default().to_string_lossy();
        // The collector does not read this name.
        let temporary = self.0.with_file_name(format!(".{name}.{}", std::process::id()));
        let failed = |source| MetricsFileError::Write { path: self.0.clone(), source };
        let create = || OpenOptions::new().write(true).create_new(true).open(&temporary);
        let mut file = create()
            .or_else(|error| match error.kind() {
                // Of a killed process, which had the same number: in a container each has.
                io::ErrorKind::AlreadyExists => {
                    fs::remove_file(&temporary)?;
                    create()
                }
                _ => Err(error),
            })
            .map_err(failed)?;
        let mut written = || -> io::Result<()> {
            // The umask of a service does not apply: the collector is another user.
            file.set_permissions(Permissions::from_mode(0o644))?;
            file.write_all(text.as_bytes())?;
            fs::rename(&temporary, &self.0)
        };
        written().map_err(|source| {
            // This process has created it.
            let _ = fs::remove_file(&temporary);
            failed(source)
        })
    }
}

/// The last result of writing a file: a failure is reported once, and not at every attempt.
#[derive(Debug, Default)]
pub struct LastWrite(Option<String>);

impl LastWrite {
    /// Returns the text of a failure that is not the last one.
    pub fn news(&mut self, result: Result<(), MetricsFileError>) -> Option<String> {
        let failure = result.err().map(|error| error.to_string());
        let news = failure.clone().filter(|_| failure != self.0);
        self.0 = failure;
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = MetricsText::default();
        let labels = [("stream", "a\\\"b\nc"), ("port", "")];
        text.metric("x", MetricType::Gauge, "Help").add(&labels, 1);
        text.metric("y_total", MetricType::Counter, "Other").add(&[], 2.5);
        let expected = "# HELP x Help.\n# TYPE x gauge\nx{stream=\"a\\\\\\\"b\\nc\",port=\"\"} 1\n\
                        # HELP y_total Other.\n# TYPE y_total counter\ny_total 2.5\n";
        assert_eq!(text.into_string(), expected);
    }

    #[test]
    fn a_failure_is_reported_once() {
        let failed = || Err(MetricsFileError::Name("a.txt".into()));
        let mut last = LastWrite::default();
        assert!(last.news(failed()).is_some_and(|text| text.contains(".prom")));
        assert_eq!((last.news(failed()), last.news(Ok(()))), (None, None));
        assert!(last.news(failed()).is_some(), "again after a success");
    }

    #[test]
    fn seconds_are_exact() {
        for (ns, text) in [
            (0, "0.000000000"),
            (-1, "-0.000000001"),
            (400_000, "0.000400000"),
            (i128::from(i64::MIN), "-9223372036.854775808"),
            (i128::from(u64::MAX), "18446744073.709551615"),
        ] {
            assert_eq!(seconds(ns), text);
        }
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let directory = std::env::temp_dir().join(format!("onbeat-metrics-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let path = directory.join("a.prom");
        let file = MetricsFile::new(path.clone()).unwrap();
        let left = directory.join(format!(".a.prom.{}", std::process::id()));
        fs::write(left, "a 0\n").unwrap();
        for text in ["a 1\n", "a 2\n"] {
            file.replace(text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "no temporary file is left");
        fs::remove_dir_all(&directory).unwrap();
        let error = file.replace("a 3\n").unwrap_err().to_string();
        assert!(error.contains("cannot be written"), "{error}");
        let error = MetricsFile::new(directory.join("a.txt")).unwrap_err().to_string();
        assert!(error.contains(".prom"), "{error}");
    }
}
