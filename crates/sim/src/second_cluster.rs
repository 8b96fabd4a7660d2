//! Separate clusters created from this one: from a backup, or from the disk of one member. Each must contain all
//! updates acknowledged up to its index, must not set any serial back, and must elect a leader. Then it is dropped.

use crate::commands::CommandParams;
use crate::invariants::Violation;
use crate::setup::data_keys;
use crate::simulation::Simulation;
use crate::updates::main_zone;
use replica::disk::{DiskOp, DiskRead};
use replica::io::{Input, Now, Output, Serving, TICK_MS};
use replica::log::Log;
use replica::testing::MemoryDisk;
use replica::update::serial::SerialGap;
use replica::{Backup, DataKey, Founder, Founding, Replica, ReplicaConfig, RestoreFailure, Restored};

/// The id of the new cluster.
const NEW_CLUSTER: [u8; 16] = [6; 16];
/// A cluster of one must serve within this number of ticks.
const TICKS_MAX: u64 = 3_000 / TICK_MS;
const INVARIANT: &str = "restored_clusters_are_whole";

impl Simulation {
    /// Creates another cluster from a backup of a member. Returns whether a member had one.
    pub(crate) fn restore_second_cluster(&mut self, params: CommandParams) -> bool {
        let Some((disk, file)) = self.take_backup(params) else { return false };
        let backup = match Backup::open(&disk, &file) {
            Ok(backup) if backup.verify_with_key(&disk, &data_keys(u32::from(u8::MAX) / 16)).is_ok() => backup,
            Ok(_) | Err(_) => {
                self.second_cluster_result =
                    Err(self.violation(INVARIANT, format!("a backup of {} is damaged", params.to)));
                return true;
            }
        };
        let index = backup.index();
        let found = |founder: Founder<'_>| Replica::restore(&disk, &backup, founder);
        self.second_cluster_result = self.found(params, index, found);
        self.count.restored += 1;
        true
    }

    /// Creates another cluster from the disk of one member, as after the loss of all others.
    pub(crate) fn recover_second_cluster(&mut self, params: CommandParams) -> bool {
        let id = params.to;
        let config = self.config_of(id, 0);
        let mut disk = self.machine(id).disk.contents().clone();
        disk.crash(&mut |_| 0);
        let Ok((log, _)) = Log::open(&disk, config.log.clone()) else { return false };
        if log.checkpoint().index == 0 || self.is_damage_of(id) {
            return false;
        }
        // An entry that is not known to be committed may differ on other members.
        let index = log.hard_state().commit;
        let found = |founder: Founder<'_>| Replica::recover(&disk, &config, founder, false);
        self.second_cluster_result = self.found(params, index, found);
        self.count.recovered += 1;
        true
    }

    /// Takes a copy of a member's newest checkpoint.
    fn take_backup(&self, params: CommandParams) -> Option<(MemoryDisk, String)> {
        let machine = &self.machines[&params.to];
        if self.is_damage_of(params.to) {
            return None;
        }
        let disk = machine.disk.without_unsynced();
        let (log, _) = Log::open(&disk, self.setup.log.clone()).ok()?;
        let index = log.checkpoint().index;
        let is_newest = |file: &String| Backup::open(&disk, file).is_ok_and(|backup| backup.index() == index);
        let (file, bytes) = disk.list().ok()?.into_iter().find(|(file, _)| is_newest(file))?;
        let data = disk.read(&file, 0, bytes as usize).ok()?;
        let mut copy = MemoryDisk::default();
        copy.execute(&DiskOp::Create { file: "backup".into(), zeroed_bytes: 0 });
        copy.execute(&DiskOp::Write { file: "backup".into(), offset: 0, data });
        Some((copy, "backup".into()))
    }

    fn found(
        &self,
        params: CommandParams,
        index: u64,
        found: impl FnOnce(Founder<'_>) -> Result<(Restored, Founding), RestoreFailure>,
    ) -> Result<(), Violation> {
        let key = DataKey::new(1, &[8; 32]);
        let config =
            || ReplicaConfig { cluster_id: NEW_CLUSTER, data_key: key.clone(), ..self.config_of(params.to, 1) };
        let (new, old_key, mut nonce) = (config(), data_keys(u32::from(u8::MAX) / 16), params.nonce);
        let mut fresh = || {
            nonce[1] = nonce[1].wrapping_add(1);
            nonce
        };
        let now = self.machines[&params.to].now(self.events.now_us());
        let founder = Founder {
            config: &new,
            address: "[::1]:7101".into(),
            old_key: &old_key,
            serial_gap: SerialGap::default(),
            now_s: now.wall_ms / 1_000,
            nonce: &mut fresh,
        };
        let failed = |what: String| self.violation(INVARIANT, format!("from {}: {what}", params.to));
        let (_, founding) = found(founder).map_err(|failure| failed(failure.to_string()))?;
        let mut disk = MemoryDisk::default();
        founding.flatten().for_each(|op| disk.execute(&op));
        let replica = Replica::open(&disk, config(), now).map_err(|error| failed(error.to_string()))?;
        let replica = lead_alone(replica, disk, now).ok_or_else(|| failed("it does not serve".into()))?;
        self.check_second_cluster(&replica, index).map_err(failed)
    }

    fn check_second_cluster(&self, replica: &Replica, index: u64) -> Result<(), String> {
        let published = replica.zones().published();
        let Some(zone) = published.zone(&main_zone()) else {
            return if index > self.prepared_index { Err("the zone is missing".into()) } else { Ok(()) };
        };
        for (number, update) in self.oracle.updates() {
            if update.is_done_by(index) && !update.is_in(&published) {
                return Err(format!("at index {index} it lacks update {number}: {update:?}"));
            }
        }
        let serial = zone.serial().ok_or("the zone has no serial")?;
        match self.invariants.serials.newest(&main_zone()) {
            Some(served) if !serial.is_newer_than(served) => {
                Err(format!("it begins at serial {}, clients have seen {}", serial.0, served.0))
            }
            _ => Ok(()),
        }
    }
}

/// Runs a cluster of one until it leads and serves. Gives up after [`TICKS_MAX`].
fn lead_alone(mut replica: Replica, mut disk: MemoryDisk, mut now: Now) -> Option<Replica> {
    for _ in 0..TICKS_MAX {
        (now.monotonic_ms, now.wall_ms) = (now.monotonic_ms + TICK_MS, now.wall_ms + TICK_MS);
        replica.handle(Input::Tick, now);
        while let Some(output) = replica.poll() {
            match output {
                Output::Disk(job) => {
                    job.ops.iter().for_each(|op| disk.execute(op));
                    replica.handle(Input::Persisted { queue: job.queue, ticket: job.ticket }, now);
                }
                Output::Fatal { .. } => return None,
                _ => {}
            }
        }
        if replica.serving() == Serving::Yes {
            return Some(replica);
        }
    }
    None
}
