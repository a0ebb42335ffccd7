//! `bench site`: counts, links, what a page loads, names that look like markup, and how pages behave in a real browser.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::checkout::{Checkout, rows};
use crate::report::{browser, opened};

const SELF_TEST: &str = include_str!("sitetest.js");
/// Collects what goes wrong from the first line of the page on, and forbids all but files.
const LISTENER: &str = "<script>window.problems = []; \
     addEventListener('error', (event) => problems.push('error: ' + event.message)); \
     addEventListener('unhandledrejection', (event) => problems.push('rejected: ' + event.reason)); \
     addEventListener('securitypolicyviolation', (event) => problems.push('outside: ' + event.blockedURI));</script>\
     <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline' file:; \
     script-src 'unsafe-inline' file:; img-src data:\">";

/// The site of the committed library, in a folder of a checkout.
fn committed(checkout: &Checkout) -> PathBuf {
    let root = env!("CARGO_MANIFEST_DIR");
    let site = checkout.path("site");
    let output = checkout.command("site results -o").arg(&site).current_dir(root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    site
}

fn page(site: &Path, name: &str) -> String {
    std::fs::read_to_string(site.join(name)).unwrap()
}

/// Rows in the body of a table.
fn rows_of(page: &str, table: &str) -> usize {
    let Some((_, inside)) = page.split_once(&format!("id=\"{table}\"")) else { return 0 };
    inside.split("</table>").next().unwrap().matches("<tr>").count() - 1
}

/// One test, since to make the site costs more than to look at it.
#[test]
fn the_site_counts_what_the_table_has_its_links_lead_to_pages_and_it_works_in_a_browser() {
    let checkout = hostile();
    let site = committed(&checkout);
    check_counts(&site);
    check_links(&site);
    match browser() {
        Some(browser) => check_in_a_browser(&checkout, &browser),
        None => eprintln!("SKIPPED: no browser to open the site in"),
    }
}

/// Tables have the rows of the library's.
fn check_counts(site: &Path) {
    let entries = rows(&Path::new(env!("CARGO_MANIFEST_DIR")).join("results/best-known.csv"));
    let mut networks: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in &entries {
        *networks.entry(&entry["instance"]).or_default() += 1;
    }
    assert_eq!(rows_of(&page(site, "networks.html"), "networks"), networks.len());
    let open = entries.iter().filter(|entry| entry["status"] == "open").count();
    assert_eq!(rows_of(&page(site, "open.html"), "open"), open);
    for (name, count) in networks {
        let page = page(site, &format!("network/{name}.html"));
        assert_eq!(rows_of(&page, "values"), count, "{name}");
        let of_network = entries.iter().filter(|entry| entry["instance"] == name && !entry["time"].is_empty());
        let schedules: BTreeSet<_> = of_network.map(|entry| &entry["schedule"]).collect();
        assert_eq!(page.matches("<option ").count(), schedules.len(), "{name}");
    }
    let home = page(site, "index.html");
    for status in ["solved", "infeasible", "open"] {
        let count = entries.iter().filter(|entry| entry["status"] == status && entry["class"] == "all schedules");
        assert!(home.contains(&format!("<td class=\"number\" data-sort=\"{0}\">{0}</td>", count.count())), "{status}");
    }
}

/// Every link leads to a page, schedules are in files of their own, and the first page is small.
fn check_links(site: &Path) {
    let mut pages = Vec::new();
    for folder in ["", "network", "method", "paper"] {
        let files = std::fs::read_dir(site.join(folder)).unwrap().flatten().map(|file| file.path());
        pages.extend(files.filter(|path| path.extension().is_some_and(|ending| ending == "html")));
    }
    assert!(pages.len() > 40, "{}", pages.len());
    for path in &pages {
        let text = std::fs::read_to_string(path).unwrap();
        for part in text.split(['<', '>']) {
            for attribute in [" href=\"", " src=\""] {
                let Some((_, rest)) = part.split_once(attribute) else { continue };
                let target = rest.split('"').next().unwrap();
                let outside = target.starts_with("https://") && attribute == " href=\"";
                let inside = target.starts_with('#') || target.starts_with("data:");
                let file = path.parent().unwrap().join(target);
                assert!(outside || inside || file.is_file(), "{}: {target}", path.display());
            }
        }
        assert!(text.len() < 500_000 && !text.contains("benchData"), "{}", path.display());
    }
    let size = |name: &str| std::fs::metadata(site.join(name)).unwrap().len();
    assert!(size("index.html") + size("style.css") + size("tables.js") < 1_000_000);
}

#[test]
fn small_networks_have_a_program_that_leads_back_to_a_schedule_and_large_ones_its_command() {
    let checkout = Checkout::new();
    checkout.ok("run --suite mini --methods rotor-persistent --out run");
    checkout.ok("best --update run");
    for (operators, files) in [(1000, true), (1, false)] {
        checkout.ok(&format!("site results -o site{operators} --programs {operators}"));
        let page = page(&checkout.path(&format!("site{operators}")), "network/counter.html");
        assert_eq!(page.contains(".mps.gz\" download"), files, "{page}");
        assert_eq!(page.contains("bench export small/counter.json --method checkmate-ilp --budget "), !files, "{page}");
    }
    let folder = std::fs::read_dir(checkout.path("site1000/network/counter")).unwrap().flatten();
    let mut models =
        folder.map(|file| file.path()).filter(|path| path.extension().is_some_and(|ending| ending == "gz"));
    let model = models.next().unwrap();
    let budget = model.to_str().unwrap().strip_suffix(".mps.gz").unwrap().rsplit_once('-').unwrap().1;
    checkout.ok(&format!("export small/counter.json --method checkmate-ilp --budget {budget} -o same.mps.gz"));
    assert_eq!(std::fs::read(&model).unwrap(), std::fs::read(checkout.path("same.mps.gz")).unwrap());
}

/// A library of one instance that is called as nobody should call one.
fn hostile() -> Checkout {
    let checkout = Checkout::new();
    let path = checkout.path("instances/small/counter.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    document["name"] = "<img src=x onerror=alert(1)>\"'&".into();
    document["operators"][0]["name"] = "</script><b onclick=x>".into();
    std::fs::write(&path, document.to_string()).unwrap();
    checkout.ok("run --suite mini --methods rotor-persistent --out run");
    checkout.ok("best --update run");
    checkout
}

#[test]
fn names_are_never_markup() {
    let checkout = hostile();
    checkout.ok("site results -o site");
    let mut files = Vec::new();
    let mut folders = vec![checkout.path("site")];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().flatten().map(|file| file.path()) {
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    let mut seen = 0;
    for path in files.iter().filter(|path| path.extension().is_some_and(|ending| ending == "html")) {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(!text.contains("<img") && !text.contains("<b onclick"), "{}", path.display());
        seen += text.matches("&lt;img src=x").count();
    }
    assert!(seen > 3, "{seen}");
    let done = checkout.bench("site run -o other");
    assert!(done.code == Some(2) && done.last_error().contains("holds no value"), "{}", done.stderr);
}

/// Pages sort, filter and step without an error, light and dark and on a phone, and so does one of hostile names.
fn check_in_a_browser(checkout: &Checkout, browser: &Path) {
    let hostile_page = {
        checkout.ok("site results -o hostile");
        let files = std::fs::read_dir(checkout.path("hostile/network")).unwrap().flatten();
        let mut names = files.filter(|file| file.path().is_file()).map(|file| file.file_name().into_string().unwrap());
        let name = names.find(|name| name.contains("img"));
        format!("hostile/network/{}", name.unwrap())
    };
    let (light, dark) =
        (["--window-size=1200,900"].as_slice(), ["--window-size=500,900", "--force-dark-mode"].as_slice());
    let pages = [
        ("site/networks.html", light),
        ("site/network/residual-b8.html", light),
        ("site/network/residual-b8.html", dark),
        ("site/method/monet.html", dark),
        (hostile_page.as_str(), light),
    ];
    for (page, look) in pages {
        let path = checkout.path(page);
        let text = std::fs::read_to_string(&path).unwrap();
        if !text.contains(LISTENER) {
            let text = text.replacen("<head>", &format!("<head>{LISTENER}"), 1);
            let text = text.replacen("</body>", &format!("<script>{SELF_TEST}</script></body>"), 1);
            std::fs::write(&path, text).unwrap();
        }
        let dom = opened(browser, checkout, page, &[look, &["--virtual-time-budget=60000"]].concat());
        let verdict = dom.split_once("<pre id=\"verdict\">").and_then(|(_, rest)| rest.split_once("</pre>"));
        assert_eq!(verdict.map(|(verdict, _)| verdict), Some("all well"), "{page} {look:?}");
    }
}
