//! `Object` and `SubObject`.

use onbeat_powerlink::od::{Access, AddError, DataType, Limits, Object, ObjectId, PdoMapping, id};
use roxmltree::Node;

use crate::fault::Faults;
use crate::parameter::{Parameter, Parameters};
use crate::{Description, is, value};

/// `objectType`: type definitions, which are not objects with a value.
const DEFINITIONS: [&str; 3] = ["0", "5", "6"];
/// `objectType`: an object with sub-indices.
const COMPOUND: [&str; 2] = ["8", "9"];

/// Number of equal elements at which an array has one description for all of them.
const UNIFORM: usize = 8;

/// An object with a value.
struct ReadObject<'a, 'input> {
    node: Node<'a, 'input>,
    id: ObjectId,
    object: Object,
    actual: Option<Vec<u8>>,
}

/// Reads an `Object` and its sub-objects.
pub(crate) fn read(
    node: Node<'_, '_>,
    parameters: &Parameters<'_>,
    faults: &Faults<'_, '_>,
    to: &mut Description,
) {
    let Some(index) = number(node, "index", 4, faults) else { return };
    let kind = node.attribute("objectType").map_or("7", str::trim);
    if DEFINITIONS.contains(&kind) {
        return;
    }
    let subs: Vec<Node<'_, '_>> = node.children().filter(|child| is(*child, "SubObject")).collect();
    if subs.is_empty() && !COMPOUND.contains(&kind) {
        let read = one(node, id(index, 0), None, parameters, faults);
        read.into_iter().for_each(|read| add(read, faults, to));
        return;
    }
    if let Some(name) = node.attribute("name") {
        to.records.insert(index, name.to_owned());
    }
    // The elements of an array have its type unless they have their own.
    let data_type = if kind == "8" { of_attribute(node, faults) } else { None };
    let mut elements = Vec::new();
    for sub in subs {
        let Some(sub_index) = number(sub, "subIndex", 2, faults) else { continue };
        // Number of entries, whatever the type of the entries.
        let data_type = if sub_index == 0 { Some(DataType::Unsigned(1)) } else { data_type };
        let read = one(sub, id(index, sub_index as u8), data_type, parameters, faults);
        match read {
            Some(read) if sub_index == 0 => add(read, faults, to),
            read => elements.extend(read),
        }
    }
    let is_uniform = |(place, read): (usize, &ReadObject<'_, '_>)| {
        usize::from(read.id.sub) == place + 1 && read.object == elements[0].object
    };
    if elements.len() >= UNIFORM && elements.iter().enumerate().all(is_uniform) {
        let (count, element) = (elements.len() as u8, elements[0].object.clone());
        if to.objects.add_array(index, count, element).is_ok() {
            elements.into_iter().for_each(|read| record(read, faults, to));
            return;
        }
    }
    elements.into_iter().for_each(|read| add(read, faults, to));
}

/// Reads an object with a value; `data_type` is its default type.
fn one<'a, 'input>(
    node: Node<'a, 'input>,
    id: ObjectId,
    data_type: Option<DataType>,
    parameters: &Parameters<'_>,
    faults: &Faults<'_, '_>,
) -> Option<ReadObject<'a, 'input>> {
    let parameter = parameter(node, parameters, faults);
    let object = describe(node, id, data_type, &parameter, faults)?;
    let actual = written(node, "actualValue", parameter.actual, &object, id, faults).ok()?;
    Some(ReadObject { node, id, object, actual })
}

/// Adds an object to a description.
fn add(read: ReadObject<'_, '_>, faults: &Faults<'_, '_>, to: &mut Description) {
    let ReadObject { node, id, ref object, .. } = read;
    match to.objects.add(id, object.clone()) {
        Ok(()) => {}
        // A list may repeat an object.
        Err(AddError::Exists(_)) if to.objects.object(id) == Ok(object) => return,
        Err(error) => {
            let (attribute, help) = match error {
                AddError::Exists(_) => ("index", "describe each object once"),
                AddError::Default(..) => ("defaultValue", "give a default within the limits"),
            };
            return faults.note_attribute(node, attribute, error.to_string(), help);
        }
    }
    record(read, faults, to);
}

