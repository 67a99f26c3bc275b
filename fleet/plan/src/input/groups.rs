//! The `[[group]]` tables: shared-risk groups, which can contain others.

use onbeat_config::reader::Value;

use super::{Names, add, name, reference};
use crate::network::{Group, Network};

/// Groups of a link, directly or through other groups.
const MAX_GROUPS: usize = 64;

/// Groups by name, and for each those that contain it.
#[derive(Debug, Default)]
pub(super) struct GroupNames {
    pub(super) names: Names,
    inside: Vec<Vec<u32>>,
}

impl GroupNames {
    /// The groups of a link, from the value of its key: those that it names, and all that contain these.
    pub(super) fn of_link(&self, value: &Value<'_>) -> Vec<u32> {
        let mut found = Vec::new();
        for value in value.array().unwrap_or_default() {
            let mut open: Vec<u32> = reference(&self.names, "group", &value).into_iter().collect();
            while let Some(group) = open.pop() {
                if found.contains(&group) {
                    continue;
                }
                if found.len() == MAX_GROUPS {
                    value.fault(
                        format!("the link is in more than {MAX_GROUPS} groups"),
                        "use fewer groups, or fewer groups that contain others",
                    );
                    return found;
                }
                found.push(group);
                open.extend(&self.inside[group as usize]);
            }
        }
        found.sort_unstable();
        found
    }
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
    groups.inside = inside(&contents, &groups.names, network);
    groups
}

/// The groups that contain each group directly. Reports groups that contain each other.
fn inside(contents: &[Vec<Value<'_>>], names: &Names, network: &Network) -> Vec<Vec<u32>> {
    let inner = |values: &Vec<Value<'_>>| -> Vec<Option<u32>> {
        values.iter().map(|value| reference(names, "group", value)).collect()
    };
    let inner: Vec<Vec<Option<u32>>> = contents.iter().map(inner).collect();
    let mut inside = vec![Vec::new(); contents.len()];
    // A group is open while the groups in it are visited: none of them may contain it.
    let (mut is_visited, mut is_open) = (vec![false; contents.len()], vec![false; contents.len()]);
    for root in 0..contents.len() {
        let mut stack = vec![(root, 0)];
        while let Some((outer, next)) = stack.pop() {
            if next == 0 && std::mem::replace(&mut is_visited[outer], true) {
                continue;
            }
            let Some(group) = inner[outer].get(next) else {
                is_open[outer] = false;
                continue;
            };
            is_open[outer] = true;
            stack.push((outer, next + 1));
            let Some(group) = group.map(|group| group as usize) else { continue };
            if is_open[group] {
                let [a, b] = [outer, group].map(|index| &network.groups[index].name);
                contents[outer][next].fault(
                    match a == b {
                        true => format!("group {a:?} contains itself"),
                        false => format!("groups {a:?} and {b:?} contain each other"),
                    },
                    "remove one of the references: a group cannot contain itself",
                );
                continue;
            }
            inside[group].push(outer as u32);
            stack.push((group, 0));
        }
    }
    for groups in &mut inside {
        groups.sort_unstable();
        groups.dedup();
    }
    inside
}
