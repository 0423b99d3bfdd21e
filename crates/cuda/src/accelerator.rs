//! The door: what the engines ask of a device.

use std::any::Any;
use std::sync::Arc;

use arrow::array::ArrayRef;
use similarity_engine::accelerator::ColumnPrefetch;
use similarity_engine::accelerator::components::DeviceComponents;
use similarity_engine::accelerator::equality::{DeviceKeys, GroupedRows};
use similarity_engine::accelerator::rules::{DeviceRules, RulesSide};
use similarity_engine::accelerator::{
    Accelerator, DeviceLimits, DynDeviceIndex, DynDeviceNearest, NumberedKeys, Platform,
};
use similarity_engine::access_path::{AccessPath, AccessPaths, Criterion};
use similarity_engine::atoms::AtomCondition;
use similarity_engine::condition::Condition;
use similarity_engine::equality::Codes;
use similarity_engine::error::Result;
use similarity_engine::metrics::MetricValue;
use similarity_engine::nearest::Wanted;
use similarity_engine::offered::{Declined, Offered};
use similarity_engine::ranking::Ranking;
use similarity_engine::sets::SetPredicate;
use similarity_engine::strings::EditPredicate;
use similarity_engine::{BuildContext, Cancel, Erased, KeyColumn};

use crate::components::ComponentsOnDevice;
use crate::device::Device;
use crate::equality::{self, RowsByGroup};
use crate::fault::{Fault, placed};
use crate::match_count;
use crate::memory::Budget;
use crate::modules::Module;
use crate::nearest::has_room;
use crate::prefetch::PinnedPrefetch;
use crate::replicate::{Replicate as _, replicated};
use crate::rules::{self, RulesOnDevice};
use crate::sets::{self, SetIndex};
use crate::strings::{self, StringIndex};
use crate::tiled_index::{Tiled, TiledIndex};
use crate::vectors::{self, FEW_DIMENSIONS, VectorIndex, finds_pairs};
use crate::wait::give_up_after;

/// NVIDIA GPUs.
#[derive(Debug)]
pub struct Cuda;

impl Platform for Cuda {
    fn has_driver(&self) -> bool {
        Device::has_driver()
    }

    fn devices(&self) -> Result<usize, String> {
        Device::count()
    }

    fn has_failed(&self, ordinal: usize) -> bool {
        Device::has_failed(ordinal)
    }

    fn was_refused(&self, ordinal: usize) -> bool {
        Device::was_refused(ordinal)
    }

    fn is_open(&self, ordinal: usize) -> bool {
        Device::is_open(ordinal)
    }

    fn open(&self, ordinal: usize, limits: DeviceLimits) -> Result<Arc<dyn Accelerator>, String> {
        give_up_after(limits.timeout);
        Ok(Arc::new(Budget::new(&Device::open(ordinal)?, limits.memory_fraction)))
    }

    fn serves(&self, condition: Condition) -> bool {
        serves(condition)
    }

    fn access_paths(&self, condition: Condition) -> AccessPaths {
        match condition {
            Condition::Set { .. } => {
                AccessPaths { paths: &[AccessPath::PrefixIndex, AccessPath::SignatureTiles], by: Some(Criterion::Cost) }
            }
            Condition::Edit { .. } => AccessPaths::only(&[AccessPath::SignatureTiles]),
            Condition::Vector(_) => AccessPaths::only(&[AccessPath::CurveBlocks]),
        }
    }

    fn ranking_access_paths(&self, ranking: &Ranking) -> AccessPaths {
        match ranking {
            Ranking::Score(Condition::Set { .. }) => AccessPaths {
                paths: &[AccessPath::InvertedIndex, AccessPath::SignatureTiles],
                by: Some(Criterion::Cost),
            },
            Ranking::Score(Condition::Edit { .. }) => AccessPaths::only(&[AccessPath::SignatureTiles]),
            Ranking::Score(Condition::Vector(_)) => AccessPaths::only(&[AccessPath::CurveBlocks]),
            Ranking::MatchCount(_) => AccessPaths::only(&[AccessPath::ConditionColumns]),
        }
    }

    fn serves_atom(&self, atom: &AtomCondition) -> bool {
        rules::serves(atom)
    }

