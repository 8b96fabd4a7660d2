//! The report of real runs, as drawn by a browser.
#![cfg(target_os = "linux")]

use crate::support::Folder;
use crate::support::traffic;
use lab::results;
use load::engine::Plan;
use measure::{ConnectionRow, Quantiles, Transport};
use report::{Client, Event, Manifest, Recording, Rules, Run, Sample, Sighting, folder, page};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testbed::echo::Fault;

/// Browser programs, by their names in different distributions.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chromium-headless-shell"];

/// The lag limit that a busy machine keeps.
const LENIENT: Duration = Duration::from_secs(10);
/// A timeout that no answer takes on a busy machine.
const PATIENT: Duration = Duration::from_secs(5);

/// A run of three seconds with 500 queries each, written to a folder and read back. Also returns whether a stall moved
/// queries to another second.
fn measured(
    folder: &Path,
    timeout: Duration,
    lag_max: Duration,
    fault: impl Fn(u64) -> Fault + Send + Sync + 'static,
) -> (Run, bool) {
    let echo = traffic::echo(fault);
    let plan = Plan {
        timeout,
        worker_count: 1,
        socket_count: 2,
        expected_rcodes: Vec::new(),
        ..Plan::new(vec![echo.address(Transport::Udp)], traffic::workload(), traffic::open(500.0, 3))
    };
    let (outcome, _, has_stalled) = traffic::measure_seconds(&plan);
    let rules = Rules { lag_p99_max: lag_max, ..Rules::default() };
    let mut recording = results::recording(&plan, &outcome);
    watched(&mut recording);
    std::fs::create_dir_all(folder).unwrap();
    let summary = results::summary(&plan, &outcome, &rules);
    folder::write(folder, &recording, &summary, &Manifest::new(outcome.started, 1)).unwrap();
    let seen = |at: f64, visible_us| Sighting { at, server: "127.0.0.1:5301".into(), visible_us };
    let sightings = [seen(0.5, Some(800.0)), seen(1.0, Some(-20.0)), seen(1.5, None)];
    let lines: Vec<_> = sightings.iter().map(|line| serde_json::to_string(line).unwrap()).collect();
    std::fs::write(folder.join("freshness.jsonl"), lines.join("\n")).unwrap();
    (Run::read(folder).unwrap(), has_stalled)
}

/// Adds events, samples, clients and connections, as other parts of `catlab` do.
fn watched(recording: &mut Recording) {
    recording.events.push(Event { at: 1.5, kind: "fault".into(), text: "leader </script><b>killed".into() });
    for half in 0..6u32 {
        recording.samples.push(Sample {
            at: f64::from(half) / 2.0,
            source: "pid 4711".into(),
            cpu_cores: Some(0.5),
            rss_bytes: Some(3e7),
            threads: Some(4),
            voluntary_switches: Some(100),
            udp_drops: Some(3),
            tcp_states: [("ESTABLISHED".to_owned(), 10)].into(),
            metrics: [("queries_total".to_owned(), f64::from(half))].into(),
            ..Sample::default()
        });
    }
    recording.clients = (1..50u64)
        .map(|client| Client {
            client,
            transport: "udp".into(),
            sent: 1_000 / client,
            answered: 1_000 / client,
            p50_us: 100.0,
            p99_us: 900.0,
            longest_gap_s: 0.5,
            expected: Some(1_000.0 / client as f64),
        })
        .collect();
    let account = recording.transports.get_mut("udp").unwrap();
    account.connections = (0..3u32)
        .map(|second| ConnectionRow {
            at: f64::from(second),
            transport: "udp".into(),
            opened: 5,
            open: 5 + u64::from(second),
            handshake_us: Quantiles { p50: 200.0, p99: 550.0, max: 610.0, ..Quantiles::default() },
            ..ConnectionRow::default()
        })
        .collect();
}

