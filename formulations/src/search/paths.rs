//! Rows that every schedule satisfies and solutions without integrality violate. What some blocks need was kept into the
//! first of them or made again in one of them. Where it was made again, so was what that reads, or kept into the first.
//!
//! So of a path of values, each read by what makes the one before it again, one is kept into the first block, or the last of
//! them is made again in one of the blocks. Whole points satisfy that by the rows of the blocks alone. Without integrality,
//! half of a value can be made in each of two blocks, both times from the same half of what it reads. Over one block that is
//! excluded; so without these rows the bound of finer blocks may be the lower one. Which rows a point violates most is a
//! shortest path.

use remat_solvers::RowBlock;

use crate::search::term::{Sum, Term};

/// Smallest violation that counts.
const TOLERANCE: f64 = 1e-3;
/// So many rows are taken from a block at a time: those of its needs are much alike.
const ALIKE: usize = 4;
/// Pairs of blocks times values up to which rows are looked for.
const MOST: usize = 50_000_000;

/// What a block has to do with paths.
pub struct Section {
    /// How many values, in the order of [`Paths`], a path may go through; the others are first made in the block or after it.
    pub before: usize,
    /// By value, whether it is kept into the block.
    pub kept: Vec<Term>,
    /// Values that are made again in the block, each once, and whether they are: the sum of what makes them.
    pub remade: Vec<(usize, Sum)>,
    /// Values that the block needs, and whether it does.
    pub needs: Vec<(usize, Sum)>,
}

/// Values, and what making them again reads.
pub struct Paths {
    /// Values in an order in which each comes after what it is made from.
    pub order: Vec<usize>,
    /// By value, what every way to make it again reads.
    pub reads: Vec<Vec<usize>>,
}

/// What a block needs: what its first runs read, and of all else what is kept beyond the block.
pub fn needs(reads: impl Iterator<Item = (usize, Sum)>, next: &[Term]) -> Vec<(usize, Sum)> {
    let mut certain = vec![false; next.len()];
    let mut needs = Vec::new();
    for (value, read) in reads.filter(|(_, read)| !read.is_nothing()) {
        if !certain[value] {
            certain[value] = read.is_certain();
            needs.push((value, read));
        }
    }
    let kept = (0..next.len()).filter(|&value| !certain[value] && next[value] != Term::Zero);
    needs.extend(kept.map(|value| (value, Sum::of([(1.0, next[value])]))));
    needs
}

/// What every one of some ways reads; nothing where there is none.
pub fn common<'w>(mut ways: impl Iterator<Item = &'w [usize]>) -> Vec<usize> {
    let mut common = ways.next().map_or_else(Vec::new, <[usize]>::to_vec);
    ways.for_each(|reads| common.retain(|read| reads.contains(read)));
    common
}

/// Shortest paths to each value through some blocks.
struct Shortest<'s> {
    sections: &'s [Section],
    /// The first of the blocks.
    from: usize,
    /// By value, what is kept of it into the first block, and made again in all of them.
    kept: Vec<f64>,
    made: Vec<f64>,
    /// What can at most be made again of it, and the value on which that depends, unless it is what makes it itself.
    length: Vec<f64>,
    next: Vec<Option<usize>>,
}

impl Shortest<'_> {
    /// A need, less what is kept into the first block along its path, and less what makes the last value there again up to
    /// some block.
    fn row(&self, need: &Sum, mut value: usize, until: usize) -> Sum {
        let kept = &self.sections[self.from].kept;
        let mut row = need.clone();
        row.add(-1.0, kept[value]);
        while let Some(read) = self.next[value] {
            row.add(-1.0, kept[read]);
            value = read;
        }
        for section in &self.sections[self.from..=until] {
            let remade = section.remade.iter().filter(|remade| remade.0 == value);
            row = remade.fold(row, |row, (_, sum)| row.plus(-1.0, sum));
        }
        row.merge();
        row
    }
}