    fn filters_atom(&self, atom: &AtomCondition) -> bool {
        rules::filters(atom)
    }

    fn ranks_by(&self, ranking: &Ranking, wanted: Wanted) -> bool {
        ranks_by(ranking, wanted)
    }

    fn finds_components(&self) -> bool {
        true
    }

    fn few_dimensions(&self) -> usize {
        FEW_DIMENSIONS as usize
    }
}

impl Accelerator for Budget {
    fn platform(&self) -> &'static dyn Platform {
        &Cuda
    }

    fn name(&self) -> String {
        self.device.to_string()
    }

    fn label(&self) -> String {
        format!("cuda:{}", self.device.context().ordinal())
    }

    fn held(&self) -> usize {
        self.device.reserved()
    }

    fn has_failed(&self) -> bool {
        self.device.context().works().is_err()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn for_join(&self) -> Arc<dyn Accelerator> {
        Arc::new(self.of_join())
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.metrics.values()
    }

    fn build(
        &self,
        condition: Condition,
        keys: &KeyColumn,
        context: &BuildContext<'_>,
    ) -> Result<Offered<Box<DynDeviceIndex>>> {
        build(self, condition, keys, context)
    }

    fn build_nearest(
        &self,
        ranking: &Ranking,
        keys: &KeyColumn,
        ranks: &[u32],
        wanted: Wanted,
        context: &BuildContext<'_>,
    ) -> Result<Offered<Box<DynDeviceNearest>>> {
        build_nearest(self, ranking, keys, ranks, wanted, context)
    }

    fn longest_string(&self, predicate: &EditPredicate) -> usize {
        strings::longest_string(predicate)
    }

    fn number_keys(
        &self,
        columns: &[ArrayRef],
        null_equals_null: &[bool],
        is_known: bool,
    ) -> Result<Option<NumberedKeys>> {
        let numbered = equality::codes(self, columns, null_equals_null, is_known)?;
        Ok(numbered.map(|(codes, known)| (codes, known.map(|known| Box::new(known) as Box<dyn DeviceKeys>))))
    }

    fn group_rows(&self, columns: &[&Codes], self_join: bool) -> Result<Option<Arc<dyn GroupedRows>>> {
        let grouped = RowsByGroup::of(self, columns, self_join)?;
        Ok(grouped.map(|grouped| Arc::new(grouped) as Arc<dyn GroupedRows>))
    }

    fn prefetch(&self, columns: &[usize], rows: usize) -> Option<Box<dyn ColumnPrefetch>> {
        PinnedPrefetch::try_new(self.clone(), columns, rows).map(|sending| Box::new(sending) as Box<dyn ColumnPrefetch>)
    }

    fn forget_prefetched(&self) {
        self.forget_sent();
    }

    fn read_rules_ahead(&self, cancel: &Cancel) {
        self.device.kernels().read_ahead(&[Module::Equality, Module::Rules, Module::CodedStrings], cancel);
    }

    fn bring_rules(&self, side: RulesSide<'_>) -> Result<Offered<Box<dyn DeviceRules>>> {
        let brought = RulesOnDevice::try_new(self, side)?;
        Ok(brought.map(|rules| Box::new(rules) as Box<dyn DeviceRules>))
    }

    fn copy_rules(&self, rules: &dyn DeviceRules) -> Result<Offered<Box<dyn DeviceRules>>> {
        let copy = replicated(self, |to| RulesOnDevice::of(rules)?.replicate(to))?;
        Ok(copy.map(|rules| Box::new(rules) as Box<dyn DeviceRules>))
    }

    fn components(&self, signed: bool) -> Result<Offered<Box<dyn DeviceComponents>>> {
        let components = ComponentsOnDevice::try_new(self, signed);
        placed(components.map(|components| Some(Box::new(components) as Box<dyn DeviceComponents>)))
    }
}

/// Whether there are kernels for a condition.
fn serves(condition: Condition) -> bool {
    match condition {
        Condition::Set { .. } | Condition::Edit { .. } => true,
        Condition::Vector(condition) => finds_pairs(condition.measure),
    }
}

