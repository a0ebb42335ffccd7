//! What frameworks keep: peaks that papers measured or computed, from the tensors of the shipped instances. The
//! figures are those of `results/published/frameworks.md`.
#![expect(clippy::unwrap_used, clippy::float_cmp, reason = "tests panic where they fail; the numbers are whole")]

use std::collections::{HashMap, HashSet};
use std::path::Path;

use remat_core::format::{InstanceDocument, Phase, TensorKind};
use remat_core::io::read_json;
use remat_core::schedule::Schedule;
use remat_core::{Instance, Step, simulate};

fn document(name: &str) -> InstanceDocument {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../instances/{name}.json.zst"));
    read_json(&path).unwrap()
}

/// The peak of running everything once in the given order. A tensor is freed after its last read; where `kept`, what
/// the forward pass made and the backward pass reads stays to the end of the iteration.
fn peak(document: &InstanceDocument, kept: bool) -> u64 {
    let instance = Instance::new(document).unwrap();
    let backward =
        |id: u32| document.operators.iter().find(|operator| operator.id == id).unwrap().phase == Phase::Backward;
    let views: HashMap<u32, u32> = document.views.iter().map(|view| (view.id, view.of)).collect();
    let storage = |mut id: u32| {
        while let Some(&of) = views.get(&id) {
            id = of;
        }
        id
    };
    let mut last = HashMap::new();
    let mut stays: HashSet<u32> = document
        .tensors
        .iter()
        .filter(|tensor| matches!(tensor.kind, TensorKind::Input | TensorKind::Output | TensorKind::ParamGradient))
        .map(|tensor| tensor.id)
        .collect();
    let made: HashSet<u32> = document
        .operators
        .iter()
        .filter(|operator| operator.phase != Phase::Backward)
        .flat_map(|operator| operator.outputs.iter().copied())
        .collect();
    for (at, &id) in document.order.iter().enumerate() {
        let operator = document.operators.iter().find(|operator| operator.id == id).unwrap();
        for &output in &operator.outputs {
            last.insert(output, at);
        }
        for &input in &operator.inputs {
            let input = storage(input);
            last.insert(input, at);
            if kept && backward(id) && made.contains(&input) {
                stays.insert(input);
            }
        }
    }
    let mut steps = Vec::new();
    for (at, &id) in document.order.iter().enumerate() {
        let operator = instance.operator_ids().find(|&operator| instance.operator(operator).file_id == id).unwrap();
        steps.push(Step::Compute { operator, implementation: 0 });
        let mut over: Vec<u32> =
            last.iter().filter(|&(id, &end)| end == at && !stays.contains(id)).map(|(&id, _)| id).collect();
        over.sort_unstable();
        for id in over {
            let tensor = instance.tensor_ids().find(|&tensor| instance.tensor(tensor).file_id == id).unwrap();
            steps.push(Step::Free(tensor));
        }
    }
    simulate(&instance, &Schedule::new(steps)).unwrap().peak_bytes
}

/// The same network where some tensors take other sizes.
fn resized(document: &InstanceDocument, size: impl Fn(&str, u64) -> u64) -> InstanceDocument {
    let mut other = document.clone();
    for tensor in &mut other.tensors {
        tensor.bytes = size(&tensor.name, tensor.bytes);
    }
    other
}

/// Chainer pools with cuDNN, which needs no indices.
fn without_indices(document: &InstanceDocument) -> InstanceDocument {
    resized(document, |name, bytes| if name.ends_with(".indices") { 0 } else { bytes })
}

fn gb(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / 1e9)
}

