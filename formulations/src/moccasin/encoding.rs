//! The published model for `bench export` and `bench lift`: a [`Formulation`] around [`Exchange`].

use std::io::{self, Write};

use remat_core::Instance;

use crate::checkmate::Workspace;
use crate::method::formulation::{DecodeError, Decoded, Encoding, Format, Formulation};
use crate::method::parameters::Parameters;
use crate::method::{MethodError, SkipReason};
use crate::moccasin::exchange::Exchange;
use crate::moccasin::published::Memory;
use crate::moccasin::{Copies, Moccasin, Statement};
use crate::staged::joint::Joint;
use crate::staged::stages::Stages;

impl Formulation for Moccasin {
    fn encode<'a>(
        &self,
        instance: &'a Instance,
        parameters: &Parameters,
        budget: Option<u64>,
    ) -> Result<Box<dyn Encoding + 'a>, MethodError> {
        let joint = Joint::new(instance)?;
        let workspace = parameters.get::<Workspace>();
        let store_all = Stages::store_all(&joint).claim(&joint, workspace).peak_bytes;
        // More than store-all needs is of no use to anything.
        let budget = budget.map_or(store_all, |budget| budget.min(store_all));
        let least = joint.least_peak(workspace);
        if budget < least {
            let message =
                format!("one operator alone needs {least}, more than the budget {budget}: infeasible, no model");
            return Err(MethodError::Unsupported(SkipReason(message)));
        }
        let memory = match parameters.get::<Statement>() {
            Statement::Reservoir => Memory::Reservoir,
            Statement::Cumulative => Memory::Cumulative,
        };
        let copies = parameters.get::<Copies>();
        Ok(Box::new(Published { instance, joint, budget, copies, workspace, memory }))
    }
}

/// Phase 2 of a budget, with what it was made from.
struct Published<'a> {
    instance: &'a Instance,
    joint: Joint,
    budget: u64,
    copies: u64,
    workspace: bool,
    memory: Memory,
}

impl Published<'_> {
    fn exchange(&self) -> Exchange<'_> {
        Exchange::new(&self.joint, self.budget, self.copies, self.workspace, self.memory)
            .expect("the budget is at least what one operator needs")
    }
}

impl Encoding for Published<'_> {
    fn formats(&self) -> &'static [Format] {
        &[Format::CpModel]
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![
            ("model", "the published one, phase 2: least duration within the budget".into()),
            (
                "form",
                "operations_research.sat.CpModelProto as text; `bench lift` reads CpSolverResponse as text".into(),
            ),
        ]
    }

    fn write(&self, _format: Format, out: &mut dyn Write, head: &[(&str, String)]) -> io::Result<()> {
        out.write_all(self.exchange().text(head).as_bytes())
    }

    fn decode(&self, text: &str) -> Result<Decoded, DecodeError> {
        let stages = self.exchange().lift(text).map_err(DecodeError::Response)?;
        let status =
            text.lines().find_map(|line| line.trim().strip_prefix("status:")).map(|word| word.trim().to_owned());
        let claimed = stages.claim(&self.joint, self.workspace);
        Ok(Decoded { schedule: stages.schedule(self.instance, &self.joint), claimed, status })
    }
}
