//! The decorators of sources, held to the promises of a source.

use std::sync::Arc;

use haul_core::{BufferPool, Source};
use haul_engine::Cancel;
use haul_testkit::conformance::{End, Keeps, Subject};
use haul_testkit::ends::{MemSink, MemSource, MemTree};

use super::job_source::JobSource;

fn decorated(
    name: &'static str,
    keeps: Keeps,
    decorate: impl Fn(Arc<dyn Source>) -> Arc<dyn Source> + Clone + Send + Sync + 'static,
) -> End {
    End::new(name, keeps, move || {
        let (tree, decorate) = (MemTree::new(), decorate.clone());
        let (read, written) = (Arc::clone(&tree), Arc::clone(&tree));
        Subject {
            world: Box::new(tree),
            source: Box::new(move || decorate(Arc::new(MemSource::new(&read, &BufferPool::new(64 << 20))))),
            sink: Box::new(move |options| Arc::new(MemSink::new(&written, options))),
        }
    })
}

#[test]
fn paced() {
    let pace = |source| JobSource::limited(source, &Arc::default(), &Cancel::default());
    decorated("paced", Keeps::everything(), pace).check_source();
}

#[test]
fn rootless() {
    let keeps = Keeps { root_in_scan: false, ..Keeps::everything() };
    decorated("rootless", keeps, JobSource::rootless).check_source();
}
