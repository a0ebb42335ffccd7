//! Many short ascending lists of times in one piece of memory: when each value is produced, and read.

use super::graph::index;

/// Room that a list gets at first.
const ROOM: u32 = 4;

/// Ascending lists, one for each value.
#[derive(Clone, Debug)]
pub struct Times {
    lists: Vec<List>,
    data: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct List {
    start: u32,
    len: u32,
    room: u32,
}

impl Times {
    /// Empty lists.
    pub fn new(count: usize) -> Self {
        let lists = (0..index(count)).map(|list| List { start: list * ROOM, len: 0, room: ROOM }).collect();
        // As much again, so that lists can grow for a long time without a new allocation.
        let mut data = Vec::with_capacity(4 * count * ROOM as usize + 64);
        data.resize(count * ROOM as usize, 0);
        Self { lists, data }
    }

    /// The list of a value.
    #[inline]
    pub fn of(&self, value: usize) -> &[u32] {
        let List { start, len, .. } = self.lists[value];
        &self.data[start as usize..(start + len) as usize]
    }

    /// The earliest entry, or the largest number there is.
    #[inline]
    pub fn first(&self, value: usize) -> u32 {
        let List { start, len, .. } = self.lists[value];
        if len == 0 { u32::MAX } else { self.data[start as usize] }
    }

    /// Puts an entry in.
    #[inline]
    pub fn insert(&mut self, value: usize, entry: u32) {
        if self.lists[value].len == self.lists[value].room {
            self.grow(value);
        }
        let List { start, len, .. } = self.lists[value];
        let list = &mut self.data[start as usize..=(start + len) as usize];
        let mut at = len as usize;
        while at > 0 && list[at - 1] > entry {
            list[at] = list[at - 1];
            at -= 1;
        }
        list[at] = entry;
        self.lists[value].len += 1;
    }

    /// Takes an entry out, which is there.
    #[inline]
    pub fn remove(&mut self, value: usize, entry: u32) {
        let List { start, len, .. } = self.lists[value];
        let list = &mut self.data[start as usize..(start + len) as usize];
        let at = position(list, entry);
        debug_assert_eq!(list.get(at), Some(&entry), "only what is there is taken out");
        list.copy_within(at + 1.., at);
        self.lists[value].len -= 1;
    }

    /// Empties all lists and gives back the room that moved lists left behind.
    pub fn clear(&mut self) {
        let mut start = 0;
        for list in &mut self.lists {
            *list = List { start, len: 0, room: list.room };
            start += list.room;
        }
        self.data.resize(start as usize, 0);
    }

    /// Moves a full list to the end, with twice the room.
    #[cold]
    fn grow(&mut self, value: usize) {
        let List { start, len, room } = self.lists[value];
        let end = self.data.len();
        self.data.resize(end + 2 * room as usize, 0);
        self.data.copy_within(start as usize..(start + len) as usize, end);
        self.lists[value] = List { start: index(end), len, room: 2 * room };
    }
}

/// How many entries lie below a time.
#[inline]
pub fn position(list: &[u32], time: u32) -> usize {
    if list.len() > 32 {
        return list.partition_point(|&entry| entry < time);
    }
    list.iter().filter(|&&entry| entry < time).count()
}
