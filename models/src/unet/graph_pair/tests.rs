//! Graphs that read an old buffer: each is captured again here with a call that sees some of what it reads as it was.

use burn::tensor::FloatDType;

use super::super::captured::testing::{ramp, unet};
use super::super::record::RecordOptions;
use super::*;

const DTYPES: [FloatDType; 2] = [FloatDType::F32, FloatDType::F16];

struct Case {
    unet: UNet,
    inputs: Inputs,
}

impl Case {
    fn new(dtype: FloatDType) -> Self {
        let unet = unet(dtype);
        let conditioning = unet.prepare(ramp([2, 5, 12], 0.2), None);
        let inputs = Inputs::new(&unet, ramp([2, 4, 8, 8], 0.1), 700.0, &conditioning);
        Self { unet, inputs }
    }

    /// Of all layers and the output.
    fn plan(&self) -> Plan<'_> {
        let options = RecordOptions {
            whole: true,
            ..RecordOptions::default()
        };
        (self.unet).recording_plan(&self.inputs, |_| true, options)
    }

    fn capture(&self) -> GraphPair {
        let plan = self.plan();
        let kind = Kind::of(&plan, &self.inputs);
        GraphPair::capture(&self.unet, &plan, &self.inputs, kind).unwrap()
    }

    /// Whether a pass that forgets passes the check.
    fn stale_pass(&self, forget: fn(&mut Inputs, &Inputs)) -> Result<(), f64> {
        let mut pair = self.capture();
        let (read, first) = (pair.inputs.clone(), self.inputs.clone());
        let call = pass_call(&self.unet, &self.plan(), move || {
            let mut seen = lock(&read).clone();
            forget(&mut seen, &first);
            seen
        });
        pair.pass = Captured::capture(&Device::flex(), call).unwrap();
        pair.check(&self.unet, &self.plan(), &self.inputs)
    }

    /// Whether a gradient that forgets passes the check.
    fn stale_gradient(&self, forget: fn(&mut Seen, &Seen)) -> Result<(), f64> {
        let (mut pair, plan) = (self.capture(), self.plan());
        let shown = pair.run(&self.inputs).unwrap();
        // As a method's: one for all heads, and none where it does not look.
        let mut cotangents: Vec<_> = (shown.maps.iter())
            .map(|(_, map)| Some(map.clone().cast(DType::F32).mean_dim(1).square()))
            .collect();
        cotangents[1] = None;
        pair.capture_gradient(&self.unet, &plan, &cotangents, GraphUse::Forced)
            .unwrap();
        let graph = pair.gradient.as_mut().unwrap();
        let (inputs, own) = (pair.inputs.clone(), graph.read.clone());
        let read = move || (lock(&inputs).clone(), lock(&own).clone());
        let first = read();
        let call = gradient_call(&self.unet, &plan, move || {
            let mut seen = read();
            forget(&mut seen, &first);
            seen
        });
        graph.call = Captured::capture(&Device::flex(), call).unwrap();
        pair.check_gradient(&self.unet, &plan, &self.inputs)
    }
}

type Seen = (Inputs, GradientInputs);

fn is_found(found: Result<(), f64>, which: usize) {
    println!("{which}: {found:?}");
    assert!(found.is_err_and(|difference| difference > 0.1), "{which}");
}

#[test]
fn a_pass_that_reads_an_old_input_is_found_out() {
    for case in DTYPES.map(Case::new) {
        assert_eq!(case.stale_pass(|_, _| ()), Ok(()));
        let forgets: [fn(&mut Inputs, &Inputs); 3] = [
            |seen, first| seen.sample = first.sample.clone(),
            |seen, first| seen.timestep = first.timestep.clone(),
            |seen, first| seen.conditioning = first.conditioning.clone(),
        ];
        for (which, forget) in forgets.into_iter().enumerate() {
            is_found(case.stale_pass(forget), which);
        }
    }
}

#[test]
fn a_gradient_that_reads_an_old_buffer_is_found_out() {
    for case in DTYPES.map(Case::new) {
        assert_eq!(case.stale_gradient(|_, _| ()), Ok(()));
        let forgets: [fn(&mut Seen, &Seen); 3] = [
            |seen, first| seen.0.conditioning = first.0.conditioning.clone(),
            |seen, first| seen.1.recorded = first.1.recorded.clone(),
            |seen, first| seen.1.cotangents = first.1.cotangents.clone(),
        ];
        for (which, forget) in forgets.into_iter().enumerate() {
            is_found(case.stale_gradient(forget), which);
        }
    }
}

#[test]
fn what_is_not_a_number_is_the_largest() {
    assert_eq!(largest([0.1, 0.3, 0.2].into_iter()), 0.3);
    for place in 0..3 {
        let mut differences = [0.1, 0.3, 0.2];
        differences[place] = f64::NAN;
        assert!(largest(differences.into_iter()).is_nan());
    }
}
