use super::*;
use onbeat_report::Measurement;

/// Results in a directory of the test, removed on drop.
struct Results(PathBuf);

impl Drop for Results {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

impl Results {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("onbeat-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, file: &str, result: &Outcome) -> PathBuf {
        let path = self.0.join(file);
        std::fs::write(&path, serde_json::to_string(result).unwrap()).unwrap();
        path
    }

    fn path(&self, file: &str) -> String {
        self.0.join(file).display().to_string()
    }
}

/// A result of a method with a mean, a deviation of 100 ns, and a median of the same interval.
fn result(name: &str, mean_ns: f64, error_ns: f64) -> Outcome {
    let mut result = Run::analysis(name).finish();
    let mean = Measurement::new("ns", mean_ns);
    result.figure(MEAN, mean.with_interval(mean_ns - error_ns, mean_ns + error_ns, 0.95));
    result.figure(DEVIATION, Measurement::new("ns", 100.0));
    result.figure(COUNT, Measurement::new("", 1000_u64));
    let mut table = Counters::new(["", "delay", "lower bound", "upper bound"]);
    let ends = [mean_ns, mean_ns - error_ns, mean_ns + error_ns].map(Cell::from);
    table.row([Cell::from("p50")].into_iter().chain(ends));
    result.figure(PERCENTILES, table);
    result
}

fn compare(results: &[PathBuf], correct: &[String]) -> Result<Outcome> {
    let options = CompareOptions { results: results.to_vec(), correct: correct.to_vec() };
    options.run(&mut Progress::new(true))
}

/// The cells of the table `agreement`, by statistic and method.
fn row<'a>(outcome: &'a Outcome, statistic: &str, method: &str) -> &'a [Cell] {
    let Some(Figure::Counters(table)) = outcome.figures.get("agreement") else { panic!() };
    let is =
        |row: &&Vec<Cell>| text(row.first()) == Some(statistic) && text(row.get(1)) == Some(method);
    table.rows.iter().find(is).unwrap_or_else(|| panic!("{statistic} {method}: {:?}", table.rows))
}

#[test]
fn methods_agree_after_each_correction() {
    let results = Results::new("compare-agree");
    let files = [
        results.write("scope.json", &result("delay-scope", 57_468.0, 50.0)),
        results.write("mirror.json", &result("delay-mirror", 43_000.0, 200.0)),
        results.write("ping.json", &result("delay-ping", 100_000.0, 400.0)),
    ];
    let raw = compare(&files, &[]).unwrap();
    assert_eq!(raw.exit_code(), 0);
    assert_eq!(text(row(&raw, "mean", "scope").get(8)), Some("mirror, ping"));

    let mut null = result("delay-calibrate-mirror", 3_000.0, 10.0);
    results.write("null.json", &null);
    null.name = "delay-calibrate-ping".into();
    results.write("null-ping.json", &null);
    let correct = [
        "scope=17.468+-0.412us".to_owned(),
        results.path("null.json"),
        results.path("null-ping.json"),
    ];
    let found = compare(&files, &correct).unwrap();
    let scope = row(&found, "mean", "scope");
    assert_eq!((number(scope.get(2)), number(scope.get(3))), (Some(57_468.0), Some(40_000.0)));
    assert_eq!((text(scope.get(7)), text(scope.get(8))), (Some("mirror"), Some("ping")));
    // The hop is passed twice: half of 97 us.
    let ping = row(&found, "mean", "ping");
    assert_eq!((number(ping.get(3)), number(ping.get(6))), (Some(48_500.0), Some(8_500.0)));
    let error_ns = 0.5 * 400_f64.hypot(10.0);
    assert!((number(ping.get(5)).unwrap() - 48_500.0 - error_ns).abs() < 1e-6, "{ping:?}");
    // The median of a hop is not half of the median of two passages.
    assert_eq!(number(row(&found, "p50", "mirror").get(3)), Some(40_000.0));
    let Some(Figure::Counters(table)) = found.figures.get("agreement") else { panic!() };
    assert_eq!(table.rows.len(), 3 + 2, "{:?}", table.rows);
}

#[test]
fn a_result_without_a_comparable_mean_fails() {
    let results = Results::new("compare-fail");
    let good = results.write("mirror.json", &result("delay-mirror", 1000.0, 10.0));
    let mut two_clocks = result("delay-match", 10.0, 1.0);
    two_clocks.figure("clocks", Counters::new(["start"]));
    let relative = results.write("match.json", &two_clocks);
    let found = compare(&[good.clone(), relative], &[]).unwrap();
    assert_eq!(found.exit_code(), 1);
    assert_eq!(found.causes[0].name, "no-mean");
    assert!(found.causes[0].statement.contains("fastest packet"), "{:?}", found.causes);

    let mut failed = result("delay-scope", 1000.0, 10.0);
    failed.check(Check::eq("negative delays", 3_u64, 0_u64, ""));
    let failed = results.write("scope.json", &failed);
    let found = compare(&[good, failed], &[]).unwrap();
    assert_eq!((found.exit_code(), found.causes[0].name.as_str()), (1, "failed-measurement"));
}

#[test]
fn wrong_files_are_refused() {
    let results = Results::new("compare-refuse");
    let mirror = results.write("mirror.json", &result("delay-mirror", 1000.0, 10.0));
    let mut corrected = result("delay-scope", 1000.0, 10.0);
    let mean = Measurement::new("ns", 900.0).with_interval(880.0, 920.0, 0.95);
    corrected.figure(CORRECTED_MEAN, mean);
    let scope = results.write("scope.json", &corrected);
    results.write("null.json", &result("delay-calibrate-hooks", 10.0, 1.0));
    let other = results.write("other.json", &result("link-failure", 10.0, 1.0));
    let null = PathBuf::from(results.path("null.json"));
    let router = PathBuf::from("router");
    for (files, correct, expected) in [
        ([&mirror, &router], vec![], "onbeat lab run single-hop --compare HOP"),
        ([&mirror, &other], vec![], "is a result of link-failure"),
        ([&mirror, &null], vec![], "is a correction"),
        ([&mirror, &scope], vec!["1+-1us".to_owned()], "names no method"),
        ([&mirror, &scope], vec![results.path("null.json")], "no result is of hooks"),
        ([&mirror, &scope], vec!["scope=1+-1us".to_owned()], "is corrected"),
        ([&mirror, &scope], vec!["mirror=1+-1us".to_owned(); 2], "two corrections of mirror"),
    ] {
        let error = compare(&files.map(Clone::clone), &correct).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    // A corrected result is compared as it is.
    let found = compare(&[mirror, scope], &[]).unwrap();
    assert_eq!(number(row(&found, "mean", "scope").get(3)), Some(900.0));
}

/// The driver's work is in the interval of the hooks.
#[test]
fn the_end_of_the_hooks_is_an_error_of_theirs() {
    let results = Results::new("compare-hooks");
    let mut hooks = result("delay-hooks", 2_000.0, 10.0);
    let mut stages = Counters::new(["stage", "packets", "mean"]);
    stages.row([Cell::from("driver"), 1000_u64.into(), 300.0.into()]);
    hooks.figure(STAGES, stages);
    let files = [
        results.write("mirror.json", &result("delay-mirror", 1_750.0, 10.0)),
        results.write("hooks.json", &hooks),
    ];
    let found = compare(&files, &[]).unwrap();
    let hooks = row(&found, "mean", "hooks");
    assert_eq!(number(hooks.get(4)), Some(2_000.0 - 10.0 - 300.0));
    assert_eq!(text(hooks.get(7)), Some("mirror"));
}
