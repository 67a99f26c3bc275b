//! Projects of configuration tools: the concise DCF of the managing node (CDC), and the layout of its process
//! image (`xap.xml`).

use std::path::{Path, PathBuf};

use onbeat_config::{Table, Value};
use onbeat_host::file;
use onbeat_host::trust::{self, UntrustedFile};
use onbeat_powerlink::network::{self, ProcessValue, ProjectError};
use onbeat_report::Input;
use onbeat_xdd::{Fault, ImageChannel};

use super::xdd::LONGEST;

/// A project, with the names of its process data.
#[derive(Debug, Clone)]
pub struct Project {
    /// The project.
    pub project: network::Project,
    /// The names of its process data, in their order.
    pub names: Vec<String>,
    /// Channels of the process image without process data.
    pub unused: Vec<String>,
    /// Its files.
    pub(super) inputs: Vec<Input>,
    /// The first file that another user could have written.
    pub(super) untrusted: Option<UntrustedFile>,
}

/// Errors of the files of a project.
#[derive(Debug, thiserror::Error)]
pub enum ProjectFileError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}; use the path of {what}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Its content.
        what: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// The concise DCF.
    #[error(
        "{path}: invalid concise DCF of a managing node: {why}; export it again with the \
         configuration tool",
        path = path.display()
    )]
    Cdc {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: ProjectError,
    },
    /// The layout of the process image.
    #[error("{path}:{fault}; {help}", path = path.display(), help = fault.help)]
    Xap {
        /// The file.
        path: PathBuf,
        /// Its first error.
        fault: Fault,
    },
}

impl Project {
    /// Reads the files of a project.
    ///
    /// # Errors
    /// One of them cannot be read, or is invalid.
    pub fn load(cdc: &Path, xap: Option<&Path>) -> Result<Self, ProjectFileError> {
        let (mut inputs, mut untrusted) = (Vec::new(), None);
        let mut load =
            |path: &Path, what| {
                // Before reading, as for a network file.
                untrusted = untrusted.take().or_else(|| trust::check_file(path).err());
                let octets = file::read(path, LONGEST).map_err(|source| {
                    ProjectFileError::Read { path: path.to_owned(), what, source }
                })?;
                inputs.push(Input::of_file(path, &octets));
                Ok(octets)
            };
        let octets = load(cdc, "a concise DCF of a managing node, such as mnobd.cdc")?;
        let project = network::Project::read(&octets)
            .map_err(|why| ProjectFileError::Cdc { path: cdc.to_owned(), why })?;
        let mut channels = Vec::new();
        if let Some(path) = xap {
            let what = "the layout of a process image, such as xap.xml";
            let octets = load(path, what)?;
            let text = file::text(octets).map_err(|source| ProjectFileError::Read {
                path: path.to_owned(),
                what,
                source,
            })?;
            channels = onbeat_xdd::process_image(&text).map_err(|mut faults| {
                ProjectFileError::Xap { path: path.to_owned(), fault: faults.swap_remove(0) }
            })?;
        }
        let (names, unused) = name(&project.values, channels);
        Ok(Project { project, names, unused, inputs, untrusted })
    }

    /// What differs from the tool that wrote the project, for results.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.project.is_redundant() {
            notes.push(
                "the project has redundant managing nodes (1F80, bit 14); this node is the only one"
                    .to_owned(),
            );
        }
        let list = |what: &str, of: Vec<String>| {
            (!of.is_empty()).then(|| format!("{what}: {}", of.join(", ")))
        };
        let ignored = self.project.ignored.iter().map(ToString::to_string).collect();
        notes.extend(list("objects of the project that this managing node lacks", ignored));
        notes.extend(list("channels of the process image without data", self.unused.clone()));
        notes
    }
}

/// The names of values by the channels of the process image; returns the names of channels without a value, too.
fn name(values: &[ProcessValue], channels: Vec<ImageChannel>) -> (Vec<String>, Vec<String>) {
    let place = |value: &ProcessValue| {
        let bits = u32::from(value.data_type.bits().unwrap_or_default());
        Some((value.is_sent, value.bit?, bits))
    };
    let mut named = vec![None; values.len()];
    let mut unused = Vec::new();
    for ImageChannel { name, is_sent, bit, bits } in channels {
        let found = values.iter().position(|value| place(value) == Some((is_sent, bit, bits)));
        match found {
            Some(found) => named[found] = Some(name),
            None => unused.push(name),
        }
    }
    let usual = |(name, value): (Option<String>, &ProcessValue)| {
        name.unwrap_or_else(|| value.object.to_string())
    };
    (named.into_iter().zip(values).map(usual).collect(), unused)
}

/// The keys `cdc` and `xap` of a table; the outer `None` without a project.
pub(super) fn read(table: &mut Table<'_>, folder: &Path) -> Option<Option<Project>> {
    let (cdc, xap) = (table.take("cdc"), table.take("xap"));
    let Some(cdc) = cdc else {
        if let Some(xap) = xap {
            xap.fault("xap without cdc", "add cdc = \"mnobd.cdc\", the file that belongs to it");
        }
        return None;
    };
    let path = |value: &Value<'_>| value.text().map(|name| folder.join(name));
    let xap_path = xap.as_ref().map(path);
    let (Some(cdc_path), false) = (path(&cdc), xap_path == Some(None)) else { return Some(None) };
    let loaded = Project::load(&cdc_path, xap_path.flatten().as_deref());
    if let Err(error) = &loaded {
        let at = match error {
            ProjectFileError::Xap { .. } => xap.as_ref().unwrap_or(&cdc),
            _ => &cdc,
        };
        let text = error.to_string();
        let (what, help) = text.rsplit_once("; ").unwrap_or((&text, ""));
        at.fault(what, help);
    }
    Some(loaded.ok())
}
