//! A figure: axes with units, lines and points, and a legend beside the axes, as SVG and PNG. Knows no record.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Once;

use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use remat_core::io::replace;

use super::axis::Axis;
use super::legend;
use super::marks::{Area, Axes, Drawn, draw_series};
use super::style::Style;
use crate::ground::text;

/// The embedded font's name to the drawing library; in an SVG, the reader's own sans-serif.
pub const FONT: &str = "sans-serif";
const FONT_FILE: &[u8] = include_bytes!("DejaVuSans.ttf");
/// Width and least height of the SVG in its own units; the PNG has `PNG_SCALE` pixels for each.
const SIZE: (u32, u32) = (790, 470);
const PNG_SCALE: u32 = 3;
/// Space to the right of the axes, for the legend; above them, for the title.
pub const LEGEND_WIDTH: u32 = 220;
const TITLE_HEIGHT: u32 = 62;
/// Left of the axes: for numbers, and for names.
const NUMBERS_WIDTH: u32 = 74;
const NAMES_WIDTH: u32 = 270;
/// Height of a name with its bars: for the name, and for each further bar.
const NAME_HEIGHT: u32 = 20;
const BAR_HEIGHT: u32 = 9;
/// Colour of text.
pub const INK: RGBColor = RGBColor(30, 30, 30);
/// Colour of what stands back.
pub const GREY: RGBColor = RGBColor(110, 110, 110);
/// Colour of the grid.
pub const GRID: RGBColor = RGBColor(225, 225, 225);

/// A figure.
pub struct Figure {
    /// First line.
    pub title: String,
    /// Second line.
    pub subtitle: String,
    /// Horizontal axis.
    pub horizontal: Axis,
    /// Vertical axis.
    pub vertical: Axis,
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

/// How points are joined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Joined {
    /// Not at all: they are all that there is.
    No,
    /// By straight lines.
    Lines,
    /// Each value holds until the next; the last point says how far it is known.
    Steps,
    /// Each value holds back to the one before; the first point says from where on it is known.
    StepsBack,
    /// Each is a horizontal bar from zero.
    Bars {
        /// In units of the vertical axis.
        width: f64,
    },
}

/// The points of one method.
pub struct Series {
    /// Id of the method; empty where it is none.
    pub method: String,
    /// Name in the legend.
    pub label: String,
    /// Labels of series with the very same points.
    pub also: Vec<String>,
    /// Where points are means: the values of all cases, for series of equal means need not be alike.
    pub behind: Vec<Option<u64>>,
    /// Place in the legend.
    pub order: usize,
    /// Look.
    pub style: Style,
    /// Whether another setting of the same method has the full look: then hollow and dashed.
    pub secondary: bool,
    /// How the points are joined.
    pub joined: Joined,
    /// Horizontal and vertical values, sorted.
    pub points: Vec<(f64, f64)>,
    /// Horizontal values at which there is nothing: no line leads across.
    pub gaps: Vec<f64>,
    /// Steps of a proved bound on the vertical value, drawn dotted.
    pub bound: Vec<(f64, f64)>,
}

impl Series {
    /// A series without points, in its full look.
    pub fn new(label: String, order: usize, style: Style, joined: Joined) -> Self {
        let (method, also, behind, points, gaps, bound) = (String::new(), vec![], vec![], vec![], vec![], vec![]);
        Self { method, label, also, behind, order, style, secondary: false, joined, points, gaps, bound }
    }

    /// The points between which lines are drawn, cut at the gaps.
    pub fn pieces(&self) -> impl Iterator<Item = &[(f64, f64)]> {
        self.points.chunk_by(|a, b| !self.gaps.iter().any(|&gap| a.0 < gap && gap < b.0))
    }

    /// Whether it would be drawn onto another one and says the same.
    pub fn equals(&self, other: &Self) -> bool {
        let rest = (self.joined, &self.bound, &self.behind) == (other.joined, &other.bound, &other.behind);
        rest && !self.points.is_empty() && self.pieces().eq(other.pieces())
    }
}

/// Red, green and blue of every pixel, row by row, as PNG.
fn write_png(out: &mut dyn Write, (width, height): (u32, u32), pixels: &[u8]) -> Result<(), png::EncodingError> {
    let mut encoder = png::Encoder::new(out, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::Fast);
    encoder.set_adaptive_filter(png::AdaptiveFilterType::Adaptive);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()
}

impl Figure {
    /// Writes `base.svg` and `base.png`, each whole or not at all.
    ///
    /// # Errors
    /// What the operating system or the drawing library says.
    pub fn write(&self, base: &Path) -> Result<(), String> {
        register()?;
        let with = |ending: &str| {
            let mut path = base.as_os_str().to_owned();
            path.push(ending);
            PathBuf::from(path)
        };
        let svg = self.svg()?;
        replace(&with(".svg"), |out| out.write_all(svg.as_bytes())).map_err(|error| error.to_string())?;
        let (width, height) = self.size();
        let size = (width * PNG_SCALE, height * PNG_SCALE);
        let mut pixels = vec![0; (size.0 * size.1 * 3) as usize];
        let canvas = BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area();
        self.draw(&canvas, PNG_SCALE).map_err(|error| error.to_string())?;
        drop(canvas);
        let written = replace(&with(".png"), |out| write_png(out, size, &pixels).map_err(io::Error::from));
        written.map_err(|error| error.to_string())
    }