/// The page's DOM in the browser after its scripts have run.
fn drawn(browser: &str, page: &Path, profile: &Path, more: &[&str]) -> String {
    std::fs::create_dir_all(profile).unwrap();
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=300000", "--dump-dom"])
        .args(more)
        // All host lookups fail at once, so the page cannot fetch anything.
        .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--disable-background-networking"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", page.display()))
        .stdout(std::fs::File::create(profile.join("dom.html")).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
            panic!("{browser} has not drawn the page after two minutes");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    std::fs::read_to_string(profile.join("dom.html")).unwrap()
}

/// What a browser would fetch: URLs in attributes and style sheets, outside scripts.
fn fetched(html: &str) -> Vec<String> {
    let mut rest = html;
    let mut markup = String::new();
    while let Some(start) = rest.find("<script") {
        let opening = start + rest[start..].find('>').unwrap() + 1;
        markup.push_str(&rest[..opening]);
        rest = &rest[opening + rest[opening..].find("</script>").unwrap()..];
    }
    markup.push_str(rest);
    ["src=\"", "href=\"", "url(", "@import", "srcset=\"", "data=\""]
        .iter()
        .flat_map(|mark| {
            markup.match_indices(mark).map(|(at, mark)| markup[at + mark.len()..].trim_start_matches(['"', '\'', '&']))
        })
        .filter(|target| ["http:", "https:", "//", "ftp:"].iter().any(|scheme| target.starts_with(scheme)))
        .map(|target| target.chars().take(80).collect())
        .collect()
}

#[test]
fn a_browser_draws_every_picture_and_fetches_nothing() {
    let folder = Folder::new("report");
    // Two servers: one pauses 200 ms in each second, the other loses 1 % in its second second. The second run has a lag
    // limit that no tool can keep.
    let (stops, stops_stalled) = measured(&folder.path().join("stops"), PATIENT, LENIENT, |number| {
        if number % 500 == 100 { Fault::Pause(Duration::from_millis(200)) } else { Fault::None }
    });
    let (drops, drops_stalled) = measured(&folder.path().join("drops"), PATIENT, Duration::from_nanos(1), |number| {
        let is_lost = (500..1_000).contains(&number) && number % 100 == 0;
        if is_lost { Fault::Drop } else { Fault::None }
    });
    assert!(!stops.is_invalid() && drops.is_invalid());
    let lost: Vec<u64> = drops.recording.rows.iter().take(3).map(|row| row.timed_out).collect();
    assert_eq!(drops.total.timed_out, 5);
    assert!(drops_stalled || lost == [0, 5, 0], "{lost:?}");
    assert!(stops.total.latency.max() >= 195_000_000, "{}", stops.total.latency.max());
    for row in stops.recording.rows.iter().take(3).filter(|_| !stops_stalled) {
        assert!(row.latency.max() >= 195_000_000, "{}", row.latency.max());
    }

    let html = page(&[stops, drops], "two runs");
    assert!(html.contains("INVALID: drops") && !html.contains("INVALID: stops"));
    // A busy machine sends a few queries of the previous second in this one, so the percentage varies.
    let stands_out = html.contains("1 to 2 s") && html.contains("<td>5 (");
    assert!(drops_stalled || stands_out, "the second with losses stands out");
    assert_eq!(fetched(&html), Vec::<String>::new());
    // Text from users and servers stays text.
    assert!(!html.contains("<b>killed"));
    let places = html.matches("<div class=\"plot\"").count();
    assert!(places >= 23, "{places}");

    let Some(browser) = BROWSERS.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok()) else {
        skip::peer("chromium");
        return;
    };
    let file = folder.path().join("report.html");
    std::fs::write(&file, &html).unwrap();
    let dom = drawn(browser, &file, &folder.path().join("profile"), &[]);
    // Each plot is three stacked SVGs; the first one has the plane.
    let planes = dom.matches("class=\"cartesianlayer\"").count();
    assert_eq!(planes, places, "pictures that were not drawn");
    assert_eq!(dom.matches("class=\"gtitle\"").count(), places);
    // Axes have labels even if all values are within a decade, as with these handshakes.
    for picture in dom.split("<figure id=\"at-").skip(1) {
        let name = picture.split_once('"').unwrap().0;
        assert!(picture.matches("class=\"ytick\"").count() >= 2, "{name}: an axis without labels");
    }
    assert!(dom.matches("INVALID: drops").count() > 15, "titles of pictures");
    for drawn in ["class=\"trace boxes\"", "class=\"hm\"", "class=\"trace bars\"", "class=\"trace scatter"] {
        assert!(dom.contains(drawn), "{drawn}");
    }
    assert_eq!(fetched(&dom), Vec::<String>::new());
    can_be_read(browser, &html, &folder);
}

