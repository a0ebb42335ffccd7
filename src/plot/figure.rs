//! Draws a figure: axes with units, lines and points, and a legend beside the axes, where it covers nothing.

use std::ops::Range;
use std::path::Path;
use std::sync::Once;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};

use super::style::{Marker, Style};

const FONT: &str = "sans-serif";
const FONT_FILE: &[u8] = include_bytes!("DejaVuSans.ttf");
/// Width and height of the SVG in its own units; the PNG has `PNG_SCALE` pixels for each.
const SIZE: (u32, u32) = (790, 470);
const PNG_SCALE: u32 = 3;
/// Space to the right of the axes, for the legend.
const LEGEND_WIDTH: u32 = 220;
const INK: RGBColor = RGBColor(30, 30, 30);
const GREY: RGBColor = RGBColor(110, 110, 110);
const GRID: RGBColor = RGBColor(225, 225, 225);

/// A figure.
pub struct Figure {
    /// First line.
    pub title: String,
    /// Second line.
    pub subtitle: String,
    /// Label of the horizontal axis.
    pub horizontal: String,
    /// Label of the vertical axis.
    pub vertical: &'static str,
    /// The device, whose memory a vertical line marks.
    pub device: Option<Device>,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// A device.
pub struct Device {
    /// Name in the legend.
    pub name: String,
    /// Memory in words.
    pub size: String,
    /// Memory in the unit of the horizontal axis.
    pub memory: f64,
}

/// The points of one method.
pub struct Series {
    /// Name in the legend.
    pub label: String,
    /// Labels of series with the very same points.
    pub also: Vec<String>,
    /// Place in the legend.
    pub order: usize,
    /// Look.
    pub style: Style,
    /// Whether another setting of the same method has the full look: then hollow and dashed.
    pub secondary: bool,
    /// Whether the points are joined: the method takes any budget.
    pub line: bool,
    /// Horizontal and vertical values, sorted.
    pub points: Vec<(f64, f64)>,
}

type Area<'a, B> = DrawingArea<B, Shift>;
type Axes = Cartesian2d<RangedCoordf64, RangedCoordf64>;

impl Figure {
    /// Writes `base.svg` and `base.png`.
    ///
    /// # Errors
    /// What the operating system or the drawing library says.
    pub fn write(&self, base: &Path) -> Result<(), String> {
        register()?;
        let with = |ending: &str| {
            let mut path = base.as_os_str().to_owned();
            path.push(ending);
            std::path::PathBuf::from(path)
        };
        let mut text = String::new();
        self.draw(&SVGBackend::with_string(&mut text, SIZE).into_drawing_area(), 1)?;
        std::fs::write(with(".svg"), text).map_err(|error| error.to_string())?;
        let size = (SIZE.0 * PNG_SCALE, SIZE.1 * PNG_SCALE);
        self.draw(&BitMapBackend::new(&with(".png"), size).into_drawing_area(), PNG_SCALE)
    }

    fn draw<B: DrawingBackend>(&self, area: &Area<'_, B>, scale: u32) -> Result<(), String> {
        self.try_draw(area, scale).map_err(|error| error.to_string())
    }

    fn try_draw<B: DrawingBackend>(
        &self,
        area: &Area<'_, B>,
        scale: u32,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        area.fill(&WHITE)?;
        let pixels = |units: u32| (units * scale).cast_signed();
        let text = |size: u32, colour: RGBColor| (FONT, f64::from(size * scale)).into_font().color(&colour);
        area.draw(&Text::new(self.title.clone(), (pixels(14), pixels(12)), text(20, INK)))?;
        area.draw(&Text::new(self.subtitle.clone(), (pixels(14), pixels(40)), text(14, GREY)))?;
        let (_, below) = area.split_vertically(62 * scale);
        let (axes, legend) = below.split_horizontally((SIZE.0 - LEGEND_WIDTH) * scale);
        let mut chart = ChartBuilder::on(&axes)
            .x_label_area_size(52 * scale)
            .y_label_area_size(74 * scale)
            .margin_left(12 * scale)
            .margin_right(12 * scale)
            .margin_bottom(8 * scale)
            .margin_top(6 * scale)
            .build_cartesian_2d(self.horizontal_range(), self.vertical_range())?;
        chart
            .configure_mesh()
            .x_labels(8)
            .y_labels(8)
            .max_light_lines(0)
            .bold_line_style(GRID)
            .axis_style(GREY)
            .label_style(text(15, INK))
            .axis_desc_style(text(16, INK))
            .x_desc(self.horizontal.clone())
            .y_desc(self.vertical)
            .x_label_formatter(&|value| tick(*value))
            .y_label_formatter(&|value| tick(*value))
            .draw()?;
        self.draw_device(&mut chart, scale)?;
        let (below, above): (Vec<_>, Vec<_>) = self.series.iter().partition(|series| series.secondary);
        for series in below.into_iter().chain(above) {
            draw_series(&mut chart, series, scale)?;
        }
        self.draw_legend(&legend, scale)
    }

    fn values(&self, pick: fn(&(f64, f64)) -> f64) -> (f64, f64) {
        let values = self.series.iter().flat_map(|series| &series.points).map(pick);
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    }

    /// From zero: memory is compared by ratio.
    fn horizontal_range(&self) -> Range<f64> {
        let (_, high) = self.values(|point| point.0);
        0.0..(high * 1.06).max(f64::MIN_POSITIVE)
    }

