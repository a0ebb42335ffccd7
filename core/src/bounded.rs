//! Reading bytes that nobody vouches for: how many, of how many JSON elements, and in which encoding.
//!
//! A few kilobytes may decompress to gigabytes, and a byte of JSON may become a hundred in memory. So the text is
//! read up to a limit, and its elements are counted while it is read, before anything is built of it. Knows no file.

use std::fmt;
use std::io::{self, Read};

/// Names a file's greatest size, decompressed, in MiB.
pub const VARIABLE: &str = "BENCH_MAX_FILE_MIB";
/// The greatest size unless the variable says otherwise.
const DEFAULT_MIB: u64 = 256;
/// JSON elements for each MiB of the greatest size.
const ELEMENTS_PER_MIB: u64 = 40 << 10;
/// What an object counts: in memory, a small one is worth so many numbers.
const OBJECT: u64 = 8;
const CHUNK: usize = 1 << 16;

/// What a file may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Size in MiB.
    pub mib: u64,
    /// JSON elements; none for text that is no JSON.
    pub elements: Option<u64>,
}

impl Limits {
    /// Of a JSON file.
    pub fn of_json() -> Self {
        let mib = setting().ok().flatten().unwrap_or(DEFAULT_MIB);
        Self { mib, elements: Some(mib.saturating_mul(ELEMENTS_PER_MIB)) }
    }

    /// Of any other text.
    pub fn of_text() -> Self {
        Self { elements: None, ..Self::of_json() }
    }

    fn bytes(self) -> u64 {
        self.mib.saturating_mul(1 << 20)
    }
}

/// The greatest size in MiB that the environment sets; none where it sets none.
///
/// # Errors
/// What is set is no size, in one line; readers take the usual one then.
pub fn setting() -> Result<Option<u64>, String> {
    let Some(text) = std::env::var_os(VARIABLE) else { return Ok(None) };
    mib(&text.to_string_lossy())
}

fn mib(text: &str) -> Result<Option<u64>, String> {
    match text.trim() {
        "" => Ok(None),
        number => match number.parse() {
            Ok(mib) if mib > 0 => Ok(Some(mib)),
            _ => Err(format!("{VARIABLE} is {text:?}; expected a whole number of MiB, at least 1")),
        },
    }
}

/// What there is too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    limits: Limits,
    /// Elements, or else bytes.
    elements: bool,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limits { mib, elements } = self.limits;
        match elements.filter(|_| self.elements) {
            Some(most) => write!(f, "holds more than {most} JSON elements (an object counts as {OBJECT})")?,
            None => write!(f, "holds more than {mib} MiB")?,
        }
        write!(f, ", the limit unless {VARIABLE} is set above {mib}")
    }
}

/// Reads everything, as far as the limits go.
///
/// # Errors
/// The reader's own.
pub fn read(mut reader: impl Read, limits: Limits) -> io::Result<Result<Vec<u8>, Excess>> {
    let mut bytes = Vec::new();
    let mut count = Count::default();
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = match reader.read(&mut chunk) {
            Ok(0) => return Ok(Ok(bytes)),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if (bytes.len() + length) as u64 > limits.bytes() {
            return Ok(Err(Excess { limits, elements: false }));
        }
        if let Some(most) = limits.elements {
            count.see(&chunk[..length]);
            if count.elements > most {
                return Ok(Err(Excess { limits, elements: true }));
            }
        }
        bytes.extend_from_slice(&chunk[..length]);
    }
}

/// Elements of JSON text, of which as many come as there are commas and brackets outside of texts.
#[derive(Default)]
struct Count {
    elements: u64,
    in_text: bool,
    escaped: bool,
}

impl Count {
    fn see(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                _ if std::mem::take(&mut self.escaped) => {}
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b',' | b'[' => self.elements += 1,
                b'{' => self.elements += OBJECT,
                _ => {}
            }
        }
    }
}

/// What bytes are that should be UTF-8 text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Text in another encoding.
    Utf16,
    /// Compressed by zstd.
    Zstd,
    /// Compressed by gzip.
    Gzip,
    /// Something else.
    NotText,
}

impl Found {
    /// What the first bytes say.
    pub fn in_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some(Self::Utf16),
            // Without a mark: every other byte of ASCII is zero.
            [0, first, 0, ..] | [first, 0, _, 0, ..] if *first != 0 => Some(Self::Utf16),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            _ => None,
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Utf16 => "is UTF-16 text; save it as UTF-8",
            Self::Zstd => "is compressed by zstd where that was not expected; its name should end in .json.zst",
            Self::Gzip => "is compressed by gzip where that was not expected; its name should end in .json.gz",
            Self::NotText => "is no UTF-8 text; save it as UTF-8",
        })
    }
}

/// Text without the byte order mark that some editors put before it.
pub fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str) -> u64 {
        let mut count = Count::default();
        // Byte by byte, as a slow pipe would deliver it.
        text.as_bytes().chunks(1).for_each(|byte| count.see(byte));
        count.elements
    }

    #[test]
    fn elements_are_counted_outside_of_texts_alone() {
        assert_eq!(counted("[0,0,0]"), 3);
        assert_eq!(counted(r#"{"a": [1, 2], "b": "[,,{\",\\"}"#), OBJECT + 3);
    }

    #[test]
    fn reading_stops_at_the_limits_and_says_what_lifts_them() {
        let limits = Limits { mib: 1, elements: Some(5) };
        let read = |text: &[u8]| read(text, limits).expect("memory can be read").map_err(|excess| excess.to_string());
        assert_eq!(read(b"[0,0,0,0]"), Ok(b"[0,0,0,0]".to_vec()));
        assert_eq!(
            read(b"[0,0,0,0,0,0]").expect_err("too many"),
            "holds more than 5 JSON elements (an object counts as 8), the limit unless BENCH_MAX_FILE_MIB is set above 1"
        );
        let large = vec![b' '; (1 << 20) + 1];
        assert_eq!(
            read(&large).expect_err("too many"),
            "holds more than 1 MiB, the limit unless BENCH_MAX_FILE_MIB is set above 1"
        );
        // A reader without an end is left.
        assert!(super::read(io::repeat(b'['), limits).expect("it can be read").is_err());
    }

    #[test]
    fn a_limit_is_a_whole_number_or_refused() {
        assert_eq!(["", " 1024 "].map(mib), [Ok(None), Ok(Some(1024))]);
        for text in ["abc", "0", "-1", "nan", "1.5"] {
            let words = format!("BENCH_MAX_FILE_MIB is {text:?}; expected a whole number of MiB, at least 1");
            assert_eq!(mib(text), Err(words));
        }
        assert_eq!(Limits { mib: u64::MAX, elements: None }.bytes(), u64::MAX);
    }

    #[test]
    fn encodings_are_named() {
        let utf16 = |text: &str, swap: bool| -> Vec<u8> {
            text.encode_utf16().flat_map(|unit| if swap { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
        };
        for text in ["{\"a\": 1}", "\u{feff}{}", "name = 'x'"] {
            for swap in [false, true] {
                assert_eq!(Found::in_bytes(&utf16(text, swap)), Some(Found::Utf16), "{text:?}");
            }
            assert_eq!(Found::in_bytes(text.as_bytes()), None);
        }
        assert_eq!(without_mark("\u{feff}{}".as_bytes()), b"{}");
    }
}
