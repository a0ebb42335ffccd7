//! Figures of tables that are no records: what a benchmark measured, or a page reports. A file (`results/figures.toml`)
//! says which columns of which CSV are drawn how; `figure.rs` draws them like all others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::axis::{Axis, Scale};
use super::figure::{Figure, Joined, Series};
use super::gather::{as_bars, points_of};
use super::style;
use crate::ground::failure::Failure;

/// A file of figures.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    figure: Vec<Drawing>,
}

/// One figure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Drawing {
    /// The SVG, beside the file of figures.
    file: PathBuf,
    /// The CSV, likewise, or several whose rows are drawn together.
    source: Sources,
    title: String,
    #[serde(default)]
    subtitle: String,
    /// Values that columns must have for a row to count, each one of a list.
    #[serde(default, rename = "where")]
    only: BTreeMap<String, Vec<String>>,
    /// Columns whose values together name a series.
    by: Vec<String>,
    /// The series, in this order; empty: all, as they come.
    #[serde(default)]
    series: Vec<Line>,
    horizontal: Values,
    /// Numbers, or the names of bars.
    vertical: Values,
}

/// Where the rows of a figure are.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Sources {
    One(PathBuf),
    Several(Vec<PathBuf>),
}

/// How a series is shown.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// Its values of the columns, separated by spaces.
    is: String,
    /// Its name in the legend.
    label: Option<String>,
    /// The method whose look it has.
    like: Option<String>,
    /// Dashed and hollow.
    #[serde(default)]
    dashed: bool,
    /// Its value holds everywhere along the axis.
    #[serde(default)]
    level: bool,
}

/// What an axis shows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Values {
    column: String,
    label: String,
    #[serde(default)]
    scale: AxisScale,
    /// The values are divided by this.
    #[serde(default = "one")]
    divisor: f64,
    /// The values are shown as per cent above this.
    above: Option<Base>,
    /// Values below this are drawn here, as on a logarithmic axis that has no zero.
    least: Option<f64>,
}

fn one() -> f64 {
    1.0
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AxisScale {
    /// From zero.
    #[default]
    Linear,
    Logarithmic,
    /// Not numbers: bars stand at names.
    Names,
}

/// What values are compared with: the same for all series of a figure.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Base {
    Number(f64),
    /// The least value of rows chosen so, among those that agree in some columns.
    Rows {
        #[serde(rename = "where")]
        only: BTreeMap<String, Vec<String>>,
        per: Vec<String>,
    },
}

type Row = BTreeMap<String, String>;

/// Draws the figures of a file; returns each SVG's path and text.
///
/// # Errors
/// The file or a CSV cannot be read, or names what is not there.
pub fn figures(path: &Path) -> Result<Vec<(PathBuf, String)>, Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(Failure::unreadable(path))?;
    let file: File = toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        Failure::input(format!("{name}: line {line}: {}", error.message().trim().replace('\n', ", ")))
    })?;
    let folder = path.parent().unwrap_or(path);
    let drawn = file.figure.iter().map(|drawing| {
        let wrong = |words: String| Failure::input(format!("{name}: {}: {words}", drawing.file.display()));
        let rows = drawing.source.read(folder).map_err(wrong)?;
        let svg = drawing.figure(&rows).and_then(|figure| figure.svg()).map_err(wrong)?;
        Ok((folder.join(&drawing.file), svg))
    });
    drawn.collect()
}

impl Sources {
    /// The rows of all, one file after the other.
    fn read(&self, folder: &Path) -> Result<Vec<Row>, String> {
        let files = match self {
            Self::One(file) => std::slice::from_ref(file),
            Self::Several(files) => files,
        };
        let mut rows = Vec::new();
        for file in files {
            rows.extend(read(&folder.join(file))?);
        }
        Ok(rows)
    }
}

fn read(path: &Path) -> Result<Vec<Row>, String> {
    let wrong = |error: csv::Error| format!("{}: {error}", path.display());
    let mut reader = csv::Reader::from_path(path).map_err(wrong)?;
    reader.deserialize().collect::<Result<_, _>>().map_err(wrong)
}

