//! Checks of each frame: it left by the right ports, the right number of times, and with the right
//! content.

use super::super::spec::{Egress, Era, Function, Recovery, Span};
use super::element::{Arrival, Departure, Element};
use super::window::Window;
use super::{NodeStream, Rule, Verdict};
use onbeat_report::format::{count, count_of};

pub(super) fn check(
    place: NodeStream<'_>,
    element: &Element,
    window: &Window,
    verdict: &mut Verdict,
) {
    for (sequence, came, left) in element.frames() {
        let frame = FrameCopies { place, window, sequence, came, left };
        frame.origin(verdict);
        frame.delivery(verdict);
    }
    let wrong: Vec<_> = window.wrongly_accepted().collect();
    for (sequence, at, text) in wrong {
        let frames = copies_of(element, sequence);
        let text = format!("frame {sequence}, {text}");
        verdict.violate(place, Rule::Window, None, at, (text, frames));
    }
}

/// All captured copies of a frame.
fn copies_of(element: &Element, sequence: u64) -> Vec<usize> {
    let came = element.ins.iter().filter(|copy| copy.sequence == sequence).map(|copy| copy.index);
    let left = element.outs.iter().filter(|out| out.sequence == sequence);
    came.chain(left.map(|out| out.sighting.index)).collect()
}

struct FrameCopies<'a> {
    place: NodeStream<'a>,
    window: &'a Window,
    sequence: u64,
    came: &'a [Arrival],
    left: &'a [Departure],
}