/// The line of a table in the page, cell by cell.
fn page_line(start: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/published/frameworks.md");
    let page = std::fs::read_to_string(page).unwrap();
    let line =
        page.lines().find(|line| line.starts_with(&format!("| {start} |"))).unwrap_or_else(|| panic!("no {start}"));
    line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// Kusumoto's vanilla runs: Chainer holds the graph of the iteration while it differentiates, and with it all that the
/// forward pass kept.
#[test]
fn chainers_vanilla_peaks_are_those_of_a_run_that_keeps_the_forward_pass() {
    let networks = [
        ("PSPNet", "pspnet-713-b2", 9.4),
        ("U-Net", "unet-572-b8", 9.1),
        ("ResNet-50", "resnet50-224-b96", 8.9),
        ("ResNet-152", "resnet152-224-b48", 9.2),
        ("VGG-19", "vgg19-224-b64", 7.0),
        ("DenseNet-161", "densenet161-224-b32", 8.5),
        ("GoogLeNet", "googlenet-224-b256", 8.5),
    ];
    for (title, name, printed) in networks {
        let document = document(&format!("kusumoto/{name}"));
        let plain = without_indices(&document);
        let of = |tensor: &str| document.tensors.iter().find(|other| other.name == tensor).unwrap().bytes;
        let all = match name {
            // Cropping is a node of Chainer's graph with a value of its own, and a mask of dropout has floats.
            "unet-572-b8" => {
                let parts =
                    [("cat", "upward.0.1"), ("cat_1", "upward.1.1"), ("cat_2", "upward.2.1"), ("cat_3", "upward.3.1")];
                let cropped: u64 = parts.iter().map(|(joined, part)| of(joined) - of(part)).sum();
                let masks = 3 * (of("dropout4.mask") + of("dropout5.mask"));
                assert_eq!((cropped, masks), (618_528_768, 69_599_232));
                peak(&plain, true) + cropped + masks
            }
            // Local response normalisation is one operator: of its gradients there are two at a time.
            "googlenet-224-b256" => {
                let inner = |name: &str| {
                    ["stem.3.", "stem.3_", "stem.8.", "stem.8_"]
                        .iter()
                        .any(|part| name.starts_with(part) && name.contains("backward"))
                };
                peak(&resized(&plain, |name, bytes| if inner(name) { 0 } else { bytes }), true)
            }
            _ => peak(&plain, true),
        };
        let deviation = 100.0 * (all as f64 / 1e9 / printed - 1.0);
        let line = [
            title.to_owned(),
            format!("{printed:.1}"),
            gb(peak(&document, false)),
            gb(peak(&document, true)),
            gb(peak(&plain, true)),
            gb(all),
            format!("{deviation:+.1} %"),
        ];
        assert_eq!(page_line(title), line);
        assert!(deviation.abs() < 4.0, "{title}: {deviation}");
    }
}

/// Checkmate's largest batch of VGG-19 without recomputation: 167, where store-all manages 189.
#[test]
fn checkmates_store_all_keeps_the_forward_pass_and_the_two_largest_gradients() {
    const DEVICE: f64 = 16e9;
    let (few, many) = (document("checkmate/vgg19-224-b128-flops"), document("checkmate/vgg19-224-b256-flops"));
    let per_sample = |peaks: [u64; 2]| (peaks[1] - peaks[0]) as f64 / 128.0;
    let ours = [peak(&few, false), peak(&many, false)];
    let fixed = ours[0] as f64 - 128.0 * per_sample(ours);
    let parameters = few.fixed_bytes.parameters as f64;
    let of = |tensor: &str| few.tensors.iter().find(|other| other.name == tensor).unwrap().bytes as f64 / 128.0;
    // A convolution and its rectifier are one layer of Keras; flattening makes a tensor of its own.
    let layer = |name: &str| {
        let rectified = name.contains("relu") || name.rsplit('.').next() == Some("pool") || name == "predictions";
        rectified && !name.contains("backward")
    };
    let layers = few.tensors.iter().filter(|tensor| tensor.kind == TensorKind::Activation && layer(&tensor.name));
    let forward = layers.map(|tensor| tensor.bytes as f64 / 128.0).sum::<f64>() + of("block5.pool");
    let gradients = of("block1.relu1") + of("block1.relu2");
    let theirs = forward + of("images") + gradients;
    let numbers = |name: &str, sample: f64, reserved: f64| {
        let batch = ((DEVICE - reserved) / sample).floor();
        let line =
            [name.to_owned(), format!("{:.3}", sample / 1e6), format!("{:.3}", reserved / 1e9), format!("{batch}")];
        assert_eq!(page_line(name), line);
        batch
    };
    assert_eq!(numbers("store-all here", per_sample(ours), fixed), 189.0);
    assert_eq!(numbers("as Checkmate's authors counted", theirs, parameters), 167.0);
    let indices: f64 = (1..=5).map(|block| of(&format!("block{block}.pool.indices"))).sum();
    assert_eq!(
        [forward, gradients, of("images"), indices].map(f64::round),
        [65_666_976.0, 25_690_112.0, 602_112.0, 12_242_944.0]
    );
}
