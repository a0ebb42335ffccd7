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
const SIZE: (u32, u32) = (760, 470);
const PNG_SCALE: u32 = 2;
/// Space to the right of the axes, for the legend.
const LEGEND_WIDTH: u32 = 190;
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
    pub horizontal: &'static str,
    /// Label of the vertical axis.
    pub vertical: &'static str,
    /// Name and memory of the device, marked by a vertical line.
    pub device: Option<(String, f64)>,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// The points of one method.
pub struct Series {
    /// Name in the legend.
    pub label: String,
    /// Place in the legend.
    pub order: usize,
    /// Look.
    pub style: Style,
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
            .x_desc(self.horizontal)
            .y_desc(self.vertical)
            .x_label_formatter(&|value| tick(*value))
            .y_label_formatter(&|value| tick(*value))
            .draw()?;
        self.draw_device(&mut chart, scale)?;
        for series in &self.series {
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
        (low - margin).max(0.0)..high + margin
    }

    /// The device's memory as a dashed line, where the axis reaches as far.
    fn draw_device<B: DrawingBackend>(
        &self,
        chart: &mut ChartContext<'_, B, Axes>,
        scale: u32,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let visible = self.device.as_ref().filter(|(_, memory)| self.horizontal_range().contains(memory));
        let Some(&(_, memory)) = visible else { return Ok(()) };
        let Range { start, end } = self.vertical_range();
        let line = [(memory, start), (memory, end)];
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
        let mut y = 22;
        for series in &self.series {
            let Style { colour, marker } = series.style;
            if series.line {
                area.draw(&PathElement::new(
                    [(pixels(8), pixels(y)), (pixels(38), pixels(y))],
                    colour.stroke_width(2 * scale),
                ))?;
            }
            draw_marker(area, (pixels(23), pixels(y)), marker, colour, scale)?;
            for (index, line) in lines_of(&series.label).into_iter().enumerate() {
                y += if index > 0 { 18 } else { 0 };
                area.draw(&Text::new(line, (pixels(46), pixels(y)), font.clone()))?;
            }
            y += 26;
        }
        if let Some((name, memory)) =
            self.device.as_ref().filter(|(_, memory)| self.horizontal_range().contains(memory))
        {
            for x in [8, 20, 32] {
                area.draw(&PathElement::new(
                    [(pixels(x), pixels(y)), (pixels(x + 7), pixels(y))],
                    GREY.stroke_width(scale),
                ))?;
            }
            area.draw(&Text::new(name.clone(), (pixels(46), pixels(y)), font.clone()))?;
            area.draw(&Text::new(format!("{} GiB", tick(*memory)), (pixels(46), pixels(y + 18)), font))?;
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
    let Style { colour, marker } = series.style;
    if series.line {
        chart.draw_series(LineSeries::new(series.points.iter().copied(), colour.stroke_width(2 * scale)))?;
    }
    let area = chart.plotting_area().strip_coord_spec();
    let (x0, y0) = area.get_base_pixel();
    for point in &series.points {
        let (x, y) = chart.backend_coord(point);
        draw_marker(&area, (x - x0, y - y0), marker, colour, scale)?;
    }
    Ok(())
}

fn draw_marker<B: DrawingBackend>(
    area: &Area<'_, B>,
    (x, y): (i32, i32),
    marker: Marker,
    colour: RGBColor,
    scale: u32,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let r = 5 * scale.cast_signed();
    let line = |from: (i32, i32), to: (i32, i32)| {
        area.draw(&PathElement::new([(x + from.0, y + from.1), (x + to.0, y + to.1)], colour.stroke_width(2 * scale)))
    };
    match marker {
        Marker::Square => area.draw(&Rectangle::new([(x - r, y - r), (x + r, y + r)], colour.filled())),
        Marker::Circle => area.draw(&Circle::new((x, y), r, colour.filled())),
        Marker::Triangle => {
            let points = [(x - r, y + r * 4 / 5), (x + r, y + r * 4 / 5), (x, y - r)];
            area.draw(&Polygon::new(points, colour.filled()))
        }
        Marker::Diamond => {
            let points = [(x - r, y), (x, y - r), (x + r, y), (x, y + r)];
            area.draw(&Polygon::new(points, colour.filled()))
        }
        Marker::Cross => line((-r, -r), (r, r)).and_then(|()| line((-r, r), (r, -r))),
        Marker::Plus => line((-r, 0), (r, 0)).and_then(|()| line((0, -r), (0, r))),
    }
}

/// A label broken before its parameters, which are long.
fn lines_of(label: &str) -> Vec<String> {
    match label.split_once('[') {
        Some((name, parameters)) => vec![name.to_owned(), format!("[{parameters}")],
        None => vec![label.to_owned()],
    }
}

/// A tick as short as it can be.
fn tick(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
