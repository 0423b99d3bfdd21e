//! How the atoms of a join of rules are decided on a device, and its build side there.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use similarity_engine::error::{Result, internal_err};

use super::columns::{AtomOnDevice, ColumnsOnDevice, Uploading, texts_on_device};
use super::walk_buffers::WalkBuffers;
use crate::address::Address;
use crate::buffer::Buffer;
use crate::fault::{Fault, placed};
use crate::kernels::{self, BLOCK, Compared, EditCondition, SetCondition, VectorCondition};
use crate::memory::Budget;
use crate::replicate::{Copying, Replicate, replicate};
use crate::sets::set_test;
use crate::strings::{LONGEST, edit_test, reaches};
use crate::vectors::{has_kernels, vector_test};
use crate::wait::wait;
use crate::worker::{Capacity, Workers};
use similarity_engine::accelerator::rules::{DeviceRules, RulesSide};
use similarity_engine::atoms::AtomCondition;
use similarity_engine::condition::Condition;
use similarity_engine::offered::Offered;
use similarity_engine::parallel::{both, each_in_turn};
use similarity_engine::sets::SetPredicate;
use similarity_engine::strings::EditPredicate;
use similarity_engine::vectors::reach::Reach;
use similarity_measures::EditKernel;

/// Launches of a tree's steps are short: more of them than of an index are there at the same time.
pub(super) const WORKERS: usize = 8;

/// A join of rules on a device: the tests of its atoms and the columns of its build side.
#[derive(Debug)]
pub struct RulesOnDevice {
    pub(super) budget: Budget,
    pub(super) asked: Vec<bool>,
    /// Tests by atom.
    tests: Vec<ConditionOnDevice>,
    tables: Tables,
    pub(super) build: ColumnsOnDevice,
    /// Fingerprints of the build side's rows, until some are drawn by them.
    pub(super) prints: Option<Buffer<u64>>,
    /// Workers of all entries.
    pub(super) workers: Arc<Workers>,
    pub(super) rooms: Arc<WalkBuffers>,
}

/// How an atom is decided there.
#[derive(Debug, Clone, Copy)]
enum ConditionOnDevice {
    /// Columns of the atom decide it alone.
    Columns,
    Texts {
        predicate: EditPredicate,
        /// Where its reaches begin among those of all atoms.
        first: usize,
        condition: EditCondition,
        decision: EditKernel,
    },
    Sets {
        condition: SetCondition,
    },
    Vectors {
        condition: VectorCondition,
    },
}

/// What the tests of all atoms look up.
#[derive(Debug)]
struct Tables {
    /// What the first filters allow, one after the other.
    allowances: Buffer<i8>,
    /// Start of each atom's own allowances.
    starts: Vec<usize>,
    /// What the tests of edit measures point to.
    reaches: Buffer<kernels::Reach>,
}

replicate!(Tables { allowances, reaches; same starts });

impl Tables {
    /// Where the first filter of an atom looks up.
    fn allowance(&self, stream: &CudaStream, atom: usize) -> Address<i8> {
        self.allowances.address(stream).add(self.starts[atom])
    }
}

/// Whether an atom can be decided on a device.
pub fn serves(condition: &AtomCondition) -> bool {
    match *condition {
        AtomCondition::Equality | AtomCondition::Band | AtomCondition::OneSided | AtomCondition::EitherSide => true,
        AtomCondition::Similarity { condition: Condition::Set { .. }, .. } => true,
        AtomCondition::Similarity { condition: Condition::Edit { measure, .. }, .. } => {
            measure.descriptor().kernel.is_some()
        }
        // what DataFusion's own functions leave undecided the CPU tells apart
        AtomCondition::Similarity { condition: Condition::Vector(condition), .. } => {
            has_kernels(condition.measure) && condition.undecided_from.is_none()
        }
        AtomCondition::Pair => false,
    }
}

/// Whether a device can refuse pairs by an atom, if only to leave others to the host.
pub fn filters(condition: &AtomCondition) -> bool {
    serves(condition) || edit_predicate(condition).is_some()
}

/// What an atom asks of strings.
fn edit_predicate(condition: &AtomCondition) -> Option<EditPredicate> {
    match *condition {
        AtomCondition::Similarity { condition: Condition::Edit { measure, bounds }, .. } => {
            Some(EditPredicate { measure, bounds })
        }
        _ => None,
    }
}

