//! The report in a browser: 18 panels, no error in the console, no request to anywhere.

use std::path::Path;
use std::process::Command;

use crate::support::{folder, run, sawmill, skipped};

/// The browser, or none, said on stderr.
fn browser() -> Option<&'static str> {
    let found = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success()));
    if found.is_none() {
        skipped("the report is opened in a browser only where chromium is installed");
    }
    found
}

#[test]
fn the_report_shows_18_panels_and_asks_nobody_for_anything() {
    let Some(browser) = browser() else { return };
    let folder = folder();
    let out = folder.path().join("run");
    let job = Path::new(env!("CARGO_MANIFEST_DIR")).join("jobs/quickstart.toml");
    assert_eq!(run(sawmill().arg("run").arg(job).arg("--out").arg(&out)).0, 0);
    let net_log = folder.path().join("net.json");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-extensions",
        ])
        .args(["--enable-logging=stderr", "--dump-dom", "--virtual-time-budget=2000"])
        .arg(format!("--log-net-log={}", net_log.display()))
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", out.join("report/index.html").display()))
        .output()
        .expect("the browser starts");
    let dom = String::from_utf8_lossy(&output.stdout);
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(dom.matches("<svg class=\"panel\"").count(), 18, "{log}");
    assert_eq!(dom.matches("<polyline").count(), 18 * 6);
    assert!(!log.contains("CONSOLE"), "the console says:\n{log}");
    assert!(!dom.contains("<script"), "the page needs no script");
    // Whatever the page names must be inside it; the namespace of SVG is a name, not an address.
    let html =
        std::fs::read_to_string(out.join("report/index.html")).unwrap().replace("http://www.w3.org/2000/svg", "");
    for address in ["http:", "https:", "//", "url(", "@import"] {
        assert!(!html.contains(address), "the page names `{address}`");
    }
    // And the browser asked for nothing but the file itself on the page's behalf.
    let requests = std::fs::read_to_string(&net_log).expect("the browser logs its requests");
    assert!(requests.contains("file://"), "the page itself is in the log");
    let asked: Vec<&str> = requests.split("\"url\":\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let for_page: Vec<_> = asked
        .iter()
        .filter(|url| !url.starts_with("file://") && !url.starts_with("data:") && !is_browsers_own(url))
        .collect();
    assert!(for_page.is_empty(), "{for_page:?}");
}

/// What chromium asks for by itself, whatever page is open.
fn is_browsers_own(url: &str) -> bool {
    url.starts_with("chrome") || url.contains("google") || url.contains("gstatic") || url.starts_with("about:")
}