fn text<'a>(row: &'a Row, column: &str) -> Result<&'a str, String> {
    row.get(column).map(String::as_str).ok_or_else(|| format!("there is no column {column:?}"))
}

fn is_of(row: &Row, only: &BTreeMap<String, Vec<String>>) -> Result<bool, String> {
    for (column, values) in only {
        if !values.iter().any(|value| Ok(value.as_str()) == text(row, column)) {
            text(row, column)?;
            return Ok(false);
        }
    }
    Ok(true)
}

/// What a row says in some columns, as one text.
fn key(row: &Row, columns: &[String]) -> Result<String, String> {
    let words = columns.iter().map(|column| text(row, column)).collect::<Result<Vec<_>, _>>()?;
    Ok(words.join(" "))
}

impl Values {
    /// Refuses what no axis can show.
    fn check(&self) -> Result<(), String> {
        if !self.divisor.is_finite() || self.divisor == 0.0 {
            return Err(format!(
                "column {:?}: divisor = {} divides nothing; write another number",
                self.column, self.divisor
            ));
        }
        let logarithmic = self.scale == AxisScale::Logarithmic;
        match self.least {
            Some(least) if !least.is_finite() || (logarithmic && least <= 0.0) => {
                let above = if logarithmic { " above zero" } else { "" };
                Err(format!(
                    "column {:?}: least = {least} is on no such axis; write a finite number{above}",
                    self.column
                ))
            }
            _ => Ok(()),
        }
    }

    /// The number of a row as it is in the file; none where the cell is empty, or has the dash of `bench table`.
    fn raw(&self, row: &Row) -> Result<Option<f64>, String> {
        let text = text(row, &self.column)?;
        if ["", "-"].contains(&text) {
            return Ok(None);
        }
        let number = text.parse().map_err(|_| format!("column {:?}: {text:?} is no number", self.column))?;
        self.finite(number, || format!("{text:?} is no finite number; leave the cell empty where there is none"))
            .map(Some)
    }

    fn finite(&self, number: f64, words: impl Fn() -> String) -> Result<f64, String> {
        if number.is_finite() { Ok(number) } else { Err(format!("column {:?}: {}", self.column, words())) }
    }

    /// The number as it is drawn; `all` are the rows among which a base is looked for.
    fn value(&self, row: &Row, all: &[Row]) -> Result<Option<f64>, String> {
        let Some(raw) = self.raw(row)? else { return Ok(None) };
        let value = match &self.above {
            None => raw,
            Some(above) => {
                let Some(base) = self.base(above, row, all)? else { return Ok(None) };
                self.finite(100.0 * (raw / base - 1.0), || {
                    format!("nothing is a part above {base}; choose another base")
                })?
            }
        };
        let value = (value / self.divisor).max(self.least.unwrap_or(f64::NEG_INFINITY));
        if self.scale == AxisScale::Logarithmic && value <= 0.0 {
            let words = "is on no logarithmic axis; leave the row out, or say with `least` where it is drawn";
            return Err(format!("column {:?}: {value} {words}", self.column));
        }
        self.finite(value, || format!("{raw} divided by {} is too large to be drawn", self.divisor)).map(Some)
    }

    /// What the value of a row is compared with.
    fn base(&self, above: &Base, row: &Row, all: &[Row]) -> Result<Option<f64>, String> {
        let (only, per) = match above {
            Base::Number(base) => return Ok(Some(*base)),
            Base::Rows { only, per } => (only, per),
        };
        let mine = key(row, per)?;
        let mut base: Option<f64> = None;
        for other in all {
            if is_of(other, only)? && key(other, per)? == mine {
                base = base.into_iter().chain(self.raw(other)?).reduce(f64::min);
            }
        }
        Ok(base)
    }

