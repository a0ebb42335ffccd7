//! An arena: storages at addresses, and the cheapest run of neighbours that makes room for another one.

use std::collections::BTreeMap;

/// Addresses from 0 to a size, in pieces.
pub struct Arena {
    /// By address.
    pieces: BTreeMap<u64, Piece>,
    /// Address of each storage that is there.
    at: BTreeMap<usize, u64>,
}

struct Piece {
    bytes: u64,
    /// None in a hole.
    holder: Option<Holder>,
}

/// What a piece holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// A storage.
    Storage(usize),
    /// Something that an operator needs while it runs.
    Scratch,
}

impl Arena {
    /// One hole.
    pub fn new(bytes: u64) -> Self {
        Self { pieces: BTreeMap::from([(0, Piece { bytes, holder: None })]), at: BTreeMap::new() }
    }

    /// Puts something at the start of the smallest hole that it fits into, of equal ones the lowest. Nothing takes no place.
    /// Whether it fits.
    pub fn put(&mut self, bytes: u64, holder: Holder) -> bool {
        if bytes == 0 {
            return true;
        }
        let holes = self.pieces.iter().filter(|(_, piece)| piece.holder.is_none() && piece.bytes >= bytes);
        let Some(start) = holes.min_by_key(|(_, piece)| piece.bytes).map(|(&start, _)| start) else { return false };
        let hole = self.pieces.insert(start, Piece { bytes, holder: Some(holder) });
        let left = hole.map_or(0, |hole| hole.bytes - bytes);
        if left > 0 {
            self.pieces.insert(start + bytes, Piece { bytes: left, holder: None });
        }
        if let Holder::Storage(storage) = holder {
            self.at.insert(storage, start);
        }
        true
    }

    /// Lets a storage go.
    pub fn free(&mut self, storage: usize) {
        if let Some(start) = self.at.remove(&storage) {
            self.open(start);
        }
    }

    /// Lets all scratch go.
    pub fn clear(&mut self) {
        let scratch = |(&start, piece): (&u64, &Piece)| (piece.holder == Some(Holder::Scratch)).then_some(start);
        let starts: Vec<u64> = self.pieces.iter().filter_map(scratch).collect();
        for start in starts {
            self.open(start);
        }
    }

    /// Makes a piece a hole, one with the holes beside it.
    fn open(&mut self, start: u64) {
        let bytes = self.pieces.remove(&start).map_or(0, |piece| piece.bytes);
        let (mut from, mut to) = (start, start + bytes);
        if let Some((&before, _)) = self.pieces.range(..start).next_back().filter(|(_, piece)| piece.holder.is_none()) {
            from = before;
        }
        if let Some(piece) = self.pieces.get(&to).filter(|piece| piece.holder.is_none()) {
            let bytes = piece.bytes;
            self.pieces.remove(&to);
            to += bytes;
        }
        self.pieces.insert(from, Piece { bytes: to - from, holder: None });
    }

    /// The storages of the cheapest run of neighbours that has so many bytes, holes included; of equal ones the lowest. `cost`
    /// says what letting a storage go costs, none where it has to stay. None where there is no such run.
    pub fn cheapest(&self, bytes: u64, mut cost: impl FnMut(usize) -> Option<f64>) -> Option<Vec<usize>> {
        // Costs beyond measure are counted, so that taking one out again leaves a number.
        let (mut endless, mut sum, mut total) = (0_usize, 0.0, 0_u64);
        let mut run: std::collections::VecDeque<(u64, f64, Option<usize>)> = std::collections::VecDeque::new();
        let mut best: Option<(usize, f64, Vec<usize>)> = None;
        for piece in self.pieces.values() {
            let (storage, piece_cost) = match piece.holder {
                None => (None, Some(0.0)),
                Some(Holder::Scratch) => (None, None),
                Some(Holder::Storage(storage)) => (Some(storage), cost(storage)),
            };
            let Some(piece_cost) = piece_cost else {
                run.clear();
                (endless, sum, total) = (0, 0.0, 0);
                continue;
            };
            run.push_back((piece.bytes, piece_cost, storage));
            total += piece.bytes;
            if piece_cost.is_finite() {
                sum += piece_cost;
            } else {
                endless += 1;
            }
            while total >= bytes {
                if best.as_ref().is_none_or(|(most, least, _)| (endless, sum) < (*most, *least)) {
                    best = Some((endless, sum, run.iter().filter_map(|(_, _, storage)| *storage).collect()));
                }
                let Some((first_bytes, first_cost, _)) = run.pop_front() else { break };
                total -= first_bytes;
                if first_cost.is_finite() { sum -= first_cost } else { endless -= 1 }
            }
        }
        best.map(|(_, _, storages)| storages)
    }
}

#[cfg(test)]
mod tests {
    use super::{Arena, Holder};

    fn filled(sizes: &[u64]) -> Arena {
        let mut arena = Arena::new(sizes.iter().sum());
        for (storage, &bytes) in sizes.iter().enumerate() {
            assert!(arena.put(bytes, Holder::Storage(storage)));
        }
        arena
    }

    #[test]
    fn neighbours_go_together_and_holes_cost_nothing() {
        let mut arena = filled(&[2, 1, 2, 4]);
        arena.free(1);
        // 0 alone is cheaper than 2, but 3 bytes take a hole and one of its neighbours.
        assert_eq!(arena.cheapest(3, |storage| Some([1.0, 0.0, 2.0, 9.0][storage])), Some(vec![0]));
        assert_eq!(arena.cheapest(3, |storage| (storage != 0).then_some(5.0)), Some(vec![2]));
        assert_eq!(arena.cheapest(10, |_| Some(1.0)), None);
    }

    #[test]
    fn of_equal_runs_the_lowest_goes() {
        let arena = filled(&[1, 1, 1]);
        assert_eq!(arena.cheapest(1, |_| Some(1.0)), Some(vec![0]));
        // What was wanted just now costs beyond measure, and costs nothing any more once it is out of the run.
        assert_eq!(arena.cheapest(1, |storage| Some([f64::INFINITY, 1.0, 1.0][storage])), Some(vec![1]));
    }

    #[test]
    fn the_smallest_hole_is_taken_and_holes_join() {
        let mut arena = filled(&[3, 1, 2, 1]);
        arena.free(0);
        arena.free(2);
        assert!(arena.put(2, Holder::Storage(4)));
        assert_eq!(arena.at[&4], 4);
        arena.free(4);
        arena.free(1);
        assert!(arena.put(6, Holder::Scratch) && !arena.put(1, Holder::Scratch));
        arena.clear();
        assert!(arena.put(6, Holder::Scratch));
    }
}