/// The plots of a page, by name.
fn pictures(html: &str) -> std::collections::BTreeMap<String, Value> {
    let (_, rest) = html.split_once("<script id=\"figures\" type=\"application/json\">").unwrap();
    let figures: Vec<Value> = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    figures.into_iter().map(|figure| (figure["id"].as_str().unwrap().to_owned(), figure)).collect()
}

#[test]
fn the_page_shows_in_which_second_a_server_stopped_or_answered_late() {
    let folder = Folder::new("report-faults");
    let (stops, stops_stalled) = measured(&folder.path().join("stops"), PATIENT, LENIENT, |number| {
        if number % 500 == 100 { Fault::Pause(Duration::from_millis(200)) } else { Fault::None }
    });
    // Five queries of the first 160 ms of the second second are answered 50 ms after their timeout, within the same
    // second.
    let timeout = Duration::from_millis(700);
    let (late, late_stalled) = measured(&folder.path().join("late"), timeout, LENIENT, |number| {
        let is_late = (500..600).contains(&number) && number % 20 == 0;
        if is_late { Fault::Delay(Duration::from_millis(750)) } else { Fault::None }
    });
    let html = page(&[stops, late], "two runs");
    let pictures = pictures(&html);
    let trace = |picture: &str, name: &str| {
        let traces = pictures[picture]["traces"].as_array().unwrap();
        // The legend names each run once; the hover text names it for each line.
        let hover = format!("<extra>{name}</extra>");
        let is_it = |trace: &&Value| {
            trace["name"] == name || trace["hovertemplate"].as_str().is_some_and(|text| text.ends_with(&hover))
        };
        traces.iter().find(is_it).unwrap_or_else(|| panic!("{picture}: no {name}")).clone()
    };
    let numbers =
        |values: &Value| values.as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect::<Vec<_>>();
    // The maximum per second in both plots that show it: queries that waited during the pause.
    let max = trace("latency", "stops max");
    let [x, boxes_x] = [&max["x"], &trace("boxes-0", "stops")["x"]].map(numbers);
    assert!(x[..3] == [0.5, 1.5, 2.5] && boxes_x[..3] == [0.5, 1.5, 2.5], "{x:?} {boxes_x:?}");
    for values in [numbers(&max["y"]), numbers(&trace("boxes-0", "stops")["upperfence"])] {
        assert!(values.iter().any(|max| *max >= 0.195), "{values:?}");
        assert!(stops_stalled || values[..3].iter().all(|max| (0.195..0.7).contains(max)), "{values:?}");
    }
    let lost = numbers(&trace("losses", "late late")["y"]);
    assert!(lost.iter().sum::<f64>() >= 5.0, "{lost:?}");
    if late_stalled {
        return;
    }
    // The table of conspicuous seconds: sent, timed out, late.
    let row = html.split("<td>late</td><td>1 to 2 s</td>").nth(1).expect("a row of the second").split("</td>");
    let cells: Vec<_> = row.map(|cell| cell.trim_start_matches("<td>")).take(3).collect();
    // A few queries of the previous second may be sent in this one.
    assert!((480..=520).contains(&cells[0].parse::<u32>().unwrap()), "{cells:?}");
    assert!(cells[1].starts_with("5 (") && cells[2] == "5", "{cells:?}");
    assert_eq!(lost[..3], [0.0, 5.0, 0.0]);
}

