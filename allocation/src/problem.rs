//! The problem: buffers with lifetimes and sizes, and its text form, a CSV file.
//!
//! The file has the columns id, lower, upper and size of the public instances of MiniMalloc; a packing has a fifth one,
//! offset. Knows nothing of schedules.

use std::collections::HashSet;
use std::io::{Read, Write};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Largest sum of all sizes: CP-SAT takes no larger numbers, and no sum of offsets and sizes overflows.
pub const LARGEST_SUM: u64 = (1 << 62) - 1;

/// One buffer: it occupies `size` consecutive addresses at every moment in `lower..upper`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Name, unique within the problem.
    pub id: String,
    /// First moment.
    pub lower: u64,
    /// First moment after it.
    pub upper: u64,
    /// Bytes.
    pub size: u64,
}

impl Buffer {
    /// Whether two buffers are alive at the same moment.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.lower < other.upper && other.lower < self.upper
    }
}

/// Buffers that share one arena.
///
/// Offsets and sizes are multiples of the alignment: [`Problem::new`] rounds sizes up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    buffers: Vec<Buffer>,
    alignment: u64,
    bound: u64,
    /// Buffers of no size, which need no address, each with how many others go before it.
    empty: Vec<(usize, Buffer)>,
}

/// Buffers that make no problem, or a file that holds none.
#[derive(Debug, Error)]
pub enum ProblemError {
    /// The text is no CSV of the expected columns.
    #[error("{0}; expected CSV with the columns id, lower, upper and size, whole numbers all but the id")]
    Csv(#[from] csv::Error),
    /// The header lacks columns.
    #[error("has no column {0}; expected CSV with the columns id, lower, upper and size")]
    Columns(String),
    /// The header has a column that means nothing here.
    #[error(
        "has a column {0:?}; expected CSV with the columns id, lower, upper and size, and offset where it is a packing"
    )]
    Unknown(String),
    /// There is nothing but a header.
    #[error("holds no buffers; expected a line for each below the header")]
    NoRows,
    /// A lifetime is empty.
    #[error("buffer {id:?} lives in {lower}..{upper}, which is no moment; lower must be less than upper")]
    Lifetime {
        /// The buffer.
        id: String,
        /// First moment.
        lower: u64,
        /// First moment after it.
        upper: u64,
    },
    /// Two buffers have one name.
    #[error("two buffers have the id {0:?}; ids must be unique")]
    Twice(String),
    /// The sizes are too large.
    #[error("the sizes sum to 2^62 or more; use a larger unit")]
    Overflow,
    /// The alignment is zero.
    #[error("the alignment is 0; it must be at least 1")]
    Alignment,
    /// Some buffers have an offset and others have none.
    #[error("buffer {0:?} has no offset, but others have one")]
    Offset(String),
}

/// The columns of the file; the last one is there in packings.
const COLUMNS: [&str; 5] = ["id", "lower", "upper", "size", "offset"];

/// A row of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    #[serde(with = "remat_core::cell")]
    id: String,
    lower: u64,
    upper: u64,
    size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
}

impl Problem {
    /// Checks the buffers and rounds their sizes up to the alignment. Buffers of no size are set aside: no method meets them.
    ///
    /// # Errors
    /// A lifetime is empty, an id repeats, the alignment is zero, or the sizes overflow.
    pub fn new(all: Vec<Buffer>, alignment: u64) -> Result<Self, ProblemError> {
        if alignment == 0 {
            return Err(ProblemError::Alignment);
        }
        let (mut buffers, mut empty) = (Vec::with_capacity(all.len()), vec![]);
        let mut ids = HashSet::new();
        let mut sum = 0u64;
        for mut buffer in all {
            let Buffer { lower, upper, .. } = buffer;
            if lower >= upper {
                return Err(ProblemError::Lifetime { id: buffer.id.clone(), lower, upper });
            }
            if !ids.insert(buffer.id.clone()) {
                return Err(ProblemError::Twice(buffer.id.clone()));
            }
            buffer.size = buffer.size.checked_next_multiple_of(alignment).ok_or(ProblemError::Overflow)?;
            sum = sum.checked_add(buffer.size).filter(|&sum| sum <= LARGEST_SUM).ok_or(ProblemError::Overflow)?;
            if buffer.size > 0 { buffers.push(buffer) } else { empty.push((buffers.len(), buffer)) }
        }
        let bound = most_alive(&buffers);
        Ok(Self { buffers, alignment, bound, empty })
    }

    /// How many buffers there are, those of no size included.
    pub fn count(&self) -> usize {
        self.buffers.len() + self.empty.len()
    }

    /// The buffers, in the order given, without those of no size; their sizes are multiples of the alignment.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// What every offset and size is a multiple of.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// The largest sum of the sizes of buffers that are alive together: no packing is lower.
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// The first address above all buffers placed at some offsets, one for each buffer; at most 2^64 - 1.
    pub fn height(&self, offsets: &[u64]) -> u64 {
        self.buffers.iter().zip(offsets).map(|(buffer, offset)| offset.saturating_add(buffer.size)).max().unwrap_or(0)
    }

