//! Names of interrupt lines.

use std::fs;

/// The devices of a line, as /proc/interrupts has them: `virtio0-input.0`; its number if it has none.
#[must_use]
pub fn line(number: u32) -> String {
    let read = fs::read_to_string(format!("/sys/kernel/irq/{number}/actions"));
    let name = read.unwrap_or_default().trim().to_owned();
    if name.is_empty() { format!("line {number}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_a_device_is_its_number() {
        assert_eq!(line(u32::MAX), format!("line {}", u32::MAX));
    }

    #[test]
    fn lines_have_the_names_of_proc() {
        let interrupts = fs::read_to_string("/proc/interrupts").unwrap();
        let known = interrupts.lines().find_map(|line| {
            let (number, rest) = line.trim().split_once(':')?;
            Some((number.parse::<u32>().ok()?, rest.split_whitespace().next_back()?.to_owned()))
        });
        if let Some((number, name)) = known {
            assert!(line(number).ends_with(&name), "{number}: {name}");
        }
    }
}
