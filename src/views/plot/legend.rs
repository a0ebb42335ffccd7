//! The legend: beside the axes, where it covers nothing.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::figure::{Device, FONT, Figure, GREY, INK, Joined, LEGEND_WIDTH, Series, fitting};
use super::marks::{Area, Drawn, bar_fill, draw_marker};

/// From an entry to the next, and from a line within an entry to the next.
const ENTRY: i32 = 27;
const LINE: i32 = 17;
/// Above the first entry.
const TOP: i32 = 22;
/// Left end of the words.
const WORDS: i32 = 46;
/// Size of a name, and of a line below it.
const NAME_SIZE: u32 = 15;
const LINE_SIZE: u32 = 12;
/// Room for words.
const ROOM: u32 = LEGEND_WIDTH - WORDS.cast_unsigned() - 6;

/// Height that the legend takes, in units of the SVG.
pub fn height(figure: &Figure) -> u32 {
    let device = i32::from(figure.visible_device().is_some()) + i32::from(has_bounds(&figure.series));
    let entries = figure.series.iter().map(|series| ENTRY + LINE * small_lines(series).len().try_into().unwrap_or(0));
    (TOP + entries.sum::<i32>() + device * (ENTRY + LINE)).cast_unsigned()
}

/// Whether a line of a bound is seen: one that begins where it ends has no length.
fn has_bounds(series: &[Series]) -> bool {
    series.iter().any(|series| series.bound.first().zip(series.bound.last()).is_some_and(|(a, b)| a.0 < b.0))
}

/// Draws it.
///
/// # Errors
/// What the backend says.
pub fn draw<B: DrawingBackend>(figure: &Figure, area: &Area<'_, B>, scale: u32) -> Drawn<B> {
    let mut y = TOP;
    for series in &figure.series {
        y = entry(series, area, y, scale)?;
    }
    let pixels = |units: i32| units * scale.cast_signed();
    let dashes = |at: i32, starts: &[i32], length: i32| {
        starts.iter().try_for_each(|&x| {
            let ends = [(pixels(x), pixels(at)), (pixels(x + length), pixels(at))];
            area.draw(&PathElement::new(ends, GREY.stroke_width(scale + scale / 2)))
        })
    };
    if has_bounds(&figure.series) {
        dashes(y, &[8, 14, 20, 26, 32], 2)?;
        text(area, "proved lower bound", (WORDS, y), false, scale)?;
        y += ENTRY;
    }
    if let Some(Device { name, size, .. }) = figure.visible_device() {
        dashes(y, &[8, 20, 32], 7)?;
        text(area, name, (WORDS, y), true, scale)?;
        text(area, size, (WORDS, y + 18), false, scale)?;
    }
    Ok(())
}

/// Draws an entry; returns where the next one goes.
fn entry<B: DrawingBackend>(
    series: &Series,
    area: &Area<'_, B>,
    y: i32,
    scale: u32,
) -> Result<i32, DrawingAreaErrorKind<B::ErrorType>> {
    let pixels = |units: i32| units * scale.cast_signed();
    if matches!(series.joined, Joined::Bars { .. }) {
        let corners = [(pixels(10), pixels(y - 6)), (pixels(36), pixels(y + 6))];
        area.draw(&Rectangle::new(corners, bar_fill(series)))?;
        area.draw(&Rectangle::new(corners, series.style.colour.stroke_width(scale)))?;
        return words(series, area, y, scale);
    }
    let stroke = series.style.colour.stroke_width(2 * scale);
    let dashes: &[(i32, i32)] = if series.secondary { &[(6, 14), (32, 40)] } else { &[(8, 38)] };
    for &(from, to) in dashes.iter().filter(|_| series.joined != Joined::No) {
        area.draw(&PathElement::new([(pixels(from), pixels(y)), (pixels(to), pixels(y))], stroke))?;
    }
    draw_marker(area, (pixels(23), pixels(y)), series.style, series.secondary, scale)?;
    words(series, area, y, scale)
}

/// The label of an entry; returns where the next one goes.
fn words<B: DrawingBackend>(
    series: &Series,
    area: &Area<'_, B>,
    mut y: i32,
    scale: u32,
) -> Result<i32, DrawingAreaErrorKind<B::ErrorType>> {
    text(area, &parts_of(&series.label).0, (WORDS, y), true, scale)?;
    for line in small_lines(series) {
        y += LINE;
        text(area, &line, (WORDS, y), false, scale)?;
    }
    Ok(y + ENTRY)
}

fn text<B: DrawingBackend>(area: &Area<'_, B>, words: &str, (x, y): (i32, i32), main: bool, scale: u32) -> Drawn<B> {
    let (size, colour) = if main { (NAME_SIZE, INK) } else { (LINE_SIZE, GREY) };
    let font = (FONT, fitting(words, size * scale, ROOM * scale))
        .into_font()
        .color(&colour)
        .pos(Pos::new(HPos::Left, VPos::Center));
    let unit = scale.cast_signed();
    area.draw(&Text::new(words.to_owned(), (x * unit, (y + 2) * unit), font))
}

/// The lines below the name: parameters, and series with the very same points.
fn small_lines(series: &Series) -> Vec<String> {
    let parameters = Some(parts_of(&series.label).1).filter(|parameters| !parameters.is_empty());
    let equal = series.also.iter().map(|label| format!("= {label}"));
    parameters.into_iter().chain(equal).flat_map(|text| broken(&text)).collect()
}

/// A text in lines that fit beside the axes, broken after commas and before brackets.
fn broken(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for part in text.replace('[', "\0[").replace(',', ",\0").split('\0').filter(|part| !part.is_empty()) {
        let with = |line: &String| fitting(&format!("{line}{part}"), LINE_SIZE, ROOM) < f64::from(LINE_SIZE);
        if lines.last().is_some_and(|line| !line.is_empty() && with(line)) {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(part);
        }
    }
    lines
}

/// A label as a name and its parameters.
fn parts_of(label: &str) -> (String, String) {
    match label.split_once('[') {
        Some((name, parameters)) => (name.to_owned(), format!("[{parameters}")),
        None => (label.to_owned(), String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::plot::style;

    #[test]
    fn a_bound_is_in_the_legend_where_its_line_has_a_length() {
        let mut series = Series::new("m".into(), 0, style::of("m"), Joined::Steps);
        assert!(!has_bounds(std::slice::from_ref(&series)));
        series.bound = vec![(2.0, 1.0), (2.0, 1.0)];
        assert!(!has_bounds(std::slice::from_ref(&series)));
        series.bound.push((3.0, 1.0));
        assert!(has_bounds(&[series]));
    }

    #[test]
    fn long_parameters_are_broken_where_they_may_be() {
        assert_eq!(broken("[dp=approximate]"), ["[dp=approximate]"]);
        assert_eq!(broken("= kusumoto-2019[dp=approximate]"), ["= kusumoto-2019", "[dp=approximate]"]);
        let long = broken("[early-stop=off,initial-ppm=5000,iterations=5000000]");
        assert_eq!(long, ["[early-stop=off,", "initial-ppm=5000,", "iterations=5000000]"]);
    }
}
