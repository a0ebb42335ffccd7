//! What CP-SAT's search log says of incumbents and bounds: lines such as
//! `#1       0.04s best:106   next:[97,105]   main` and `#Bound   0.05s best:106 next:[98,105] lp`.

use crate::cp::request::Moment;

/// The moments, in order.
pub fn moments(log: &str) -> Vec<Moment> {
    log.lines().filter_map(moment).collect()
}

fn moment(line: &str) -> Option<Moment> {
    let mut words = line.strip_prefix('#')?.split_whitespace();
    let kind = words.next()?;
    if kind != "Bound" && kind.parse::<u32>().is_err() {
        return None;
    }
    let seconds = words.next()?.strip_suffix('s')?.parse().ok()?;
    let objective = words.next()?.strip_prefix("best:")?.parse::<f64>().ok().filter(|value| value.is_finite());
    // `next:[]`: nothing better is left, so the incumbent is the bound.
    let inside = words.next()?.strip_prefix("next:[")?.strip_suffix(']')?;
    let bound = if inside.is_empty() { objective } else { inside.split(',').next()?.parse().ok() };
    Some(Moment { seconds, objective, bound })
}

/// `CP-SAT 9.15.6755`.
pub fn version(log: &str) -> Option<String> {
    let line = log.lines().find(|line| line.starts_with("Starting CP-SAT solver v"))?;
    let version = line.strip_prefix("Starting CP-SAT solver v")?.trim();
    Some(format!("CP-SAT {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incumbents_and_bounds_are_read_and_other_lines_passed_over() {
        let log = "Starting CP-SAT solver v9.15.6755\n#Variables: 12\n#Bound   0.67s best:inf   next:[0,196] initial_domain\n\
            #1       0.74s best:1238  next:[0,1237]   main [hint]\n#33      1.76s best:377   next:[]         main\n#Done    1.76s main\n";
        let moment = |seconds, objective, bound| Moment { seconds, objective, bound };
        let expected = [
            moment(0.67, None, Some(0.0)),
            moment(0.74, Some(1238.0), Some(0.0)),
            moment(1.76, Some(377.0), Some(377.0)),
        ];
        assert_eq!(moments(log), expected);
        assert_eq!(version(log).as_deref(), Some("CP-SAT 9.15.6755"));
    }
}