    /// The text of the SVG.
    ///
    /// # Errors
    /// What the drawing library says.
    pub fn svg(&self) -> Result<String, String> {
        register()?;
        let mut text = String::new();
        let canvas = SVGBackend::with_string(&mut text, self.size()).into_drawing_area();
        self.draw(&canvas, 1).map_err(|error| error.to_string())?;
        drop(canvas);
        Ok(text::xml(&text).into_owned())
    }

    /// Wide as all figures, and high enough for the legend and for names.
    fn size(&self) -> (u32, u32) {
        let names = u32::try_from(self.vertical.names.len()).unwrap_or(0);
        let bars = u32::try_from(self.series.len().saturating_sub(1)).unwrap_or(0);
        let axes = SIZE.1.max(TITLE_HEIGHT + 80 + names * (NAME_HEIGHT + bars * BAR_HEIGHT));
        (SIZE.0, axes.max(TITLE_HEIGHT + legend::height(self)))
    }

    fn draw<B: DrawingBackend>(&self, area: &Area<'_, B>, scale: u32) -> Drawn<B> {
        area.fill(&WHITE)?;
        let pixels = |units: u32| (units * scale).cast_signed();
        let fitted = |words: &str, size: u32, room: u32| (FONT, fitting(words, size * scale, room * scale)).into_font();
        let (title, subtitle) = (fitted(&self.title, 20, SIZE.0 - 28), fitted(&self.subtitle, 14, SIZE.0 - 28));
        area.draw(&Text::new(self.title.clone(), (pixels(14), pixels(12)), title.color(&INK)))?;
        area.draw(&Text::new(self.subtitle.clone(), (pixels(14), pixels(40)), subtitle.color(&GREY)))?;
        let (_, below) = area.split_vertically(TITLE_HEIGHT * scale);
        let (axes, beside) = below.split_horizontally((SIZE.0 - LEGEND_WIDTH) * scale);
        let named = !self.vertical.names.is_empty();
        let least = |sizes: &mut dyn Iterator<Item = f64>, size: u32| sizes.fold(f64::from(size * scale), f64::min);
        let size = if named { 13 } else { 15 };
        let names = &mut self.vertical.names.iter().map(|name| fitting(name, size * scale, (NAMES_WIDTH - 12) * scale));
        let labels = least(names, size);
        let axes_width = SIZE.0 - LEGEND_WIDTH - NUMBERS_WIDTH - 24;
        let labels_of_axes = [self.horizontal.described(), self.vertical.described()];
        let rooms = [(&labels_of_axes[0], axes_width), (&labels_of_axes[1], SIZE.1 - TITLE_HEIGHT - 66)];
        let described = least(&mut rooms.into_iter().map(|(words, room)| fitting(words, 16 * scale, room * scale)), 16);
        let mut chart = ChartBuilder::on(&axes)
            .x_label_area_size(52 * scale)
            .y_label_area_size(if named { NAMES_WIDTH } else { NUMBERS_WIDTH } * scale)
            .margin_left(12 * scale)
            .margin_right(12 * scale)
            .margin_bottom(8 * scale)
            .margin_top(6 * scale)
            .build_cartesian_2d(self.horizontal.coordinate(), self.vertical.coordinate())?;
        chart
            .configure_mesh()
            .x_labels(if named { 5 } else { 8 })
            .y_labels(8)
            .max_light_lines(0)
            .bold_line_style(GRID)
            .axis_style(GREY)
            .label_style((FONT, labels).into_font().color(&INK))
            .axis_desc_style((FONT, described).into_font().color(&INK))
            .x_desc(&labels_of_axes[0])
            .y_desc(&labels_of_axes[1])
            .x_label_formatter(&|value| self.horizontal.text_at(*value))
            .y_label_formatter(&|value| self.vertical.text_at(*value))
            .draw()?;
        self.draw_device(&mut chart, scale)?;
        let (below, above): (Vec<_>, Vec<_>) = self.series.iter().partition(|series| series.secondary);
        for series in below.into_iter().chain(above) {
            draw_series(&mut chart, series, scale)?;
        }
        legend::draw(self, &beside, scale)
    }

    /// The device, where the axis reaches as far.
    pub fn visible_device(&self) -> Option<&Device> {
        self.device.as_ref().filter(|device| self.horizontal.range.contains(&device.memory))
    }

    /// The device's memory as a dashed line.
    fn draw_device<B: DrawingBackend>(&self, chart: &mut ChartContext<'_, B, Axes>, scale: u32) -> Drawn<B> {
        let Some(device) = self.visible_device() else { return Ok(()) };
        let line = [(device.memory, self.vertical.range.start), (device.memory, self.vertical.range.end)];
        let dashes = DashedLineSeries::new(line, 6 * scale, 5 * scale, GREY.stroke_width(scale));
        chart.draw_series(dashes).map(|_| ())
    }
}

/// The size of a text that is as wide as there is room, but no larger than wanted.
pub fn fitting(text: &str, size: u32, room: u32) -> f64 {
    let (size, room) = (f64::from(size), f64::from(room));
    let width = width_of(text, size);
    if width <= room { size } else { size * room / width }
}

/// The width of a text at a size.
pub fn width_of(text: &str, size: f64) -> f64 {
    if register().is_err() {
        return 0.0;
    }
    (FONT, size).into_font().box_size(text).map_or(0.0, |(width, _)| f64::from(width))
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
