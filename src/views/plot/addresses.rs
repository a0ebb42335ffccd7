//! Addresses against time, as viewers of memory show them: a rectangle for each buffer, from the step that makes it to the one
//! that frees it, at the addresses that it has all the while.
//!
//! Written as SVG by hand: the renderer of the other figures has whole pixels only, and thousands of steps need less.

use std::collections::HashMap;

use maud::{Markup, html};
use remat_core::format::MemoryUnit;

use super::axis::memory_unit;
use super::figure::{FONT, GREY, GRID, INK, width_of};
use super::style;
use crate::ground::format::{bytes, tick};
use crate::ground::text::{self, count};

/// Width and height of the picture, and of what lies around the axes, in its own units.
const SIZE: (f64, f64) = (1240.0, 720.0);
const LEFT: f64 = 92.0;
const RIGHT: f64 = 232.0;
const TOP: f64 = 66.0;
const BOTTOM: f64 = 56.0;
/// Kinds that have a colour of their own; all others share one.
const KINDS: usize = 11;
/// A rectangle is drawn at least as wide and as high as this, so that none vanishes.
const LEAST: f64 = 0.4;
/// Rectangles larger than this, both ways, have an edge.
const EDGED: f64 = 3.0;
/// Least distance between two lines of text.
const LINE: f64 = 16.0;
/// What is above the height by more than this part of it is not drawn, but said.
const FAR: f64 = 1.4;
/// Colours by size, the largest first: one hue from dark to light, which also tells in print.
const SHADES: [&str; 6] = ["#08306b", "#2171b5", "#4292c6", "#6baed6", "#9ecae1", "#c6dbef"];
const OTHER: &str = "#9aa3ad";

/// A buffer in the picture.
pub struct Interval {
    /// First step.
    pub lower: u64,
    /// First step after it.
    pub upper: u64,
    /// First address.
    pub offset: u64,
    /// Addresses.
    pub size: u64,
    /// The kind of operator that made it.
    pub kind: String,
    /// What is in it, for whoever points at it.
    pub title: String,
}

/// What colours mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Colour {
    /// The operator that made a buffer.
    Operator,
    /// A buffer's size.
    Size,
}

/// The picture.
pub struct Picture {
    /// First line.
    pub title: String,
    /// Second line.
    pub subtitle: String,
    /// Unit of addresses.
    pub unit: MemoryUnit,
    /// What the horizontal axis counts: steps of a schedule, or moments.
    pub moments: &'static str,
    /// The buffers.
    pub intervals: Vec<Interval>,
    /// First address above all of them.
    pub height: u64,
    /// No arena is lower.
    pub bound: u64,
    /// What the arena may have.
    pub capacity: Option<u64>,
    /// What colours mean.
    pub colour: Colour,
}

/// A line of the legend: colour and words.
type Entry = (String, String);

impl Picture {
    /// The text of the SVG.
    pub fn svg(&self) -> String {
        let (width, height) = SIZE;
        let (legend, colours) = self.colours();
        let levels = self.levels();
        let below = levels.iter().map(|level| level.text_at).fold(TOP + 40.0, f64::max) + 2.0 * LINE;
        let content = html! {
            rect width="100%" height="100%" fill="#FFFFFF" {}
            (words(LEFT - 78.0, 26.0, "start", 20.0, &hex(INK), &self.title))
            (words(LEFT - 78.0, 48.0, "start", 14.0, &hex(GREY), &self.subtitle))
            (self.grid())
            g { @for (interval, colour) in self.intervals.iter().zip(&colours) { (self.rectangle(interval, colour)) } }
            rect.frame x=(LEFT) y=(TOP) width=(width - LEFT - RIGHT) height=(height - TOP - BOTTOM) fill="none" stroke=(hex(GREY)) {}
            @for level in &levels { (level.markup()) }
            @for (at, (colour, name)) in legend.iter().enumerate() {
                @let y = below + LINE * at as f64;
                rect x=(width - RIGHT + 14.0) y=(y - 10.0) width="14" height="11" fill=(colour) {}
                (words(width - RIGHT + 36.0, y, "start", 12.0, &hex(INK), name))
            }
        };
        let view = format!("0 0 {width} {height}");
        let whole = html! {
            svg xmlns="http://www.w3.org/2000/svg" width=(width) height=(height) viewBox=(view) font-family=(FONT) { (content) }
        };
        text::xml(&whole.into_string()).into_owned() + "\n"
    }

