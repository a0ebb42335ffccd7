//! The look of each method, the same in every figure. One row per method; what is not listed gets one of the
//! looks that are left, chosen by its name.
//!
//! Colours: Okabe and Ito's palette and Tol's wine, which readers with any common colour blindness can tell apart,
//! kept as close to Rotor's Figure 6 (red square, purple crosses, green circles, blue triangles) as it goes. Methods of one
//! family share a colour; segment methods and binomial checkpointing, which others are measured against, are grey.

use plotters::style::RGBColor;

/// Shape of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// Filled square.
    Square,
    /// Diagonal cross.
    Cross,
    /// Filled circle.
    Circle,
    /// Filled triangle, point up.
    Triangle,
    /// Filled diamond.
    Diamond,
    /// Upright cross.
    Plus,
    /// Filled triangle, point down.
    Down,
}

/// Look of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Colour of line and points.
    pub colour: RGBColor,
    /// Shape of the points.
    pub marker: Marker,
}

/// Shapes of further settings of one method, in turn.
const SETTINGS: [Marker; 4] = [Marker::Triangle, Marker::Square, Marker::Diamond, Marker::Circle];
/// Their shades: parts of the way to black. Lighter ones of orange and sky blue would be lost on white paper.
const SHADES: [f64; 4] = [0.45, 0.7, 0.25, 0.6];

impl Style {
    /// The look of a setting of a method that already has so many others: its colour in another shade, in another
    /// shape. The first two differ in being filled or hollow.
    pub fn of_setting(self, others: usize) -> Self {
        let Some(further) = others.checked_sub(2) else { return self };
        let shapes = SETTINGS.iter().filter(|&&marker| marker != self.marker);
        let marker = shapes.cycle().nth(further).copied().unwrap_or(self.marker);
        Self { colour: shade(self.colour, SHADES[further % SHADES.len()]), marker }
    }

    /// The look with a colour that is not taken, for bars, which have no markers: its own, a shade of it, or another.
    pub fn in_colour_apart(self, taken: impl Fn(RGBColor) -> bool) -> Self {
        let mut all = shades(self.colour).chain(colours());
        Self { colour: all.find(|&colour| !taken(colour)).unwrap_or(self.colour), ..self }
    }
}

/// A colour on its way to black.
fn shade(colour: RGBColor, part: f64) -> RGBColor {
    mapped(colour, |value| value * (1.0 - part))
}

fn mapped(RGBColor(red, green, blue): RGBColor, change: impl Fn(f64) -> f64) -> RGBColor {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 255")]
    let changed = |value: u8| change(f64::from(value)).clamp(0.0, 255.0).round() as u8;
    RGBColor(changed(red), changed(green), changed(blue))
}

/// Every colour that a series may have.
pub fn colours() -> impl Iterator<Item = RGBColor> {
    PALETTE.into_iter().flat_map(shades)
}

/// A colour and its shades.
fn shades(colour: RGBColor) -> impl Iterator<Item = RGBColor> {
    std::iter::once(colour).chain(SHADES.map(move |part| shade(colour, part)))
}

/// The paper of dark pages.
const DARK_PAPER: RGBColor = RGBColor(0x16, 0x18, 0x1b);
/// Colours with less contrast to dark paper than this are exchanged there.
const LEAST_CONTRAST: f64 = 2.5;

/// A colour as it is on dark paper: a dark one lighter, the darkest the lightest.
pub fn on_dark(colour: RGBColor) -> RGBColor {
    if contrast(colour, DARK_PAPER) >= LEAST_CONTRAST {
        return colour;
    }
    let parts = [colour.0, colour.1, colour.2].map(f64::from);
    let lightness = f64::midpoint(parts.iter().copied().fold(255.0, f64::min), parts.into_iter().fold(0.0, f64::max));
    // Wine stays darker than purple, which its mirror image would look like.
    let lighter = 0.95 * 255.0 - 1.6 * lightness;
    mapped(colour, |value| value + lighter - lightness)
}