    /// Reads a problem, and the offsets where the file has them.
    ///
    /// # Errors
    /// The text is no CSV of those columns, or the buffers make no problem.
    pub fn read(text: impl Read, alignment: u64) -> Result<(Self, Option<Vec<u64>>), ProblemError> {
        let mut reader = csv::Reader::from_reader(text);
        let header = reader.headers()?;
        let missing = |column: &&str| !header.iter().any(|name| name == *column);
        let missing: Vec<&str> = COLUMNS[..4].iter().copied().filter(missing).collect();
        if !missing.is_empty() {
            return Err(ProblemError::Columns(missing.join(", ")));
        }
        if let Some(other) = header.iter().find(|name| !COLUMNS.contains(name)) {
            return Err(ProblemError::Unknown(other.into()));
        }
        let rows = reader.into_deserialize().collect::<Result<Vec<Row>, _>>()?;
        if rows.is_empty() {
            return Err(ProblemError::NoRows);
        }
        let offsets = if rows.iter().any(|row| row.offset.is_some()) {
            let sized = rows.iter().filter(|row| row.size > 0);
            let offsets = sized.map(|row| row.offset.ok_or_else(|| ProblemError::Offset(row.id.clone())));
            Some(offsets.collect::<Result<_, _>>()?)
        } else {
            None
        };
        let buffers = rows.into_iter().map(|Row { id, lower, upper, size, .. }| Buffer { id, lower, upper, size });
        Ok((Self::new(buffers.collect(), alignment)?, offsets))
    }

    /// Writes the problem, with a column of offsets where there are any.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: impl Write, offsets: Option<&[u64]>) -> Result<(), csv::Error> {
        let mut writer = csv::Writer::from_writer(out);
        let mut write = |Buffer { id, lower, upper, size }: &Buffer, offset: Option<u64>| {
            writer.serialize(Row { id: id.clone(), lower: *lower, upper: *upper, size: *size, offset })
        };
        let mut empty = self.empty.iter().peekable();
        for at in 0..=self.buffers.len() {
            while let Some((_, buffer)) = empty.next_if(|(before, _)| *before == at) {
                write(buffer, offsets.map(|_| 0))?;
            }
            if let Some(buffer) = self.buffers.get(at) {
                write(buffer, offsets.and_then(|offsets| offsets.get(at)).copied())?;
            }
        }
        writer.flush().map_err(csv::Error::from)
    }
}

/// The largest sum of sizes alive at one moment.
fn most_alive(buffers: &[Buffer]) -> u64 {
    let ends = buffers.iter().map(|buffer| (buffer.upper, false, buffer.size));
    let mut events: Vec<_> = buffers.iter().map(|buffer| (buffer.lower, true, buffer.size)).chain(ends).collect();
    // At one moment, what ends goes before what begins.
    events.sort_unstable();
    let (mut alive, mut most) = (0, 0);
    for (_, begins, size) in events {
        if begins {
            alive += size;
            most = most.max(alive);
        } else {
            alive -= size;
        }
    }
    most
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Problem, Option<Vec<u64>>), ProblemError> {
        Problem::read(text.as_bytes(), 4)
    }

    #[test]
    fn sizes_are_rounded_up_and_what_ends_makes_room_for_what_begins() {
        let (problem, offsets) = read("id,lower,upper,size\na,0,2,5\nb,2,3,8\nc,1,3,1\nd,0,9,0\n").unwrap();
        assert_eq!(problem.buffers().iter().map(|buffer| buffer.size).collect::<Vec<_>>(), [8, 8, 4]);
        assert_eq!((problem.bound(), offsets), (12, None));
    }

    #[test]
    fn a_packing_is_read_as_it_was_written() {
        let (problem, _) = read("id,lower,upper,size\na,0,2,8\nb,1,3,8\n").unwrap();
        let mut text = Vec::new();
        problem.write(&mut text, Some(&[0, 8])).unwrap();
        assert_eq!(String::from_utf8(text.clone()).unwrap(), "id,lower,upper,size,offset\na,0,2,8,0\nb,1,3,8,8\n");
        assert_eq!(Problem::read(text.as_slice(), 4).unwrap(), (problem, Some(vec![0, 8])));
    }

    #[test]
    fn buffers_of_no_size_stay_in_the_file_and_an_id_is_no_formula() {
        let (problem, _) = read("id,lower,upper,size\nz,0,1,0\n=1+1,0,2,8\ny,3,4,0\n'b,2,3,8\n").unwrap();
        assert_eq!((problem.count(), problem.buffers().len(), problem.buffers()[1].id.as_str()), (4, 2, "b"));
        let mut text = Vec::new();
        problem.write(&mut text, Some(&[0, 0])).unwrap();
        let expected = "id,lower,upper,size,offset\nz,0,1,0,0\n'=1+1,0,2,8,0\ny,3,4,0,0\nb,2,3,8,0\n";
        assert_eq!(String::from_utf8(text.clone()).unwrap(), expected);
        assert_eq!(Problem::read(text.as_slice(), 4).unwrap(), (problem, Some(vec![0, 0])));
    }

    #[test]
    fn what_is_no_problem_is_refused_with_the_buffer_that_is_wrong() {
        let message = |text: &str| read(text).unwrap_err().to_string();
        assert!(message("id,lower,upper,size\na,3,3,1\n").contains("\"a\" lives in 3..3"));
        assert!(message("id,lower,upper,size\na,1,3,1\na,1,3,1\n").contains("two buffers have the id \"a\""));
        assert!(message("id,lower,upper,size\na,1,3,9223372036854775807\n").contains("2^62"));
        assert!(message("id,lower,upper,size\na,1,3,x\n").contains("expected CSV with the columns"));
        assert!(message("foo,size\n").contains("has no column id, lower, upper; expected CSV with the columns"));
        assert!(message("id,lower,upper,size,kind\na,1,3,1,x\n").contains("has a column \"kind\""));
        assert!(message("id,lower,upper,size\na,3,1,0\n").contains("\"a\" lives in 3..1"));
        assert!(message("").contains("has no column id, lower, upper, size;"));
        assert!(message("id,lower,upper,size\n").contains("holds no buffers"));
        assert!(message("id,lower,upper,size,offset\na,1,3,1,0\nb,1,3,1,\n").contains("\"b\" has no offset"));
        assert!(matches!(Problem::new(vec![], 0), Err(ProblemError::Alignment)));
    }
}