impl ConditionOnDevice {
    /// The test where the reaches of all atoms are elsewhere.
    fn with(self, reaches: Address<kernels::Reach>) -> Self {
        match self {
            Self::Texts { predicate, first, .. } => {
                let (condition, decision) = edit_test(&predicate, reaches.add(first));
                Self::Texts { predicate, first, condition, decision }
            }
            test => test,
        }
    }
}

impl Replicate for RulesOnDevice {
    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        let tables = self.tables.replicate(to)?;
        let reaches = tables.reaches.address(to.stream);
        let rooms = Arc::new(WalkBuffers::default());
        to.budget.device.may_take_back(&rooms);
        Ok(Self {
            budget: to.budget.clone(),
            asked: self.asked.clone(),
            tests: self.tests.iter().map(|test| test.with(reaches)).collect(),
            tables,
            build: self.build.replicate(to)?,
            prints: None,
            workers: Arc::new(Workers::try_new(to.budget, self.workers.capacity())?),
            rooms,
        })
    }
}

impl RulesOnDevice {
    /// The rules that this engine has brought to a device.
    ///
    /// # Errors
    /// Rules of another engine.
    pub(crate) fn of(rules: &dyn DeviceRules) -> Result<&Self> {
        match rules.as_any().downcast_ref() {
            Some(rules) => Ok(rules),
            None => internal_err!("an entry on a device was given rules of another one"),
        }
    }

    /// Brings what the build side has for the atoms that are `asked` to the device; `allowances` are what the first
    /// filters of similarities allow, by the classes of a probe and a build row; `equalities` are over the strings of
    /// some atoms, and say whether two NULLs are equal. Or says why not: the device's memory does not hold it, or many
    /// strings are too long for it, many numbers too large or too small, or nothing can match. Of so many rows as are
    /// `printed`, fingerprints are made, by all atoms that are asked, which read strings.
    ///
    /// # Errors
    /// A device that fails.
    pub(crate) fn try_new(budget: &Budget, side: RulesSide<'_>) -> Result<Offered<Self>> {
        placed(Self::arrange(&budget.of_join(), side))
    }

    fn arrange(budget: &Budget, side: RulesSide<'_>) -> Result<Option<Self>, Fault> {
        let RulesSide { conditions, allowances, rows: build, asked, equalities, printed, threads } = side;
        let time = budget.metrics.arrange_time.clone();
        let _timer = time.timer();
        let stream = budget.device.stream()?;
        let prints = match printed.map(|rows| budget.zeros(&stream, rows)).transpose() {
            // the host draws then
            Err(Fault::Memory) => None,
            prints => prints?,
        };
        // columns are added on streams of their own
        wait(&stream)?;
        let uploading = Uploading { budget, stream: &stream, threads, prints: prints.as_ref() };
        let (columns, looked_up) = both(
            || uploading.columns(build, (&asked, equalities), None),
            // which take a while to find out
            || {
                each_in_turn(conditions.len(), threads, |atom| match asked[atom] {
                    true => (
                        allowances(atom),
                        edit_predicate(&conditions[atom]).map_or_else(Vec::new, |p| reaches(&p, LONGEST)),
                    ),
                    false => (&[][..], Vec::new()),
                })
            },
        );
        let Some(columns) = columns? else { return Ok(None) };
        let (mut allowed, mut starts) = (Vec::new(), Vec::with_capacity(conditions.len()));
        for (allowance, _) in &looked_up {
            starts.push(allowed.len());
            allowed.extend_from_slice(allowance);
        }
        let parts = || looked_up.iter().map(|(_, reaches)| reaches.as_slice());
        let allowances = budget.upload(&stream, &allowed)?;
        let uploaded = budget.upload_parts(&stream, parts().map(<[_]>::len).sum(), parts())?;
        let mut first = 0;
        let mut tests = Vec::with_capacity(conditions.len());
        for (atom, condition) in conditions.iter().enumerate() {
            tests.push(match *condition {
                _ if !asked[atom] => ConditionOnDevice::Columns,
                AtomCondition::Similarity { condition: Condition::Edit { measure, bounds }, .. } => {
                    let predicate = EditPredicate { measure, bounds };
                    let (condition, decision) = edit_test(&predicate, uploaded.address(&stream).add(first));
                    let test = ConditionOnDevice::Texts { predicate, first, condition, decision };
                    first += looked_up[atom].1.len();
                    test
                }
                AtomCondition::Similarity { condition: Condition::Set { measure, bounds, .. }, .. } => {
                    ConditionOnDevice::Sets { condition: set_test(SetPredicate { measure, bounds }) }
                }
                AtomCondition::Similarity { condition: Condition::Vector(condition), .. } => {
                    let AtomOnDevice::Vectors(vectors) = &columns.atoms[atom] else { return Ok(None) };
                    let dimension = vectors.dimension;
                    let Some(reach) = Reach::of(&condition, dimension) else { return Ok(None) };
                    ConditionOnDevice::Vectors { condition: vector_test(&condition, &reach, dimension) }
                }
                AtomCondition::Equality
                | AtomCondition::Band
                | AtomCondition::OneSided
                | AtomCondition::EitherSide
                | AtomCondition::Pair => ConditionOnDevice::Columns,
            });
        }
        wait(&stream)?;
        let workers = Arc::new(Workers::try_new(budget, Capacity::of(budget, BLOCK, WORKERS))?);
        let tables = Tables { allowances, starts, reaches: uploaded };
        let rooms = Arc::new(WalkBuffers::default());
        budget.device.may_take_back(&rooms);
        Ok(Some(Self { budget: budget.clone(), asked, tests, tables, build: columns, prints, workers, rooms }))
    }

