//! Disks of the machines: they work at once, hang, or are full.

use super::Cluster;
use crate::disk::{DiskJob, DiskOp, DiskQueue, DiskRead, ReadFile};
use crate::io::{Input, NodeId};
use std::collections::VecDeque;

impl Cluster {
    /// Has the disk full from now on, or not any more.
    pub(crate) fn fill_disk(&mut self, id: NodeId, is_full: bool) {
        let disk = &mut self.machines.get_mut(&id).unwrap().disk;
        disk.set_capacity(is_full.then_some(0));
    }

    pub(super) fn execute(&mut self, id: NodeId, job: &DiskJob) {
        let machine = self.machines.get_mut(&id).unwrap();
        machine.waiting.entry(job.queue).or_default().push_back(job.clone());
        if !machine.full.contains(&job.queue) {
            self.work_off(id, job.queue);
        }
    }

    /// Executes the jobs of a queue as far as the disk has room.
    pub(super) fn work_off(&mut self, id: NodeId, queue: DiskQueue) {
        loop {
            let machine = self.machines.get_mut(&id).unwrap();
            let Some(mut job) = machine.waiting.get_mut(&queue).and_then(VecDeque::pop_front) else { return };
            while let Some(op) = job.ops.first().filter(|op| machine.disk.has_room(op)) {
                machine.disk.execute(op);
                job.ops.remove(0);
            }
            if !job.ops.is_empty() {
                machine.waiting.entry(queue).or_default().push_front(job);
                if machine.full.insert(queue) {
                    self.input(id, Input::DiskFull { queue });
                }
                return;
            }
            if machine.full.remove(&queue) {
                self.input(id, Input::DiskRoom { queue });
            }
            self.input(id, Input::Persisted { queue, ticket: job.ticket });
        }
    }

    pub(super) fn read(&mut self, id: NodeId, read: &ReadFile) {
        let bytes = self.machines[&id].disk.read(&read.file, read.offset, read.len).unwrap();
        self.input(id, Input::FileRead { ticket: read.ticket, bytes });
    }

    /// What it reads comes again.
    pub(crate) fn unhang_reads(&mut self, id: NodeId) {
        for read in self.machines.get_mut(&id).unwrap().reads_hung.take().unwrap() {
            self.read(id, &read);
        }
        self.settle();
    }

    /// Its own checkpoint is written on.
    pub(crate) fn unhang_writing(&mut self, id: NodeId) {
        for job in self.machines.get_mut(&id).unwrap().writing_hung.take().unwrap() {
            self.execute(id, &job);
        }
    }

    /// What hung of its bulk queue until now is done; what follows from it hangs again.
    pub(crate) fn step_bulk(&mut self, id: NodeId) {
        let hung = self.machines.get_mut(&id).unwrap().bulk_hung.replace(Vec::new());
        for job in hung.into_iter().flatten() {
            self.execute(id, &job);
        }
        self.settle();
    }

    /// The hung disk works again.
    pub(crate) fn unhang(&mut self, id: NodeId) {
        let machine = self.machines.get_mut(&id).unwrap();
        let hung = [machine.hung.take(), machine.bulk_hung.take()];
        for job in hung.into_iter().flatten().flatten() {
            self.execute(id, &job);
        }
        self.settle();
    }
}

pub(super) fn writes_checkpoint(job: &DiskJob) -> bool {
    let is_it = |file: &str| file == crate::checkpoint::WRITING_FILE;
    job.ops.iter().any(|op| match op {
        DiskOp::Create { file, .. }
        | DiskOp::Write { file, .. }
        | DiskOp::Zero { file, .. }
        | DiskOp::Sync { file } => is_it(file),
        _ => false,
    })
}
