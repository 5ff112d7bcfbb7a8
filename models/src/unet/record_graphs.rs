//! Recorded passes, captured once and replayed: when that is worth it, and who has the graphs.

use std::mem;
use std::sync::Mutex;

use burn::prelude::*;

use super::UNet;
use super::captured::{GraphUse, Inputs, copy, lock};
use super::conditioning::PreparedConditioning;
use super::graph::StepGraphs;
use super::graph_pair::{GraphPair, Kind, Shown};
use super::record::{KeptBy, Memory, Plan, RecordOptions, Recording};
use crate::attention::{AttentionProbe, NoProbe};

/// Passes of one kind in a row after which a capture is made, about as many as it costs. So whoever makes few of them
/// loses nothing, and whoever makes many loses at most what the capture costs, without knowing how many will follow:
/// pictures have few guided steps, but graphs outlive pictures.
pub const PASSES_BEFORE_CAPTURE: usize = 8;

/// Recorded passes of one UNet and their gradients, captured where that helps. One pair of graphs is kept: another
/// shape, or other wanted layers, replace it once there are enough of them in a row.
pub struct RecordGraphs {
    usage: GraphUse,
    state: Mutex<State>,
    beside: StepGraphs,
}

struct State {
    slot: Slot,
    /// The kind of the last passes without a graph, and how many there were in a row.
    seen: Option<(Kind, usize)>,
}

/// What is known of the device's graphs.
enum Slot {
    Untried,
    /// Not there, or not to be trusted.
    Without,
    /// There, and none is captured.
    Ready,
    Captured(Box<GraphPair>),
    /// A [`Lease`] has them.
    Lent,
}

impl RecordGraphs {
    /// Nothing is captured yet.
    pub fn new(usage: GraphUse) -> Self {
        let slot = Slot::Untried;
        Self {
            usage,
            state: Mutex::new(State { slot, seen: None }),
            beside: StepGraphs::new(usage),
        }
    }

    /// The plain calls that belong to recorded ones: of the other half of classifier-free guidance, where the step's own
    /// call is recorded. Their shape would take the place of the whole steps' graph.
    pub fn beside(&self) -> &StepGraphs {
        &self.beside
    }

    /// [`UNet::record`] with one timestep for the whole batch, by `graphs` if there are any for a pass like this one or
    /// if they are worth a capture. Always of the same `unet`.
    ///
    /// Passes that merge tokens or compute parts again, and those that begin while another recording has the graphs,
    /// are ordinary ones.
    ///
    /// # Panics
    /// If shapes do not fit together.
    pub fn record<'a>(
        graphs: Option<&'a Self>,
        unet: &'a UNet,
        sample: Tensor<4>,
        timestep: f64,
        conditioning: &PreparedConditioning,
        probe: &mut dyn AttentionProbe,
        options: RecordOptions,
    ) -> Recording<'a> {
        let inputs = Inputs::new(unet, sample, timestep, conditioning);
        let plan = unet.recording_plan(&inputs, |layer| probe.wants(layer), options);
        let lease = graphs.and_then(|graphs| graphs.lease(unet, &plan, &inputs));
        if let Some(mut lease) = lease {
            match lease.replay() {
                Some(shown) => {
                    for (layer, probabilities) in &shown.maps {
                        probe.record(&plan.layers[*layer], copy(probabilities));
                    }
                    let output = shown.recorded.output.as_ref().map(copy);
                    return Recording::new(
                        unet,
                        plan,
                        output,
                        KeptBy::Graphs(lease),
                        &inputs.sample,
                    );
                }
                None => lease.give_up("replaying a captured guided pass failed"),
            }
        }
        unet.record_planned(plan, inputs, probe)
    }

    /// The graphs for a pass like this one, if there are any or if they are worth a capture.
    fn lease(&self, unet: &UNet, plan: &Plan, inputs: &Inputs) -> Option<Lease<'_>> {
        let options = plan.options;
        let plain = options.memory == Memory::Keep && options.merging.is_none();
        if !plain || plan.last().is_none() || !self.usage.takes(&inputs.sample) {
            return None;
        }
        let taken = self.take(Kind::of(plan, inputs), inputs)?;
        let graph = match taken {
            Taken::Captured(graph) => graph,
            Taken::Place(kind) => {
                let captured = self.capture(unet, plan, inputs, kind);
                if captured.is_none() {
                    lock(&self.state).slot = Slot::Without;
                }
                Box::new(captured?)
            }
        };
        Some(Lease {
            home: self,
            graph: Some(graph),
            inputs: inputs.clone(),
        })
    }

    /// Takes what is there for this kind, or the place for it. What is taken is [`Slot::Lent`].
    fn take(&self, kind: Kind, inputs: &Inputs) -> Option<Taken> {
        let mut state = lock(&self.state);
        let State { slot, seen } = &mut *state;
        match slot {
            Slot::Without | Slot::Lent => return None,
            Slot::Captured(graph) if graph.fits(&kind) => {
                *seen = None;
                return match mem::replace(slot, Slot::Lent) {
                    Slot::Captured(graph) => Some(Taken::Captured(graph)),
                    _ => None,
                };
            }
            Slot::Untried | Slot::Ready | Slot::Captured(_) => {}
        }
        let before = match seen.take() {
            Some((before, count)) if before == kind => count,
            _ => 0,
        };
        if self.usage != GraphUse::Forced && before < PASSES_BEFORE_CAPTURE {
            *seen = Some((kind, before + 1));
            return None;
        }
        if matches!(slot, Slot::Untried) && !self.usage.is_supported(&inputs.sample.device()) {
            *slot = Slot::Without;
            return None;
        }
        // The graphs of another kind go before there are new ones.
        *slot = Slot::Lent;
        Some(Taken::Place(kind))
    }

    /// Captures a pass on these inputs and checks it.
    fn capture(&self, unet: &UNet, plan: &Plan, inputs: &Inputs, kind: Kind) -> Option<GraphPair> {
        let graph = GraphPair::capture(unet, plan, inputs, kind);
        let usable = |graph: &GraphPair| graph.is_usable(self.usage);
        let Some(mut graph) = graph.filter(usable) else {
            tracing::debug!("a guided pass was not captured; it is launched kernel by kernel");
            return None;
        };
        match graph.check(unet, plan, inputs) {
            Ok(()) => Some(graph),
            Err(difference) => {
                tracing::warn!(
                    "a captured guided pass is wrong by {difference:.1e} of its result and is not used"
                );
                None
            }
        }
    }

    /// Lets go of the captured graphs and the memory that they hold; those of a recording that is still there, when it
    /// goes.
    pub fn release(&self) {
        let mut state = lock(&self.state);
        if matches!(state.slot, Slot::Captured(_) | Slot::Lent) {
            state.slot = Slot::Ready;
        }
        state.seen = None;
        self.beside.release();
    }

    /// Whether graphs are there to be replayed.
    pub fn is_captured(&self) -> bool {
        matches!(lock(&self.state).slot, Slot::Captured(_))
    }
}

