//! The limit: the chain with plain redirects in place of FRER.

use libbpf_rs::Link;

use super::chain::{Chain, Stations};
use super::programs::Programs;
use crate::Result;

/// Action of node A on a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Redirect {
    /// Counts and drops it: only the source remains.
    Nothing,
    /// Sends it by path 1.
    OnePath,
    /// Sends it by both paths; B drops frames of path 2.
    TwoPaths,
    /// Numbers and tags it, and sends it by both paths; B eliminates one copy. By programs for
    /// stream 0 only.
    Specialized,
}

/// A chain with redirects.
#[derive(Debug)]
pub(super) struct RedirectChain {
    pub(super) chain: Chain,
    a: Link,
    now: Redirect,
    b: [Link; 2],
}

impl RedirectChain {
    pub(super) fn start(
        stations: &Stations,
        chain: Chain,
        programs: &mut Programs,
    ) -> Result<Self> {
        programs.set_target("to_path", 0, &stations.a, &chain.a_paths[0])?;
        programs.set_target("to_paths", 0, &stations.a, &chain.a_paths[0])?;
        programs.set_target("to_paths", 1, &stations.a, &chain.a_paths[1])?;
        programs.set_target("to_listener", 0, &stations.b, &chain.b)?;
        let a = programs.attach(Redirect::OnePath.program(), &stations.a, &chain.a)?;
        let [path1, path2] = Redirect::OnePath.programs_of_b();
        let b = [
            programs.attach(path1, &stations.b, &chain.b_paths[0])?,
            programs.attach(path2, &stations.b, &chain.b_paths[1])?,
        ];
        Ok(Self { chain, a, now: Redirect::OnePath, b })
    }

    /// Sets the action of node A, and what B does with its frames.
    pub(super) fn set(&mut self, redirect: Redirect, programs: &mut Programs) -> Result<()> {
        if self.now != redirect {
            programs.replace_program(&mut self.a, redirect.program())?;
            for (link, program) in self.b.iter_mut().zip(redirect.programs_of_b()) {
                programs.replace_program(link, program)?;
            }
            self.now = redirect;
        }
        Ok(())
    }
}

impl Redirect {
    /// Its program on A's port to the talker.
    pub(super) fn program(self) -> &'static str {
        match self {
            Redirect::Nothing => "sink",
            Redirect::OnePath => "one_path",
            Redirect::TwoPaths => "two_paths",
            Redirect::Specialized => "specialized_generate",
        }
    }

    /// The programs on B's ports to the paths.
    pub(super) fn programs_of_b(self) -> [&'static str; 2] {
        match self {
            Redirect::Specialized => ["specialized_eliminate"; 2],
            _ => ["deliver", "discard"],
        }
    }

    /// Its name in figures.
    pub(super) fn name(self) -> &'static str {
        match self {
            Redirect::Nothing => "source only",
            Redirect::OnePath => "one path",
            Redirect::TwoPaths => "two paths",
            Redirect::Specialized => "two paths",
        }
    }

    /// Its name, and what it does with frames.
    pub(super) fn title(self) -> String {
        match self {
            Redirect::Specialized => "specialized programs, two paths, 1 stream".into(),
            _ => format!("redirect, {}", self.name()),
        }
    }
}
