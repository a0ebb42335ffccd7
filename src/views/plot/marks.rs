//! Lines and points of a series, the same in the axes and in the legend.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::axis::Coordinate;
use super::figure::{Joined, Series};
use super::style::{Marker, Style};

/// A part of the canvas.
pub type Area<'a, B> = DrawingArea<B, Shift>;
/// Both axes.
pub type Axes = Cartesian2d<Coordinate, Coordinate>;
/// What drawing comes to.
pub type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// A line of steps with more points than this has markers at some of them only.
const MARKED_STEPS: usize = 8;
/// The same of lines from point to point, where each point is a measurement.
const MARKED_POINTS: usize = 60;

/// Draws a series with its bounds.
///
/// # Errors
/// What the backend says.
pub fn draw_series<B: DrawingBackend>(chart: &mut ChartContext<'_, B, Axes>, series: &Series, scale: u32) -> Drawn<B> {
    if let Joined::Bars { width } = series.joined {
        return draw_bars(chart, series, width, scale);
    }
    let thin = series.style.colour.stroke_width(scale + scale / 2);
    if !series.bound.is_empty() {
        chart.draw_series(DashedLineSeries::new(steps(series.bound.iter().copied()), 2 * scale, 4 * scale, thin))?;
    }
    let stroke = series.style.colour.stroke_width(2 * scale);
    for piece in series.pieces() {
        let line = match series.joined {
            Joined::No | Joined::Bars { .. } => vec![],
            Joined::Lines => piece.to_vec(),
            Joined::Steps => steps(piece.iter().copied()),
            Joined::StepsBack => steps(piece.iter().rev().copied()),
        };
        if series.secondary {
            chart.draw_series(DashedLineSeries::new(line, 8 * scale, 6 * scale, stroke))?;
        } else {
            chart.draw_series(LineSeries::new(line, stroke))?;
        }
    }
    let area = chart.plotting_area().strip_coord_spec();
    let (x0, y0) = area.get_base_pixel();
    for point in marked(series) {
        let (x, y) = chart.backend_coord(point);
        draw_marker(&area, (x - x0, y - y0), series.style, series.secondary, scale)?;
    }
    Ok(())
}

/// Bars from zero; those of a secondary series are pale, and one without length is a line.
fn draw_bars<B: DrawingBackend>(
    chart: &mut ChartContext<'_, B, Axes>,
    series: &Series,
    width: f64,
    scale: u32,
) -> Drawn<B> {
    let colour = series.style.colour;
    let half = width * 0.46;
    for &(x, y) in &series.points {
        let corners = [(0.0, y - half), (x, y + half)];
        chart.draw_series([
            Rectangle::new(corners, bar_fill(series)),
            Rectangle::new(corners, colour.stroke_width(1)),
        ])?;
        let [from, to] = corners.map(|corner| chart.backend_coord(&corner).0);
        if from == to {
            let end = [(x, y - half), (x, y + half)];
            chart.draw_series([PathElement::new(end, colour.stroke_width(2 * scale))])?;
        }
    }
    Ok(())
}

/// The inside of a bar.
pub fn bar_fill(series: &Series) -> ShapeStyle {
    series.style.colour.mix(if series.secondary { 0.35 } else { 1.0 }).filled()
}

/// The points that bear a marker.
fn marked(series: &Series) -> Vec<&(f64, f64)> {
    // A bound alone shows whose it is where it begins.
    let points = if series.points.is_empty() { &series.bound[..series.bound.len().min(1)] } else { &series.points[..] };
    if series.joined == Joined::Lines && points.len() > MARKED_POINTS {
        return points.iter().step_by(points.len().div_ceil(MARKED_STEPS)).collect();
    }
    // The last point of a line of steps, or the first, only says how far it is known.
    let jumps = points.len().saturating_sub(1).max(1).min(points.len());
    let stride = jumps.div_ceil(MARKED_STEPS).max(1);
    match series.joined {
        Joined::Steps => points[..jumps].iter().rev().step_by(stride).collect(),
        Joined::StepsBack => points[points.len() - jumps..].iter().step_by(stride).collect(),
        Joined::No | Joined::Lines | Joined::Bars { .. } => points.iter().collect(),
    }
}

/// The corners of a line that keeps each value until the next.
fn steps(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for point in points {
        corners.extend(corners.last().map(|before| (point.0, before.1)));
        corners.push(point);
    }
    corners
}

/// Draws a marker around a pixel.
///
/// # Errors
/// What the backend says.
pub fn draw_marker<B: DrawingBackend>(
    area: &Area<'_, B>,
    (x, y): (i32, i32),
    Style { colour, marker }: Style,
    secondary: bool,
    scale: u32,
) -> Drawn<B> {
    // Squares and hollow shapes are larger than what may lie on top of them.
    let extra = i32::from(marker == Marker::Square) + 3 * i32::from(secondary);
    let unit = scale.cast_signed();
    let radius = (4 + extra) * unit;
    // Filled shapes only: the bitmap backend leaves thick outlines open at their corners.
    let fills = [(radius, colour), (radius - 2 * unit, WHITE)];
    let fills = &fills[..if secondary { 2 } else { 1 }];
    let polygon = |corners: &[(i32, i32)]| {
        fills.iter().try_for_each(|&(r, fill)| {
            let points: Vec<_> = corners.iter().map(|&(dx, dy)| (x + dx * r / 10, y + dy * r / 10)).collect();
            area.draw(&Polygon::new(points, fill.filled()))
        })
    };
    let strokes = |ends: &[[(i32, i32); 2]]| {
        ends.iter().try_for_each(|line| {
            let points = line.map(|(dx, dy)| (x + dx * radius / 10, y + dy * radius / 10));
            area.draw(&PathElement::new(points, colour.stroke_width(2 * scale)))
        })
    };
    match marker {
        Marker::Square => polygon(&[(-10, -10), (10, -10), (10, 10), (-10, 10)]),
        Marker::Triangle => polygon(&[(-11, 8), (11, 8), (0, -12)]),
        Marker::Down => polygon(&[(-11, -8), (11, -8), (0, 12)]),
        Marker::Diamond => polygon(&[(-12, 0), (0, -12), (12, 0), (0, 12)]),
        Marker::Circle => fills.iter().try_for_each(|&(r, fill)| area.draw(&Circle::new((x, y), r, fill.filled()))),
        Marker::Cross => strokes(&[[(-10, -10), (10, 10)], [(-10, 10), (10, -10)]]),
        Marker::Plus => strokes(&[[(-12, 0), (12, 0)], [(0, -12), (0, 12)]]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_keep_each_value_until_the_next() {
        let points = [(0.0, 3.0), (1.0, 2.0), (4.0, 2.0)];
        let corners = steps(points.into_iter());
        assert_eq!(corners, [(0.0, 3.0), (1.0, 3.0), (1.0, 2.0), (4.0, 2.0), (4.0, 2.0)]);
        let back = steps(points.into_iter().rev());
        assert_eq!(back, [(4.0, 2.0), (1.0, 2.0), (1.0, 2.0), (0.0, 2.0), (0.0, 3.0)]);
        assert!(steps(std::iter::empty()).is_empty());
    }
}
