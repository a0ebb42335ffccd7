//! Blocks of a network, by the names of its operators.
//!
//! The profiler names an operator after the module that ran it: `layers.3.attention.query`.

/// The block that an operator is in: its path up to the module of a list that has modules of its own
/// (`stages.0.blocks.1` of `stages.0.blocks.1.mlp.fc1`), or else a module of a list of lists, or else one with a number in its name.
pub fn block(name: &str) -> Option<&str> {
    let ends: Vec<usize> = name.match_indices('.').map(|(at, _)| at).collect();
    let component = |at: usize| {
        let start = at.checked_sub(1).map_or(0, |before| ends[before] + 1);
        &name[start..ends.get(at).copied().unwrap_or(name.len())]
    };
    let number = |at: usize| component(at).bytes().all(|byte| byte.is_ascii_digit());
    // The last component is the operator itself.
    let inner = || 0..ends.len();
    let of_modules = inner().rev().find(|&at| number(at) && !number(at + 1));
    let of_lists = || inner().find(|&at| number(at));
    let numbered = || inner().rev().find(|&at| component(at).ends_with(|last: char| last.is_ascii_digit()));
    of_modules.or_else(of_lists).or_else(numbered).map(|at| &name[..ends[at]])
}

#[cfg(test)]
mod tests {
    use super::block;

    #[test]
    fn blocks_are_modules_of_lists() {
        for (name, expected) in [
            ("layer1.0.bn1", Some("layer1.0")),
            ("layer1.0.downsample.0", Some("layer1.0")),
            ("transformer.transformer.h.0.attn.add", Some("transformer.transformer.h.0")),
            ("stages.0.blocks.1.mlp.fc1", Some("stages.0.blocks.1")),
            ("features.3.conv.0.1", Some("features.3")),
            ("down.0.0", Some("down.0")),
            ("features.denseblock1.denselayer2.cat", Some("features.denseblock1.denselayer2")),
            ("block2.conv1", Some("block2")),
            ("patch_embed.proj", None),
            ("cat_1", None),
        ] {
            assert_eq!(block(name), expected, "{name}");
        }
    }
}
