//! What the workers have learned, brought together by the first: each has the contexts of its own shards.

use std::sync::Arc;

use timely::worker::Worker;

use super::distribution::KeptHierarchy;
use crate::cluster::operators::route::Route;
use crate::error::Result;

/// The hierarchies of all workers as one each, on the first worker; every worker must call this.
pub fn gather(
    worker: &mut Worker,
    letters: &mut Route,
    own: Vec<KeptHierarchy>,
) -> Result<Option<Vec<Arc<KeptHierarchy>>>> {
    let mut all = vec![];
    for own in own {
        let parts = crate::cluster::gather::gather(worker, letters, own)?;
        all.extend(parts.map(|parts| Arc::new(KeptHierarchy::merge(parts))));
    }
    Ok((worker.index() == 0).then_some(all))
}