impl FrameCopies<'_> {
    fn copies(&self) -> Vec<usize> {
        let came = self.came.iter().map(|copy| copy.index);
        came.chain(self.left.iter().map(|out| out.sighting.index)).collect()
    }

    fn function(&self, copy: &Arrival) -> Option<&Function> {
        self.place.eras()[copy.era?].function.as_ref()
    }

    /// A frame that leaves has arrived, leaves by an egress port, and has the right content.
    fn origin(&self, verdict: &mut Verdict) {
        for out in self.left {
            let mut violate = |rule, text| {
                verdict.violate(self.place, rule, Some(out.port), out.at, (text, self.copies()));
            };
            let before: Vec<&Arrival> = self.came.iter().filter(|copy| copy.at <= out.at).collect();
            let Some(first) = before.first() else {
                let text = format!("frame {} left without an arrival", self.sequence);
                violate(Rule::Ghost, text);
                continue;
            };
            let span = Span { from: first.at, to: out.at };
            let functions =
                || self.place.possible_eras(span).iter().filter_map(|e| e.function.as_ref());
            let egress = |function: &Function| -> Option<Egress> {
                function.egress.iter().find(|egress| egress.port == out.port).copied()
            };
            if !functions().any(|function| egress(function).is_some()) {
                let text = format!(
                    "frame {} left by a port that is no egress port of the stream",
                    self.sequence
                );
                violate(Rule::Ghost, text);
                continue;
            }
            let fits = |function: &Function| {
                egress(function)
                    .is_some_and(|egress| self.check_headers(function, &egress, out, &before))
            };
            if !functions().any(fits) {
                let seen = &out.sighting;
                let text = format!(
                    "frame {} left to {} with VLAN {} and number {}; it arrived with number {}",
                    self.sequence,
                    seen.destination,
                    or_none(seen.vlan),
                    or_none(seen.number),
                    or_none(first.number)
                );
                violate(Rule::Headers, text);
            }
        }
    }

    fn check_headers(
        &self,
        function: &Function,
        egress: &Egress,
        out: &Departure,
        before: &[&Arrival],
    ) -> bool {
        let seen = &out.sighting;
        let headers = &egress.headers;
        let number = match (headers.numbered, seen.number) {
            (false, number) => number.is_none(),
            // A number present on arrival stays; a new number is checked elsewhere.
            (true, number) => before.iter().any(|copy| match copy.number {
                Some(came) => number == Some(came),
                None => number.is_some() == function.generate,
            }),
        };
        number && (seen.destination, seen.vlan) == (headers.destination, headers.vlan)
    }

    /// A frame leaves as often as it must and may.
    fn delivery(&self, verdict: &mut Verdict) {
        let sure: Vec<&Arrival> = self.came.iter().filter(|copy| copy.sure).collect();
        let (Some(first), Some(last)) = (self.came.first(), self.came.last()) else { return };
        let eras = self.place.possible_eras(Span { from: first.at, to: last.until });
        for port in ports(eras) {
            let left: Vec<&Departure> = self.left.iter().filter(|out| out.port == port).collect();
            let all_alike = |key: fn(&Function) -> Option<Recovery>| {
                let mut kinds = eras.iter().map(|era| era.function.as_ref().map(key));
                let first = kinds.next();
                kinds.all(|kind| Some(kind) == first)
            };
            let Some(recover) =
                sure.first().and_then(|copy| self.function(copy)).map(|f| f.recover)
            else {
                continue;
            };
            match recover {
                Some(recover) if first.number.is_some() || !recover.take_no_sequence => {
                    self.recovered(port, &sure, &left, verdict);
                }
                _ if all_alike(|function| function.recover) => {
                    self.forwarded(port, &sure, &left, verdict);
                }
                _ => {}
            }
        }
    }

    /// Without recovery each copy leaves.
    fn forwarded(
        &self,
        port: usize,
        sure: &[&Arrival],
        left: &[&Departure],
        verdict: &mut Verdict,
    ) {
        let wanted = || sure.iter().filter(|copy| self.leads_to(copy, port));
        let bound = wanted().filter(|copy| !self.was_away(copy, port)).count();
        verdict.tally.checked += wanted().count() as u64;
        verdict.tally.delivered += left.len().min(wanted().count()) as u64;
        verdict.tally.excused += wanted().count().saturating_sub(left.len().max(bound)) as u64;
        let (came, left) = (self.came.len(), left.len());
        if left < bound {
            let copies = count_of(left as u64, bound as u64, "received copy");
            let text = format!("{copies} of frame {} left", self.sequence);
            self.violate(Rule::Delivered, port, text, verdict);
        } else if left > came {
            let text = format!(
                "frame {}: {} received, {left} sent",
                self.sequence,
                count(came as u64, "copy")
            );
            self.violate(Rule::Once, port, text, verdict);
        }
    }

    fn recovered(
        &self,
        port: usize,
        sure: &[&Arrival],
        left: &[&Departure],
        verdict: &mut Verdict,
    ) {
        for pair in left.windows(2) {
            if self.window.may_repeat(self.sequence, pair[0].at, pair[1].at) {
                verdict.tally.repeated += 1;
                continue;
            }
            let text = format!(
                "frame {} left again, {} us after the first time",
                self.sequence,
                (pair[1].at - pair[0].at) / 1000
            );
            self.violate(Rule::Once, port, text, verdict);
        }
        if !left.is_empty() && self.came.iter().all(|copy| copy.number.is_none()) {
            let text = format!("frame {} without a number was accepted", self.sequence);
            self.violate(Rule::Window, port, text, verdict);
        }
        let bound: Vec<&&Arrival> = sure.iter().filter(|copy| self.leads_to(copy, port)).collect();
        // A copy that arrived while the stream did not have the port may have been the accepted one.
        let maybe_before =
            |copy: &Arrival| copy.era.is_none() || copy.sure && !self.leads_to(copy, port);
        if bound.is_empty() || left.is_empty() && self.came.iter().any(maybe_before) {
            return;
        }
        verdict.tally.checked += 1;
        if !left.is_empty() {
            verdict.tally.delivered += 1;
            return;
        }
        let must_leave = |copy: &&&&Arrival| {
            let recover = self.function(copy).and_then(|function| function.recover);
            match (copy.number, recover) {
                (Some(number), Some(recover)) => !self.window.may_discard(copy, number, &recover),
                (None, Some(recover)) => recover.take_no_sequence,
                (_, None) => true,
            }
        };
        let mut due = bound.iter().filter(must_leave).peekable();
        if due.peek().is_none() {
            verdict.tally.outside += 1;
            return;
        }
        // A copy accepted while the egress port was unavailable makes later copies duplicates.
        let excused = |copy: &&&&Arrival| {
            let mut before = self.came.iter().filter(|other| other.at <= copy.until);
            before.any(|other| self.was_away(other, port))
        };
        let Some(copy) = due.find(|copy| !excused(copy)) else {
            verdict.tally.excused += 1;
            return;
        };
        let number = copy.number.map_or("none".into(), |number| number.to_string());
        let entered = &self.place.case.nodes[self.place.node].1[copy.port];
        let elsewhere = if self.left.is_empty() { "" } else { ", though by another port" };
        let text = format!(
            "frame {}, number {number}, arrived by {entered}, was within the history, and did not \
             leave{elsewhere}",
            self.sequence
        );
        self.violate(Rule::Delivered, port, text, verdict);
    }

    /// Whether the function that certainly processed the copy sends it by the port.
    fn leads_to(&self, copy: &Arrival, port: usize) -> bool {
        self.function(copy).is_some_and(|f| f.egress.iter().any(|egress| egress.port == port))
    }

    /// Whether the port may have been unavailable when the copy should have left.
    fn was_away(&self, copy: &Arrival, port: usize) -> bool {
        self.place.is_away(port, Span { from: copy.at, to: copy.gone })
    }

    fn violate(&self, rule: Rule, port: usize, text: String, verdict: &mut Verdict) {
        let at = self.came.first().map_or(0, |copy| copy.at);
        verdict.violate(self.place, rule, Some(port), at, (text, self.copies()));
    }
}

/// The egress ports of these eras.
fn ports(eras: &[Era]) -> std::collections::BTreeSet<usize> {
    let functions = eras.iter().filter_map(|era| era.function.as_ref());
    functions.flat_map(|function| &function.egress).map(|egress| egress.port).collect()
}

/// The number of a tag, for messages.
fn or_none(number: Option<u16>) -> String {
    number.map_or("none".into(), |number| number.to_string())
}