/// Records name and actual value of an added object.
fn record(read: ReadObject<'_, '_>, faults: &Faults<'_, '_>, to: &mut Description) {
    let ReadObject { node, id, object, actual } = read;
    if let Some(name) = node.attribute("name") {
        to.names.insert(id, name.to_owned());
    }
    let Some(actual) = actual.filter(|actual| *actual != object.default) else { return };
    match to.objects.check(id, &actual) {
        Ok(()) => to.actual.push((id, actual)),
        Err(abort) => faults.note_attribute(
            node,
            "actualValue",
            format!("actual value of object {id} is invalid: {abort}"),
            "use a value of its type, within its limits",
        ),
    }
}

/// The parameter that an object refers to; an empty one if it refers to none.
fn parameter<'a>(
    node: Node<'_, '_>,
    parameters: &Parameters<'a>,
    faults: &Faults<'_, '_>,
) -> Parameter<'a> {
    let Some(reference) = node.attribute("uniqueIDRef") else { return Parameter::default() };
    match parameters.get(reference) {
        Some(parameter) => parameter,
        None => {
            faults.note_attribute(
                node,
                "uniqueIDRef",
                format!("parameter {reference:?} not found"),
                "use the uniqueID of a parameter or parameterGroup of ApplicationProcess",
            );
            Parameter::default()
        }
    }
}

fn describe(
    node: Node<'_, '_>,
    object: ObjectId,
    data_type: Option<DataType>,
    parameter: &Parameter<'_>,
    faults: &Faults<'_, '_>,
) -> Option<Object> {
    let said = node.has_attribute("dataType");
    let data_type = match of_attribute(node, faults) {
        None if said => return None,
        own => own.or(parameter.data_type).or(data_type),
    };
    let Some(data_type) = data_type else {
        if is_reserved(node) {
            return None;
        }
        let help = "add dataType, as dataType=\"0006\" for UNSIGNED16";
        faults.note(node, format!("object {object} has no data type"), help);
        return None;
    };
    let access = access(node, faults).or(parameter.access);
    let access = access.unwrap_or(if object.sub == 0 && is(node, "SubObject") {
        Access::Constant
    } else {
        Access::ReadWrite
    });
    let mappable = mappable(node, access, data_type, faults);
    let mut described = Object::new(data_type, access, value::zero(data_type)).mapped(mappable);
    let default = written(node, "defaultValue", parameter.default, &described, object, faults);
    described.limits = limits(node, object, data_type, parameter, faults);
    described.default = match default.ok()? {
        Some(default) => default,
        // The device defines it. Until it is read, it is the value within the limits that is next to 0.
        None => value::nearest(data_type, described.limits.as_ref()),
    };
    Some(described)
}

/// Whether a sub-object only keeps its sub-index free: it has nothing but a name.
fn is_reserved(node: Node<'_, '_>) -> bool {
    const VALUE: [&str; 4] = ["accessType", "PDOmapping", "defaultValue", "uniqueIDRef"];
    is(node, "SubObject") && VALUE.iter().all(|attribute| !node.has_attribute(*attribute))
}

/// A value of an object in an attribute, or in its parameter.
fn written(
    node: Node<'_, '_>,
    attribute: &str,
    parameter: Option<&str>,
    described: &Object,
    object: ObjectId,
    faults: &Faults<'_, '_>,
) -> Result<Option<Vec<u8>>, ()> {
    let Some(text) = node.attribute(attribute).or(parameter) else { return Ok(None) };
    let value = value::value(described.data_type, text);
    if value.is_none() {
        faults.note_attribute(
            node,
            attribute,
            format!(
                "object {object}: {attribute} {text:?} is not a value of {}",
                described.data_type
            ),
            "write a number in decimal, or in hexadecimal as 0x1F, that fits the data type",
        );
    }
    value.map(Some).ok_or(())
}

