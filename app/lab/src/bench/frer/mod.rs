//! The bench `frer`: FRER in XDP compared with plain XDP redirect.

pub(super) mod figures;
pub(super) mod parallel;

use std::os::fd::AsFd;

use libbpf_rs::Link;
use onbeat_bpf::Runs;
use onbeat_bpf::statistics::Statistics;
use onbeat_realtime::interrupt;
use onbeat_report::{Distribution, Progress};

use super::account::FrameAccount;
use super::chain::{Chain, Stations};
use super::cpu::Cpus;
use super::delay::{self, ProbeCounts};
use super::frer_chain::{FrerNodeCounters, ProtectedChain, Protection};
use super::programs::Programs;
use super::redirect::{Redirect, RedirectChain};
use super::throughput::ThroughputBed;
use super::{Options, Source};
use crate::rounds::{Variant, pair};
use crate::{Error, Result};

/// Frames per second of FRER or PRP with this number of paths and frames of this source, and of
/// its limit measured directly before or after, per round.
#[derive(Debug)]
struct FrerCase {
    source: Source,
    paths: usize,
    protection: Protection,
    /// Pairs of FRER and limit.
    pairs: Vec<(f64, f64)>,
}

impl FrerCase {
    fn title(&self) -> String {
        format!("{}, {}", title(self.paths, self.protection), self.source.name())
    }
}

/// Frames per second of a source without FRER.
#[derive(Debug)]
struct SourceRates {
    source: Source,
    /// Without a chain.
    rates: Vec<f64>,
    /// Pairs of programs that do FRER for one stream only, and of the limit.
    specialized: Vec<(f64, f64)>,
}

/// Run time of a program.
#[derive(Debug)]
struct ProgramCost {
    chain: String,
    program: &'static str,
    runs: Runs,
}

/// Results of the bench.
#[derive(Debug)]
pub(super) struct FrerResults {
    sources: Vec<SourceRates>,
    cases: Vec<FrerCase>,
    /// Run times with frames of this source.
    costs: (Source, Vec<ProgramCost>),
    redirected: FrameAccount,
    protected: Vec<FrameAccount>,
    delays: Distribution,
    /// Delays by redirect and by FRER.
    fates: [ProbeCounts; 2],
    /// Whether throughput was measured at real-time priority.
    undisturbed: bool,
}

pub(super) fn measure(
    options: &Options,
    cpus: Cpus,
    progress: &mut Progress,
) -> Result<FrerResults> {
    let stations = Stations::new()?;
    let mut programs = Programs::load()?;
    let mut redirects =
        RedirectChain::start(&stations, Chain::build(&stations, 0, true)?, &mut programs)?;
    let mut protected = Vec::new();
    for &streams in &options.streams {
        for paths in [1, 2] {
            interrupt::check()?;
            progress.update(|| {
                format!("starting FRER: {}", title(paths, Protection::Streams(streams)))
            });
            let chain = Chain::build(&stations, 1 + protected.len(), true)?;
            protected.push(ProtectedChain::start(
                &stations,
                chain,
                paths,
                streams,
                options.functions,
            )?);
        }
    }
    for protection in [Protection::Prp, Protection::Wildcard] {
        let chain = Chain::build(&stations, 1 + protected.len(), true)?;
        protected.push(ProtectedChain::of_all_frames(&stations, chain, protection)?);
    }
    let chains = protected.iter().map(|protected| &protected.chain).chain([&redirects.chain]);
    let sinks: Vec<Link> = chains
        .map(|chain| programs.attach("sink", &stations.listener, &chain.listener))
        .collect::<Result<_>>()?;

    let mut bed = ThroughputBed {
        stations: &stations,
        programs: &mut programs,
        cpus,
        options,
        undisturbed: true,
    };
    let (sources, cases) = throughput(&mut bed, &mut redirects, &mut protected, progress)?;
    // A batch keeps programs and tables in the caches; what remains is the programs' own time.
    let strictest =
        if options.sources.contains(&Source::Kernel) { Source::Kernel } else { Source::Socket };
    let costs = (strictest, costs(&mut bed, &mut redirects, &mut protected, strictest)?);
    let account = |chain: &Chain, paths, protection, counted| {
        let (sent, received, dropped) = (chain.sent, chain.received, chain.dropped(&stations)?);
        Ok(FrameAccount { paths, protection, sent, received, dropped, counted })
    };
    let redirected =
        account(&redirects.chain, 0, Protection::Streams(0), FrerNodeCounters::default())?;
    let accounts = protected
        .iter()
        .map(|frer| account(&frer.chain, frer.paths, frer.protection, frer.counted()?))
        .collect::<Result<_>>()?;

    // Without the program on its interface, the listener's kernel receives the frames.
    drop(sinks);
    redirects.set(Redirect::TwoPaths, bed.programs)?;
    let two_paths = protected.iter().find(|protected| protected.paths == 2).expect("built above");
    let (delays, fates) = delay::measure(&bed, [&redirects.chain, &two_paths.chain], progress)?;
    Ok(FrerResults {
        sources,
        cases,
        costs,
        redirected,
        protected: accounts,
        delays,
        fates,
        undisturbed: bed.undisturbed,
    })
}

/// The redirect that is the limit of FRER with `paths` paths.
fn limit(paths: usize) -> Redirect {
    if paths == 1 { Redirect::OnePath } else { Redirect::TwoPaths }
}

