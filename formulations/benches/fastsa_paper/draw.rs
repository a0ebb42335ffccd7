//! The figures, with the paper's axes: results/fastsa/*.svg from results/fastsa/*.csv.

use plotters::prelude::*;

use crate::results;
use crate::rows::{Row, distinct, number, read, spread, text};

type Drawn<T> = Result<T, Box<dyn std::error::Error>>;
type Points = Vec<(f64, f64)>;

const COLOURS: [RGBColor; 5] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
];

/// Draws whatever has rows.
///
/// # Errors
/// What the drawing library or the operating system says.
pub fn all() -> Drawn<()> {
    let font = include_bytes!("../../../src/views/plot/DejaVuSans.ttf");
    plotters::style::register_font("sans-serif", FontStyle::Normal, font).map_err(|_| "the font is damaged")?;
    let models = read("fastsa/models.csv");
    for budget in ["50", "25"] {
        if !models.is_empty() {
            save(&format!("models-{budget}"), &bars(&models, budget)?)?;
        }
    }
    let convergence = read("fastsa/convergence.csv");
    for (figure, title) in [("7", "LLaMA, a tenth of what can be spared"), ("8", "ViT (small), 25 %")] {
        let rows: Vec<Row> = convergence.iter().filter(|row| text(row, "figure") == figure).cloned().collect();
        if !rows.is_empty() {
            let series = by(&rows, "series", |row| (number(row, "mutations") / 1e6, number(row, "objective")));
            let axes = ("million mutations", "objective over budget x cost", true);
            save(&format!("figure{figure}"), &lines(&format!("Figure {figure}: {title}"), axes, &series)?)?;
        }
    }
    let stability = read("fastsa/stability.csv");
    for (name, short) in [("resnet18-224-b512-unit", "resnet18"), ("vit-small-patch16-224-b512-unit", "vit-small")] {
        let rows: Vec<Row> = stability.iter().filter(|row| text(row, "graph") == name).cloned().collect();
        if !rows.is_empty() {
            let point = |row: &Row| (number(row, "memory_percent"), number(row, "cost_increase_percent"));
            let series: Vec<_> =
                by(&rows, "seed", point).into_iter().map(|(seed, points)| (format!("seed {seed}"), points)).collect();
            let axes = ("memory, % of the given order", "cost increase, %", false);
            save(&format!("figure9-{short}"), &lines(&format!("Figure 9: {short}"), axes, &series)?)?;
        }
    }
    let quality = read("fastsa/quality.csv");
    if !quality.is_empty() {
        let series = by(&quality, "graph", |row| (number(row, "cpu_seconds"), number(row, "cost_increase_percent")));
        let axes = ("CPU seconds", "cost increase, %", false);
        save("quality", &lines("Best cost after some seconds", axes, &series)?)?;
    }
    Ok(())
}

fn save(name: &str, svg: &str) -> Drawn<()> {
    Ok(std::fs::write(results().join("fastsa").join(format!("{name}.svg")), svg)?)
}

/// Sorted points by the values of a column.
fn by(rows: &[Row], column: &str, point: impl Fn(&Row) -> (f64, f64)) -> Vec<(String, Points)> {
    let series = |value: String| {
        let of = rows.iter().filter(|row| text(row, column) == value).map(&point);
        let mut points: Points = of.filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        (value, points)
    };
    distinct(rows, column).into_iter().map(series).collect()
}

/// Lines; the vertical axis is logarithmic if asked for.
fn lines(title: &str, axes: (&str, &str, bool), series: &[(String, Points)]) -> Drawn<String> {
    let all: Points = series.iter().flat_map(|(_, points)| points.iter().copied()).collect();
    let most = |pick: fn(&(f64, f64)) -> f64| all.iter().map(pick).fold(0.0, f64::max);
    let least = all.iter().map(|point| point.1).fold(f64::INFINITY, f64::min).max(1e-3);
    let (right, top) = (most(|point| point.0) * 1.03, most(|point| point.1) * 1.05 + 1e-3);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (720, 430)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut builder = ChartBuilder::on(&root);
        builder.caption(title, ("sans-serif", 17)).margin(12).margin_right(24);
        builder.x_label_area_size(44).y_label_area_size(62);
        macro_rules! draw {
            ($vertical:expr) => {{
                let mut chart = builder.build_cartesian_2d(0.0..right, $vertical)?;
                let mut mesh = chart.configure_mesh();
                mesh.x_desc(axes.0).y_desc(axes.1).label_style(("sans-serif", 13)).max_light_lines(0).draw()?;
                for ((name, points), colour) in series.iter().zip(COLOURS.iter().cycle()) {
                    let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2));
                    let line = if points.len() < 40 { line.point_size(3) } else { line };
                    let colour = *colour;
                    let key = move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2));
                    chart.draw_series(line)?.label(name.as_str()).legend(key);
                }
                let mut labels = chart.configure_series_labels();
                labels.position(SeriesLabelPosition::UpperRight).label_font(("sans-serif", 13));
                labels.background_style(WHITE).draw()?;
            }};
        }
        if axes.2 {
            draw!((least * 0.95..top).log_scale());
        } else {
            draw!(0.0..top);
        }
        root.present()?;
    }
    Ok(svg)
}

