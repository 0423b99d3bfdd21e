//! What the engine asks of rules on a device.

use std::any::Any;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use similarity_engine::accelerator::rules::{DeviceColumns, DeviceEntry, DeviceRules, DeviceTrees, WalkedEntry};
use similarity_engine::atoms::{AtomRows, RuleRows};
use similarity_engine::equality::Codes;
use similarity_engine::error::Result;
use similarity_engine::metrics::MetricValue;
use similarity_engine::offered::Offered;
use similarity_engine::plan::ExecutionTree;

use super::atoms::RulesOnDevice;
use super::columns::{AtomOnDevice, Uploading};
use super::entry::{EntryOnDevice, parts_of_entry};
use super::found_pairs::FoundPairs;
use crate::equality::NumbersOnDevice;
use crate::fault::{Fault, placed};
use crate::wait::wait;

impl DeviceRules for RulesOnDevice {
    fn has_unknown(&self, atom: usize) -> bool {
        self.build.atoms[atom].has_unknown()
    }

    fn take_codes(&mut self, atom: usize) -> Option<Codes> {
        self.build.codes[atom].take()
    }

    fn add_codes(&mut self, build: &dyn RuleRows, asked: &[bool]) -> Result<Offered<()>> {
        let added = self.budget.device.stream().and_then(|stream| {
            for atom in (0..asked.len()).filter(|&atom| asked[atom]) {
                if let AtomRows::Codes(codes) = build.of(atom) {
                    self.build.atoms[atom] = AtomOnDevice::Codes(NumbersOnDevice::of(&self.budget, &stream, codes)?);
                    self.asked[atom] = true;
                }
            }
            Ok(wait(&stream)?)
        });
        placed(added.map(Some))
    }

    fn prepare(&self, probe: &dyn RuleRows, threads: usize) -> Result<Option<Box<dyn DeviceColumns>>> {
        let time = self.budget.metrics.arrange_time.clone();
        let _timer = time.timer();
        let bring = |stream: Arc<CudaStream>| {
            let uploading = Uploading { budget: &self.budget, stream: &stream, threads, prints: None };
            uploading.columns(probe, (&self.asked, &[]), Some(&self.build))
        };
        match self.budget.device.stream().and_then(bring) {
            Err(Fault::Memory) => Ok(None),
            prepared => Ok(prepared?.map(|columns| Box::new(columns) as Box<dyn DeviceColumns>)),
        }
    }

    fn name(&self) -> String {
        self.budget.device.to_string()
    }

    fn metrics(&self) -> Vec<MetricValue> {
        self.budget.metrics.values()
    }

    fn least_prints(&mut self, rows: usize, count: usize, bound: u64) -> Result<Option<Vec<(u64, u32)>>> {
        self.draw(rows, count, bound)
    }

    fn parts_of_entry(&self, entries: usize) -> u64 {
        parts_of_entry(entries)
    }

    fn entry(&self, entry: &WalkedEntry<'_>) -> Result<Offered<Box<dyn DeviceEntry>>> {
        Ok(EntryOnDevice::try_new(self, entry)?.map(|entry| Box::new(entry) as Box<dyn DeviceEntry>))
    }

    fn trees(&self, trees: [&ExecutionTree; 2]) -> Result<Offered<Box<dyn DeviceTrees>>> {
        Ok(FoundPairs::try_new(self, trees).map(|trees| Box::new(trees) as Box<dyn DeviceTrees>))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
