//! Several nodes on one store.

use amends_torture::faults::runtime;
use amends_torture::nodes::Run;
use amends_torture::store::StoreUrl;

fn everything_fails_and_every_effect_happens_once(store: &str) {
    let store = StoreUrl::parse(store).unwrap();
    let run = Run { store, nodes: 3, sagas: 100, seed: 1, progress: |_| () };
    let report = runtime().unwrap().block_on(run.run()).unwrap();
    assert!(report.is_good(), "{}", report.words());
    let nodes = report.nodes.as_ref().unwrap();
    assert!(report.kills == 3 && report.lapses == 1 && nodes.said == 1 && nodes.looks > 10, "{report:?}");
    for harm in ["connections delayed", "connections reset", "connections half open", "answer to COMMIT lost"]
    {
        assert!(report.faults.contains_key(format!("database: {harm}").as_str()), "{harm}: {report:?}");
    }
    assert_eq!(report.server_faults.len(), 3, "{report:?}");
}

#[test]
fn three_nodes_on_postgres_and_the_ways_between_fail() {
    everything_fails_and_every_effect_happens_once("postgres:");
}

#[test]
fn three_nodes_on_mariadb_and_the_ways_between_fail() {
    everything_fails_and_every_effect_happens_once("mysql:");
}