/// Contrast of two colours as accessibility guidelines (WCAG) have it: from 1 to 21.
fn contrast(one: RGBColor, other: RGBColor) -> f64 {
    let light = |value: u8| match f64::from(value) / 255.0 {
        value if value <= 0.04045 => value / 12.92,
        value => ((value + 0.055) / 1.055).powf(2.4),
    };
    let luminance = |RGBColor(red, green, blue)| 0.2126 * light(red) + 0.7152 * light(green) + 0.0722 * light(blue);
    let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
    one.max(other) / one.min(other)
}

const VERMILLION: RGBColor = RGBColor(213, 94, 0);
const PURPLE: RGBColor = RGBColor(204, 121, 167);
const GREEN: RGBColor = RGBColor(0, 158, 115);
const BLUE: RGBColor = RGBColor(0, 114, 178);
const ORANGE: RGBColor = RGBColor(230, 159, 0);
const SKY: RGBColor = RGBColor(86, 180, 233);
const BLACK: RGBColor = RGBColor(0, 0, 0);
const WINE: RGBColor = RGBColor(136, 34, 85);
const GREY: RGBColor = RGBColor(140, 140, 140);
/// All of them.
const PALETTE: [RGBColor; 9] = [VERMILLION, PURPLE, GREEN, BLUE, ORANGE, SKY, BLACK, WINE, GREY];

const STYLES: &[(&str, RGBColor, Marker)] = &[
    ("auto", WINE, Marker::Square),
    ("store-all", VERMILLION, Marker::Square),
    ("sequential", PURPLE, Marker::Cross),
    ("revolve", GREEN, Marker::Circle),
    ("rotor-persistent", BLUE, Marker::Triangle),
    ("rotor-weak", SKY, Marker::Diamond),
    ("rotor-options", WINE, Marker::Triangle),
    ("rockmate", WINE, Marker::Cross),
    ("h-ilp", WINE, Marker::Circle),
    ("hiremate", WINE, Marker::Diamond),
    ("griewank-logn", GREY, Marker::Plus),
    ("chen-sqrt", SKY, Marker::Square),
    ("chen-greedy", SKY, Marker::Cross),
    ("ap-sqrt", GREY, Marker::Square),
    ("ap-greedy", GREY, Marker::Cross),
    ("linearized-sqrt", GREY, Marker::Diamond),
    ("linearized-greedy", GREY, Marker::Triangle),
    ("kusumoto-2019", PURPLE, Marker::Diamond),
    ("kusumoto-chen", PURPLE, Marker::Triangle),
    ("torch-mincut", GREEN, Marker::Cross),
    ("torch-budget", GREEN, Marker::Triangle),
    ("checkpoint-every", PURPLE, Marker::Square),
    ("sac", VERMILLION, Marker::Diamond),
    ("dtr", SKY, Marker::Circle),
    ("xla-greedy", ORANGE, Marker::Square),
    ("tw-remat", ORANGE, Marker::Plus),
    ("oracle", BLACK, Marker::Square),
    ("checkmate-ilp", BLACK, Marker::Diamond),
    ("checkmate-lp", BLACK, Marker::Plus),
    ("checkmate-rounding", BLACK, Marker::Cross),
    ("moccasin", ORANGE, Marker::Triangle),
    ("moccasin-reordered", ORANGE, Marker::Circle),
    ("fastsa", GREEN, Marker::Diamond),
    ("gist", PURPLE, Marker::Plus),
    ("monet", VERMILLION, Marker::Circle),
    ("monet-lp", VERMILLION, Marker::Cross),
    ("free-order-bound", GREEN, Marker::Plus),
];

/// Looks that methods which are not listed get. Those of neither list are left for methods to come.
const OTHERS: &[(RGBColor, Marker)] = &[
    (BLUE, Marker::Circle),
    (VERMILLION, Marker::Triangle),
    (SKY, Marker::Plus),
    (BLACK, Marker::Circle),
    (ORANGE, Marker::Diamond),
    (GREEN, Marker::Square),
    (PURPLE, Marker::Circle),
    (BLUE, Marker::Cross),
    (SKY, Marker::Triangle),
    (BLACK, Marker::Triangle),
    (WINE, Marker::Plus),
    (BLUE, Marker::Square),
    (ORANGE, Marker::Cross),
    (GREY, Marker::Circle),
    (BLUE, Marker::Diamond),
    (VERMILLION, Marker::Down),
];