    fn axis(&self, values: impl Iterator<Item = f64>) -> Axis {
        if self.scale == AxisScale::Linear {
            return Axis::from_zero(&self.label, values);
        }
        let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        Axis::fixed(&self.label, low / 1.3..high * 1.3, Scale::Logarithmic)
    }
}

impl Drawing {
    fn figure(&self, all: &[Row]) -> Result<Figure, String> {
        self.horizontal.check()?;
        self.vertical.check()?;
        if self.horizontal.scale == AxisScale::Names {
            return Err("horizontal: names stand along the vertical axis; give it scale = \"names\"".into());
        }
        let mut rows = Vec::new();
        for row in all {
            if is_of(row, &self.only)? {
                rows.push(row);
            }
        }
        let bars = self.vertical.scale == AxisScale::Names;
        let names = if bars { self.names(&rows)? } else { vec![] };
        let lines = self.lines(&rows)?;
        let mut series = Vec::new();
        for (order, line) in lines.iter().enumerate() {
            let mut points = Vec::new();
            for row in &rows {
                if key(row, &self.by)? != line.is {
                    continue;
                }
                let up = if bars {
                    let place = names.iter().position(|name| Ok(name.as_str()) == text(row, &self.vertical.column));
                    place.map(|at| -(at as f64))
                } else {
                    self.vertical.value(row, all)?
                };
                // What is level has no place of its own.
                let along = if line.level && !bars { Some(0.0) } else { self.horizontal.value(row, all)? };
                points.extend(along.zip(up));
            }
            if points.is_empty() {
                return Err(format!("no row is of the series {:?}", line.is));
            }
            let label = line.label.clone().unwrap_or_else(|| line.is.clone());
            let look = line.like.as_deref().map_or_else(|| style::turn(order), style::of);
            let points = merged(points, bars);
            series.push(Series { points, secondary: line.dashed, ..Series::new(label, order, look, Joined::Lines) });
        }
        level(&lines, &mut series)?;
        let series = if bars { as_bars(series) } else { series };
        let horizontal = self.horizontal.axis(points_of(&series).map(|point| point.0));
        let vertical =
            if bars { Axis::of_names(names) } else { self.vertical.axis(points_of(&series).map(|point| point.1)) };
        let (title, subtitle) = (self.title.clone(), self.subtitle.clone());
        Ok(Figure { title, subtitle, horizontal, vertical, device: None, series })
    }

    /// The series that are asked for, or all that there are.
    fn lines(&self, rows: &[&Row]) -> Result<Vec<Line>, String> {
        let mut lines = self.series.clone();
        if lines.is_empty() {
            for row in rows {
                let is = key(row, &self.by)?;
                if lines.iter().all(|line| line.is != is) {
                    lines.push(Line { is, label: None, like: None, dashed: false, level: false });
                }
            }
        }
        Ok(lines)
    }

    /// The names at which bars stand, as they come.
    fn names(&self, rows: &[&Row]) -> Result<Vec<String>, String> {
        let mut names: Vec<String> = Vec::new();
        for row in rows {
            let name = text(row, &self.vertical.column)?;
            if names.iter().all(|known| known != name) {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }
}

/// Draws what holds everywhere from the first to the last point of the others.
fn level(lines: &[Line], series: &mut [Series]) -> Result<(), String> {
    let others = lines.iter().zip(series.iter()).filter(|(line, _)| !line.level);
    let places = others.flat_map(|(_, series)| series.points.iter().map(|point| (point.0, point.0)));
    let Some((low, high)) = places.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))) else {
        return Err(
            "every series is level; a figure needs one without `level = true`, along which they are drawn".into()
        );
    };
    for (_, series) in lines.iter().zip(series).filter(|(line, _)| line.level) {
        let value = series.points[0].1;
        series.points = vec![(low, value), (high, value)];
    }
    Ok(())
}