    /// The step at the right end of the axis.
    fn end(&self) -> u64 {
        self.intervals.iter().map(|interval| interval.upper).max().unwrap_or(1).max(1)
    }

    /// The address at the upper end of the axis.
    fn high(&self) -> f64 {
        let capacity = self.capacity.map(|capacity| capacity as f64).filter(|&capacity| self.is_near(capacity));
        (capacity.unwrap_or(0.0).max(self.height as f64) * 1.06).max(1.0)
    }

    fn is_near(&self, address: f64) -> bool {
        address <= FAR * self.height as f64
    }

    fn x(&self, step: u64) -> f64 {
        LEFT + step as f64 / self.end() as f64 * (SIZE.0 - LEFT - RIGHT)
    }

    fn y(&self, address: f64) -> f64 {
        SIZE.1 - BOTTOM - address / self.high() * (SIZE.1 - TOP - BOTTOM)
    }

    fn rectangle(&self, interval: &Interval, colour: &str) -> Markup {
        let (left, right) = (self.x(interval.lower), self.x(interval.upper));
        let (low, high) = (interval.offset as f64, interval.offset as f64 + interval.size as f64);
        let (bottom, top) = (self.y(low), self.y(high));
        let edge = (right - left > EDGED && bottom - top > EDGED).then_some("#FFFFFF");
        let number = |value: f64| format!("{value:.2}");
        html! {
            rect.buffer x=(number(left)) y=(number(top)) width=(number((right - left).max(LEAST)))
                height=(number((bottom - top).max(LEAST))) fill=(colour) stroke=[edge] stroke-width=[edge.map(|_| "0.5")] {
                title { (interval.title) }
            }
        }
    }

    fn grid(&self) -> Markup {
        let (right, bottom) = (SIZE.0 - RIGHT, SIZE.1 - BOTTOM);
        let (unit, name) = memory_unit(self.unit, self.height);
        let address = |value: f64| match self.unit {
            MemoryUnit::Bytes => format!("{} {name}", tick(value / unit)),
            MemoryUnit::Abstract => tick(value),
        };
        let (up, along) = (ticks(self.high(), 8.0, unit), ticks(self.end() as f64, 10.0, 1.0));
        let middle = format!("rotate(-90 18 {})", f64::midpoint(TOP, bottom));
        html! {
            @for value in up {
                line x1=(LEFT) x2=(right) y1=(self.y(value)) y2=(self.y(value)) stroke=(hex(GRID)) {}
                (words(LEFT - 8.0, self.y(value) + 4.0, "end", 12.0, &hex(INK), &address(value)))
            }
            @for value in along.into_iter().filter(|value| value.fract() == 0.0) {
                @let x = LEFT + value / self.end() as f64 * (right - LEFT);
                line x1=(x) x2=(x) y1=(bottom) y2=(bottom + 5.0) stroke=(hex(GREY)) {}
                (words(x, bottom + 19.0, "middle", 12.0, &hex(INK), &tick(value)))
            }
            (words(f64::midpoint(LEFT, right), bottom + 42.0, "middle", 14.0, &hex(INK), self.moments))
            text x="18" y=(f64::midpoint(TOP, bottom)) transform=(middle) text-anchor="middle" font-size="14" fill=(hex(INK)) { "address" }
        }
    }

    /// Capacity, height and bound, with their words one below the other.
    fn levels(&self) -> Vec<Level> {
        let shown = |value: u64| bytes(value, self.unit);
        let mut levels = vec![];
        let mut level = |value: u64, words: String, colour, dashes| {
            levels.push(Level { y: self.y(value as f64), text_at: 0.0, words, colour, dashes });
        };
        if let Some(capacity) = self.capacity.filter(|&capacity| self.is_near(capacity as f64)) {
            level(capacity, format!("capacity {}", shown(capacity)), "#B3261E", "8 5");
        }
        let least = if self.bound == self.height { ", the least" } else { "" };
        level(self.height, format!("height {}{least}", shown(self.height)), "#1E1E1E", "");
        if self.bound < self.height {
            level(self.bound, format!("bound {}", shown(self.bound)), "#6E6E6E", "2 4");
        }
        levels.sort_by(|one, other| one.y.total_cmp(&other.y));
        let mut free = TOP;
        for level in &mut levels {
            level.text_at = (level.y + 4.0).max(free);
            free = level.text_at + LINE;
        }
        levels
    }

    /// The legend, and the colour of each buffer.
    fn colours(&self) -> (Vec<Entry>, Vec<String>) {
        match self.colour {
            Colour::Operator => self.by_operator(),
            Colour::Size => self.by_size(),
        }
    }

