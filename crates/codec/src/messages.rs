//! The messages, in Protocol Buffers. A tag keeps its meaning for as long as the format keeps its number.

use datafusion_proto::protobuf::{JoinFilter, LogicalExprNode, PhysicalExprNode, PhysicalSortExprNode, SortExprNode};
use prost::{Enumeration, Message, Oneof};

/// An operator.
#[derive(Clone, PartialEq, Message)]
pub struct Operator {
    #[prost(oneof = "OperatorKind", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")]
    pub kind: Option<OperatorKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum OperatorKind {
    #[prost(message, tag = "1")]
    Similarity(SimilarityJoin),
    #[prost(message, tag = "2")]
    Rules(RuleJoin),
    #[prost(message, tag = "3")]
    Nearest(Box<NearestJoin>),
    #[prost(message, tag = "4")]
    Links(Links),
    #[prost(message, tag = "5")]
    RowNumbers(RowNumbers),
    #[prost(message, tag = "6")]
    IndexedTopK(IndexedTopK),
    #[prost(message, tag = "7")]
    Gather(Gather),
    #[prost(message, tag = "8")]
    Cells(Cells),
    #[prost(message, tag = "9")]
    OneCell(OneCell),
    #[prost(message, tag = "10")]
    EitherWay(Box<EitherWay>),
    #[prost(message, tag = "11")]
    SmallBatches(SmallBatches),
    #[prost(message, tag = "12")]
    DealtLoop(DealtLoop),
}

/// All rows in one partition.
#[derive(Clone, PartialEq, Message)]
pub struct Gather {}

/// Rows in the cells of their slices.
#[derive(Clone, PartialEq, Message)]
pub struct Cells {
    #[prost(message, repeated, tag = "1")]
    pub slices: Vec<Slice>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Slice {
    #[prost(uint32, repeated, tag = "1")]
    pub cells: Vec<u32>,
}

/// The rows of the cell of each partition.
#[derive(Clone, PartialEq, Message)]
pub struct OneCell {}

/// Pairs the way round for which a condition holds.
#[derive(Clone, PartialEq, Message)]
pub struct EitherWay {
    #[prost(message, optional, tag = "1")]
    pub condition: Option<JoinFilter>,
    #[prost(message, optional, tag = "2")]
    pub projection: Option<Projection>,
}

/// A node of a logical plan.
#[derive(Clone, PartialEq, Message)]
pub struct Node {
    #[prost(oneof = "NodeKind", tags = "1, 2, 3")]
    pub kind: Option<NodeKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum NodeKind {
    #[prost(message, tag = "1")]
    Similarity(Box<SimilarityNode>),
    #[prost(message, tag = "2")]
    Nearest(Box<NearestNode>),
    #[prost(message, tag = "3")]
    Links(Box<LinkTask>),
}

#[derive(Clone, PartialEq, Message)]
pub struct SimilarityNode {
    #[prost(enumeration = "JoinType", tag = "1")]
    pub join_type: i32,
    #[prost(message, optional, boxed, tag = "2")]
    pub condition: Option<Box<LogicalExprNode>>,
    #[prost(bool, tag = "3")]
    pub contract: bool,
    #[prost(double, optional, tag = "4")]
    pub recall: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NearestNode {
    #[prost(enumeration = "JoinType", tag = "1")]
    pub join_type: i32,
    #[prost(uint64, tag = "2")]
    pub rows: u64,
    #[prost(bool, tag = "3")]
    pub is_distance: bool,
    #[prost(message, optional, boxed, tag = "4")]
    pub score: Option<Box<LogicalExprNode>>,
    #[prost(message, repeated, tag = "5")]
    pub then_by: Vec<SortExprNode>,
    #[prost(message, optional, boxed, tag = "6")]
    pub condition: Option<Box<LogicalExprNode>>,
    #[prost(bool, tag = "7")]
    pub ties: bool,
    #[prost(double, optional, tag = "8")]
    pub recall: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum JoinType {
    Inner = 0,
    Left = 1,
    Right = 2,
    Full = 3,
    LeftSemi = 4,
    RightSemi = 5,
    LeftAnti = 6,
    RightAnti = 7,
}

/// A join apart from what finds its pairs.
#[derive(Clone, PartialEq, Message)]
pub struct Join {
    #[prost(enumeration = "JoinType", tag = "1")]
    pub join_type: i32,
    #[prost(bool, tag = "2")]
    pub build_is_right: bool,
    #[prost(string, tag = "3")]
    pub why_build: String,
    #[prost(uint64, optional, tag = "4")]
    pub probe_rows: Option<u64>,
    #[prost(double, optional, tag = "5")]
    pub recall: Option<f64>,
    #[prost(message, repeated, tag = "6")]
    pub residual: Vec<JoinFilter>,
    #[prost(message, optional, boxed, tag = "7")]
    pub condition: Option<Box<JoinFilter>>,
    /// The output partitions of a self-join of one input; without it there are two inputs.
    #[prost(uint64, optional, tag = "8")]
    pub self_join: Option<u64>,
    #[prost(message, optional, tag = "9")]
    pub projection: Option<Projection>,
    #[prost(message, optional, tag = "10")]
    pub engine: Option<Engine>,
    /// Whether partitions with the same number are joined.
    #[prost(bool, tag = "11")]
    pub partitioned: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Projection {
    #[prost(uint64, repeated, tag = "1")]
    pub columns: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Engine {
    /// The name of the engine that is asked for, as the option `similarity.engine` takes it.
    #[prost(string, tag = "1")]
    pub asked: String,
    /// The devices, as the option `similarity.device` takes them.
    #[prost(string, tag = "2")]
    pub devices: String,
    #[prost(double, tag = "3")]
    pub memory_fraction: f64,
    #[prost(string, tag = "4")]
    pub overrides: String,
    /// Seconds after which a device is given up.
    #[prost(uint64, tag = "5")]
    pub device_timeout: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Equality {
    #[prost(message, optional, boxed, tag = "1")]
    pub left: Option<Box<PhysicalExprNode>>,
    #[prost(message, optional, boxed, tag = "2")]
    pub right: Option<Box<PhysicalExprNode>>,
    #[prost(bool, tag = "3")]
    pub null_equals_null: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Keys {
    #[prost(message, optional, boxed, tag = "1")]
    pub left: Option<Box<PhysicalExprNode>>,
    #[prost(message, optional, boxed, tag = "2")]
    pub right: Option<Box<PhysicalExprNode>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SimilarityJoin {
    #[prost(message, optional, tag = "1")]
    pub join: Option<Join>,
    #[prost(message, repeated, tag = "2")]
    pub equalities: Vec<Equality>,
    #[prost(message, optional, tag = "3")]
    pub keys: Option<Keys>,
    #[prost(message, optional, tag = "4")]
    pub condition: Option<Condition>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RuleJoin {
    #[prost(message, optional, tag = "1")]
    pub join: Option<Join>,
    #[prost(message, optional, tag = "2")]
    pub rules: Option<Rules>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Rules {
    #[prost(message, repeated, tag = "1")]
    pub atoms: Vec<Atom>,
    #[prost(message, repeated, tag = "2")]
    pub keys: Vec<Keys>,
    #[prost(message, repeated, tag = "3")]
    pub clauses: Vec<Clause>,
    #[prost(uint64, optional, tag = "4")]
    pub build_rows: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Clause {
    #[prost(uint32, repeated, tag = "1")]
    pub atoms: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Atom {
    #[prost(string, tag = "1")]
    pub label: String,
    #[prost(oneof = "AtomKind", tags = "2, 3, 4, 5, 6, 7")]
    pub kind: Option<AtomKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum AtomKind {
    #[prost(message, tag = "2")]
    Equality(Equality),
    #[prost(message, tag = "3")]
    Similarity(SimilarityAtom),
    #[prost(message, tag = "4")]
    Band(Band),
    #[prost(message, tag = "5")]
    OneSided(Box<OneSided>),
    #[prost(message, tag = "6")]
    Pair(Box<JoinFilter>),
    #[prost(message, tag = "7")]
    EitherSide(Box<EitherSide>),
}

#[derive(Clone, PartialEq, Message)]
pub struct SimilarityAtom {
    #[prost(uint32, tag = "1")]
    pub key: u32,
    #[prost(message, optional, tag = "2")]
    pub condition: Option<Condition>,
}

#[derive(Clone, PartialEq, Message)]
pub struct OneSided {
    #[prost(bool, tag = "1")]
    pub is_right: bool,
    #[prost(message, optional, boxed, tag = "2")]
    pub condition: Option<Box<PhysicalExprNode>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct EitherSide {
    #[prost(message, optional, boxed, tag = "1")]
    pub left: Option<Box<PhysicalExprNode>>,
    #[prost(message, optional, boxed, tag = "2")]
    pub right: Option<Box<PhysicalExprNode>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Band {
    #[prost(oneof = "BandKind", tags = "1, 2")]
    pub kind: Option<BandKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum BandKind {
    #[prost(message, tag = "1")]
    Difference(Difference),
    #[prost(message, tag = "2")]
    Between(Between),
}

#[derive(Clone, PartialEq, Message)]
pub struct Difference {
    #[prost(message, optional, tag = "1")]
    pub keys: Option<Keys>,
    #[prost(message, optional, tag = "2")]
    pub bounds: Option<Bounds>,
    #[prost(bool, tag = "3")]
    pub unlimited: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Between {
    #[prost(bool, tag = "1")]
    pub value_is_right: bool,
    #[prost(message, optional, boxed, tag = "2")]
    pub value: Option<Box<PhysicalExprNode>>,
    #[prost(message, optional, boxed, tag = "3")]
    pub low: Option<Box<PhysicalExprNode>>,
    #[prost(bool, tag = "4")]
    pub with_low: bool,
    #[prost(message, optional, boxed, tag = "5")]
    pub high: Option<Box<PhysicalExprNode>>,
    #[prost(bool, tag = "6")]
    pub with_high: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct NearestJoin {
    #[prost(message, optional, tag = "1")]
    pub join: Option<Join>,
    #[prost(uint64, tag = "2")]
    pub rows: u64,
    #[prost(bool, tag = "3")]
    pub ties: bool,
    #[prost(bool, tag = "4")]
    pub is_distance: bool,
    #[prost(message, optional, boxed, tag = "5")]
    pub score: Option<Box<JoinFilter>>,
    #[prost(message, repeated, tag = "6")]
    pub then_by: Vec<PhysicalSortExprNode>,
    #[prost(message, repeated, tag = "7")]
    pub equalities: Vec<Equality>,
    #[prost(message, repeated, tag = "8")]
    pub residual: Vec<JoinFilter>,
    #[prost(message, optional, boxed, tag = "9")]
    pub unequal: Option<Box<Equality>>,
    #[prost(oneof = "IndexedScore", tags = "10, 11")]
    pub indexed: Option<IndexedScore>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum IndexedScore {
    #[prost(message, tag = "10")]
    Similarity(IndexedSimilarity),
    #[prost(message, tag = "11")]
    MatchCount(MatchCount),
}

#[derive(Clone, PartialEq, Message)]
pub struct IndexedSimilarity {
    #[prost(message, optional, tag = "1")]
    pub keys: Option<Keys>,
    #[prost(message, optional, tag = "2")]
    pub condition: Option<Condition>,
}

#[derive(Clone, PartialEq, Message)]
pub struct MatchCount {
    #[prost(message, repeated, tag = "1")]
    pub conditions: Vec<Counted>,
    #[prost(message, optional, tag = "2")]
    pub weights: Option<Weights>,
    #[prost(double, optional, tag = "3")]
    pub excess: Option<f64>,
    #[prost(message, optional, tag = "4")]
    pub found: Option<FoundByRules>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FoundByRules {
    #[prost(message, optional, tag = "1")]
    pub rules: Option<Rules>,
    #[prost(double, tag = "2")]
    pub excess: f64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Counted {
    #[prost(oneof = "CountedKind", tags = "1, 2")]
    pub kind: Option<CountedKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum CountedKind {
    #[prost(message, tag = "1")]
    Equality(Equality),
    #[prost(message, tag = "2")]
    Band(Band),
}

#[derive(Clone, PartialEq, Message)]
pub struct Weights {
    #[prost(double, repeated, tag = "1")]
    pub weights: Vec<f64>,
}

/// A measure, and the scores that it accepts.
#[derive(Clone, PartialEq, Message)]
pub struct Condition {
    /// The SQL function.
    #[prost(string, tag = "1")]
    pub measure: String,
    #[prost(double, repeated, tag = "2")]
    pub constants: Vec<f64>,
    #[prost(message, optional, tag = "3")]
    pub bounds: Option<Bounds>,
    #[prost(oneof = "Keyed", tags = "4, 5, 6")]
    pub keyed: Option<Keyed>,
}

/// What a measure is about.
#[derive(Clone, PartialEq, Oneof)]
pub enum Keyed {
    #[prost(message, tag = "4")]
    Sets(Sets),
    #[prost(message, tag = "5")]
    Strings(Strings),
    #[prost(message, tag = "6")]
    Vectors(Vectors),
}

#[derive(Clone, PartialEq, Message)]
pub struct Sets {
    #[prost(bool, tag = "1")]
    pub is_reversed: bool,
    #[prost(enumeration = "Tokens", tag = "2")]
    pub tokens: i32,
    #[prost(uint64, tag = "3")]
    pub q: u64,
    #[prost(uint32, optional, tag = "4")]
    pub pad: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum Tokens {
    Elements = 0,
    Words = 1,
    QGrams = 2,
    Trigrams = 3,
}

#[derive(Clone, PartialEq, Message)]
pub struct Strings {}

#[derive(Clone, PartialEq, Message)]
pub struct Vectors {
    #[prost(uint32, optional, tag = "1")]
    pub undecided_from: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Bounds {
    #[prost(message, optional, tag = "1")]
    pub lower: Option<Bound>,
    #[prost(message, optional, tag = "2")]
    pub upper: Option<Bound>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Bound {
    #[prost(double, tag = "1")]
    pub value: f64,
    #[prost(bool, tag = "2")]
    pub inclusive: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Links {
    #[prost(message, optional, tag = "1")]
    pub task: Option<LinkTask>,
    #[prost(message, optional, tag = "2")]
    pub engine: Option<Engine>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LinkTask {
    #[prost(oneof = "LinkTaskKind", tags = "1, 2, 3")]
    pub kind: Option<LinkTaskKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum LinkTaskKind {
    #[prost(message, tag = "1")]
    Clusters(Clusters),
    #[prost(enumeration = "Assignment", tag = "2")]
    Matching(i32),
    #[prost(message, tag = "3")]
    Path(Box<Path>),
}

#[derive(Clone, PartialEq, Message)]
pub struct Clusters {
    #[prost(enumeration = "Method", tag = "1")]
    pub method: i32,
    #[prost(uint64, tag = "2")]
    pub largest: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum Method {
    Components = 0,
    Center = 1,
    Star = 2,
    Split = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum Assignment {
    Greedy = 0,
    Optimal = 1,
}

#[derive(Clone, PartialEq, Message)]
pub struct Path {
    #[prost(message, optional, tag = "1")]
    pub from: Option<datafusion_proto::protobuf::ScalarValue>,
    #[prost(message, optional, tag = "2")]
    pub to: Option<datafusion_proto::protobuf::ScalarValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RowNumbers {
    #[prost(message, repeated, tag = "1")]
    pub numbers: Vec<RowNumber>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DealtLoop {}

#[derive(Clone, PartialEq, Message)]
pub struct SmallBatches {
    #[prost(uint64, tag = "1")]
    pub rows: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct RowNumber {
    #[prost(message, optional, tag = "1")]
    pub field: Option<datafusion_proto::protobuf::Field>,
    #[prost(message, repeated, tag = "2")]
    pub order: Vec<PhysicalSortExprNode>,
}

#[derive(Clone, PartialEq, Message)]
pub struct IndexedTopK {
    #[prost(uint64, tag = "1")]
    pub rows: u64,
    #[prost(bool, tag = "2")]
    pub nulls_first: bool,
}