    /// Around the points, and not down to zero: the differences are what the figure is about.
    fn vertical_range(&self) -> Range<f64> {
        let (low, high) = self.values(|point| point.1);
        let margin = ((high - low) * 0.08).max(high.abs() * 0.01).max(f64::MIN_POSITIVE);
        // A point at zero is not to be cut in half by the axis.
        let floor = if low > 0.0 { 0.0 } else { f64::NEG_INFINITY };
        (low - margin).max(floor)..high + margin
    }

    fn visible_device(&self) -> Option<&Device> {
        self.device.as_ref().filter(|device| self.horizontal_range().contains(&device.memory))
    }

    /// The device's memory as a dashed line, where the axis reaches as far.
    fn draw_device<B: DrawingBackend>(
        &self,
        chart: &mut ChartContext<'_, B, Axes>,
        scale: u32,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let Some(device) = self.visible_device() else { return Ok(()) };
        let Range { start, end } = self.vertical_range();
        let line = [(device.memory, start), (device.memory, end)];
        let dashes = DashedLineSeries::new(line, 6 * scale, 5 * scale, GREY.stroke_width(scale));
        chart.draw_series(dashes).map(|_| ())
    }

    fn draw_legend<B: DrawingBackend>(
        &self,
        area: &Area<'_, B>,
        scale: u32,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let pixels = |units: i32| units * scale.cast_signed();
        let font = (FONT, f64::from(15 * scale)).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
        let small = (FONT, f64::from(12 * scale)).into_font().color(&GREY).pos(Pos::new(HPos::Left, VPos::Center));
        let mut y = 22;
        for series in &self.series {
            let stroke = series.style.colour.stroke_width(2 * scale);
            let dashes: &[(i32, i32)] = if series.secondary { &[(6, 14), (32, 40)] } else { &[(8, 38)] };
            for &(from, to) in dashes.iter().filter(|_| series.line) {
                area.draw(&PathElement::new([(pixels(from), pixels(y)), (pixels(to), pixels(y))], stroke))?;
            }
            draw_marker(area, (pixels(23), pixels(y)), series, scale)?;
            let (name, parameters) = parts_of(&series.label);
            area.draw(&Text::new(name, (pixels(46), pixels(y + 2)), font.clone()))?;
            let parameters = Some(parameters).filter(|parameters| !parameters.is_empty());
            for line in parameters.into_iter().chain(series.also.iter().map(|label| format!("= {label}"))) {
                y += 17;
                area.draw(&Text::new(line, (pixels(46), pixels(y + 2)), small.clone()))?;
            }
            y += 27;
        }
        if let Some(device) = self.visible_device() {
            for x in [8, 20, 32] {
                area.draw(&PathElement::new(
                    [(pixels(x), pixels(y)), (pixels(x + 7), pixels(y))],
                    GREY.stroke_width(scale),
                ))?;
            }
            area.draw(&Text::new(device.name.clone(), (pixels(46), pixels(y + 2)), font))?;
            area.draw(&Text::new(device.size.clone(), (pixels(46), pixels(y + 20)), small))?;
        }
        Ok(())
    }
}

/// Makes the embedded font known, once.
fn register() -> Result<(), String> {
    static ONCE: Once = Once::new();
    let mut outcome = Ok(());
    ONCE.call_once(|| {
        outcome =
            register_font(FONT, FontStyle::Normal, FONT_FILE).map_err(|_| "the embedded font is damaged".to_owned());
    });
    outcome
}

fn draw_series<B: DrawingBackend>(
    chart: &mut ChartContext<'_, B, Axes>,
    series: &Series,
    scale: u32,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let (points, stroke) = (series.points.iter().copied(), series.style.colour.stroke_width(2 * scale));
    match (series.line, series.secondary) {
        (false, _) => {}
        (true, false) => drop(chart.draw_series(LineSeries::new(points, stroke))?),
        (true, true) => drop(chart.draw_series(DashedLineSeries::new(points, 8 * scale, 6 * scale, stroke))?),
    }
    let area = chart.plotting_area().strip_coord_spec();
    let (x0, y0) = area.get_base_pixel();
    for point in &series.points {
        let (x, y) = chart.backend_coord(point);
        draw_marker(&area, (x - x0, y - y0), series, scale)?;
    }
    Ok(())
}

fn draw_marker<B: DrawingBackend>(
    area: &Area<'_, B>,
    (x, y): (i32, i32),
    series: &Series,
    scale: u32,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let Style { colour, marker } = series.style;
    // Squares and hollow shapes are larger than what may lie on top of them.
    let extra = i32::from(marker == Marker::Square) + 4 * i32::from(series.secondary);
    let unit = scale.cast_signed();
    let radius = (5 + extra) * unit;
    // Filled shapes only: the bitmap backend leaves thick outlines open at their corners.
    let fills = [(radius, colour), (radius - 2 * unit, WHITE)];
    let fills = &fills[..if series.secondary { 2 } else { 1 }];
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
        Marker::Diamond => polygon(&[(-12, 0), (0, -12), (12, 0), (0, 12)]),
        Marker::Circle => fills.iter().try_for_each(|&(r, fill)| area.draw(&Circle::new((x, y), r, fill.filled()))),
        Marker::Cross => strokes(&[[(-10, -10), (10, 10)], [(-10, 10), (10, -10)]]),
        Marker::Plus => strokes(&[[(-12, 0), (12, 0)], [(0, -12), (0, 12)]]),
    }
}

/// A label as a name and its parameters.
fn parts_of(label: &str) -> (String, String) {
    match label.split_once('[') {
        Some((name, parameters)) => (name.to_owned(), format!("[{parameters}")),
        None => (label.to_owned(), String::new()),
    }
}

/// A tick as short as it can be.
pub fn tick(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
