//! A number of a result: an exact integer if possible.

use std::cmp::Ordering;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// An integer or a float. A float that is not a number (no measurement, or a division by zero) is `null` in
/// JSON, equals nothing and satisfies no limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A count.
    Integer(i64),
    /// A measurement.
    Float(f64),
}

impl Number {
    /// No value was measured.
    pub const MISSING: Self = Self::Float(f64::NAN);

    /// Converts to a float; integers beyond 2^53 lose their last digits.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    /// Compares integers exactly, everything else as floats; `None` with a missing number.
    pub fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => Some(a.cmp(&b)),
            (a, b) => a.as_f64().partial_cmp(&b.as_f64()),
        }
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

/// A counter above `i64::MAX` (a thousand years of frames) becomes a float.
impl From<u64> for Number {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Self::Float(value as f64), Self::Integer)
    }
}

impl From<usize> for Number {
    fn from(value: usize) -> Self {
        Self::from(value as u64)
    }
}

macro_rules! from_small_integers {
    ($($t:ty),*) => {
        $(impl From<$t> for Number {
            fn from(value: $t) -> Self {
                Self::Integer(i64::from(value))
            }
        })*
    };
}
from_small_integers!(i64, i32, u32, u16, u8);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Integer(value) => serializer.serialize_i64(value),
            Self::Float(value) if value.is_finite() => serializer.serialize_f64(value),
            Self::Float(_) => serializer.serialize_none(),
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberVisitor;
        impl Visitor<'_> for NumberVisitor {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or null")
            }
            fn visit_i64<E>(self, value: i64) -> Result<Number, E> {
                Ok(value.into())
            }
            fn visit_u64<E>(self, value: u64) -> Result<Number, E> {
                Ok(value.into())
            }
            fn visit_f64<E>(self, value: f64) -> Result<Number, E> {
                Ok(value.into())
            }
            fn visit_unit<E>(self) -> Result<Number, E> {
                Ok(Number::MISSING)
            }
            fn visit_none<E>(self) -> Result<Number, E> {
                Ok(Number::MISSING)
            }
        }
        deserializer.deserialize_any(NumberVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_compare_exactly() {
        let big = 9_007_199_254_740_993_i64; // 2^53 + 1: not a float
        assert_eq!(Number::from(big).compare(Number::from(big - 1)), Some(Ordering::Greater));
        assert_eq!(Number::from(1_u64).compare(Number::from(1.0)), Some(Ordering::Equal));
    }

    #[test]
    fn a_missing_number_compares_with_nothing() {
        assert_eq!(Number::MISSING.compare(Number::MISSING), None);
        assert_eq!(Number::MISSING.compare(Number::from(0_u64)), None);
    }

    #[test]
    fn json_keeps_integers_and_writes_missing_as_null() {
        let numbers = [Number::from(3_u64), Number::from(2.5), Number::from(f64::INFINITY)];
        let json = serde_json::to_string(&numbers).unwrap();
        assert_eq!(json, "[3,2.5,null]");
        let back: Vec<Number> = serde_json::from_str(&json).unwrap();
        assert_eq!(back[..2], numbers[..2]);
        assert!(back[2].as_f64().is_nan());
    }

    #[test]
    fn a_counter_beyond_i64_stays_a_number() {
        assert_eq!(Number::from(u64::MAX), Number::Float(u64::MAX as f64));
    }
}