/// Checks that the page is readable in light and dark mode, on paper, and under the pointer.
fn can_be_read(browser: &str, html: &str, folder: &Folder) {
    let looked = |name: &str, html: &str, more: &[&str]| {
        let file = folder.path().join(format!("{name}.html"));
        std::fs::write(&file, html.replace("</body>", &format!("<script>{LOOK}</script></body>"))).unwrap();
        let dom = drawn(browser, &file, &folder.path().join(name), more);
        let (_, looked) =
            dom.split_once("data-looked=\"").unwrap_or_else(|| panic!("{name}: the script printed nothing"));
        serde_json::from_str::<Value>(&looked.split_once('"').unwrap().0.replace("&quot;", "\"")).unwrap()
    };
    let light = looked("light", html, &[]);
    let dark = looked("dark", html, &["--blink-settings=preferredColorScheme=0"]);
    for (name, seen, is_dark) in [("light", &light, false), ("dark", &dark, true)] {
        assert_eq!(seen["is_dark"], is_dark, "{name}: {seen}");
        // WCAG 2.2 1.4.3: text needs a contrast of at least 4.5.
        assert!(seen["contrast"].as_f64().unwrap() >= 4.5, "{name}: {seen}");
        assert!(seen["hover_contrast"].as_f64().unwrap() >= 4.5, "{name}: {seen}");
        let hover = seen["hover"].as_str().unwrap();
        assert!(hover.contains("p99") && hover.contains("ms") && hover.contains("1.5"), "{name}: {seen}");
    }
    // Paper cannot be scrolled: A4 within its margins is 711 points wide.
    let paper =
        looked("paper", &html.replace("@media print", "@media all"), &["--window-size=711,2000", "--hide-scrollbars"]);
    assert_eq!(paper["cut"], serde_json::json!([]), "{paper}");
}

/// A script that inspects the drawn page: colours, hover text, and what does not fit. It writes the result into the
/// page.
const LOOK: &str = r#"
    addEventListener('load', () => setTimeout(() => {
      if (matchMedia('print').matches || innerWidth < 800) dispatchEvent(new Event('beforeprint'));
      const parts = (text) => (text.match(/[0-9.]+/g) || []).map(Number);
      const light = (colour) => {
        const [r, g, b] = parts(colour).map((part) => part / 255)
          .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const contrast = (one, other) => {
        const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
      };
      const least = (texts, paper) =>
        Math.min(...[...texts].map((text) => contrast(getComputedStyle(text).fill, paper)));
      const paper = getComputedStyle(document.body).backgroundColor;
      const look = (tries) => {
        const layer = document.querySelector('#latency .hoverlayer');
        // A busy machine draws the hover text late.
        if (!layer.textContent && tries > 0) {
          const area = document.querySelector('#latency .nsewdrag');
          // Pictures above it may have been drawn since the last try, and have moved it.
          const plane = area.getBoundingClientRect();
          const at = { clientX: plane.x + plane.width / 2, clientY: plane.y + plane.height / 2, bubbles: true };
          area.dispatchEvent(new MouseEvent('mousemove', at));
          setTimeout(() => look(tries - 1), 500);
          return;
        }
        const box = layer.querySelector('.legend .bg');
        document.body.dataset.looked = JSON.stringify({
          is_dark: matchMedia('(prefers-color-scheme: dark)').matches,
          contrast: least(document.querySelectorAll('.plot .xtick text, .plot .ytick text, .plot .gtitle'), paper),
          hover: layer.textContent,
          hover_contrast: box ? least(layer.querySelectorAll('.legend text'), getComputedStyle(box).fill) : 0,
          cut: [...document.querySelectorAll('.wide, .plot')]
            .filter((place) => place.scrollWidth > place.clientWidth + 1)
            .map((place) => (place.id || place.textContent.slice(0, 40)) + ' ' + place.scrollWidth),
        });
      };
      look(500);
    }, 3000));
"#;
