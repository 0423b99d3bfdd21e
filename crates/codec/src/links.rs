//! What links between ids are read for.

use std::sync::Arc;

use datafusion::common::{Result, ScalarValue};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_similarity::exec::{self, LinksExec};

use crate::engine;
use crate::envelope::malformed;
use crate::messages::{Assignment, Clusters, LinkTask, LinkTaskKind, Links, Method, Path};

pub fn to_message(links: &LinksExec) -> Result<Links> {
    Ok(Links { task: Some(task_to_message(links.task())?), engine: Some(engine::to_message(&links.engine())) })
}

pub fn from_message(message: &Links, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
    let [input] = inputs else { return Err(malformed("links have one input")) };
    let task = message.task.as_ref().ok_or_else(|| malformed("it does not say what links are read for"))?;
    let engine = engine::from_message(message.engine.as_ref())?;
    Ok(Arc::new(LinksExec::try_new(task_from_message(task)?, engine, Arc::clone(input))?))
}

pub fn task_to_message(task: &exec::LinkTask) -> Result<LinkTask> {
    let clusters = |method: Method, largest| LinkTaskKind::Clusters(Clusters { method: method.into(), largest });
    let kind = match task {
        exec::LinkTask::Clusters(exec::Method::Components) => clusters(Method::Components, 0),
        exec::LinkTask::Clusters(exec::Method::Center) => clusters(Method::Center, 0),
        exec::LinkTask::Clusters(exec::Method::Star) => clusters(Method::Star, 0),
        exec::LinkTask::Clusters(exec::Method::Split { largest }) => clusters(Method::Split, *largest as u64),
        exec::LinkTask::Matching(exec::Assignment::Greedy) => LinkTaskKind::Matching(Assignment::Greedy.into()),
        exec::LinkTask::Matching(exec::Assignment::Optimal) => LinkTaskKind::Matching(Assignment::Optimal.into()),
        exec::LinkTask::Path { from, to } => {
            LinkTaskKind::Path(Box::new(Path { from: Some(from.try_into()?), to: Some(to.try_into()?) }))
        }
    };
    Ok(LinkTask { kind: Some(kind) })
}

pub fn task_from_message(message: &LinkTask) -> Result<exec::LinkTask> {
    let unknown = || malformed("this release does not know what links are read for");
    Ok(match message.kind.as_ref().ok_or_else(unknown)? {
        LinkTaskKind::Clusters(Clusters { method, largest }) => {
            let largest = usize::try_from(*largest).map_err(|_| malformed("a cluster is too large"))?;
            exec::LinkTask::Clusters(match Method::try_from(*method).map_err(|_| unknown())? {
                Method::Components => exec::Method::Components,
                Method::Center => exec::Method::Center,
                Method::Star => exec::Method::Star,
                Method::Split if largest == 0 => return Err(malformed("a cluster has no members")),
                Method::Split => exec::Method::Split { largest },
            })
        }
        LinkTaskKind::Matching(assignment) => {
            exec::LinkTask::Matching(match Assignment::try_from(*assignment).map_err(|_| unknown())? {
                Assignment::Greedy => exec::Assignment::Greedy,
                Assignment::Optimal => exec::Assignment::Optimal,
            })
        }
        LinkTaskKind::Path(path) => {
            let [from, to] = [&path.from, &path.to].map(|id| -> Result<ScalarValue> {
                let id = id.as_ref().ok_or_else(|| malformed("an end of a path is missing"))?;
                Ok(id.try_into()?)
            });
            exec::LinkTask::Path { from: from?, to: to? }
        }
    })
}
