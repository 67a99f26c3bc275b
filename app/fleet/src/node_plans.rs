//! What the plans of a record have for one node.

use onbeat_rollout::record::{FileHash, NodeChange};
use onbeat_rollout::stage::{StageRefusal, Stages};
use onbeat_rollout::store::Store;
use onbeat_rollout::{Current, Generation, Phase};

use crate::credentials::PublicKey;
use crate::error::{Error, Result};
use crate::files::{self, NodeRecords};

/// The stages of a node between two plans, and the hashes that the controller signed for them.
#[derive(Debug)]
pub(crate) struct NodePlans {
    from: Generation,
    to: Generation,
    /// The change, if it affects the node.
    change: Option<NodeChange>,
    /// The hash of its file in the old plan.
    file: Option<FileHash>,
    stages: std::result::Result<(Stages, [FileHash; 5]), StageRefusal>,
}

impl NodePlans {
    pub(crate) fn read(
        store: &mut impl Store,
        public: &PublicKey,
        current: Current,
        node: &str,
    ) -> Result<Self> {
        let Current { from, to, .. } = current;
        let NodeRecords { change, files } = files::node_records(store, public, (from, to), node)?;
        let file = match &files[0] {
            Some((hash, _)) => Some(*hash),
            None if from == 0 || change.is_some() => None,
            // Who can write to the store can remove the entry, but invent no manifest.
            None => files::manifest(store, public, from)?.nodes.get(node).copied(),
        };
        let [old, new] = files.each_ref().map(|file| file.as_ref().map(|(_, text)| text.as_str()));
        let stages = Stages::new(node, old, new).map(|stages| {
            let hashes = stages.hashes();
            (stages, hashes)
        });
        Ok(Self { from, to, change, file, stages })
    }

    pub(crate) fn are_of(&self, current: Current) -> bool {
        (self.from, self.to) == (current.from, current.to)
    }

    /// The signed hash of the stage in a phase. `None`: no plan has a file for the node.
    pub(crate) fn signed_hash(&self, phase: Phase) -> Option<FileHash> {
        self.change.as_ref().map(|change| change.hash(phase)).or(self.file)
    }

    /// Streams of the node without probes.
    pub(crate) fn unproved(&self) -> &[String] {
        self.change.as_ref().map_or(&[], |change| &change.unproved)
    }

    /// The stages, if that of this phase has the signed hash: who can write to the store can remove the entry of a file.
    pub(crate) fn stages(&self, phase: Phase) -> Result<&Stages> {
        let (stages, hashes) = self.stages.as_ref().map_err(|refusal| refusal.clone())?;
        match self.signed_hash(phase) == Some(hashes[phase as usize]) {
            true => Ok(stages),
            false => Err(Error::UnsignedStage),
        }
    }
}
