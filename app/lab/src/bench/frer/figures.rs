//! Checks and figures of the bench `frer`.

use onbeat_report::format::count;
use onbeat_report::{Cell, Check, Counters, Measurement, Outcome, Ratio, Topology};

use super::super::account::{FrameAccount, RATE, accounts, conservation_checks, times};
use super::super::cpu::Cpus;
use super::super::frer_chain::Protection;
use super::super::redirect::Redirect;
use super::super::{Options, Source};
use super::parallel::{ParallelCase, ParallelResults};
use super::{FrerCase, FrerResults, ProgramCost, SourceRates, limit, streams_of, title};
use crate::traffic::BATCH;

/// Adds the results to an outcome.
pub(in crate::bench) fn fill(
    outcome: &mut Outcome,
    options: &Options,
    cpus: &Cpus,
    found: &FrerResults,
) {
    checks(outcome, found);
    outcome.figure("topology", topology());
    for alone in &found.sources {
        let cases: Vec<_> = found.cases.iter().filter(|case| case.source == alone.source).collect();
        throughput(outcome, alone, &cases);
    }
    let (source, costs) = &found.costs;
    let name = format!("run time of programs, measured separately, {}", source.name());
    outcome.figure(name, programs(costs));
    let redirected = std::iter::once(("redirect".to_owned(), &found.redirected));
    let name = |account: &FrameAccount| title(account.paths, account.protection);
    let protected = found.protected.iter().map(|account| (name(account), account));
    outcome.figure("frames of the throughput runs", accounts(redirected.chain(protected)));
    for (load, redirect, frer) in [
        ("idle", "redirect, idle", "FRER, idle"),
        ("CPU hog", "redirect, CPU hog", "FRER, CPU hog"),
    ] {
        let median = |name: &str| {
            let series = found.delays.series.iter().find(|series| series.name == name);
            series.and_then(|series| series.p50).map(|ns| ns as f64)
        };
        if let (Some(redirect), Some(frer)) = (median(redirect), median(frer)) {
            let added = Measurement::new("ns", frer - redirect);
            outcome.figure(format!("median delay added by FRER, {load}"), added);
        }
    }
    outcome.figure("one-way delay", found.delays.clone());
    notes(outcome, options, cpus, found.undisturbed);
}

/// Adds the results with frames of one source.
fn throughput(outcome: &mut Outcome, alone: &SourceRates, cases: &[&FrerCase]) {
    let source = alone.source.name();
    let added = |name: &str, pairs: &[(f64, f64)]| {
        let added: Vec<_> = pairs.iter().map(|(frer, limit)| 1e9 / frer - 1e9 / limit).collect();
        (format!("time added to a frame: {name}"), Measurement::of_runs("ns", &added))
    };
    for paths in [1, 2] {
        for case in cases.iter().filter(|case| case.paths == paths) {
            let limit = format!("plain XDP redirect, {}", limit(paths).name());
            outcome.figure(case.title(), Ratio::of_runs(RATE, &case.pairs, limit));
        }
    }
    let of_streams = |case: &&&FrerCase| matches!(case.protection, Protection::Streams(_));
    for case in cases.iter().filter(of_streams).filter(|case| case.paths == 2) {
        let streams = case.protection.streams();
        let one_path = partner(cases, 1, streams);
        let pairs: Vec<_> = rates(case).zip(one_path.pairs.iter().map(|pair| pair.1)).collect();
        let streams = streams_of(streams);
        outcome.figure(
            format!("FRER with two paths relative to one redirect, {streams}, {source}"),
            Ratio::of_runs(RATE, &pairs, "plain XDP redirect, one path"),
        );
    }
    let streams = |case: &&FrerCase| case.protection.streams();
    let fewest = cases.iter().filter(of_streams).map(streams).min().unwrap_or(1);
    for case in cases.iter().filter(of_streams).filter(|case| streams(case) > fewest) {
        let few = partner(cases, case.paths, fewest);
        let pairs: Vec<_> = rates(case).zip(rates(few)).collect();
        let (many, paths) = (streams_of(streams(case)), limit(case.paths).name());
        outcome.figure(
            format!("{many} relative to {}, {paths}, {source}", streams_of(fewest)),
            Ratio::of_runs(RATE, &pairs, title(case.paths, Protection::Streams(fewest))),
        );
    }
    for case in cases {
        let (name, added) = added(&case.title(), &case.pairs);
        outcome.figure(name, added);
    }
    let specialized = format!("{}, {source}", Redirect::Specialized.title());
    let (name, added) = added(&specialized, &alone.specialized);
    outcome.figure(name, added);
    outcome.figure(format!("time per frame, {source}"), times_of(alone, cases));
}

