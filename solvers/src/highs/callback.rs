//! From HiGHS's callbacks to an observer, and from a wish to stop back to HiGHS.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use highs_sys::{HighsCallbackDataIn, HighsCallbackDataOut};

use crate::request::{Observer, Progress};

/// Kinds of callback, as numbered by HiGHS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Within the simplex method: may it go on?
    SimplexInterrupt = 1,
    /// Within the interior-point method: may it go on?
    IpmInterrupt = 2,
    /// A better vector.
    Improving = 4,
    /// A line of the log: nodes.
    Logging = 5,
    /// Within branch and bound: may it go on? Where to hear bounds: vectors of several threads are taken over one by one, and
    /// the other events within that come with a bound that holds only if none of them is better.
    MipInterrupt = 6,
}

/// What a run calls back to.
pub struct Hooks<'o, 'r> {
    /// Hears of progress.
    pub observer: Option<&'o mut Observer<'r>>,
    /// Set from outside to stop.
    pub interrupt: Option<&'o AtomicBool>,
    /// Whether the observer asked to stop.
    pub stop: bool,
    /// The cutoff; infinite without one.
    pub cutoff: f64,
    /// The last bound that was told.
    pub told: f64,
    /// When the run began.
    pub began: Instant,
}

impl Hooks<'_, '_> {
    /// Every kind that is listened to.
    pub const KINDS: [Event; 5] =
        [Event::SimplexInterrupt, Event::IpmInterrupt, Event::Improving, Event::Logging, Event::MipInterrupt];

    fn asked_to_stop(&self) -> bool {
        self.stop || self.interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    fn hear(&mut self, data: &HighsCallbackDataOut, event: Event) {
        let Some(observer) = &mut self.observer else { return };
        let (improving, asks) = (event == Event::Improving, event == Event::MipInterrupt);
        let known = |value: f64| value.is_finite().then_some(value);
        let bound = known(data.mip_dual_bound.min(self.cutoff)).filter(|&bound| asks && bound > self.told);
        if asks && bound.is_none() {
            return;
        }
        let size = usize::try_from(data.mip_solution_size).unwrap_or(0);
        let values = (improving && !data.mip_solution.is_null() && size > 0)
            // SAFETY: HiGHS says that so many values lie there while the callback runs.
            .then(|| unsafe { std::slice::from_raw_parts(data.mip_solution, size) });
        let incumbent = if improving { data.objective_function_value } else { data.mip_primal_bound };
        let progress = Progress {
            seconds: self.began.elapsed().as_secs_f64(),
            // HiGHS calls the cutoff the primal bound as long as it has no better one.
            incumbent: known(incumbent).filter(|&incumbent| incumbent < self.cutoff),
            values,
            bound,
            nodes: u64::try_from(data.mip_node_count).unwrap_or(0),
        };
        self.told = bound.unwrap_or(self.told);
        self.stop |= observer(&progress).is_break();
    }
}

/// What HiGHS calls.
///
/// # Safety
/// `data` must point to [`Hooks`] that nothing else uses during the call; the other pointers come from
/// HiGHS.
pub unsafe extern "C" fn trampoline(
    kind: c_int,
    _message: *const c_char,
    out: *const HighsCallbackDataOut,
    into: *mut HighsCallbackDataIn,
    data: *mut c_void,
) {
    // SAFETY: see above; null where HiGHS has nothing to say.
    let (hooks, out, into) = unsafe { (data.cast::<Hooks<'_, '_>>().as_mut(), out.as_ref(), into.as_mut()) };
    let Some(hooks) = hooks else { return };
    let Some(event) = Hooks::KINDS.into_iter().find(|&event| event as c_int == kind) else { return };
    if let Some(out) = out.filter(|_| matches!(event, Event::Improving | Event::Logging | Event::MipInterrupt)) {
        hooks.hear(out, event);
    }
    let asks = matches!(event, Event::SimplexInterrupt | Event::IpmInterrupt | Event::MipInterrupt);
    if let Some(into) = into.filter(|_| asks) {
        into.user_interrupt = c_int::from(hooks.asked_to_stop());
    }
}
