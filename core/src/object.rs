//! Objects of JSON documents. What serde derives also reads a list of an object's fields in their order, which no format here
//! has; these readers refuse it. For `deserialize_with`.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A value that was an object.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields)).map(Object)
            }
        }
        from.deserialize_map(Fields(PhantomData))
    }
}

/// Reads an object.
///
/// # Errors
/// Something else, or an object that is no `T`.
pub fn one<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Object::deserialize(from).map(|Object(value)| value)
}

/// Reads an object or null.
///
/// # Errors
/// Something else, or an object that is no `T`.
pub fn optional<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    let read: Option<Object<T>> = Option::deserialize(from)?;
    Ok(read.map(|Object(value)| value))
}

/// Reads a list of objects.
///
/// # Errors
/// Something else, or an object that is no `T`.
pub fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Vec::deserialize(from).map(values)
}

/// Reads a list of objects or null.
///
/// # Errors
/// Something else, or an object that is no `T`.
pub fn optional_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<Vec<T>>, D::Error> {
    let read: Option<_> = Option::deserialize(from)?;
    Ok(read.map(values))
}

fn values<T>(objects: Vec<Object<T>>) -> Vec<T> {
    objects.into_iter().map(|Object(value)| value).collect()
}
