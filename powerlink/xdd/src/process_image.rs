//! Layout of the process image of a managing node, as configuration tools write it (`xap.xml`).

use roxmltree::{Document, Node};

use crate::fault::{Fault, Faults};
use crate::{bounds, is};

/// Maximum octets of a process image: those of all nodes in both directions fit.
const OCTETS: u32 = 1 << 20;

/// The remedy for another file.
const HELP: &str = "use the file xap.xml of the project";

/// A channel of a process image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageChannel {
    /// Its name.
    pub name: String,
    /// The application sends it to the network (`type="input"`); otherwise it receives it.
    pub is_sent: bool,
    /// Its first bit in the image of its direction.
    pub bit: u32,
    /// Its bits, 1 to 64.
    pub bits: u32,
}

/// Parses the text of a file.
///
/// # Errors
/// It is not XML, has no process image, or its channels are invalid: every error, at most fifty.
pub fn process_image(text: &str) -> Result<Vec<ImageChannel>, Vec<Fault>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let refused = |fault| vec![Fault { help: HELP.into(), ..fault }];
    bounds::check(text).map_err(refused)?;
    let document = Document::parse(text).map_err(|error| refused(Fault::of_xml(&error)))?;
    let faults = Faults::new(&document);
    let root = document.root_element();
    let images: Vec<Node<'_, '_>> =
        root.descendants().filter(|node| is(*node, "ProcessImage")).collect();
    if images.is_empty() {
        faults.note(root, "ProcessImage not found", HELP);
    }
    let mut channels = Vec::new();
    for image in images {
        let is_sent = match image.attribute("type").map(str::trim) {
            Some("input") => true,
            Some("output") => false,
            other => {
                let what = format!("unknown type {:?} of ProcessImage", other.unwrap_or(""));
                faults.note(image, what, "use input or output");
                continue;
            }
        };
        let size = match image.attribute("size") {
            Some(_) => number(image, "size", OCTETS, &faults),
            None => Some(OCTETS),
        };
        let Some(size) = size else { continue };
        let read = image.children().filter(|node| is(*node, "Channel"));
        channels.extend(read.filter_map(|node| channel(node, is_sent, size, &faults)));
    }
    faults.judge().map(|()| channels)
}

fn channel(
    node: Node<'_, '_>,
    is_sent: bool,
    size: u32,
    faults: &Faults<'_, '_>,
) -> Option<ImageChannel> {
    let Some(name) = node.attribute("Name").map(str::trim).filter(|name| !name.is_empty()) else {
        faults.note(node, "Channel without Name", "add Name");
        return None;
    };
    let bits = number(node, "dataSize", 64, faults)?;
    let octet = number(node, "PIOffset", OCTETS, faults)?;
    let bit = match node.attribute("BitOffset") {
        Some(_) => number(node, "BitOffset", 7, faults)?,
        None => 0,
    };
    let bit = octet * 8 + bit;
    if bits == 0 || bit + bits > size * 8 {
        let what = format!("channel {name:?} is not within the image of {size} octets");
        faults.note(node, what, "correct PIOffset, dataSize or the size of the image");
        return None;
    }
    Some(ImageChannel { name: name.to_owned(), is_sent, bit, bits })
}

/// A decimal or hexadecimal number in an attribute.
fn number(node: Node<'_, '_>, attribute: &str, most: u32, faults: &Faults<'_, '_>) -> Option<u32> {
    let written = node.attribute(attribute).unwrap_or("").trim();
    let parsed = match written.strip_prefix("0x").or_else(|| written.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => written.parse(),
    };
    let number = parsed.ok().filter(|number| *number <= most && !written.contains('+'));
    if number.is_none() {
        let what = format!("{attribute} {written:?} is not a number of at most {most}");
        faults.note_attribute(node, attribute, what, "write it in decimal, or as 0x1F");
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn image(channels: &str) -> String {
        format!(
            "<ApplicationProcess xmlns=\"x\">\n<ProcessImage type=\"output\" size=\"4\">\n{channels}\
             </ProcessImage>\n<ProcessImage type=\"input\" size=\"2\">\n<Channel Name=\"Drive.Speed\" \
             dataType=\"Integer16\" dataSize=\"16\" PIOffset=\"0x0000\"/>\n</ProcessImage>\n\
             </ApplicationProcess>"
        )
    }

    fn channel(rest: &str) -> String {
        image(&format!("<Channel {rest}/>\n"))
    }

    #[test]
    fn channels_have_direction_place_and_length() {
        let text = channel(
            "Name=\"IO.Ready\" dataType=\"BITSTRING\" dataSize=\"1\" PIOffset=\"0x0003\" BitOffset=\"0x05\"",
        );
        let channels = process_image(&text).unwrap_or_else(|faults| panic!("{faults:#?}"));
        let [ready, speed] = &channels[..] else { panic!("{channels:?}") };
        assert_eq!(
            (&*ready.name, ready.is_sent, ready.bit, ready.bits),
            ("IO.Ready", false, 29, 1)
        );
        assert_eq!(
            (&*speed.name, speed.is_sent, speed.bit, speed.bits),
            ("Drive.Speed", true, 0, 16)
        );
    }

    #[test]
    fn errors_have_their_position() {
        let of = |rest: &str| channel(&format!("Name=\"a\" {rest}"));
        for (text, what) in [
            (channel("dataSize=\"8\" PIOffset=\"0\""), "3:1: Channel without Name"),
            (of("PIOffset=\"0\""), "3:1: dataSize \"\" is not a number of at most 64"),
            (of("dataSize=\"65\" PIOffset=\"0\""), "3:19: dataSize \"65\" is not a number"),
            (of("dataSize=\"8\" PIOffset=\"0x\""), "3:32: PIOffset \"0x\" is not a number"),
            (
                of("dataSize=\"8\" PIOffset=\"4\""),
                "3:1: channel \"a\" is not within the image of 4 octets",
            ),
            (of("dataSize=\"0\" PIOffset=\"0\""), "3:1: channel \"a\" is not within"),
            (
                of("dataSize=\"8\" PIOffset=\"0\" BitOffset=\"8\""),
                "BitOffset \"8\" is not a number of at most 7",
            ),
            (
                image("").replace("\"input\"", "\"both\""),
                "4:1: unknown type \"both\" of ProcessImage",
            ),
            (image("").replace("size=\"2\"", "size=\"-2\""), "4:28: size \"-2\" is not a number"),
            ("<a/>".into(), "1:1: ProcessImage not found"),
            ("<a>".into(), "invalid XML"),
        ] {
            let faults = process_image(&text).expect_err(what);
            assert!(faults[0].to_string().contains(what), "{what}: {faults:#?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String, rest in "[ -~]{0,80}") {
            let _ = process_image(&text);
            let _ = process_image(&channel(&rest));
        }
    }
}