/// One point for each place, the median of those there, sorted.
fn merged(points: Vec<(f64, f64)>, bars: bool) -> Vec<(f64, f64)> {
    // Bars lie: what is measured is horizontal.
    let turned = |(x, y): (f64, f64)| if bars { (y, x) } else { (x, y) };
    let mut points: Vec<_> = points.into_iter().map(turned).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    points.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()).map(|same| turned(same[(same.len() - 1) / 2])).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::views::plot::figure::width_of;

    fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
        tag.split_once(&format!(" {name}=\""))?.1.split_once('"').map(|(value, _)| value)
    }

    fn number(tag: &str, name: &str) -> f64 {
        attribute(tag, name).and_then(|value| value.parse().ok()).unwrap_or(0.0)
    }

    /// From where to where a tag reaches along both axes; nothing for what is turned.
    fn extent(tag: &str, words: &str) -> Vec<(f64, f64)> {
        if attribute(tag, "transform").is_some() {
            return vec![];
        }
        if tag.starts_with("text") {
            let (x, width) = (number(tag, "x"), width_of(words, number(tag, "font-size") * 1.24));
            let left = match attribute(tag, "text-anchor") {
                Some("middle") => x - width / 2.0,
                Some("end") => x - width,
                _ => x,
            };
            return vec![(left, number(tag, "y")), (left + width, number(tag, "y"))];
        }
        let pairs = attribute(tag, "points").unwrap_or_default().split_whitespace();
        let mut points: Vec<_> = pairs
            .filter_map(|pair| pair.split_once(',').map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap())))
            .collect();
        if tag.starts_with("circle") {
            let (x, y, r) = (number(tag, "cx"), number(tag, "cy"), number(tag, "r"));
            points.extend([(x - r, y - r), (x + r, y + r)]);
        }
        if tag.starts_with("rect") {
            let (x, y) = (number(tag, "x"), number(tag, "y"));
            points.extend([(x, y), (x + number(tag, "width"), y + number(tag, "height"))]);
        }
        points
    }

    /// What an SVG draws outside of its own frame.
    fn outside(svg: &str) -> Vec<String> {
        let (width, height) = (number(svg, "width"), number(svg, "height"));
        let within = |&(x, y): &(f64, f64)| (0.0..=width).contains(&x) && (0.0..=height).contains(&y);
        let tags = svg.split('<').skip(2).filter_map(|part| part.split_once('>'));
        let out = tags.filter(|(tag, words)| !extent(tag, words.trim()).iter().all(within));
        out.map(|(tag, words)| format!("{tag} {}", words.trim())).collect()
    }

    #[test]
    fn nothing_of_a_figure_lies_outside_of_its_frame() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/figures.toml");
        for (path, svg) in figures(&path).unwrap() {
            assert_eq!(outside(&svg), Vec::<String>::new(), "{}", path.display());
        }
        let long = "rotor-persistent-with-a-name-that-nobody-would-give-a-method";
        let mut series = Series::new(format!("{long}[{long}=on,b=2]"), 0, style::turn(0), Joined::Lines);
        (series.points, series.also) = (vec![(1.0, 1.0), (2.0, 3.0)], vec![format!("{long}[c=3]")]);
        let figure = Figure {
            title: [long; 4].join(" "),
            subtitle: [long; 5].join(", "),
            horizontal: Axis::from_zero(long.repeat(2), [1.0, 2.0]),
            vertical: Axis::of_names(vec![long.into(), "a".into()]),
            device: None,
            series: vec![series],
        };
        assert_eq!(outside(&figure.svg().unwrap()), Vec::<String>::new());
        assert!(!outside("<svg width=\"10\" height=\"10\">\n<circle cx=\"9\" cy=\"5\" r=\"2\"/>").is_empty());
    }

    #[test]
    fn values_are_above_the_same_base_for_all_series() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("t.csv", "who,at,time\nbase,1,100\nbase,2,50\na,1,110\na,2,100\na,2,60\nb,1,\n");
        let drawing = |base: &str| {
            format!(
                "[[figure]]\nfile = 'f.svg'\nsource = 't.csv'\ntitle = 't'\nwhere = {{ who = ['a'] }}\nby = ['who']\n\
                 horizontal = {{ column = 'at', label = 'x' }}\nvertical = {{ column = 'time', label = 'y', above = {base} }}\n"
            )
        };
        let points = |base: &str| {
            let file: File = toml::from_str(&drawing(base)).unwrap();
            let figure = file.figure[0].figure(&read(&folder.path().join("t.csv")).unwrap()).unwrap();
            figure.series[0].points.iter().map(|point| (point.0, point.1.round())).collect::<Vec<_>>()
        };
        // Of two at the same place the lower median.
        assert_eq!(points("50"), [(1.0, 120.0), (2.0, 20.0)]);
        assert_eq!(points("{ where = { who = ['base'] }, per = ['at'] }"), [(1.0, 10.0), (2.0, 20.0)]);
        write("f.toml", &drawing("50").replace("'time'", "'tim'"));
        let refused = figures(&folder.path().join("f.toml")).unwrap_err().to_string();
        assert!(refused.ends_with("f.toml: f.svg: there is no column \"tim\""), "{refused}");
    }

    #[test]
    fn what_no_axis_can_show_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.toml");
        std::fs::write(folder.path().join("t.csv"), "m,x,y,z\na,1,nan,0\na,2,3,-1\n").unwrap();
        let refused = |horizontal: &str, vertical: &str, more: &str| {
            let head = "[[figure]]\nfile = 'f.svg'\nsource = 't.csv'\ntitle = 't'\nby = ['m']\n";
            let axes =
                format!("horizontal = {{ label = 'a', {horizontal} }}\nvertical = {{ label = 'b', {vertical} }}\n");
            std::fs::write(&path, format!("{head}{axes}{more}")).unwrap();
            let error = figures(&path).map(|_| ()).unwrap_err().to_string();
            error.rsplit_once("f.toml: f.svg: ").unwrap().1.to_owned()
        };
        let (x, z) = ("column = 'x'", "column = 'z'");
        for (horizontal, vertical, more, words) in [
            (
                x,
                "column = 'y'",
                "",
                "column \"y\": \"nan\" is no finite number; leave the cell empty where there is none",
            ),
            ("column = 'x', divisor = 0", z, "", "column \"x\": divisor = 0 divides nothing; write another number"),
            ("column = 'x', divisor = nan", z, "", "column \"x\": divisor = NaN divides nothing; write another number"),
            (x, "column = 'z', above = 0", "", "column \"z\": nothing is a part above 0; choose another base"),
            (
                x,
                "column = 'z', scale = 'logarithmic'",
                "",
                "column \"z\": 0 is on no logarithmic axis; leave the row out, or say with `least` where it is drawn",
            ),
            (
                x,
                "column = 'z', scale = 'logarithmic', least = 0",
                "",
                "column \"z\": least = 0 is on no such axis; write a finite number above zero",
            ),
            ("column = 'x', divisor = 1e-320", z, "", "column \"x\": 1 divided by 0.00000000000000000000"),
            (
                "column = 'x', scale = 'names'",
                z,
                "",
                "horizontal: names stand along the vertical axis; give it scale = \"names\"",
            ),
            (
                x,
                z,
                "[[figure.series]]\nis = 'a'\nlevel = true\n",
                "every series is level; a figure needs one without `level = true`, along which they are drawn",
            ),
        ] {
            let found = refused(horizontal, vertical, more);
            assert!(found.starts_with(words), "{found}");
        }
    }

    #[test]
    fn levels_reach_from_the_first_to_the_last_place_and_below_zero() {
        let line = |level: bool| Line { is: "a".into(), label: None, like: None, dashed: false, level };
        let series = |points: &[(f64, f64)]| Series {
            points: points.to_vec(),
            ..Series::new("a".into(), 0, style::turn(0), Joined::Lines)
        };
        let mut all = [series(&[(-5.0, -1.0), (-2.0, -3.0)]), series(&[(0.0, -2.0)])];
        level(&[line(false), line(true)], &mut all).unwrap();
        assert_eq!(all[1].points, [(-5.0, -2.0), (-2.0, -2.0)]);
    }
}
