//! What the methods that work on one budget have found together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use remat_core::instance::OperatorId;
use remat_core::plan::Plan;
use remat_core::{Instance, Schedule, simulate};

use crate::free_order::graph::Graph;
use crate::method::parameters::Parameters;
use crate::method::report::{Progress, Reporter};
use crate::method::{Answer, BudgetUse, Claim, Claimed, Class, Context, Limits, Method, Starts, Termination};
use crate::search::clock::Clock;
use crate::search::incumbent::{lock, proves};

/// What a method is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Schedules.
    Heuristic,
    /// Schedules, and a bound on those of its class; once none of these can be better than the best known, only the next two are
    /// wanted.
    Search,
    /// Schedules of a wider class than that of the search, whatever it has proved.
    Afterwards,
    /// A bound on all schedules; once it proves one optimal, nothing is wanted.
    Bound,
}

/// A method and its settings.
type Asked<'a> = (&'static str, &'a [(&'a str, &'a str)]);

/// A legal schedule within the budget, judged by the simulator.
#[derive(Clone)]
struct Best {
    schedule: Schedule,
    claimed: Claimed,
    /// Which method found it, and in which order if not in the given one.
    whose: String,
}

/// What was proved of a class.
#[derive(Clone, Copy)]
struct Proved {
    claim: Claim,
    bound: u64,
    infeasible: bool,
}

/// What is known of one budget, shared by all that work on it.
pub struct Board<'a> {
    context: &'a Context<'a>,
    index: usize,
    /// In bytes; none means unlimited.
    pub budget: Option<u64>,
    began: Instant,
    /// Time of store-all with the fastest implementations.
    base: u64,
    /// A time that no schedule undercuts.
    least: u64,
    best: Mutex<Option<Best>>,
    proved: Mutex<Vec<Proved>>,
    tried: Mutex<Vec<(String, String)>>,
    /// The best schedule is proved optimal in a class that it is in.
    settled: AtomicBool,
    /// It is as fast as a bound, on whatever schedules: a search among these has nothing better to find.
    outdone: AtomicBool,
    /// It is proved optimal among all schedules, or that there is none.
    certain: AtomicBool,
}

impl<'a> Board<'a> {
    /// Nothing is known yet.
    pub fn new(context: &'a Context<'a>, index: usize, budget: Option<u64>) -> Self {
        let time = |(id, way): (OperatorId, usize)| context.instance.operator(id).implementations[way].time;
        Self {
            context,
            index,
            budget,
            began: Instant::now(),
            base: Plan::fastest(context.instance).store_all(context.instance).into_iter().map(time).sum(),
            least: Graph::new(context.instance).least_time(),
            best: Mutex::default(),
            proved: Mutex::default(),
            tried: Mutex::default(),
            settled: AtomicBool::new(false),
            outdone: AtomicBool::new(false),
            certain: AtomicBool::new(false),
        }
    }

    /// Whether there is a schedule.
    pub fn has_schedule(&self) -> bool {
        lock(&self.best).is_some()
    }

    /// Whether the best schedule is of a method.
    pub fn is_by(&self, id: &str) -> bool {
        lock(&self.best).as_ref().is_some_and(|best| best.whose == id)
    }