impl Paths {
    /// For each block the rows of its needs that a point violates most, one for a need and so many times the usual number;
    /// none in models that are too large.
    pub fn violated(&self, blocks: usize, section: impl Fn(usize) -> Section, point: &[f64], times: usize) -> RowBlock {
        let mut rows = RowBlock::default();
        if blocks * blocks / 2 * self.order.len() > MOST {
            return rows;
        }
        let sections: Vec<Section> = (0..blocks).map(section).collect();
        let valued = |sums: &[(usize, Sum)]| sums.iter().map(|(at, sum)| (*at, sum.value(point))).collect::<Vec<_>>();
        let remade: Vec<_> = sections.iter().map(|section| valued(&section.remade)).collect();
        let needed: Vec<_> = sections.iter().map(|section| valued(&section.needs)).collect();
        let mut worst: Vec<Vec<(f64, Option<Sum>)>> =
            needed.iter().map(|needs| vec![(TOLERANCE, None); needs.len()]).collect();
        for (from, section) in sections.iter().enumerate() {
            let before = &self.order[..section.before];
            let mut early = vec![false; self.reads.len()];
            for &value in before {
                early[value] = true;
            }
            let mut shortest = Shortest {
                sections: &sections,
                from,
                kept: section.kept.iter().map(|term| term.value(point)).collect(),
                made: vec![0.0; self.reads.len()],
                length: vec![1.0; self.reads.len()],
                next: vec![None; self.reads.len()],
            };
            for until in from..sections.len() {
                for &(value, made) in &remade[until] {
                    shortest.made[value] += made;
                }
                // In one block that is what its own rows say.
                if until == from {
                    continue;
                }
                self.extend(before, &mut shortest);
                for (number, &(value, need)) in needed[until].iter().enumerate().filter(|(_, need)| early[need.0]) {
                    let (most, row) = &mut worst[until][number];
                    let over = need - shortest.kept[value] - shortest.length[value];
                    if over > *most {
                        let need = &sections[until].needs[number].1;
                        (*most, *row) = (over, Some(shortest.row(need, value, until)));
                    }
                }
            }
        }
        for mut worst in worst {
            worst.sort_by(|left, right| right.0.total_cmp(&left.0));
            for row in worst.into_iter().take(ALIKE * times).filter_map(|(_, row)| row) {
                rows.push(f64::NEG_INFINITY, -row.constant, row.terms);
            }
        }
        rows
    }

    /// Makes paths anew after some of the values were made again in one more block.
    fn extend(&self, before: &[usize], shortest: &mut Shortest<'_>) {
        for &value in before {
            let (mut least, mut next) = (shortest.made[value], None);
            for &read in &self.reads[value] {
                let through = shortest.kept[read] + shortest.length[read];
                if through < least {
                    (least, next) = (through, Some(read));
                }
            }
            (shortest.length[value], shortest.next[value]) = (least, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use remat_solvers::Column;

    use super::*;

    /// Value 1 is made from value 0, which is not made again. Columns 0 and 1 keep them into the first block, 2 makes value 1
    /// again there; 3 to 5 are the same of the second block, which needs it.
    fn violated(point: &[f64]) -> Vec<(Vec<(usize, f64)>, f64)> {
        let paths = Paths { order: vec![0, 1], reads: vec![vec![], vec![0]] };
        let column = |index| Term::Column(Column::from_index(index));
        let section = |block: usize| Section {
            before: 2,
            kept: vec![column(3 * block), column(3 * block + 1)],
            remade: vec![(1, Sum::of([(1.0, column(3 * block + 2))]))],
            needs: if block == 1 { vec![(1, Sum::of([(1.0, Term::One)]))] } else { vec![] },
        };
        let rows = paths.violated(2, section, point, 1);
        let row = |row| (rows.terms(row).map(|(column, value)| (column.index(), value)).collect(), rows.upper[row]);
        (0..rows.len()).map(row).collect()
    }

    #[test]
    fn halves_that_are_made_from_one_half_are_not_a_whole() {
        assert_eq!(violated(&[0.5, 0.0, 0.5, 0.5, 0.5, 0.5]), [(vec![(0, -1.0), (1, -1.0)], -1.0)]);
        // The other half is kept, or all of what they are made from; or what makes them does not make enough.
        assert!(violated(&[0.5, 0.5, 0.5, 0.5, 0.5, 0.5]).is_empty());
        assert!(violated(&[1.0, 0.0, 0.5, 1.0, 0.5, 0.5]).is_empty());
        let too_few = vec![(1, -1.0), (2, -1.0), (5, -1.0)];
        assert_eq!(violated(&[1.0, 0.0, 0.25, 1.0, 0.25, 0.5]), [(too_few, -1.0)]);
    }
}
