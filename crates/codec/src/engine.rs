//! What finds the pairs of a join.

use datafusion::common::Result;
use similarity_engine::accelerator::DeviceLimits;
use similarity_engine::choice::{Asked, EngineSpec};

use crate::envelope::malformed;
use crate::messages::Engine;

const NAMES: [(Asked, &str); 3] = [(Asked::Auto, "auto"), (Asked::Cpu, "cpu"), (Asked::Cuda, "cuda")];

pub fn to_message(spec: &EngineSpec) -> Engine {
    let EngineSpec { asked, devices, limits: DeviceLimits { memory_fraction, timeout }, overrides } = *spec;
    let name = NAMES.iter().find(|(known, _)| *known == asked).map_or("", |(_, name)| name);
    Engine {
        asked: name.into(),
        devices: devices.to_string(),
        memory_fraction,
        overrides: overrides.to_string(),
        device_timeout: timeout,
    }
}

pub fn from_message(message: Option<&Engine>) -> Result<EngineSpec> {
    let Engine { asked, devices, memory_fraction, overrides, device_timeout } =
        message.ok_or_else(|| malformed("it does not say which engine runs it"))?;
    let known = NAMES.iter().find(|(_, name)| name == asked).map(|(asked, _)| *asked);
    if !(*memory_fraction > 0.0 && *memory_fraction <= 1.0) {
        return Err(malformed("the share of a device's memory is not between 0 and 1"));
    }
    Ok(EngineSpec {
        asked: known.ok_or_else(|| malformed(&format!("this release has no engine '{asked}'")))?,
        devices: devices.parse().map_err(|error: String| malformed(&error))?,
        limits: DeviceLimits { memory_fraction: *memory_fraction, timeout: *device_timeout },
        overrides: overrides.parse().map_err(|error: String| malformed(&error))?,
    })
}
