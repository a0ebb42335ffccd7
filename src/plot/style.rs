//! The look of each method, the same in every figure. One row per method; what is not listed gets the
//! remaining colours in turn.
//!
//! Colours: Okabe and Ito's palette, which readers with any common colour blindness can tell apart,
//! kept as close to Rotor's Figure 6 (red square, purple crosses, green circles, blue triangles) as it goes.

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

const VERMILLION: RGBColor = RGBColor(213, 94, 0);
const PURPLE: RGBColor = RGBColor(204, 121, 167);
const GREEN: RGBColor = RGBColor(0, 158, 115);
const BLUE: RGBColor = RGBColor(0, 114, 178);
const ORANGE: RGBColor = RGBColor(230, 159, 0);
const SKY: RGBColor = RGBColor(86, 180, 233);
const BLACK: RGBColor = RGBColor(0, 0, 0);

const STYLES: &[(&str, RGBColor, Marker)] = &[
    ("store-all", VERMILLION, Marker::Square),
    ("sequential", PURPLE, Marker::Cross),
    ("revolve", GREEN, Marker::Circle),
    ("rotor-persistent", BLUE, Marker::Triangle),
    ("rotor-weak", SKY, Marker::Diamond),
    ("griewank-logn", ORANGE, Marker::Plus),
    ("chen-sqrt", GREEN, Marker::Square),
    ("chen-greedy", GREEN, Marker::Cross),
    ("ap-sqrt", VERMILLION, Marker::Circle),
    ("ap-greedy", VERMILLION, Marker::Cross),
    ("linearized-sqrt", SKY, Marker::Square),
    ("linearized-greedy", SKY, Marker::Triangle),
    ("kusumoto-2019", PURPLE, Marker::Diamond),
    ("kusumoto-chen", GREEN, Marker::Cross),
    ("oracle", BLACK, Marker::Square),
    ("checkmate-ilp", BLACK, Marker::Diamond),
    ("checkmate-lp", BLACK, Marker::Cross),
    ("checkmate-rounding", ORANGE, Marker::Diamond),
    ("moccasin", GREEN, Marker::Triangle),
    ("moccasin-reordered", ORANGE, Marker::Circle),
    ("fastsa", BLUE, Marker::Diamond),
    ("gist", PURPLE, Marker::Plus),
    ("monet", VERMILLION, Marker::Circle),
    ("monet-lp", VERMILLION, Marker::Cross),
];

const OTHERS: &[(RGBColor, Marker)] =
    &[(SKY, Marker::Plus), (BLACK, Marker::Plus), (SKY, Marker::Cross), (BLACK, Marker::Circle)];

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
    fn every_registered_method_has_a_look_of_its_own() {
        for method in remat_formulations::METHODS {
            let listed = STYLES.iter().filter(|(id, ..)| *id == method.id()).count();
            assert_eq!(listed, 1, "{} is not in STYLES", method.id());
        }
    }
}
