//! The `[[group]]` tables: shared-risk groups, which can contain others.

use onbeat_config::reader::Value;

use super::{Names, add, name, reference};
use crate::network::{Group, Network};

/// Groups by name, and for each the groups whose links fail with its own: itself and those that contain it.
#[derive(Debug, Default)]
pub(super) struct GroupNames {
    pub(super) names: Names,
    pub(super) containers: Vec<Vec<u32>>,
}

/// Reads all groups.
pub(super) fn read(values: Vec<Value<'_>>, nodes: &Names, network: &mut Network) -> GroupNames {
    let mut groups = GroupNames::default();
    let mut contents = Vec::new();
    for value in values {
        let Some(mut table) = value.table() else { continue };
        let named = table.require("name", "\"duct-1\"");
        let group_name = named.as_ref().and_then(name);
        let inner = table.take("group").and_then(|value| value.array()).unwrap_or_default();
        table.finish();
        let Some(group_name) = group_name else { continue };
        let place = named.as_ref().unwrap_or(&value);
        if nodes.contains_key(&group_name) {
            place.fault(
                format!("{group_name:?} also names a node"),
                "give nodes and groups different names: --fail names one of them",
            );
        }
        add(&mut groups.names, "group", place, &group_name, network.groups.len());
        network.groups.push(Group { name: group_name, links: Vec::new() });
        contents.push(inner);
    }
    let mut inside = vec![Vec::new(); network.groups.len()];
    for (outer, values) in contents.iter().enumerate() {
        for value in values {
            if let Some(inner) = reference(&groups.names, "group", value) {
                inside[inner as usize].push(outer as u32);
                if reaches(&inside, outer as u32, inner) {
                    let names = [outer, inner as usize].map(|index| &network.groups[index].name);
                    value.fault(
                        format!("groups {:?} and {:?} contain each other", names[0], names[1]),
                        "remove one of the references: a group cannot contain itself",
                    );
                    inside[inner as usize].pop();
                }
            }
        }
    }
    groups.containers = (0..inside.len() as u32).map(|group| closure(&inside, group)).collect();
    groups
}

/// Whether `from` is contained in `to`, through any number of groups.
fn reaches(inside: &[Vec<u32>], from: u32, to: u32) -> bool {
    closure(inside, from).contains(&to)
}

fn closure(inside: &[Vec<u32>], group: u32) -> Vec<u32> {
    let mut found = vec![group];
    let mut next = 0;
    while let Some(&group) = found.get(next) {
        next += 1;
        for &outer in &inside[group as usize] {
            if !found.contains(&outer) {
                found.push(outer);
            }
        }
    }
    found.sort_unstable();
    found
}
