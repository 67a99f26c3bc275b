//! A rough estimate of the clock difference of two captures: sufficient to merge them by time.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Read;

use super::{PairingError, Side};
use crate::capture::{CaptureError, Reader};
use crate::change::median;
use crate::key::{NoKeyReason, Recognition};

/// Minimum number of common packets at the start of both.
const FEWEST: usize = 10;

/// Returns the median of departure less arrival, in nanoseconds, of packets that are unique in the first `packets`
/// of each capture; `None` if there are fewer than ten.
///
/// Its negative is the shift for [`CapturePair::new`](super::CapturePair::new);
/// [`Window::lead_ns`](crate::matching::Window::lead_ns) and [`longest_ns`](crate::matching::Window::longest_ns)
/// must cover the delays and the skew. The captures are consumed: open them again for matching.
pub fn median_difference_ns(
    arrivals: &mut Reader<impl Read>,
    departures: &mut Reader<impl Read>,
    recognition: &Recognition,
    packets: u64,
) -> Result<Option<i64>, PairingError> {
    let of = |side| move |error| PairingError { side, error };
    let arrivals =
        times(Side::Arrivals, arrivals, recognition, packets).map_err(of(Side::Arrivals))?;
    let departures =
        times(Side::Departures, departures, recognition, packets).map_err(of(Side::Departures))?;
    let differences: Vec<f64> = arrivals
        .iter()
        .filter_map(|(key, arrival)| {
            let difference = i128::from((*departures.get(key)?)?) - i128::from((*arrival)?);
            Some(difference as f64)
        })
        .collect();
    if differences.len() < FEWEST {
        return Ok(None);
    }
    Ok(median(differences).map(|difference| difference as i64))
}

/// Maps each key to its time; `None`: more than one packet.
fn times(
    side: Side,
    reader: &mut Reader<impl Read>,
    recognition: &Recognition,
    packets: u64,
) -> Result<HashMap<u64, Option<i64>>, CaptureError> {
    let mut times = HashMap::new();
    for _ in 0..packets {
        let Some(packet) = reader.next_packet()? else { break };
        let key = match recognition.key_on(side, &packet) {
            Ok(key) => key,
            Err(NoKeyReason::Link(link)) => {
                return Err(CaptureError::Link { number: packet.number, link });
            }
            Err(_) => continue,
        };
        match times.entry(key) {
            Entry::Vacant(place) => drop(place.insert(Some(packet.time_ns))),
            Entry::Occupied(mut place) => *place.get_mut() = None,
        }
    }
    Ok(times)
}
