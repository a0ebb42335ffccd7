//! Files that nobody would write in good faith: each command ends with one line, and no run with a row in error.

use crate::checkout::{Checkout, rows};

/// A chain file whose times or sizes come close to what an instance may hold.
fn write_chain(checkout: &Checkout, name: &str, time: u64, bytes: u64) {
    const STAGES: usize = 9;
    let array = |value: u64, count: usize| serde_json::json!(vec![value; count]);
    let chain = serde_json::json!({
        "fweight": array(time, STAGES), "bweight": array(time, STAGES + 1), "cweight": array(bytes, STAGES + 1),
        "cbweight": array(2 * bytes, STAGES + 1), "ftmp": array(0, STAGES), "btmp": array(0, STAGES + 1),
    });
    std::fs::write(checkout.path(&format!("{name}.json")), chain.to_string()).unwrap();
    checkout.ok(&format!("instances import {name}.json -o instances/small/{name}.json"));
}

#[test]
fn no_method_fails_on_the_largest_numbers_that_an_instance_may_hold() {
    let checkout = Checkout::new();
    let limit = remat_core::instance::LARGEST_SUM;
    write_chain(&checkout, "times", limit / 32, 1000);
    write_chain(&checkout, "bytes", 1000, limit / 64);
    let methods = "sequential,griewank-logn,chen-sqrt,chen-greedy,ap-greedy,revolve,rotor-persistent,rotor-weak,\
        kusumoto-2019,oracle,checkmate-ilp,moccasin,fastsa,monet";
    let done = checkout.bench(&format!(
        "run --suite mini --instances small/*es --methods {methods} --budgets 0.6x --time-limit 20 --out large"
    ));
    let rows = rows(&checkout.path("large/records.csv"));
    assert!(rows.len() >= 2 * 14, "{}", done.stderr);
    for row in rows {
        assert!(row["error"].is_empty() || row["termination"] == "time_limit", "{row:?}");
    }
}
