//! Values that several subcommands take.

use std::path::Path;
use std::time::Duration;

use remat_formulations::Spec;

use crate::ground::duration::limit;
use crate::ground::failure::Failure;

/// Parses a number of seconds that a limit may have.
///
/// # Errors
/// The text is none.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok();
    number
        .and_then(limit)
        .ok_or_else(|| "expected a number of seconds above 0 and at most 1e9, such as 60 or 0.5".into())
}

/// Parses a positive whole number.
///
/// # Errors
/// The text is none.
pub fn positive(text: &str) -> Result<usize, String> {
    let number = text.parse::<usize>().ok().filter(|number| (1..=1024).contains(number));
    number.ok_or_else(|| "expected a whole number from 1 to 1024".into())
}

/// Refuses a file for a figure whose name does not say that it is an SVG.
///
/// # Errors
/// It ends otherwise; `option` is where it was named.
pub fn svg(option: &str, path: &Path) -> Result<(), Failure> {
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("svg")) {
        return Ok(());
    }
    let path = path.display();
    Err(Failure::input(format!("{option} {path}: the figure is an SVG; name a file that ends in .svg")))
}

/// Splits a list of method specs at the commas outside of brackets; one that is named again counts once.
///
/// # Errors
/// A part is no spec.
pub fn specs(texts: &[String]) -> Result<Vec<Spec>, String> {
    let mut specs = Vec::new();
    for text in texts {
        let mut depth = 0usize;
        let parts = text.split(|c: char| {
            match c {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        });
        for part in parts {
            let spec = part.trim().parse::<Spec>().map_err(|error| error.to_string())?;
            if !specs.contains(&spec) {
                specs.push(spec);
            }
        }
    }
    Ok(specs)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn commas_inside_brackets_separate_parameters_not_methods_and_each_counts_once() {
        let specs = specs(&["a,b[x=1,y=2],c".into(), "d,b[y=2,x=1],a".into()]).unwrap();
        let texts: Vec<_> = specs.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["a", "b[x=1,y=2]", "c", "d"]);
    }

    #[test]
    fn limits_are_positive_and_no_longer_than_the_system_can_count() {
        for text in ["0", "-1", "nan", "inf", "1e-10", "1e19", "1.8e19", "1e300", "1000000001", "x", ""] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert_eq!(seconds("1e9").unwrap(), Duration::from_secs(1_000_000_000));
        assert_eq!(seconds("0.5s").unwrap(), Duration::from_millis(500));
    }
}
