//! What PyTorch's partitioner knows of operators: the lists of `operators.txt`, by name without overload.

use std::collections::HashMap;
use std::sync::LazyLock;

/// What the partitioner knows of one operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "an operator may be on several lists")]
pub struct Kind {
    /// Views cost nothing, and are never kept from being recomputed.
    pub view: bool,
    /// On the list of what may be recomputed (views included).
    pub recomputable: bool,
    /// Draws random numbers.
    pub random: bool,
    /// Products of matrices, convolutions, attention.
    pub compute_intensive: bool,
    /// A concatenation: everything fuses into it, and it into nothing.
    pub concatenation: bool,
    /// On none of PyTorch's lists, but Inductor decomposes it into what is recomputable.
    pub decomposed: bool,
}

impl Kind {
    /// The selection of one result of several.
    pub const PART: Self = Self {
        view: false,
        recomputable: true,
        random: false,
        compute_intensive: false,
        concatenation: false,
        decomposed: false,
    };

    /// What is known of an operator of a type such as `aten.add.Tensor`.
    pub fn of(op_type: &str) -> Self {
        KINDS.get(packet(op_type)).copied().unwrap_or_default()
    }

    /// The same where what is decomposed counts as what it becomes.
    #[must_use]
    pub fn decomposed(self) -> Self {
        Self { recomputable: self.recomputable || self.decomposed, ..self }
    }

    /// Whether a value of this kind can be part of a fused kernel.
    pub fn fusible(self) -> bool {
        self.recomputable || self.random
    }
}

/// An operator's type without its overload: `aten.add` of `aten.add.Tensor`.
pub fn packet(op_type: &str) -> &str {
    let mut dots = op_type.match_indices('.').map(|(at, _)| at);
    dots.nth(1).map_or(op_type, |end| &op_type[..end])
}

static KINDS: LazyLock<HashMap<&'static str, Kind>> = LazyLock::new(|| {
    let mut kinds: HashMap<&'static str, Kind> = HashMap::new();
    kinds.entry("aten.cat").or_default().concatenation = true;
    let mut section = "";
    for line in include_str!("operators.txt").lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
            continue;
        }
        for name in line.split_whitespace() {
            let kind = kinds.entry(name).or_default();
            match section {
                "view" => (kind.view, kind.recomputable) = (true, true),
                "recomputable" => kind.recomputable = true,
                "random" => kind.random = true,
                "compute-intensive" => kind.compute_intensive = true,
                _ => kind.decomposed = true,
            }
        }
    }
    kinds
});

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn overloads_do_not_matter_and_views_are_recomputable() {
        assert!(Kind::of("aten.add.Tensor").recomputable);
        assert_eq!(Kind::of("aten.add.Tensor"), Kind::of("aten.add"));
        assert!(Kind::of("aten.view").view && Kind::of("aten.view").fusible());
        assert!(Kind::of("aten.native_dropout").fusible() && !Kind::of("aten.native_dropout").recomputable);
        assert!(Kind::of("aten.mm").compute_intensive && !Kind::of("aten.mm").fusible());
        assert_eq!(Kind::of("node"), Kind::default());
    }

    #[test]
    fn what_inductor_decomposes_is_on_no_list_of_pytorch() {
        let norm = Kind::of("aten.native_layer_norm");
        assert!(!norm.recomputable && norm.decomposed().recomputable);
    }
}
