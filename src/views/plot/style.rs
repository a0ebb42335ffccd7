//! The look of each method, the same in every figure. One row per method; what is not listed gets the
//! remaining colours in turn.
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
/// Their shades: parts of the way to black, or, negative, to white.
const SHADES: [f64; 4] = [0.45, -0.45, 0.7, 0.25];

impl Style {
    /// The look of a setting of a method that already has so many others: its colour in another shade, in another
    /// shape. The first two differ in being filled or hollow.
    pub fn of_setting(self, others: usize) -> Self {
        let Some(further) = others.checked_sub(2) else { return self };
        let shapes = SETTINGS.iter().filter(|&&marker| marker != self.marker);
        let marker = shapes.cycle().nth(further).copied().unwrap_or(self.marker);
        Self { colour: shade(self.colour, SHADES[further % SHADES.len()]), marker }
    }
}

/// A colour on its way to black, or to white where the part is negative.
fn shade(RGBColor(red, green, blue): RGBColor, part: f64) -> RGBColor {
    let end = if part < 0.0 { 255.0 } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 255")]
    let mixed = |value: u8| (f64::from(value) + part.abs() * (end - f64::from(value))).round() as u8;
    RGBColor(mixed(red), mixed(green), mixed(blue))
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

const OTHERS: &[(RGBColor, Marker)] =
    &[(SKY, Marker::Plus), (BLACK, Marker::Plus), (SKY, Marker::Cross), (BLACK, Marker::Circle)];

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

/// The look of a method; `order` tells apart those that have none of their own.
pub fn of(method: &str, order: usize) -> Style {
    let listed = STYLES.iter().find(|(id, ..)| *id == method).map(|&(_, colour, marker)| Style { colour, marker });
    let (colour, marker) = OTHERS[order % OTHERS.len()];
    listed.unwrap_or(Style { colour, marker })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_method_look_different() {
        let first = of("monet", 0);
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
        for (at, (id, colour, marker)) in STYLES.iter().enumerate() {
            let alike = STYLES[at + 1..].iter().find(|other| (other.1, other.2) == (*colour, *marker));
            assert_eq!(alike.map(|other| other.0), None, "looks like {id}");
        }
    }
}
