//! Every reader of this crate takes whatever it is given: mutations of a corpus, in which past findings are kept.

#![expect(clippy::unwrap_used, reason = "tests panic where they fail")]

use std::path::Path;

use crate::mutate::{Verdict, corpus, fuzz};
use remat_core::batch::Family;
use remat_core::chain_file::{self, ImportFile, Scale};
use remat_core::chain_view::ChainView;
use remat_core::format::{InstanceDocument, Origin, Units};
use remat_core::io::{parse_json, read_json};
use remat_core::liveness::with_liveness;
use remat_core::monet_file::{self, MonetFile};
use remat_core::node_link::{self, NodeLinkFile};
use remat_core::plan::Plan;
use remat_core::schedule::ScheduleDocument;
use remat_core::{Instance, simulate};

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn json<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    parse_json(Path::new("case.json"), bytes).map_err(words)
}

/// A document as an instance, and what every command does with one first.
fn checked(document: &InstanceDocument) -> Verdict {
    let instance = Instance::new(document).map_err(words)?;
    for plan in [Plan::fastest(&instance), Plan::default_choice(&instance)] {
        // On some instances store-all is illegal: the simulator says so.
        let _ = simulate(&instance, &with_liveness(&instance, &plan.store_all(&instance)));
    }
    let _ = ChainView::new(&instance);
    Ok(())
}

#[test]
fn any_instance_is_read_or_refused() {
    fuzz("instance", &corpus("instance"), |bytes| checked(&json(bytes)?));
}

#[test]
fn any_schedule_is_read_or_refused() {
    let instance = Instance::new(&json(&corpus("instance").pop().unwrap().1).unwrap()).unwrap();
    assert_eq!(instance.name(), "linear-b4", "the schedules of the corpus are of this one");
    fuzz("schedule", &corpus("schedule"), |bytes| {
        let schedule = json::<ScheduleDocument>(bytes)?.resolve(&instance).map_err(words)?;
        simulate(&instance, &schedule).map(drop).map_err(words)
    });
}

#[test]
fn any_chain_is_imported_or_refused() {
    fuzz("chain", &corpus("chain"), |bytes| {
        let (_, file) = json::<ImportFile>(bytes)?
            .arrays(Some(0))
            .or_else(|_| json::<ImportFile>(bytes)?.arrays(None).map_err(words))?;
        for scale in [None, Some(1e6), Some(f64::MAX)] {
            let Ok(chain) = file.chain(Scale { time: scale, memory: scale }).map_err(words) else { continue };
            checked(&chain_file::instance_of("case", &chain, Units::default(), &Origin::Exact {}))?;
        }
        file.chain(Scale { time: None, memory: None }).map(drop).map_err(words)
    });
}

#[test]
fn any_graph_is_imported_or_refused() {
    fuzz("graph", &corpus("graph"), |bytes| {
        let file: NodeLinkFile = json(bytes)?;
        checked(&node_link::instance_of("case", &file, &Origin::Exact {}).map_err(words)?)
    });
}

#[test]
fn any_profile_of_monet_is_imported_or_refused() {
    fuzz("monet", &corpus("monet"), |bytes| {
        let file: MonetFile = json(bytes)?;
        checked(&monet_file::instance_of("case", &file, &Origin::Exact {}).map_err(words)?)
    });
}

#[test]
fn any_two_instances_are_a_family_or_none() {
    let files: Vec<_> = corpus("instance").into_iter().filter(|(name, _)| name == "features.json").collect();
    let first: InstanceDocument = json(&files[0].1).unwrap();
    fuzz("family", &files, |bytes| {
        let mut second: InstanceDocument = json(bytes)?;
        second.provenance.batch_size = Some(3);
        let family = Family::new(&first, &second).map_err(words)?;
        for batch in [0, 1, 5, u64::from(u32::MAX), u64::MAX] {
            if let Ok(document) = family.at(batch) {
                let _ = checked(&document);
            }
        }
        family.confirm(&first).map_err(words)
    });
}

#[test]
fn any_compressed_file_is_read_or_refused() {
    let folder = std::env::temp_dir().join(format!("remat-core-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for ending in ["json.zst", "json.gz", "json"] {
        let path = folder.join(format!("case.{ending}"));
        let compressed = |bytes: &[u8]| match ending {
            "json.zst" => zstd::encode_all(bytes, 3).unwrap(),
            "json.gz" => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                std::io::Write::write_all(&mut encoder, bytes).unwrap();
                encoder.finish().unwrap()
            }
            _ => bytes.to_vec(),
        };
        let files: Vec<_> = corpus("instance").into_iter().map(|(name, bytes)| (name, compressed(&bytes))).collect();
        fuzz(&format!("compressed-{ending}"), &files, |bytes| {
            std::fs::write(&path, bytes).unwrap();
            read_json::<InstanceDocument>(&path).map(drop).map_err(words)
        });
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