/// Adds the results with two CPUs.
pub(in crate::bench) fn parallel(outcome: &mut Outcome, found: &ParallelResults) {
    let [first, second] = found.cpus;
    let what = "two CPUs: FRER";
    for check in conservation_checks(what, std::slice::from_ref(&found.protected)) {
        outcome.check(check);
    }
    // A dropped frame is a gap in its stream.
    let gaps = found.protected.dropped.on_path.iter().sum::<u64>();
    outcome.check(Check::eq(
        format!("{what}: frames out of order in streams of one CPU"),
        found.disorder.own.saturating_sub(gaps),
        0,
        "frames",
    ));
    for case in &found.cases {
        let name = format!("two CPUs relative to one, {}", case.name);
        outcome.figure(name, Ratio::of_runs(RATE, &case.pairs, format!("one CPU, {}", case.name)));
    }
    let [redirect, frer, _] = &found.cases;
    let of_both = |case: &ParallelCase| case.pairs.iter().map(|pair| pair.0).collect::<Vec<_>>();
    let pairs: Vec<_> = of_both(frer).into_iter().zip(of_both(redirect)).collect();
    outcome.figure(
        "two CPUs: FRER, two paths, 1 stream for each CPU",
        Ratio::of_runs(RATE, &pairs, "plain XDP redirect, two paths, two CPUs"),
    );
    let mut order = Counters::new(["stream", "out of order"]);
    order.row([Cell::from("of one CPU"), found.disorder.own.into()]);
    order.row([Cell::from("of both CPUs"), found.disorder.shared.into()]);
    outcome.figure("two CPUs: order within a stream", order);
    let frames = [
        ("two CPUs: redirect".to_owned(), &found.redirected),
        ("two CPUs: FRER".to_owned(), &found.protected),
    ];
    outcome.figure("two CPUs: frames of the throughput runs", accounts(frames.into_iter()));
    outcome.note(format!(
        "Two CPUs: CPUs {first} and {second} each have a source in the kernel and a receive queue of each interface. \
         Both run the programs of the same nodes at the same time, with two paths. A stream of one CPU keeps its \
         order. The third stream is sent by both CPUs: node B passed {}, {} of them out of order \
         (frerCpsSeqRcvyOutOfOrderPackets).",
        count(found.disorder.shared_passed, "frame"), found.disorder.shared
    ));
}

/// FRER's frames per second, per round.
fn rates(case: &FrerCase) -> impl Iterator<Item = f64> {
    case.pairs.iter().map(|pair| pair.0)
}

fn partner<'a>(cases: &[&'a FrerCase], paths: usize, streams: u32) -> &'a FrerCase {
    let protection = Protection::Streams(streams);
    let same = |case: &&&FrerCase| case.paths == paths && case.protection == protection;
    cases.iter().find(same).expect("each number of streams runs with one path and with two")
}

fn checks(outcome: &mut Outcome, found: &FrerResults) {
    let sum = |of: fn(&FrameAccount) -> u64| found.protected.iter().map(of).sum::<u64>();
    let eq = |name: &str, value: u64, limit: u64| Check::eq(name, value, limit, "frames");
    let redirected = &found.redirected;
    let redirect_drops =
        redirected.dropped.to_a + redirected.dropped.on_path[0] + redirected.dropped.to_listener;
    outcome.check(eq(
        "redirect: delivered or counted as dropped",
        redirected.received + redirect_drops,
        redirected.sent,
    ));
    let [numbered, replicated, recovered, delivered] =
        conservation_checks("FRER", &found.protected);
    let once = eq(
        "FRER: frames that B passed, each number once",
        sum(|account| account.counted.passed),
        sum(|account| account.counted.a_output - both_copies_dropped(account)),
    );
    for check in [numbered, replicated, recovered, once, delivered] {
        outcome.check(check);
    }
    let [_, frer] = found.fates;
    outcome.check(eq("delay: frames lost by FRER", frer.lost, 0));
    outcome.check(eq("delay: frames duplicated by FRER", frer.duplicated, 0));
    outcome.check(eq("delay: frames that FRER changed or reordered", frer.wrong, 0));
}