/// Looks of series that are no methods, in turn.
const TURNS: &[(RGBColor, Marker)] = &[
    (BLUE, Marker::Circle),
    (VERMILLION, Marker::Square),
    (GREEN, Marker::Triangle),
    (PURPLE, Marker::Diamond),
    (ORANGE, Marker::Plus),
    (BLACK, Marker::Cross),
    (SKY, Marker::Circle),
    (WINE, Marker::Square),
];

/// The look of a series that is no method.
pub fn turn(order: usize) -> Style {
    let (colour, marker) = TURNS[order % TURNS.len()];
    Style { colour, marker }
}

/// The look of a method.
pub fn of(method: &str) -> Style {
    apart(method, &[])
}

/// The look of a method, if possible none that others of a figure have: only methods that are not listed give way.
pub fn apart(method: &str, taken: &[Style]) -> Style {
    if let Some(&(_, colour, marker)) = STYLES.iter().find(|(id, ..)| *id == method) {
        return Style { colour, marker };
    }
    let first = usize::from(blake3::hash(method.as_bytes()).as_bytes()[0]);
    let look = |further: usize| {
        let (colour, marker) = OTHERS[(first + further) % OTHERS.len()];
        Style { colour, marker }
    };
    (0..OTHERS.len()).map(look).find(|look| !taken.contains(look)).unwrap_or_else(|| look(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_method_look_different() {
        let first = of("monet");
        let looks: Vec<_> = (0..5).map(|others| first.of_setting(others)).collect();
        assert_eq!((looks[0], looks[1]), (first, first));
        for (at, look) in looks.iter().enumerate().skip(1) {
            assert!(looks[at + 1..].iter().all(|other| other.marker != look.marker && other.colour != look.colour));
        }
    }

    #[test]
    fn every_registered_method_has_a_look_of_its_own() {
        for method in remat_formulations::METHODS {
            let listed = STYLES.iter().filter(|(id, ..)| *id == method.id()).count();
            assert_eq!(listed, 1, "{} is not in STYLES", method.id());
        }
        let looks: Vec<_> = STYLES.iter().map(|&(_, colour, marker)| (colour, marker)).collect();
        let looks = [&looks[..], OTHERS].concat();
        for (at, look) in looks.iter().enumerate() {
            assert!(!looks[at + 1..].contains(look), "{look:?}");
        }
    }

    #[test]
    fn ten_more_methods_find_a_look() {
        let markers = [
            Marker::Square,
            Marker::Cross,
            Marker::Circle,
            Marker::Triangle,
            Marker::Diamond,
            Marker::Plus,
            Marker::Down,
        ];
        assert!(PALETTE.len() * markers.len() - STYLES.len() - OTHERS.len() >= 10, "add a marker or a colour");
    }

    #[test]
    fn a_method_that_is_not_listed_looks_the_same_in_every_figure() {
        assert_eq!(of("mine"), apart("mine", &[of("theirs"), of("dtr")]));
        let mut looks: Vec<Style> = Vec::new();
        for at in 0..OTHERS.len() {
            let look = apart(&format!("mine-{at}"), &looks);
            assert!(!looks.contains(&look));
            looks.push(look);
        }
    }

    #[test]
    fn every_colour_is_seen_on_both_papers() {
        // Orange and sky blue of the palette have 2.25 and 2.31.
        for colour in colours() {
            assert!(contrast(colour, RGBColor(255, 255, 255)) > 2.2, "{colour:?} on white");
            assert!(contrast(on_dark(colour), DARK_PAPER) >= LEAST_CONTRAST, "{colour:?} on dark paper");
        }
        assert_eq!(on_dark(BLACK), RGBColor(242, 242, 242));
        assert_eq!(on_dark(BLUE), BLUE);
        assert!((contrast(BLACK, RGBColor(255, 255, 255)) - 21.0).abs() < 1e-9);
    }

    #[test]
    fn bars_that_share_a_colour_get_shades_of_it_and_then_other_colours() {
        let mut taken: Vec<RGBColor> = Vec::new();
        for _ in 0..30 {
            let look = of("monet").in_colour_apart(|colour| taken.contains(&colour));
            assert!(!taken.contains(&look.colour));
            taken.push(look.colour);
        }
        assert_eq!(taken[..2], [VERMILLION, shade(VERMILLION, SHADES[0])]);
    }
}
