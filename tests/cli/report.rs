//! `bench report`: what the page holds, and how it behaves in a real browser.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::checkout::{Checkout, rows};

const SELF_TEST: &str = include_str!("selftest.js");
/// Collects what goes wrong from the first line of the page on.
const LISTENER: &str = "<script>window.problems = []; \
     addEventListener('error', (event) => problems.push('error: ' + event.message)); \
     addEventListener('unhandledrejection', (event) => problems.push('rejected: ' + event.reason)); \
     addEventListener('securitypolicyviolation', (event) => problems.push('outside: ' + event.blockedURI));</script>\
     <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
     script-src 'unsafe-inline'; img-src data:\">";

/// A report of the suite `mini`.
fn report(checkout: &Checkout) -> String {
    checkout.ok("run --suite mini --no-plots");
    let done = checkout.ok("report results/mini");
    assert!(done.stderr.starts_with("results/mini/report.html: "), "{}", done.stderr);
    std::fs::read_to_string(checkout.path("results/mini/report.html")).unwrap()
}

#[test]
fn the_page_holds_every_row_and_links_to_nothing_outside() {
    let checkout = Checkout::new();
    let page = report(&checkout);
    let recorded = rows(&checkout.path("results/mini/records.csv"));
    let (_, table) = page.split_once("id=\"rows-table\"").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    assert_eq!(table.matches("<tr>").count(), recorded.len() + 1);
    let schedules = recorded.iter().filter(|row| !row["simulated_time"].is_empty()).count();
    assert_eq!(table.matches("data-schedule=").count(), schedules);
    for outside in ["src=\"http", "href=\"http", "href=\"//", "src=\"//", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    for part in ["Performance profile", "Nothing follows from it.", "run --suite mini --no-plots", "Rows by status"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn the_page_is_not_written_over_what_it_is_made_of() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --instances counter --methods store-all --no-plots");
    let records = std::fs::read(checkout.path("results/mini/records.csv")).unwrap();
    for input in ["records.csv", "suite.toml"] {
        let done = checkout.bench(&format!("report results/mini -o results/mini/{input}"));
        assert_eq!(done.code, Some(2), "{}", done.stderr);
        assert!(done.last_error().contains("reads or writes that file already"), "{}", done.stderr);
    }
    assert_eq!(std::fs::read(checkout.path("results/mini/records.csv")).unwrap(), records);
}

#[test]
fn what_is_left_out_is_said() {
    let checkout = Checkout::new();
    report(&checkout);
    checkout.ok("report results/mini -o small.html --schedule-steps 60 --rows 3");
    let page = std::fs::read_to_string(checkout.path("small.html")).unwrap();
    assert!(page.contains("left out: all together may have 60 steps here"));
    assert!(page.contains("The first 3 of "));
}

#[test]
fn a_schedule_that_is_not_what_its_row_says_is_not_shown() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --instances counter --methods store-all --no-plots");
    let path = checkout.path("results/mini/schedules/counter/store-all[implementations=fastest].json.zst");
    std::fs::remove_file(path).unwrap();
    checkout.ok("report results/mini");
    let page = std::fs::read_to_string(checkout.path("results/mini/report.html")).unwrap();
    assert!(page.contains("that could not be shown: 1<") && page.contains("No schedule is kept"));
}

#[test]
fn what_is_wrong_with_several_schedules_is_said_once() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --instances counter --methods rotor-persistent --no-plots");
    std::fs::remove_file(checkout.path("instances/small/counter.json")).unwrap();
    checkout.ok("report results/mini");
    let page = std::fs::read_to_string(checkout.path("results/mini/report.html")).unwrap();
    assert_eq!(page.matches("no instance &quot;counter&quot; with the hash ").count(), 1);
    assert!(page.contains("that could not be shown: 2<") && page.contains(" (2 times)</li>"));
}

#[test]
fn every_aggregate_is_printed_in_every_format() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --no-plots");
    for show in ["summary", "statuses", "virtual-best", "profile", "quality", "gaps", "claims"] {
        for format in ["text", "md", "csv", "json", "latex"] {
            let text = checkout.ok(&format!("table results/mini --show {show} --format {format}")).stdout;
            assert!(text.contains("rotor-persistent"), "{show} {format}\n{text}");
            let begins = match format {
                "json" => text.starts_with('['),
                "latex" => text.starts_with("% ") && text.contains("\\toprule") && text.contains("\\bottomrule"),
                "md" => text.contains("| --- |"),
                _ => true,
            };
            assert!(begins, "{show} {format}\n{text}");
        }
    }
}

#[test]
fn the_page_sorts_filters_and_steps_in_a_browser_without_an_error() {
    let Some(browser) = browser() else {
        eprintln!(
            "SKIPPED: no browser (chromium, google-chrome, or the one that BROWSER_FOR_TESTS names) to open the report in"
        );
        return;
    };
    let checkout = Checkout::new();
    // The other instances have no workspace.
    checkout.ok("instances generate random-chain --stages 5 --seed 4 --kind big -o instances/small/workspace.json");
    report(&checkout);
    // Plans of all schedules but those of one method.
    checkout.ok("allocate --results results/mini --threads 1");
    for instance in ["counter", "random"] {
        let path = format!("results/mini/plans/{instance}/store-all[implementations=fastest].json.zst");
        std::fs::remove_file(checkout.path(&path)).unwrap();
    }
    checkout.ok("report results/mini");
    let page = std::fs::read_to_string(checkout.path("results/mini/report.html")).unwrap();
    let page = page.replacen("<head>", &format!("<head>{LISTENER}"), 1);
    let page = page.replacen("</body>", &format!("<script>{SELF_TEST}</script></body>"), 1);
    std::fs::write(checkout.path("test.html"), page).unwrap();
    let dom = opened(&browser, &checkout, "test.html", &[]);
    let verdict = dom.split_once("<pre id=\"verdict\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    assert_eq!(verdict.map(|(verdict, _)| verdict), Some("all well"), "{} bytes of page", dom.len());
}

#[test]
fn an_error_of_the_page_fails_its_browser_test() {
    let Some(browser) = browser() else {
        eprintln!("SKIPPED: no browser to open a page with an error in");
        return;
    };
    let checkout = Checkout::new();
    let page = format!(
        "<!DOCTYPE html><html><head>{LISTENER}</head><body><script>nothing.here();</script>\
         <script>document.body.append(problems.join())</script></body></html>"
    );
    std::fs::write(checkout.path("wrong.html"), page).unwrap();
    let dom = opened(&browser, &checkout, "wrong.html", &[]);
    assert!(dom.contains("nothing is not defined"), "{dom}");
}

/// The page after its scripts have run, without a network.
pub fn opened(browser: &Path, checkout: &Checkout, page: &str, options: &[&str]) -> String {
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--dump-dom",
        ])
        .args(options)
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .arg(format!("--user-data-dir={}", checkout.path("browser").display()))
        .arg(format!("file://{}", checkout.path(page).display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A browser, where there is one.
pub fn browser() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("BROWSER_FOR_TESTS") {
        return Some(named.into());
    }
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let candidates = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    candidates.into_iter().find(|path| path.is_file())
}
