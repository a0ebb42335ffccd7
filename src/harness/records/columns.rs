//! The columns of `records.csv`, in words: what `bench table --columns` prints.

/// Version of the columns below; it changes whenever they, or their meaning, do.
///
/// 3: limits are those of a row, no longer of a process with all its budgets; columns in the instance's units
/// do not name a unit.
pub const SCHEMA_VERSION: u32 = 3;

/// Name and meaning of each column, in order.
pub const COLUMNS: &[(&str, &str)] = &[
    ("schema_version", "version of these columns; 3 here"),
    ("suite", "name of the suite"),
    ("instance", "name of the instance"),
    ("instance_hash", "hash of its contents, as `bench instances show` prints it"),
    ("batch_size", "samples per iteration; empty where the instance does not say"),
    ("times", "how the instance's times were obtained: measured, modelled, published, generated or exact"),
    (
        "time_unit",
        "unit of store_all_time, claimed_time, simulated_time and lower_bound: ns, or abstract (the instance's own)",
    ),
    (
        "memory_unit",
        "unit of store_all_peak, budget_size, claimed_peak and simulated_peak: bytes, or abstract (likewise)",
    ),
    ("store_all_time", "simulated time of store-all with the fastest implementations"),
    ("store_all_peak", "simulated peak of store-all with the fastest implementations"),
    ("method", "id of the method"),
    ("parameters", "every parameter, defaults included: name=value,name=value"),
    ("claim", "what the method claims with these parameters, and over which class of schedules; tables group by it"),
    ("schedule_class", "class of schedules that the schedule is in: bounds on classes that contain it hold for it"),
    ("budget_size", "memory budget; empty for methods that ignore budgets"),
    ("budget", "the budget as written in the suite, e.g. 0.5x"),
    (
        "termination",
        "optimal, gap_reached, feasible, bound_only, not_found, infeasible, time_limit, cpu_limit, memory_limit, node_limit, interrupted, error, or skipped",
    ),
    ("claimed_time", "time that the method's own model claims"),
    ("claimed_peak", "peak that the method's own model claims"),
    ("simulated_time", "time by the simulator; empty unless the schedule is legal"),
    ("simulated_peak", "peak by the simulator; empty unless the schedule is legal"),
    ("overhead", "simulated time over store_all_time, minus 1: 0.25 is 25 % longer"),
    ("overhead_default", "the same over store-all with the framework's default implementations"),
    ("lower_bound", "proved lower bound on the time of any schedule that meets the budget"),
    ("recomputations", "operator runs beyond the first, over all operators"),
    ("build_seconds", "seconds of building the model; work that serves several budgets is in the first"),
    ("solve_seconds", "seconds of solving, likewise"),
    ("wall_seconds", "wall seconds of the child process, all budgets that it was given together, reading included"),
    ("cpu_seconds", "CPU seconds of the child process and of those that it started, from the system, likewise"),
    (
        "peak_rss_bytes",
        "peak resident memory, from the system: the largest of these processes, or their sum where it was seen to be more",
    ),
    ("threads", "threads that the method was allowed"),
    (
        "time_limit_seconds",
        "wall limit of the row: a process that answers n budgets has n times as much; empty for none",
    ),
    ("cpu_limit_seconds", "limit on the CPU time of the row, processes and threads together; likewise"),
    ("memory_limit_bytes", "address-space limit of the process; empty for none"),
    ("seed", "seed of every random choice"),
    ("note", "what the method says besides"),
    ("error", "what went wrong, where the termination is error, time_limit, cpu_limit, memory_limit or interrupted"),
    ("cached", "whether the row was taken from the cache; it describes the run that made it, limits and host included"),
    ("version", "version of bench"),
    ("sources", "hash of the sources that decide answers, of the locked dependencies and of the build's options"),
    ("git_revision", "revision of the checkout"),
    ("host", "host name, processor, logical cores"),
    ("timestamp", "end of the run, UTC"),
];
