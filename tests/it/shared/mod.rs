//! Engines that share a journal: the same tests on a disk in memory and on a server.

#[cfg(feature = "postgres")]
mod encrypted;
mod engines;
#[cfg(feature = "postgres")]
mod outages;
#[cfg(feature = "postgres")]
mod program;

use leasehold::{Engine, EngineBuilder, MemoryDisk};

/// A place for one journal that several engines open.
pub(crate) trait Place {
    /// Another engine on it.
    fn engine(&self) -> EngineBuilder;
}

impl Place for MemoryDisk {
    fn engine(&self) -> EngineBuilder {
        Engine::in_memory(self)
    }
}

#[cfg(feature = "postgres")]
impl Place for leasehold::PostgresPlace {
    fn engine(&self) -> EngineBuilder {
        crate::postgres::builder(self)
    }
}

mod memory {
    use super::{MemoryDisk, engines};

    #[test]
    fn what_one_engine_registers_another_delivers_and_both_count_it_alike() {
        engines::one_registers_another_delivers(&MemoryDisk::shared());
    }

    #[test]
    fn of_many_claims_in_two_engines_each_record_is_claimed_once() {
        engines::each_record_is_claimed_once(&MemoryDisk::shared());
    }

    #[test]
    fn a_lease_ends_by_expiry_in_every_engine_and_the_stale_holder_is_refused() {
        engines::a_stale_holder_is_refused(&MemoryDisk::shared());
    }

    #[test]
    fn a_second_identity_is_one_records_whoever_registers_it() {
        engines::a_second_identity_is_one_records(&MemoryDisk::shared());
    }

    #[test]
    fn a_pause_in_one_engine_holds_in_the_others() {
        engines::a_pause_holds_everywhere(&MemoryDisk::shared());
    }
}

#[cfg(feature = "postgres")]
mod server {
    use super::engines;
    use crate::postgres::cluster;

    #[test]
    fn what_one_engine_registers_another_delivers_and_both_count_it_alike() {
        let Some(cluster) = cluster() else { return };
        engines::one_registers_another_delivers(&cluster.place());
    }

    #[test]
    fn of_many_claims_in_two_engines_each_record_is_claimed_once() {
        let Some(cluster) = cluster() else { return };
        engines::each_record_is_claimed_once(&cluster.place());
    }

    #[test]
    fn a_lease_ends_by_expiry_in_every_engine_and_the_stale_holder_is_refused() {
        let Some(cluster) = cluster() else { return };
        engines::a_stale_holder_is_refused(&cluster.place());
    }

    #[test]
    fn a_second_identity_is_one_records_whoever_registers_it() {
        let Some(cluster) = cluster() else { return };
        engines::a_second_identity_is_one_records(&cluster.place());
    }

    #[test]
    fn a_pause_in_one_engine_holds_in_the_others() {
        let Some(cluster) = cluster() else { return };
        engines::a_pause_holds_everywhere(&cluster.place());
    }
}
