//! The Markdown files of a tree: their code blocks, command lines, links and anchors.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories without sources.
const SKIPPED: [&str; 2] = ["target", "out"];

/// A Markdown file.
#[derive(Debug)]
pub struct Document {
    /// Relative to the root of the tree.
    pub path: PathBuf,
    text: String,
}

/// A fenced code block.
#[derive(Debug)]
pub struct Block {
    /// Line of its first content, from 1.
    pub line: usize,
    /// The text after the opening fence.
    pub language: String,
    /// Its content.
    pub lines: Vec<String>,
}

/// A command line of `onbeat` in a document.
#[derive(Debug)]
pub struct CommandLine {
    /// `FILE:LINE` of it.
    pub location: String,
    /// Its words, without "onbeat".
    pub words: Vec<String>,
    /// Whether it is in running text or a drawing, which may omit arguments.
    pub may_lack_arguments: bool,
}

/// A link of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its line, from 1.
    pub line: usize,
    /// As written.
    pub target: String,
}

/// All Markdown files below `root`, in order.
///
/// # Panics
/// If a directory or file is not readable.
#[must_use]
pub fn documents(root: &Path) -> Vec<Document> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("a directory of the sources") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if path.is_dir() && !path.is_symlink() {
                if !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                    open.push(path);
                }
            } else if name.ends_with(".md") {
                let text = fs::read_to_string(&path).expect("a document in UTF-8");
                let path = path.strip_prefix(root).expect("below the root").to_owned();
                found.push(Document { path, text });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

impl Document {
    /// Returns its fenced code blocks. An indented block (in a list) is returned without its indentation.
    #[must_use]
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut open: Option<(usize, Block)> = None;
        for (number, line) in (1..).zip(self.text.lines()) {
            let indentation = line.len() - line.trim_start().len();
            let fence = line.trim_start().strip_prefix("```");
            match (&mut open, fence) {
                (None, Some(language)) => {
                    let language = language.trim().to_owned();
                    open = Some((
                        indentation,
                        Block { line: number + 1, language, lines: Vec::new() },
                    ));
                }
                (Some(_), Some(_)) => blocks.extend(open.take().map(|(_, block)| block)),
                (Some((indentation, block)), None) => {
                    block.lines.push(line.get(*indentation..).unwrap_or_default().to_owned());
                }
                (None, None) => {}
            }
        }
        blocks
    }

    /// Returns the text with blanks in place of code, so that line numbers are kept.
    fn prose(&self) -> String {
        let mut prose = String::new();
        let mut is_code = false;
        for line in self.text.lines() {
            let is_fence = line.trim_start().starts_with("```");
            if !is_fence && !is_code {
                // Odd parts are between backticks.
                let parts = line.split('`').enumerate();
                prose.extend(parts.map(|(part, text)| if part % 2 == 0 { text } else { "" }));
            }
            is_code ^= is_fence;
            prose.push('\n');
        }
        prose
    }

    /// Returns the targets of its links and images, and addresses in angle brackets.
    #[must_use]
    pub fn links(&self) -> Vec<Link> {
        let mut links = Vec::new();
        for (line, text) in (1..).zip(self.prose().lines()) {
            let after = |opening: &'static str, closing: char| {
                let rests = text.split(opening).skip(1);
                rests.filter_map(move |rest| rest.split(closing).next())
            };
            let in_brackets = after("<http", '>').map(|rest| format!("http{rest}"));
            let targets = after("](", ')').map(str::to_owned).chain(in_brackets);
            links.extend(targets.map(|target| Link { line, target }));
        }
        links
    }

    /// Returns the anchors that a link can name: of headings, as mdBook and GitHub generate them, and of `<a
    /// id="...">`.
    #[must_use]
    pub fn anchors(&self) -> BTreeSet<String> {
        let mut anchors = BTreeSet::new();
        let mut is_code = false;
        for line in self.text.lines() {
            is_code ^= line.trim_start().starts_with("```");
            if is_code {
                continue;
            }
            if let Some(heading) = line.strip_prefix('#') {
                let anchor = anchor(heading.trim_start_matches('#').trim());
                let numbered = (1..).map(|number| format!("{anchor}-{number}"));
                let mut names = std::iter::once(anchor.clone()).chain(numbered);
                anchors.extend(names.find(|name| !anchors.contains(name)));
            }
            let ids = line.split("id=\"").skip(1).filter_map(|rest| rest.split('"').next());
            anchors.extend(ids.map(str::to_owned));
        }
        anchors
    }

    /// Returns the command lines of `onbeat` in code blocks and running text, except those with a placeholder
    /// (`FILE`, `...`, `[OPTION]`) or a list (`irq, delay`).
    #[must_use]
    pub fn command_lines(&self) -> Vec<CommandLine> {
        let mut found = Vec::new();
        let mut add = |line: usize, text: &str, may_lack_arguments| {
            let words = words(text);
            if words.len() > 1 && words[0] == "onbeat" && !words.iter().any(|w| is_placeholder(w)) {
                let location = format!("{}:{line}", self.path.display());
                let words = words[1..].to_vec();
                found.push(CommandLine { location, words, may_lack_arguments });
            }
        };
        for block in self.blocks() {
            for (line, text) in (block.line..).zip(&block.lines) {
                let command = prompt(text).map_or(text.as_str(), |(_, command)| command);
                add(line, command, block.language.is_empty());
            }
        }
        let mut is_code = false;
        for (line, text) in (1..).zip(self.text.lines()) {
            is_code ^= text.trim_start().starts_with("```");
            let spans = text.split('`').skip(1).step_by(2);
            spans.filter(|_| !is_code).for_each(|span| add(line, span, true));
        }
        found
    }
}