/// Makes the keys of a build side ready for `condition` on a device, or says why not: there are no kernels for them, or
/// its memory does not hold them and the caller does not divide them.
///
/// # Errors
/// Keys that `condition` is not about, a refused reservation, a cancelled build, a device that fails,
/// [`Error::DeviceFull`](similarity_engine::Error::DeviceFull) where the caller divides the keys.
fn build(
    budget: &Budget,
    condition: Condition,
    keys: &KeyColumn,
    context: &BuildContext<'_>,
) -> Result<Offered<Box<DynDeviceIndex>>> {
    if !serves(condition) {
        return Ok(Offered::Declined(Declined::Keys));
    }
    let budget = &budget.of_join();
    let module = match condition {
        Condition::Set { .. } => Module::Sets,
        Condition::Edit { .. } => Module::Strings,
        Condition::Vector(_) => Module::Vectors,
    };
    budget.device.kernels().read_ahead(&[module], context.cancel);
    context.cancel.check()?;
    let index = match condition {
        Condition::Set { tokenizer, measure, bounds } => {
            let predicate = SetPredicate { measure, bounds };
            SetIndex::try_new(budget, tokenizer, predicate, keys, context).map(|index| Some(boxed(index)))
        }
        Condition::Edit { measure, bounds } => {
            StringIndex::try_new(budget, EditPredicate { measure, bounds }, keys, context).map(|index| index.map(boxed))
        }
        Condition::Vector(condition) => {
            VectorIndex::try_new(budget, condition, keys, context).map(|index| index.map(boxed))
        }
    };
    match index {
        Err(Fault::Memory) if context.divides => Err(Fault::Memory.into()),
        index => placed(index),
    }
}

/// Makes the keys of a build side, each row with a rank, ready for `ranking` on a device, or says why not: there are no
/// kernels for that, or its memory does not hold a part of them that is worth a search.
///
/// # Errors
/// Keys that are not ranked so, a refused reservation, a cancelled build, a device that fails.
fn build_nearest(
    budget: &Budget,
    ranking: &Ranking,
    keys: &KeyColumn,
    ranks: &[u32],
    wanted: Wanted,
    context: &BuildContext<'_>,
) -> Result<Offered<Box<DynDeviceNearest>>> {
    if !ranks_by(ranking, wanted) {
        return Ok(Offered::Declined(Declined::Keys));
    }
    let budget = &budget.of_join();
    let modules: &[Module] = match ranking {
        Ranking::Score(Condition::Set { .. }) => {
            &[Module::Sets, Module::Nearest, Module::NearestSets, Module::NearestCounts, Module::Prefixes]
        }
        Ranking::Score(Condition::Edit { .. }) => &[Module::Strings, Module::Nearest, Module::NearestStrings],
        Ranking::Score(Condition::Vector(_)) => &[Module::Vectors, Module::Nearest, Module::NearestVectors],
        Ranking::MatchCount(_) => &[Module::Nearest, Module::Sort, Module::MatchCount],
    };
    budget.device.kernels().read_ahead(modules, context.cancel);
    context.cancel.check()?;
    placed(match ranking {
        &Ranking::Score(Condition::Set { tokenizer, measure, .. }) => {
            sets::build_nearest(budget, (tokenizer, measure), keys, ranks, context)
        }
        &Ranking::Score(Condition::Edit { measure, .. }) => {
            strings::build_nearest(budget, measure, keys, ranks, context)
        }
        Ranking::Score(Condition::Vector(condition)) => {
            vectors::build_nearest(budget, condition.measure, keys, (ranks, wanted), context)
        }
        Ranking::MatchCount(count) => match_count::build_nearest(budget, count, keys, ranks, context),
    })
}

/// Whether there are kernels for a ranking of so many rows.
fn ranks_by(ranking: &Ranking, wanted: Wanted) -> bool {
    let has_kernels = match ranking {
        Ranking::Score(Condition::Set { .. }) => true,
        Ranking::Score(Condition::Edit { measure, .. }) => strings::ranks_by(*measure),
        Ranking::Score(Condition::Vector(condition)) => condition.measure.is_ranked(),
        Ranking::MatchCount(count) => match_count::ranks_by(count),
    };
    has_kernels && has_room(wanted)
}

fn boxed<I: TiledIndex + 'static>(index: I) -> Box<DynDeviceIndex> {
    Box::new(Erased(Tiled::new(index)))
}