    /// Whether the best schedule is proved optimal in a class that it is in.
    pub fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Relaxed)
    }

    /// Whether anything more is wanted of a role. Nothing is once no operator runs twice and each in its fastest way.
    fn wants_more(&self, role: Role) -> bool {
        let open = match role {
            Role::Heuristic if self.has_least() => false,
            Role::Heuristic | Role::Search => !self.is_settled() && !self.outdone.load(Ordering::Relaxed),
            Role::Afterwards | Role::Bound => !self.has_least() && !self.certain.load(Ordering::Relaxed),
        };
        open && self.context.reporter.wants_more(self.index)
    }

    /// Whether the best schedule takes no more than each operator once that has to run, the fastest way.
    fn has_least(&self) -> bool {
        lock(&self.best).as_ref().is_some_and(|best| best.claimed.time <= self.least)
    }

    /// A time as an overhead over store-all; as it is where store-all takes none.
    fn overhead(&self, time: u64) -> String {
        if self.base == 0 {
            return format!("a time of {time}");
        }
        format!("{:.2} %", 100.0 * (time as f64 / self.base as f64 - 1.0))
    }

    /// Runs a method with some settings; what it finds counts as soon as it finds it.
    pub fn run(&self, id: &'static str, settings: &[(&str, &str)], limits: Limits, role: Role) {
        self.run_on(self.context.instance, id, (id, settings), limits, role);
    }

    /// Runs a method on the instance in another order, which has a name. What it proves holds for that order alone.
    pub fn run_in_order(&self, instance: &Instance, order: &str, id: &'static str, limits: Limits) {
        self.run_on(instance, &format!("{id} in {order}"), (id, &[]), limits, Role::Afterwards);
    }

    fn run_on(&self, instance: &Instance, name: &str, asked: Asked<'_>, limits: Limits, role: Role) {
        if !self.wants_more(role) {
            return;
        }
        let began = Instant::now();
        let words = match self.answers(instance, name, asked, limits, role) {
            // Without a limit the same question has the same answer, to the letter.
            Ok(words) if limits.time.is_some() => format!("{words} in {:.1} s", began.elapsed().as_secs_f64()),
            Ok(words) => words,
            Err(why) => why,
        };
        let mut tried = lock(&self.tried);
        tried.retain(|(known, _)| known != name);
        tried.push((name.to_owned(), words));
    }

    fn answers(
        &self,
        instance: &Instance,
        name: &str,
        (id, settings): Asked<'_>,
        limits: Limits,
        role: Role,
    ) -> Result<String, String> {
        let method = self.context.starts.method(id).ok_or("not at hand")?;
        method.supports(instance).map_err(|why| format!("not supported: {why}"))?;
        let given = settings.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        let parameters = Parameters::new(method.about().parameters, &given).map_err(|error| error.to_string())?;
        let budgets = if method.about().budgets == BudgetUse::Used { [self.budget] } else { [None] };
        let claim = method.claim(&parameters);
        let listener = Listener { board: self, id, name, role, claim, heard: Mutex::default() };
        let context =
            Context { instance, parameters: &parameters, budgets: &budgets, limits, reporter: &listener, starts: self };
        method.solve(&context).map_err(|error| error.to_string())?;
        Ok(listener.heard.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a schedule if it is legal, within the budget and faster than the best; its time where it is legal and within.
    fn offer(&self, schedule: &Schedule, listener: &Listener<'_, '_>) -> Result<u64, String> {
        let simulation = simulate(self.context.instance, schedule).map_err(|error| format!("illegal: {error}"))?;
        let claimed = Claimed { time: simulation.time, peak_bytes: simulation.peak_bytes };
        if self.budget.is_some_and(|budget| claimed.peak_bytes > budget) {
            return Err("over the budget".into());
        }
        let mut best = lock(&self.best);
        if best.as_ref().is_none_or(|best| claimed.time < best.claimed.time) {
            *best = Some(Best { schedule: schedule.clone(), claimed, whose: listener.name.to_owned() });
            // Under the lock, so that schedules are reported in their order.
            self.context.reporter.report(self.index, Progress::incumbent(schedule.clone(), claimed).by(listener.id));
        }
        drop(best);
        self.look();
        Ok(claimed.time)
    }

    /// Takes what was proved.
    fn prove(&self, new: Proved) {
        let mut proved = lock(&self.proved);
        match proved.iter_mut().find(|known| known.claim == new.claim) {
            Some(known) => {
                known.bound = known.bound.max(new.bound);
                known.infeasible |= new.infeasible;
            }
            None => proved.push(new),
        }
        drop(proved);
        self.look();
    }

    /// Ends the search when the best schedule is proved optimal, or that there is none at all. One that no bound covers may be
    /// faster than a bound, and then others like it may be faster still.
    fn look(&self) {
        let best = lock(&self.best);
        if best.as_ref().is_some_and(|best| lock(&self.proved).iter().any(|proved| best.claimed.time <= proved.bound)) {
            self.outdone.store(true, Ordering::Relaxed);
        }
        let Some(proved) = self.about(best.as_ref()) else { return };
        let of_all = proved.claim.class == Class::ALL;
        let settled = best.as_ref().map_or(proved.infeasible && of_all, |best| proves(proved.bound, best.claimed.time));
        if settled {
            self.settled.store(true, Ordering::Relaxed);
            self.certain.fetch_or(of_all, Ordering::Relaxed);
        }
    }

    /// What was proved of a class with the best schedule, or of any where there is none: the most, and of the widest class
    /// where several come to that.
    fn about(&self, best: Option<&Best>) -> Option<Proved> {
        let class = best.map(|best| Class::of(self.context.instance, &best.schedule));
        let covers = |proved: &&Proved| class.is_none_or(|class| proved.claim.class.contains(&class));
        let most = |proved: &&Proved| {
            let time = best.map(|best| best.claimed.time).filter(|&time| proves(proved.bound, time));
            (proved.infeasible, time.unwrap_or(proved.bound), proved.claim.class == Class::ALL)
        };
        lock(&self.proved).iter().filter(covers).max_by_key(most).copied()
    }

    /// What all of it amounts to.
    pub fn answer(&self, clock: Clock) -> Answer {
        let best = lock(&self.best).clone();
        let proved = self.about(best.as_ref());
        let time = best.as_ref().map(|best| best.claimed.time);
        let termination = match (time, proved) {
            (Some(time), Some(proved)) if proves(proved.bound, time) => Termination::Optimal,
            (None, Some(proved)) if proved.infeasible => Termination::Infeasible,
            _ if clock.is_over() => Termination::TimeLimit,
            (Some(_), _) => Termination::Feasible,
            (None, _) => Termination::NotFound,
        };
        let whose = best.as_ref().map(|best| format!("found by {}", best.whose));
        let gap = time.zip(proved).filter(|&(time, proved)| !proves(proved.bound, time));
        let gap = gap.map(|(time, proved)| 100.0 * (time - proved.bound) as f64 / proved.bound.max(1) as f64);
        let gap = gap.map(|gap| format!("at most {gap:.2} % above the best of the class"));
        let tried = lock(&self.tried).iter().map(|(id, words)| format!("{id}: {words}")).collect::<Vec<_>>();
        Answer {
            claimed: best.as_ref().map(|best| best.claimed),
            schedule: best.map(|best| best.schedule),
            lower_bound: proved.filter(|proved| !proved.infeasible).map(|proved| proved.bound),
            claim: proved.map(|proved| proved.claim),
            solve: self.began.elapsed(),
            build: Duration::ZERO,
            note: whose.into_iter().chain(gap).chain(tried).collect::<Vec<_>>().join("; "),
            ..Answer::without_schedule(self.budget, termination)
        }
    }
}

/// Methods that ask for a start get the best schedule so far.
impl Starts for Board<'_> {
    fn schedule(&self, _: &str, _: &Context<'_>, _: Option<u64>, _: Option<Duration>) -> Result<Schedule, String> {
        self.known().ok_or_else(|| "no schedule yet".into())
    }

    fn known(&self) -> Option<Schedule> {
        lock(&self.best).as_ref().map(|best| best.schedule.clone())
    }

    fn method(&self, id: &str) -> Option<&'static dyn Method> {
        self.context.starts.method(id)
    }
}