fn limits(
    node: Node<'_, '_>,
    object: ObjectId,
    data_type: DataType,
    parameter: &Parameter<'_>,
    faults: &Faults<'_, '_>,
) -> Option<Limits> {
    let has = |text: &&str| !text.trim().is_empty();
    let low = node.attribute("lowLimit").or(parameter.low).filter(has);
    let high = node.attribute("highLimit").or(parameter.high).filter(has);
    if low.is_none() && high.is_none() {
        return None;
    }
    let limits = value::limits(data_type, low, high);
    if limits.as_ref().is_none_or(value::is_empty) {
        let attribute = if low.is_some() { "lowLimit" } else { "highLimit" };
        let shown = |limit: Option<&str>| limit.map_or("none".into(), |text| format!("{text:?}"));
        faults.note_attribute(
            node,
            attribute,
            format!("object {object}: invalid limits {} and {}", shown(low), shown(high)),
            "use numbers of the object's type, with the low limit not above the high limit",
        );
    }
    limits
}

/// `dataType`, if it is present and a value type.
fn of_attribute(node: Node<'_, '_>, faults: &Faults<'_, '_>) -> Option<DataType> {
    node.attribute("dataType")?;
    let index = number(node, "dataType", 4, faults)?;
    let data_type = value::data_type(index);
    if data_type.is_none() {
        faults.note_attribute(
            node,
            "dataType",
            format!("dataType {index:04X} is not a value type"),
            "use a type of DS 301, 6.1.4, as 0006 for UNSIGNED16",
        );
    }
    data_type
}

fn access(node: Node<'_, '_>, faults: &Faults<'_, '_>) -> Option<Access> {
    let written = node.attribute("accessType")?;
    let access = match written.trim() {
        "const" => Access::Constant,
        "ro" => Access::ReadOnly,
        "rw" => Access::ReadWrite,
        "wo" => Access::WriteOnly,
        // Readable and writable, depending on the state of the device.
        "cond" => Access::ReadWrite,
        _ => {
            let what = format!("unknown accessType {written:?}");
            faults.note_attribute(node, "accessType", what, "use const, ro, rw or wo");
            return None;
        }
    };
    Some(access)
}

/// `PDOmapping`: without a direction, access decides.
fn mappable(
    node: Node<'_, '_>,
    access: Access,
    data_type: DataType,
    faults: &Faults<'_, '_>,
) -> PdoMapping {
    let Some(written) = node.attribute("PDOmapping") else { return PdoMapping::No };
    let mappable = match (written.trim(), access) {
        ("no", _) => PdoMapping::No,
        ("TPDO", _) | ("default" | "optional", Access::Constant | Access::ReadOnly) => {
            PdoMapping::Transmit
        }
        ("RPDO", _) | ("default" | "optional", Access::WriteOnly) => PdoMapping::Receive,
        ("default" | "optional", Access::ReadWrite) => PdoMapping::Both,
        _ => {
            let what = format!("unknown PDOmapping {written:?}");
            let help = "use no, default, optional, TPDO or RPDO";
            faults.note_attribute(node, "PDOmapping", what, help);
            return PdoMapping::No;
        }
    };
    if data_type.fixed_len().is_some() { mappable } else { PdoMapping::No }
}

/// A hexadecimal number of at most `digits` digits in an attribute.
fn number(
    node: Node<'_, '_>,
    attribute: &str,
    digits: usize,
    faults: &Faults<'_, '_>,
) -> Option<u16> {
    let Some(written) = node.attribute(attribute) else {
        let what = format!("{} without {attribute}", node.tag_name().name());
        faults.note(node, what, format!("add {attribute}, in hexadecimal"));
        return None;
    };
    let text = written.trim();
    let text = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let fits =
        (1..=digits).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = if fits { u16::from_str_radix(text, 16).ok() } else { None };
    if number.is_none() {
        let what = format!("{attribute} {written:?} is not a number of at most {digits} digits");
        faults.note_attribute(node, attribute, what, "write it in hexadecimal, without 0x");
    }
    number
}
