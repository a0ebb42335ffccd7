//! Floating-point operations as PyTorch's counter has them (`torch/utils/flop_counter.py`): of products of matrices and of
//! convolutions; nothing else has any.

use remat_core::{Instance, Operator, OperatorId};

use super::operators::packet;

/// Operations of one run, by the shapes in the instance; none where the counter knows no such operator, or shapes are missing.
pub fn flops(instance: &Instance, id: OperatorId) -> Option<u64> {
    let operator = instance.operator(id);
    let shape = |name: &str| attribute(operator, name);
    let out = instance.tensor(*operator.outputs.first()?).shape.as_ref()?;
    let product = |sizes: &[u64]| sizes.iter().copied().try_fold(1, u64::checked_mul);
    let packet = packet(&operator.op_type);
    if packet == "aten.convolution" {
        let (input, weight) = (shape("input_shape")?, shape("weight_shape")?);
        let transposed = operator.attributes.get("transposed").and_then(serde_json::Value::as_bool).unwrap_or(false);
        let positions = if transposed { input.get(2..)? } else { out.get(2..)? };
        return product(&[2, *input.first()?, product(positions)?, product(&weight)?]);
    }
    if !["aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm"].contains(&packet) {
        return None;
    }
    // Shapes that are those of the tensor read are left out of the attributes.
    let first = operator.implementations.first()?.reads.first().and_then(|read| instance.tensor(*read).shape.clone());
    let inner = match shape("mat2_shape").or_else(|| shape("batch2_shape")) {
        Some(right) => *right.get(right.len().checked_sub(2)?)?,
        None => {
            *shape("mat1_shape").or_else(|| shape("batch1_shape")).or_else(|| shape("self_shape")).or(first)?.last()?
        }
    };
    product(&[2, product(out)?, inner])
}

/// A shape among the attributes of an operator.
fn attribute(operator: &Operator, name: &str) -> Option<Vec<u64>> {
    operator.attributes.get(name)?.as_array()?.iter().map(serde_json::Value::as_u64).collect()
}