/// Splits a line of a terminal into box and command: `a# ip link` is of box "a", `# ip link` of any.
#[must_use]
pub fn prompt(line: &str) -> Option<(&str, &str)> {
    let (name, command) = line.split_once("# ")?;
    name.chars().all(|c| c.is_ascii_lowercase()).then_some((name, command))
}

/// Returns the anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

/// Returns the words of a command, split as by a shell, up to an operator, a comment or a column of
/// explanation.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut blanks = 0;
    for c in command.chars() {
        let word = words.last_mut().expect("one at least");
        blanks = if c == ' ' { blanks + 1 } else { 0 };
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(opening), _) if c == opening => quote = None,
            (Some(_), _) => word.push(c),
            (None, '|' | '&' | ';' | '>' | '<' | '(' | ')') => break,
            (None, '#') if word.is_empty() => break,
            (None, ' ') if blanks > 1 => break,
            (None, ' ') => words.push(String::new()),
            (None, _) => word.push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn is_placeholder(word: &str) -> bool {
    let is_name = word.chars().all(|c| c.is_ascii_uppercase() || ",_".contains(c));
    is_name || word.ends_with(',') || word.contains("...") || word.contains('[')
}

/// Returns the links to missing files of the tree: `FILE:LINE: TARGET: REASON`.
#[must_use]
pub fn broken_links(root: &Path, documents: &[Document]) -> Vec<String> {
    let fault = |document: &Document, link: &Link| -> Option<String> {
        // `make book` adds the manual pages.
        let is_elsewhere = ["://", ".1.html"].iter().any(|part| link.target.contains(part));
        if is_elsewhere || link.target.starts_with("mailto:") {
            return None;
        }
        let (file, anchor) = link.target.split_once('#').unwrap_or((&link.target, ""));
        let directory = root.join(document.path.parent().unwrap_or(Path::new("")));
        let path = if file.is_empty() { root.join(&document.path) } else { directory.join(file) };
        let Ok(path) = path.canonicalize() else { return Some("no such file".to_owned()) };
        if anchor.is_empty() {
            return None;
        }
        let of_root = root.canonicalize().expect("the root");
        let named = documents.iter().find(|other| of_root.join(&other.path) == path);
        let has_anchor = named.is_some_and(|other| other.anchors().contains(anchor));
        (!has_anchor).then(|| "no such anchor".to_owned())
    };
    let faults = documents.iter().flat_map(|document| {
        let links = document.links().into_iter();
        links.filter_map(move |link| {
            let reason = fault(document, &link)?;
            Some(format!("{}:{}: {}: {reason}", document.path.display(), link.line, link.target))
        })
    });
    faults.collect()
}

/// Checks the keys of a JSON object against docs/reference/json.md: the table below this heading lists each of
/// them, and no other one unless its type contains "absent".
///
/// # Panics
/// Keys are missing in the page or in the object, or it is no object.
pub fn check_documented_keys(heading: &str, object: &serde_json::Value) {
    let page = fs::read_to_string(crate::root().join("docs/reference/json.md")).expect("the page");
    let lines = page.lines().skip_while(|line| line.trim_start_matches('#').trim() != heading);
    let table =
        lines.skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let (mut listed, mut required) = (BTreeSet::new(), BTreeSet::new());
    for row in table {
        let cells: Vec<&str> = row.split('|').collect();
        for key in cells[1].split('`').skip(1).step_by(2) {
            listed.insert(key);
            if !cells[2].contains("absent") {
                required.insert(key);
            }
        }
    }
    let object = object.as_object().unwrap_or_else(|| panic!("{heading}: {object} is no object"));
    let found: BTreeSet<&str> = object.keys().map(String::as_str).collect();
    assert!(!listed.is_empty(), "docs/reference/json.md has no table below {heading:?}");
    assert!(found.is_subset(&listed), "{heading}: not documented: {:?}", &found - &listed);
    assert!(required.is_subset(&found), "{heading}: not printed: {:?}", &required - &found);
}

/// Checks each command line of the documents whose first word is one of `commands`, and returns the number of
/// complete ones. The changelog is history. `parse` returns the kind and the text of an error of clap.
///
/// # Panics
/// A command line is invalid.
pub fn check_command_lines(
    root: &Path,
    is_ours: impl Fn(&str) -> bool,
    parse: impl Fn(Vec<&str>) -> Result<(), (String, String)>,
) -> usize {
    const INCOMPLETE: [&str; 3] = [
        "MissingRequiredArgument",
        "MissingSubcommand",
        "DisplayHelpOnMissingArgumentOrSubcommand",
    ];
    let documents = documents(root);
    let current = documents.iter().filter(|document| document.path != Path::new("CHANGELOG.md"));
    let mut complete = 0;
    for line in current.flat_map(Document::command_lines).filter(|line| is_ours(&line.words[0])) {
        let words = std::iter::once("onbeat").chain(line.words.iter().map(String::as_str));
        match parse(words.collect()) {
            Ok(()) => complete += 1,
            Err((kind, _)) if kind == "DisplayHelp" || kind == "DisplayVersion" => complete += 1,
            Err((kind, _)) if line.may_lack_arguments && INCOMPLETE.contains(&kind.as_str()) => {}
            Err((_, error)) => {
                panic!("{}: onbeat {}: {error}", line.location, line.words.join(" "));
            }
        }
    }
    complete
}