    /// Whether all of these atoms are there.
    pub(super) fn has(&self, mut atoms: impl Iterator<Item = usize>) -> bool {
        atoms.all(|atom| self.asked[atom])
    }

    /// What a step that asks `atom` compares, of the build side and a probe side or the build side itself.
    pub(super) fn compared(
        &self,
        stream: &Arc<CudaStream>,
        atom: usize,
        probe: Option<&ColumnsOnDevice>,
    ) -> Result<Compared> {
        let (build, probe) = (&self.build.atoms[atom], &probe.unwrap_or(&self.build).atoms[atom]);
        Ok(match (&self.tests[atom], build, probe) {
            (_, AtomOnDevice::Codes(build), AtomOnDevice::Codes(probe)) => {
                Compared::Codes { build: build.address(stream), probe: probe.address(stream) }
            }
            (_, AtomOnDevice::Band { places, .. }, AtomOnDevice::Band { accepted, .. }) => {
                Compared::Band { build: places.address(stream), probe: accepted.address(stream) }
            }
            (
                ConditionOnDevice::Texts { condition, decision, .. },
                AtomOnDevice::Texts(build),
                AtomOnDevice::Texts(probe),
            ) => Compared::Strings {
                build: texts_on_device(build, stream),
                probe: texts_on_device(probe, stream),
                allowance: self.tables.allowance(stream, atom),
                condition: *condition,
                decision: *decision,
                is_small: build.codes.is_small,
            },
            (ConditionOnDevice::Sets { condition }, AtomOnDevice::Sets(build), AtomOnDevice::Sets(probe)) => {
                Compared::Sets {
                    build: build.on_device(stream),
                    probe: probe.on_device(stream),
                    allowance: self.tables.allowance(stream, atom),
                    condition: *condition,
                }
            }
            (ConditionOnDevice::Vectors { condition }, AtomOnDevice::Vectors(build), AtomOnDevice::Vectors(probe)) => {
                Compared::Vectors {
                    build: build.on_device(stream),
                    probe: probe.on_device(stream),
                    condition: *condition,
                }
            }
            (_, AtomOnDevice::EitherBits(build), AtomOnDevice::EitherBits(probe)) => {
                Compared::Bits { build: Some(build.address(stream)), probe: Some(probe.address(stream)) }
            }
            (_, AtomOnDevice::Bits(bits), _) => Compared::Bits { build: Some(bits.address(stream)), probe: None },
            (_, _, AtomOnDevice::Bits(bits)) => Compared::Bits { build: None, probe: Some(bits.address(stream)) },
            _ => return internal_err!("an atom has no columns on the device"),
        })
    }
}
