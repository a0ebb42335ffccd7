//! Names: file names from those that nobody vouches for (the one place where a text becomes a component of a path), and what
//! else may have been meant by one that is not known.

/// Bytes of a name. File systems take 255; an ending and a temporary file's number come on top.
const LONGEST: usize = 200;
/// Characters of the hash by which changed names differ.
const HASH: usize = 32;

/// A text as one component of a path: itself where that is possible, and else what is plain of it, `~` and a hash of
/// the whole. Different texts make different names, of at most 200 ASCII characters, none hidden.
pub fn file_name(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.,=[]@+".contains(c);
    if !text.is_empty() && !text.starts_with('.') && text.len() <= LONGEST && text.chars().all(plain) {
        return text.to_owned();
    }
    changed(text)
}

/// A text as the name of a figure of an instance: as [`file_name`], but never that of another kind of figure.
pub fn figure_name(text: &str) -> String {
    let others = ["overhead-against-budget", "performance-profile", "quality-against-planning-time", "progress"];
    if others.contains(&text) || text.contains('@') || text.contains("-executed-") {
        return changed(text);
    }
    file_name(text)
}

fn changed(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.,=[]@+".contains(c) { c } else { '_' };
    let kept: String = text.chars().map(plain).take(LONGEST - HASH - 1).collect();
    let hash = blake3::hash(text.as_bytes()).to_hex();
    // `.` and `..` are no file names, and a leading dot hides one.
    let hidden = if kept.starts_with('.') { "_" } else { "" };
    format!("{hidden}{}~{}", &kept[..kept.len() - hidden.len()], &hash[..HASH])
}

/// The known names that are most like another one, three at most: first those that it is a part of.
pub fn nearest<'n>(wanted: &str, known: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let mut ranked: Vec<&str> = known.into_iter().collect();
    ranked.sort_by_cached_key(|name| (!name.contains(wanted), strsim::levenshtein(wanted, name)));
    ranked.truncate(3);
    ranked
}

/// Names with what they have in common written once: `resnet{18,50}-224`; words and numbers are not cut.
pub fn braced(names: &[String]) -> String {
    let (Some(first), true) = (names.first(), names.len() > 1) else { return names.concat() };
    let word = |c: char| c.is_ascii_alphanumeric();
    let common = |left: &[char], right: &[char]| left.iter().zip(right).take_while(|(a, b)| a == b).count();
    let all: Vec<Vec<char>> = names.iter().map(|name| name.chars().collect()).collect();
    let reversed: Vec<Vec<char>> = names.iter().map(|name| name.chars().rev().collect()).collect();
    let shared = |all: &[Vec<char>]| {
        let mut length = all.iter().map(|name| common(&all[0], name)).min().unwrap_or(0);
        // Back to where a word, or a number after letters, begins in all of them.
        let cuts = |at: usize| {
            let inside = |name: &Vec<char>| match (at.checked_sub(1).map(|before| name[before]), name.get(at)) {
                (Some(a), Some(&b)) => word(a) && word(b) && a.is_ascii_digit() == b.is_ascii_digit(),
                _ => false,
            };
            all.iter().any(inside)
        };
        while length > 0 && cuts(length) {
            length -= 1;
        }
        length
    };
    let (head, tail) = (shared(&all), shared(&reversed));
    let shortest = all.iter().map(Vec::len).min().unwrap_or(0);
    if head + tail == 0 || head + tail > shortest {
        return names.join(", ");
    }
    let middle: Vec<String> = all.iter().map(|name| name[head..name.len() - tail].iter().collect()).collect();
    let part = |range: std::ops::Range<usize>| first.chars().skip(range.start).take(range.len()).collect::<String>();
    let length = first.chars().count();
    format!("{}{{{}}}{}", part(0..head), middle.join(","), part(length - tail..length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_are_those_with_the_wanted_one_inside_and_then_those_of_fewest_edits() {
        let known = ["monet", "moccasin", "rotor-weak", "oracle", "rotor-persistent"];
        assert_eq!(nearest("rotor", known), ["rotor-weak", "rotor-persistent", "monet"]);
        assert_eq!(nearest("mocasin", known)[0], "moccasin");
        assert!(nearest("x", []).is_empty());
    }

    #[test]
    fn what_names_share_is_written_once() {
        let braces = |names: &[&str]| braced(&names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(braces(&["resnet18-224-b32", "resnet101-224-b32"]), "resnet{18,101}-224-b32");
        assert_eq!(braces(&["vgg16-224-b176", "unet-416x608-b11"]), "vgg16-224-b176, unet-416x608-b11");
        assert_eq!(braces(&["a-b", "a-c"]), "a-{b,c}");
        assert_eq!(braces(&["net"]), "net");
        assert_eq!(braces(&["a", "a-a"]), "a, a-a");
    }

    #[test]
    fn plain_names_stay_and_all_others_differ() {
        for plain in ["resnet50-224-b32", "rotor-persistent[slots=500]@0.5x+seed3", "a..b"] {
            assert_eq!(file_name(plain), plain);
        }
        let long = "x".repeat(300);
        let texts = [
            "",
            ".",
            "..",
            "../etc",
            "...etc",
            ".hidden",
            "a b",
            "a_b",
            "a  b",
            "a\u{1b}[31mb",
            "=cmd|' /C calc'!A0",
            "a~b",
            "å",
            "a\nb",
            "a/b",
            "a\\b",
            "CON:",
            &long,
            &format!("{long}y"),
            &"é".repeat(200),
        ];
        let mut names: Vec<_> = texts.iter().map(|text| file_name(text)).collect();
        for name in &names {
            assert!(!name.is_empty() && name.len() <= LONGEST && name.is_ascii() && !name.starts_with('.'), "{name}");
            assert!(!name.contains(['/', '\\', '\0', ' ', ':']), "{name}");
            // A name that was made is made into another one, should somebody call an instance so.
            assert!(file_name(name) != *name || !name.contains('~'), "{name}");
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), texts.len());
    }

    #[test]
    fn no_instance_takes_the_name_of_another_kind_of_figure() {
        for text in ["overhead-against-budget", "performance-profile", "progress", "overhead@0.5x", "net-executed-cpu"]
        {
            assert_ne!(figure_name(text), text);
        }
        assert_eq!(figure_name("resnet50-224-b32"), "resnet50-224-b32");
    }
}
