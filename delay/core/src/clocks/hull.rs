//! The lower convex hull of delays over time.

/// A delay and the time of its measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// The time, in nanoseconds.
    pub time_ns: i64,
    /// The delay by the two clocks, in nanoseconds.
    pub delay_ns: i64,
}

/// A delay that changes linearly with time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// The origin, in nanoseconds.
    pub origin_ns: i64,
    /// The delay at the origin, in nanoseconds.
    pub delay_ns: f64,
    /// The slope, in nanoseconds per nanosecond: 1e-6 is 1 ppm.
    pub skew: f64,
}

impl Line {
    /// The delay at a time, in nanoseconds.
    pub fn at(&self, time_ns: i64) -> f64 {
        self.delay_ns + self.skew * (time_ns as f64 - self.origin_ns as f64)
    }

    fn through(a: Point, b: Point) -> Self {
        let skew = slope(a, b).unwrap_or(0.0);
        Line { origin_ns: a.time_ns, delay_ns: a.delay_ns as f64, skew }
    }
}

/// The lower convex hull of points in order of time. It has few vertices, whatever the number of points.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hull {
    corners: Vec<Point>,
}

impl Hull {
    /// Creates an empty hull.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a point. A point older than the latest is omitted: captured packets are slightly out of order at times,
    /// and a single packet has no effect.
    #[inline]
    pub fn push(&mut self, point: Point) {
        if let Some(last) = self.corners.last() {
            let later = point.time_ns > last.time_ns;
            let lower = point.time_ns == last.time_ns && point.delay_ns < last.delay_ns;
            if !later && !lower {
                return;
            }
            if lower {
                self.corners.pop();
            }
        }
        while let [.., a, b] = self.corners[..] {
            if turns_up(a, b, point) {
                break;
            }
            self.corners.pop();
        }
        self.corners.push(point);
    }

    /// The vertices, in order of time.
    pub fn corners(&self) -> &[Point] {
        &self.corners
    }

    /// Returns the line below all points with the least mean distance, given the mean of their times: of all such
    /// lines the highest at that time, which is an edge of the hull.
    pub fn line(&self, mean_time_ns: i64) -> Option<Line> {
        let after = self.corners.partition_point(|corner| corner.time_ns <= mean_time_ns);
        match self.corners.len() {
            0 => None,
            1 => Some(Line::through(self.corners[0], self.corners[0])),
            len => {
                let after = after.clamp(1, len - 1);
                Some(Line::through(self.corners[after - 1], self.corners[after]))
            }
        }
    }

    /// The hull at a time, in nanoseconds; `None` before its first and after its last vertex.
    pub fn at(&self, time_ns: i64) -> Option<f64> {
        let after = self.corners.partition_point(|corner| corner.time_ns < time_ns);
        let to = *self.corners.get(after)?;
        match after {
            _ if to.time_ns == time_ns => Some(to.delay_ns as f64),
            0 => None,
            _ => Some(Line::through(self.corners[after - 1], to).at(time_ns)),
        }
    }

    /// The distance of the nearest point above a line, in nanoseconds.
    pub fn above(&self, line: &Line) -> Option<f64> {
        let above = |corner: &Point| corner.delay_ns as f64 - line.at(corner.time_ns);
        self.corners.iter().map(above).min_by(f64::total_cmp)
    }
}

/// The slope from one point to another; `None` if they have the same time.
pub(super) fn slope(a: Point, b: Point) -> Option<f64> {
    let run = difference(a.time_ns, b.time_ns);
    (run > 0).then(|| difference(a.delay_ns, b.delay_ns) as f64 / run as f64)
}

/// The difference of `a` and `b`, which may exceed 64 bits.
fn difference(a: i64, b: i64) -> i128 {
    i128::from(b) - i128::from(a)
}

/// Returns true if the path from `a` over `b` to `c` bends upwards at `b`.
fn turns_up(a: Point, b: Point, c: Point) -> bool {
    let run = (difference(a.time_ns, b.time_ns), difference(b.time_ns, c.time_ns));
    let rise = (difference(a.delay_ns, b.delay_ns), difference(b.delay_ns, c.delay_ns));
    rise.0 * run.1 < rise.1 * run.0
}
