//! Settings as types: name, default, allowed values and help of a setting stand where it is declared, and
//! command line, pages and code read them from there.

use crate::method::parameters::{ParameterSpec, Parameters};

/// A setting of a method. Declared with [`setting!`](crate::setting), listed in
/// [`About::parameters`](crate::method::About::parameters), read with [`Parameters::get`].
pub trait Setting {
    /// What it is in code.
    type Value;
    /// Name, default, allowed values and help.
    const SPEC: ParameterSpec;
    /// The value that a word means; the word is one that [`Self::SPEC`] allows.
    fn value(word: &str) -> Self::Value;
}

impl Parameters {
    /// The value of a setting.
    ///
    /// # Panics
    /// When the method does not list the setting: a slip in its code.
    pub fn get<S: Setting>(&self) -> S::Value {
        S::value(self.word(S::SPEC.name))
    }

    /// The value of a setting that is a number, as a count of things in memory.
    ///
    /// # Panics
    /// Likewise.
    pub fn count<S: Setting<Value = u64>>(&self) -> usize {
        usize::try_from(self.get::<S>()).unwrap_or(usize::MAX)
    }
}

/// A default as people write it and as it is compared: without underscores, or it does not compile.
pub const fn plain(number: &'static str) -> &'static str {
    let mut at = 0;
    while at < number.len() {
        assert!(number.as_bytes()[at] != b'_', "defaults have no underscores");
        at += 1;
    }
    number
}

/// Declares a [`Setting`](crate::method::setting::Setting); its doc comment is its help.
///
/// | form | value |
/// |---|---|
/// | `pub Gap("gap-ppm"): number from 0 to 1_000_000 = 0` | `u64` |
/// | `pub Slots("slots"): auto or number from 1 to 100_000` | `Option<u64>`, `auto` by default |
/// | `pub Workspace("workspace"): switch = on` | `bool` |
/// | `pub enum Strategy("strategy") = Coarse { Plain = "plain", Coarse = "coarse" }` | the enum |
#[macro_export]
macro_rules! setting {
    ($(#[doc = $help:expr])+ $vis:vis $type:ident($name:literal): number from $min:literal to $max:literal = $default:literal) => {
        $crate::setting! { @($(#[doc = $help])+ $vis $type) $name, u64, $crate::method::setting::plain(stringify!($default)),
            Integer { min: $min, max: $max }, |word| word.parse().expect("parameters are checked when they are read") }
    };
    ($(#[doc = $help:expr])+ $vis:vis $type:ident($name:literal): auto or number from $min:literal to $max:literal) => {
        $crate::setting! { @($(#[doc = $help])+ $vis $type) $name, Option<u64>, "auto",
            IntegerOrAuto { min: $min, max: $max }, |word| word.parse().ok() }
    };
    ($(#[doc = $help:expr])+ $vis:vis $type:ident($name:literal): switch = $default:ident) => {
        $crate::setting! { @($(#[doc = $help])+ $vis $type) $name, bool, stringify!($default),
            Choice(&["on", "off"]), |word| word == "on" }
    };
    // What these three are: help, type, name, value, default, kind, and how a word is read.
    (@($(#[doc = $help:expr])+ $vis:vis $type:ident) $name:literal, $value:ty, $default:expr, $kind:ident $allowed:tt, |$word:ident| $read:expr) => {
        $(#[doc = $help])+
        #[derive(Clone, Copy, Debug)]
        $vis enum $type {}

        impl $crate::method::setting::Setting for $type {
            type Value = $value;
            const SPEC: $crate::ParameterSpec = $crate::ParameterSpec {
                name: $name,
                default: $default,
                kind: $crate::ParameterKind::$kind $allowed,
                help: concat!($($help),+).trim_ascii(),
            };

            fn value($word: &str) -> $value {
                $read
            }
        }
    };
    ($(#[doc = $help:expr])+ $vis:vis enum $type:ident($name:literal) = $default:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        $(#[doc = $help])+
        #[allow(missing_docs, reason = "its help says what its words mean")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $type { $($variant),+ }

        impl $type {
            /// As it is written.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
            /// What a word means, if anything.
            pub fn read(word: &str) -> Option<Self> {
                [$(Self::$variant),+].into_iter().find(|value| value.word() == word)
            }
        }

        impl $crate::method::setting::Setting for $type {
            type Value = Self;
            const SPEC: $crate::ParameterSpec = $crate::ParameterSpec {
                name: $name,
                default: Self::$default.word(),
                kind: $crate::ParameterKind::Choice(&[$($word),+]),
                help: concat!($($help),+).trim_ascii(),
            };

            fn value(word: &str) -> Self {
                Self::read(word).expect("parameters are checked when they are read")
            }
        }
    };
}

/// The [`ParameterSpec`]s of some settings, for [`About::parameters`](crate::method::About::parameters).
#[macro_export]
macro_rules! settings {
    ($($setting:ty),* $(,)?) => { &[$(<$setting as $crate::method::setting::Setting>::SPEC),*] };
}
