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
/// | `pub Grouping("grouping"): auto or switch` | `Option<bool>`, `auto` by default |
/// | `pub enum Strategy("strategy") = Lazy { Plain = "plain", Lazy = "lazy" }` | the enum |
#[macro_export]
macro_rules! setting {
    ($(#[doc = $help:expr])+ $vis:vis $type:ident($name:literal): number from $min:literal to $max:literal = $default:literal) => {
        $(#[doc = $help])+
        #[derive(Clone, Copy, Debug)]
        $vis enum $type {}

        impl $crate::method::setting::Setting for $type {
            type Value = u64;
            const SPEC: $crate::ParameterSpec = $crate::ParameterSpec {
                name: $name,
                default: $crate::method::setting::plain(stringify!($default)),
                kind: $crate::ParameterKind::Integer { min: $min, max: $max },
                help: concat!($($help),+).trim_ascii(),
            };

            fn value(word: &str) -> u64 {
                word.parse().expect("parameters are checked when they are read")
            }
        }
    };
    ($(#[doc = $help:expr])+ $vis:vis $type:ident($name:literal): auto or number from $min:literal to $max:literal) => {
        $(#[doc = $help])+
        #[derive(Clone, Copy, Debug)]
        $vis enum $type {}

        impl $crate::method::setting::Setting for $type {
            type Value = Option<u64>;
            const SPEC: $crate::ParameterSpec = $crate::ParameterSpec {
                name: $name,
                default: "auto",
                kind: $crate::ParameterKind::IntegerOrAuto { min: $min, max: $max },
                help: concat!($($help),+).trim_ascii(),
            };

            fn value(word: &str) -> Option<u64> {
                word.parse().ok()
            }
        }
    };
    ($(#[doc = $help:expr])+ $vis:vis $type:ident($name:literal): switch = $default:ident) => {
        $(#[doc = $help])+
        #[derive(Clone, Copy, Debug)]
        $vis enum $type {}

        impl $crate::method::setting::Setting for $type {
            type Value = bool;
            const SPEC: $crate::ParameterSpec = $crate::ParameterSpec {
                name: $name,
                default: stringify!($default),
                kind: $crate::ParameterKind::Choice(&["on", "off"]),
                help: concat!($($help),+).trim_ascii(),
            };

            fn value(word: &str) -> bool {
                word == "on"
            }
        }
    };
    ($(#[doc = $help:expr])+ $vis:vis $type:ident($name:literal): auto or switch) => {
        $(#[doc = $help])+
        #[derive(Clone, Copy, Debug)]
        $vis enum $type {}

        impl $crate::method::setting::Setting for $type {
            type Value = Option<bool>;
            const SPEC: $crate::ParameterSpec = $crate::ParameterSpec {
                name: $name,
                default: "auto",
                kind: $crate::ParameterKind::Choice(&["auto", "on", "off"]),
                help: concat!($($help),+).trim_ascii(),
            };

            fn value(word: &str) -> Option<bool> {
                (word != "auto").then(|| word == "on")
            }
        }
    };
    ($(#[doc = $help:expr])+ $vis:vis enum $type:ident($name:literal) = $default:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        $(#[doc = $help])+
        #[allow(missing_docs, reason = "its help says what its words mean")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $type { $($variant),+ }

        impl $type {
            /// As it is written.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
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
                [$(Self::$variant),+].into_iter().find(|value| value.word() == word).expect("parameters are checked when they are read")
            }
        }
    };
}

/// The [`ParameterSpec`]s of some settings, for [`About::parameters`](crate::method::About::parameters).
#[macro_export]
macro_rules! settings {
    ($($setting:ty),* $(,)?) => { &[$(<$setting as $crate::method::setting::Setting>::SPEC),*] };
}