    /// The kinds that take the most space and time have colours of their own.
    fn by_operator(&self) -> (Vec<Entry>, Vec<String>) {
        let mut areas: HashMap<&str, f64> = HashMap::new();
        for interval in &self.intervals {
            let area = interval.size as f64 * (interval.upper - interval.lower) as f64;
            *areas.entry(&interval.kind).or_default() += area;
        }
        let mut kinds: Vec<_> = areas.into_iter().collect();
        kinds.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
        let named = if kinds.len() > KINDS { KINDS } else { kinds.len() };
        let place: HashMap<&str, usize> =
            kinds[..named].iter().enumerate().map(|(at, (kind, _))| (*kind, at)).collect();
        let colours = self
            .intervals
            .iter()
            .map(|interval| place.get(interval.kind.as_str()).map_or(OTHER.into(), |&at| kind_colour(at)));
        let mut legend: Vec<Entry> =
            kinds[..named].iter().enumerate().map(|(at, (kind, _))| (kind_colour(at), shortened(kind))).collect();
        if kinds.len() > named {
            legend.push((OTHER.into(), format!("{} of others", count(kinds.len() - named, "kind"))));
        }
        (legend, colours.collect())
    }

    /// By factors of four below the largest.
    fn by_size(&self) -> (Vec<Entry>, Vec<String>) {
        let largest = self.intervals.iter().map(|interval| interval.size).max().unwrap_or(0);
        let shade = |size: u64| {
            let fits = |at: &usize| u128::from(size) << (2 * (at + 1)) > u128::from(largest);
            (0..SHADES.len() - 1).find(fits).unwrap_or(SHADES.len() - 1)
        };
        let colours: Vec<_> = self.intervals.iter().map(|interval| shade(interval.size)).collect();
        let legend = (0..SHADES.len()).filter(|at| colours.contains(at)).map(|at| {
            let limit = bytes(largest >> (2 * (at + 1)), self.unit);
            let words = if at + 1 < SHADES.len() {
                format!("above {limit}")
            } else {
                format!("{} or less", bytes(largest >> (2 * at), self.unit))
            };
            (SHADES[at].to_owned(), words)
        });
        (legend.collect(), colours.iter().map(|&at| SHADES[at].to_owned()).collect())
    }
}

/// A line across the axes, with words beside it.
struct Level {
    y: f64,
    text_at: f64,
    words: String,
    colour: &'static str,
    dashes: &'static str,
}

impl Level {
    fn markup(&self) -> Markup {
        let right = SIZE.0 - RIGHT;
        html! {
            line.level x1=(LEFT) x2=(right + 10.0) y1=(self.y) y2=(self.y) stroke=(self.colour) stroke-width="1.5"
                stroke-dasharray=(self.dashes) {}
            (words(right + 14.0, self.text_at, "start", 13.0, self.colour, &self.words))
        }
    }
}

/// Eleven colours that differ: those of series, and three more.
fn kind_colour(at: usize) -> String {
    const MORE: [&str; 4] = ["#f0e442", "#7f7f00", "#5e4fa2", "#66c2a5"];
    // Black is the frame's.
    let of_series = [0, 1, 2, 3, 4, 6, 7];
    of_series
        .get(at)
        .map_or_else(|| MORE[(at - of_series.len()) % MORE.len()].into(), |&turn| hex(style::turn(turn).colour))
}

fn hex(colour: plotters::style::RGBColor) -> String {
    format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
}

/// A text, no wider than the picture has room for.
fn words(x: f64, y: f64, anchor: &str, size: f64, colour: &str, text: &str) -> Markup {
    let room = if anchor == "start" { SIZE.0 - x - 6.0 } else { SIZE.0 };
    let width = width_of(text, size * 1.24);
    let size = if width > room { size * room / width } else { size };
    html! { text x=(format!("{x:.1}")) y=(format!("{y:.1}")) text-anchor=(anchor) font-size=(format!("{size:.1}")) fill=(colour) { (text) } }
}

/// A kind of operator in the legend: what it is called without the library's prefix.
fn shortened(kind: &str) -> String {
    ["aten::", "aten."].iter().find_map(|prefix| kind.strip_prefix(prefix)).unwrap_or(kind).to_owned()
}