fn throughput(
    bed: &mut ThroughputBed<'_>,
    redirects: &mut RedirectChain,
    protected: &mut [ProtectedChain],
    progress: &mut Progress,
) -> Result<(Vec<SourceRates>, Vec<FrerCase>)> {
    let options = bed.options;
    let alone =
        |&source: &Source| SourceRates { source, rates: Vec::new(), specialized: Vec::new() };
    let mut sources: Vec<SourceRates> = options.sources.iter().map(alone).collect();
    let case = |source, chain: &ProtectedChain| {
        let (paths, protection) = (chain.paths, chain.protection);
        FrerCase { source, paths, protection, pairs: Vec::new() }
    };
    // Grouped by source, each group in the order of `protected`.
    let mut cases: Vec<FrerCase> = options
        .sources
        .iter()
        .flat_map(|&source| protected.iter().map(move |chain| case(source, chain)))
        .collect();
    for round in 0..options.rounds {
        let mut measuring = |what: &str, source: Source| {
            let (round, rounds) = (round + 1, options.rounds);
            progress.update(|| format!("round {round} of {rounds}: {what}, {}", source.name()));
        };
        for (alone, cases) in sources.iter_mut().zip(cases.chunks_mut(protected.len())) {
            let source = alone.source;
            measuring("the source only", source);
            redirects.set(Redirect::Nothing, bed.programs)?;
            alone.rates.push(bed.measure(&mut redirects.chain, 1, source)?);
            measuring("specialized programs", source);
            alone.specialized.push(pair(round, |variant| {
                let redirect = match variant {
                    Variant::Subject => Redirect::Specialized,
                    Variant::Reference => Redirect::TwoPaths,
                };
                redirects.set(redirect, bed.programs)?;
                bed.measure(&mut redirects.chain, 1, source)
            })?);
            for (case, frer) in cases.iter_mut().zip(protected.iter_mut()) {
                measuring(&title(case.paths, case.protection), source);
                redirects.set(limit(case.paths), bed.programs)?;
                case.pairs.push(pair(round, |variant| {
                    let chain = match variant {
                        Variant::Subject => &mut frer.chain,
                        Variant::Reference => &mut redirects.chain,
                    };
                    bed.measure(chain, case.protection.streams(), source)
                })?);
            }
        }
    }
    Ok((sources, cases))
}

/// Measures the run time of the programs in a round of its own, as counting has a cost.
fn costs(
    bed: &mut ThroughputBed<'_>,
    redirects: &mut RedirectChain,
    protected: &mut [ProtectedChain],
    source: Source,
) -> Result<Vec<ProgramCost>> {
    let _statistics = Statistics::enable()?;
    let mut costs = Vec::new();
    for redirect in [Redirect::OnePath, Redirect::TwoPaths, Redirect::Specialized] {
        redirects.set(redirect, bed.programs)?;
        let [path1, path2] = redirect.programs_of_b();
        let mut programs = vec![
            ("source", "source"),
            ("on A", redirect.program()),
            ("on B, path 1", path1),
            ("on B, path 2", path2),
            ("sink", "sink"),
        ];
        // One program passes and eliminates.
        programs.dedup_by_key(|(_, program)| *program);
        let read = |bed: &mut ThroughputBed<'_>| {
            programs
                .iter()
                .map(|(_, name)| Ok(Runs::of(bed.programs.program(name).as_fd())?))
                .collect::<Result<Vec<_>>>()
        };
        let before = read(bed)?;
        bed.measure(&mut redirects.chain, 1, source)?;
        for (((program, _), before), after) in programs.iter().zip(before).zip(read(bed)?) {
            let chain = redirect.title();
            costs.push(ProgramCost { chain, program, runs: after.since(before) });
        }
    }
    for frer in protected {
        let read = |frer: &ProtectedChain| {
            let ports = [
                ("on A", &frer.a, &frer.chain.a),
                ("on B, path 1", &frer.b, &frer.chain.b_paths[0]),
                ("on B, path 2", &frer.b, &frer.chain.b_paths[1]),
            ];
            let runs = ports.into_iter().filter_map(|(program, plane, interface)| {
                let (ingress, _) = plane.programs(&interface.name)?;
                Some(Runs::of(ingress.as_fd()).map(|runs| (program, runs)).map_err(Error::from))
            });
            runs.collect::<Result<Vec<_>>>()
        };
        let before = read(frer)?;
        bed.measure(&mut frer.chain, frer.protection.streams(), source)?;
        for ((program, after), (_, before)) in read(frer)?.into_iter().zip(before) {
            let chain = title(frer.paths, frer.protection);
            costs.push(ProgramCost { chain, program, runs: after.since(before) });
        }
    }
    costs.retain(|cost| cost.runs.count > 0);
    Ok(costs)
}

fn title(paths: usize, protection: Protection) -> String {
    let paths = limit(paths).name();
    match protection {
        Protection::Streams(streams) => format!("FRER, {paths}, {}", streams_of(streams)),
        Protection::Prp => format!("PRP, {paths}"),
        Protection::Wildcard => format!("wildcard, {paths}"),
    }
}

fn streams_of(streams: u32) -> String {
    match streams {
        1 => "1 stream".into(),
        _ => format!("{streams} streams"),
    }
}
