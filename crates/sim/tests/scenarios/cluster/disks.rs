//! Disks of the machines: they complete operations immediately, hang, or are full.

use super::Cluster;
use catamaran_sim::disk::Finished;
use replica::disk::{DiskJob, ReadFile};
use replica::io::{Input, NodeId};

impl Cluster {
    /// Fills a disk, or makes room on it.
    pub(crate) fn fill_disk(&mut self, id: NodeId, is_full: bool) {
        let disk = &mut self.machines.get_mut(&id).unwrap().disk;
        if is_full {
            disk.fill(0, u64::MAX);
        } else {
            disk.make_room();
        }
    }

    pub(super) fn execute(&mut self, id: NodeId, job: &DiskJob) {
        self.machines.get_mut(&id).unwrap().disk.submit(job.clone());
        self.work_off(id);
    }

    /// Ends all disk operations that are due.
    pub(super) fn work_off(&mut self, id: NodeId) {
        let now_us = self.now.monotonic_ms * 1_000;
        loop {
            let machine = self.machines.get_mut(&id).unwrap();
            while let Some(pending) = machine.disk.begin(now_us) {
                machine.pending.push(pending);
            }
            let Some(due) = machine.pending.iter().position(|pending| pending.at_us <= now_us) else { return };
            let pending = machine.pending.remove(due);
            match machine.disk.finish(pending) {
                Finished::Step => {}
                Finished::Full(queue) => self.input(id, Input::DiskFull { queue }),
                Finished::Job { queue, ticket, waited } => {
                    if waited {
                        self.input(id, Input::DiskRoom { queue });
                    }
                    self.input(id, Input::Persisted { queue, ticket });
                }
                Finished::Read { ticket, bytes } => self.input(id, Input::FileRead { ticket, bytes }),
                Finished::ReadFailed => panic!("no test makes reads fail"),
            }
        }
    }

    pub(super) fn read(&mut self, id: NodeId, read: &ReadFile) {
        let now_us = self.now.monotonic_ms * 1_000;
        let machine = self.machines.get_mut(&id).unwrap();
        let pending = machine.disk.read_later(now_us, read.clone());
        machine.pending.push(pending);
        self.work_off(id);
    }

    /// Completes the hung reads, and later ones immediately.
    pub(crate) fn unhang_reads(&mut self, id: NodeId) {
        for read in self.machines.get_mut(&id).unwrap().reads_hung.take().unwrap() {
            self.read(id, &read);
        }
        self.settle();
    }

    /// Continues writing the member's own checkpoint.
    pub(crate) fn unhang_writing(&mut self, id: NodeId) {
        for job in self.machines.get_mut(&id).unwrap().writing_hung.take().unwrap() {
            self.execute(id, &job);
        }
    }

    /// Completes the hung jobs of the bulk queue. Later jobs hang again.
    pub(crate) fn step_bulk(&mut self, id: NodeId) {
        let hung = self.machines.get_mut(&id).unwrap().bulk_hung.replace(Vec::new());
        for job in hung.into_iter().flatten() {
            self.execute(id, &job);
        }
        self.settle();
    }

    /// Makes a hung disk work again.
    pub(crate) fn unhang(&mut self, id: NodeId) {
        let machine = self.machines.get_mut(&id).unwrap();
        let hung = [machine.hung.take(), machine.bulk_hung.take()];
        for job in hung.into_iter().flatten().flatten() {
            self.execute(id, &job);
        }
        self.settle();
    }
}