/// Hears one method.
struct Listener<'b, 'a> {
    board: &'b Board<'a>,
    id: &'static str,
    /// The method, and in which order if not in the given one.
    name: &'b str,
    role: Role,
    claim: Claim,
    /// What came of it, in words.
    heard: Mutex<String>,
}

impl Listener<'_, '_> {
    /// Whether its bounds are proved for the class that it claims.
    fn proves(&self) -> bool {
        matches!(self.role, Role::Search | Role::Bound) && self.claim.proves()
    }

    fn prove(&self, bound: u64, infeasible: bool) {
        self.board.prove(Proved { claim: Claim::optimum(self.claim.class), bound, infeasible });
    }
}

impl Reporter for Listener<'_, '_> {
    fn report(&self, _: usize, progress: Progress) {
        if let Some((schedule, _)) = progress.incumbent {
            // What the simulator refuses is not taken; the method's own answer will say why.
            let _ = self.board.offer(&schedule, self);
        }
        if let Some(bound) = progress.lower_bound.filter(|_| self.proves()) {
            self.prove(bound, false);
            self.board.context.reporter.report(self.board.index, Progress::bound(bound));
        }
    }

    fn answer(&self, _: usize, answer: &Answer) {
        let found = answer.schedule.as_ref().map(|schedule| self.board.offer(schedule, self));
        if self.proves() {
            let infeasible = answer.termination == Termination::Infeasible;
            self.prove(answer.lower_bound.unwrap_or(0), infeasible);
        }
        let words = match found {
            Some(Ok(time)) if self.board.base == 0 => self.board.overhead(time),
            Some(Ok(time)) => format!("{} over store-all", self.board.overhead(time)),
            Some(Err(why)) => why,
            None => format!("no schedule ({})", answer.termination),
        };
        let bound = answer.lower_bound.map(|bound| format!(", at least {}", self.board.overhead(bound)));
        let bound = bound.unwrap_or_default();
        *lock(&self.heard) = words + &bound;
    }

    fn wants_more(&self, _: usize) -> bool {
        self.board.wants_more(self.role)
    }
}