/// Round numbers up to `high`, about so many: at most two and a half times as many.
fn ticks(high: f64, most: f64, unit: f64) -> Vec<f64> {
    let rough = high / unit / most;
    let power = 10f64.powf(rough.log10().floor());
    let stride = unit * power * [1.0, 2.0, 5.0, 10.0].into_iter().find(|digit| digit * power >= rough).unwrap_or(10.0);
    (0..64_u32).map(|at| f64::from(at) * stride).take_while(|&value| value <= high).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn attribute(tag: &str, name: &str) -> f64 {
        tag.split_once(&format!(" {name}=\"")).unwrap().1.split_once('"').unwrap().0.parse().unwrap()
    }

    /// Buffers in a grid: they fill the arena, and none shares a point with another.
    fn picture(across: u64, up: u64, colour: Colour) -> Picture {
        let interval = |at: u64| Interval {
            lower: at % across * 3,
            upper: at % across * 3 + 3,
            offset: at / across * 1024,
            size: if at.is_multiple_of(2) { 1024 } else { 512 },
            kind: format!("aten::kind<{}>", at % 17),
            title: format!("t{at} \u{1} & more"),
        };
        let height = up * 1024;
        let (title, subtitle) = ("a title & <another>".into(), "of ".repeat(200));
        let (unit, moments) = (MemoryUnit::Bytes, "step");
        let intervals = (0..across * up).map(interval).collect();
        Picture {
            title,
            subtitle,
            unit,
            moments,
            intervals,
            height,
            bound: height - 512,
            capacity: Some(height + 512),
            colour,
        }
    }

    /// Left, top, right and bottom of every buffer.
    fn drawn(svg: &str) -> Vec<[f64; 4]> {
        let tags = svg.split("<rect ").filter(|tag| tag.starts_with("class=\"buffer\""));
        let corners = tags.map(|tag| {
            let tag = format!(" {tag}");
            let (x, y) = (attribute(&tag, "x"), attribute(&tag, "y"));
            [x, y, x + attribute(&tag, "width"), y + attribute(&tag, "height")]
        });
        corners.collect()
    }

    #[test]
    fn every_buffer_is_a_rectangle_within_the_axes_and_none_covers_another() {
        for colour in [Colour::Operator, Colour::Size] {
            let svg = picture(12, 9, colour).svg();
            let all = drawn(&svg);
            assert_eq!(all.len(), 108);
            for (at, one) in all.iter().enumerate() {
                assert!(one[0] >= LEFT - 0.01 && one[2] <= SIZE.0 - RIGHT + 0.01, "{one:?}");
                assert!(one[1] >= TOP - 0.01 && one[3] <= SIZE.1 - BOTTOM + 0.01, "{one:?}");
                // Coordinates have two decimals.
                let apart = |other: &[f64; 4]| {
                    other[0] > one[2] - 0.03
                        || one[0] > other[2] - 0.03
                        || other[1] > one[3] - 0.03
                        || one[1] > other[3] - 0.03
                };
                assert!(all[at + 1..].iter().all(apart));
            }
            let size = all[0][3] - all[0][1];
            assert!((size - 2.0 * (all[1][3] - all[1][1])).abs() < 0.05, "half the size is half as high");
            assert!(
                svg.contains("height 9.00 KiB<")
                    && svg.contains("bound 8.50 KiB<")
                    && svg.contains("capacity 9.50 KiB<")
            );
            assert!(svg.contains("a title &amp; &lt;another&gt;") && !svg.contains('\u{1}'));
        }
    }

    #[test]
    fn kinds_beyond_those_with_colours_share_one_and_sizes_have_theirs() {
        let svg = picture(20, 4, Colour::Operator).svg();
        assert!(svg.contains("6 kinds of others") && svg.contains(">kind&lt;0&gt;<"), "{}", &svg[svg.len() - 900..]);
        let colours = |svg: &str| {
            let fills =
                svg.split("class=\"buffer\"").skip(1).map(|tag| tag.split_once("fill=\"").unwrap().1[..7].to_owned());
            fills.collect::<std::collections::BTreeSet<_>>().len()
        };
        assert_eq!(colours(&svg), KINDS + 1);
        let svg = picture(20, 4, Colour::Size).svg();
        // 512 is more than a quarter of 1024.
        assert_eq!(colours(&svg), 1);
        assert!(svg.contains("above 256 B"));
    }

    #[test]
    fn ten_thousand_buffers_are_all_there_and_a_far_capacity_is_not_drawn() {
        let mut picture = picture(100, 100, Colour::Operator);
        picture.capacity = Some(picture.height * 3);
        let svg = picture.svg();
        assert_eq!(drawn(&svg).len(), 10_000);
        assert!(!svg.contains("capacity "));
    }
}