/// Bars for each model: memory below, cost above, as shares of the given order; medians, with the spread of cost.
fn bars(rows: &[Row], budget: &str) -> Drawn<String> {
    let chosen: Vec<Row> = rows.iter().filter(|row| text(row, "budget_percent") == budget).cloned().collect();
    let names = distinct(&chosen, "graph");
    let variants = [("fastsa[reheats=3] before reheats", "fastsa"), ("fastsa[reheats=3]", "fastsa[reheats=3]")];
    let value = |name: &str, variant: &str, column: &str| {
        let of = chosen.iter().filter(|row| text(row, "graph") == name && text(row, "variant") == variant);
        spread(of.map(|row| number(row, column)).collect()).unwrap_or([f64::NAN; 3])
    };
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (1080, 560)).into_drawing_area();
        root.fill(&WHITE)?;
        let (upper, lower) = root.split_vertically(250);
        for (area, column, title, labels) in [
            (&upper, "cost_increase_percent", format!("Cost increase, % (budget {budget} %)"), false),
            (&lower, "memory_percent", "Memory, % of the given order".to_owned(), true),
        ] {
            let tops = names.iter().flat_map(|name| variants.map(|(variant, _)| value(name, variant, column)[2]));
            let top = tops.filter(|value| value.is_finite()).fold(1.0, f64::max) * 1.08;
            let mut chart = ChartBuilder::on(area)
                .caption(title, ("sans-serif", 15))
                .margin(8)
                .x_label_area_size(if labels { 130 } else { 8 })
                .y_label_area_size(52)
                .build_cartesian_2d(0.0..names.len() as f64, 0.0..top)?;
            let mut mesh = chart.configure_mesh();
            mesh.disable_x_mesh().y_label_style(("sans-serif", 12)).x_labels(0).max_light_lines(0).draw()?;
            let upright = ("sans-serif", 12).into_font().transform(FontTransform::Rotate90).color(&BLACK);
            for (at, name) in names.iter().enumerate().filter(|_| labels) {
                let (x, y) = chart.backend_coord(&(at as f64 + 0.62, 0.0));
                // Coordinates are the figure's; those of the lower panel begin below the upper one.
                root.draw(&Text::new(short(name), (x, y + 6), upright.clone()))?;
            }
            for (place, (variant, label)) in variants.into_iter().enumerate() {
                let colour = COLOURS[place];
                let left = |at: usize| at as f64 + if place == 0 { 0.12 } else { 0.5 };
                let heights = names.iter().enumerate().map(|(at, name)| (left(at), value(name, variant, column)[0]));
                let bar = |(left, height): (f64, f64)| {
                    Rectangle::new([(left, 0.0), (left + 0.38, height)], colour.mix(0.85).filled())
                };
                let key = move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled());
                let bars = heights.filter(|(_, height)| height.is_finite()).map(bar);
                chart.draw_series(bars)?.label(label).legend(key);
            }
            if !labels {
                let mut legend = chart.configure_series_labels();
                legend.position(SeriesLabelPosition::UpperRight).label_font(("sans-serif", 12));
                legend.background_style(WHITE).draw()?;
            }
        }
        root.present()?;
    }
    Ok(svg)
}

/// A model's name without its sizes.
fn short(name: &str) -> String {
    let stem = name.trim_end_matches("-unit");
    let end = ["-224-", "-512-b", "-1024-b", "-2048-b"].iter().filter_map(|size| stem.find(size)).min();
    stem[..end.unwrap_or(stem.len())].replace("-patch16", "").replace("-patch14", "").replace("-discriminator", "")
}