/// What [`RecordGraphs::take`] finds.
enum Taken {
    Captured(Box<GraphPair>),
    /// For graphs of this kind.
    Place(Kind),
}

/// The graphs, while a recording has them.
pub(super) struct Lease<'a> {
    home: &'a RecordGraphs,
    /// None when they are not to be used any more.
    graph: Option<Box<GraphPair>>,
    /// Of the recording.
    inputs: Inputs,
}

impl Lease<'_> {
    /// What the pass shows for the recording's inputs. `None` if the backend fails.
    fn replay(&mut self) -> Option<&Shown> {
        self.graph.as_mut()?.run(&self.inputs)
    }

    /// The gradient to the sample from the cotangents of the layers, of which there are some.
    pub fn gradient(
        mut self,
        unet: &UNet,
        plan: &Plan,
        cotangents: Vec<Option<Tensor<4>>>,
    ) -> Option<Tensor<4>> {
        let usage = self.home.usage;
        if let Some(graph) = &mut self.graph {
            match graph.gradient(unet, plan, &self.inputs, &cotangents, usage) {
                Ok(gradient) => return gradient,
                Err(why) => self.give_up(&why),
            }
        }
        // From the start, since a graph that is wrong may have left anything.
        let recorded = unet.recorded_pass(plan, &self.inputs, &mut NoProbe);
        unet.recorded_gradient(plan, recorded, &self.inputs.conditioning, cotangents)
    }

    fn give_up(&mut self, why: &str) {
        tracing::warn!("{why}; guided passes are launched kernel by kernel from now on");
        self.graph = None;
        lock(&self.home.state).slot = Slot::Without;
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.home.state);
        // Another place means that they were to be let go of.
        if let (Some(graph), Slot::Lent) = (self.graph.take(), &state.slot) {
            state.slot = Slot::Captured(graph);
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::FloatDType;

    use super::super::captured::testing::{ramp, unet};
    use super::*;

    #[test]
    fn enough_passes_of_one_kind_in_a_row_are_worth_a_capture() {
        let unet = unet(FloatDType::F32);
        let graphs = RecordGraphs::new(GraphUse::Auto);
        let pass = |rows| {
            let conditioning = unet.prepare(ramp([rows, 5, 12], 0.2), None);
            let sample = ramp([rows, 4, 8, 8], 0.1);
            let inputs = Inputs::new(&unet, sample, 700.0, &conditioning);
            let plan = unet.recording_plan(&inputs, |_| true, RecordOptions::default());
            assert!(graphs.lease(&unet, &plan, &inputs).is_none());
            // What was found out about the device.
            matches!(lock(&graphs.state).slot, Slot::Without)
        };
        for _ in 0..2 * PASSES_BEFORE_CAPTURE {
            assert!(!pass(1) && !pass(2));
        }
        assert!((1..PASSES_BEFORE_CAPTURE).all(|_| !pass(2)));
        assert!(pass(2));
    }
}