/// Frames of which no copy can have arrived. If both paths dropped frames, the counters do not show
/// whether these were copies of the same frame; then the number of frames that B passed is used.
fn both_copies_dropped(account: &FrameAccount) -> u64 {
    let [first, second] = account.dropped.on_path;
    let most = if account.paths == 1 { first } else { first.min(second) };
    most.min(account.counted.a_output.saturating_sub(account.counted.passed))
}

fn topology() -> Topology {
    let mut network = Topology::default();
    network.host("talker", 0, 0).node("A", 1, 0).node("B", 2, 0).host("listener", 3, 0);
    network.detail("A", "replicates").detail("B", "eliminates");
    network.link("talker", "A", "", &[]).link("A", "B", "path 1", &[]);
    network.link("A", "B", "path 2", &[]).link("B", "listener", "", &[]);
    network
}

fn times_of(alone: &SourceRates, cases: &[&FrerCase]) -> Counters {
    let mut rows = vec![("source only".to_owned(), alone.rates.clone())];
    for paths in [1, 2] {
        for case in cases.iter().filter(|case| case.paths == paths) {
            let of = match case.protection {
                Protection::Streams(streams) => streams_of(streams),
                Protection::Prp => "PRP".into(),
                Protection::Wildcard => "wildcard".into(),
            };
            let limits: Vec<f64> = case.pairs.iter().map(|pair| pair.1).collect();
            rows.push((format!("{}, {of}", limit(paths).title()), limits));
            rows.push((title(paths, case.protection), rates(case).collect()));
        }
    }
    let specialized = alone.specialized.iter().map(|pair| pair.0).collect();
    rows.push((Redirect::Specialized.title(), specialized));
    times(rows)
}

fn programs(costs: &[ProgramCost]) -> Counters {
    let mut table =
        Counters::new([("chain", ""), ("program", ""), ("per run", "ns"), ("runs", "")]);
    for cost in costs {
        let mean = cost.runs.time_ns as f64 / cost.runs.count as f64;
        let (chain, program) = (cost.chain.clone(), cost.program);
        table.row([Cell::from(chain), program.into(), mean.into(), cost.runs.count.into()]);
    }
    table
}

fn notes(outcome: &mut Outcome, options: &Options, cpus: &Cpus, undisturbed: bool) {
    outcome.note(format!(
        "Throughput: frames of {} octets, all on CPU {}: the source, every program, and all kernel \
         work between them. A frame's share of the time is the sum of its costs. The source, whose \
         time is shown separately, and the sink are the same for all compared variants.",
        options.frame_octets, cpus.measured
    ));
    for source in &options.sources {
        outcome.note(match source {
            Source::Socket => format!(
                "With frames from a talker's socket the chain is measured as it is used. An end \
                 system sends by a packet socket, {BATCH} frames per system call. Its network \
                 stack, and the interface that prepares the frames for XDP, are included. They are \
                 included in the limit as well, which moves ratios closer to 1."
            ),
            Source::Kernel => format!(
                "With frames made in the kernel, {} at a time, the measurement is strictest. No source of frames costs less: the cost of FRER has the \
                 largest share of the time of a frame.",
                options.batch
            ),
        });
    }
    if options.functions.vlan {
        outcome.note("A changes the VLAN of each frame, and B restores it.".to_owned());
    }
    if options.functions.individual {
        outcome.note("The members of B have individual recovery (match).".to_owned());
    }
    if !undisturbed {
        outcome.note(
            "Throughput was measured without real-time priority, which was refused: the time \
             includes other work of the machine."
                .to_owned(),
        );
    }
    outcome.note(
        "Limits: with one path, A and B redirect. With two, A broadcasts to both and B redirects \
         frames of path 1 and drops frames of path 2. Frames and interfaces are those of FRER, without \
         identification, tags and recovery. Each ratio is the median over rounds of FRER relative \
         to the limit measured next to it."
            .to_owned(),
    );
    outcome.note(
        "\"Specialized programs\" do FRER for one stream only, without tables and counters: their time \
         is what no configurable implementation can undercut."
            .to_owned(),
    );
    outcome.note(
        "\"FRER with two paths relative to one redirect\" is the total cost of protection, \
         including the second copy, which no implementation can avoid."
            .to_owned(),
    );
    outcome.note(format!(
        "Delay: {} of {} octets in each case, {} per second. It is the time from the system call of \
         the talker to the time stamp of the listener's kernel. The source, the whole \
         chain and the CPU hog run on CPU {}. Redirect with two paths is the limit.",
        count(options.probes, "frame"),
        options.probe_octets,
        options.probe_rate,
        cpus.measured
    ));
}
