use amends_shop::Lie;
use amends_torture::faults::runtime;
use amends_torture::kills::Run;
use amends_torture::report::Report;
use amends_torture::store::StoreUrl;

fn run(kills: u32, lie: Option<Lie>, seed: u64) -> Report {
    let store = std::env::var("AMENDS_TORTURE_STORE").unwrap_or_else(|_| "sqlite:".to_owned());
    run_on(&store, kills, lie, seed)
}

fn run_on(store: &str, kills: u32, lie: Option<Lie>, seed: u64) -> Report {
    let store = StoreUrl::parse(store).unwrap();
    let run = Run { store, kills, lapses: 0, seed, lie, progress: |_| () };
    runtime().unwrap().block_on(run.run()).unwrap()
}

#[test]
fn eight_kills_lose_double_and_wrongly_undo_nothing() {
    let report = run(8, None, 1);
    assert!(report.is_good(), "{}", report.words());
    assert!(report.kills == 8 && report.kills_at_start == 1 && report.stops == 1, "{report:?}");
    let faults = report.faults.values().sum::<u32>();
    assert!(faults > 10, "only {faults} faults were met: nothing was shown");
}

#[test]
fn six_kills_of_the_engine_and_faults_of_its_server_on_redis() {
    kills_on("redis:");
}

#[test]
fn six_kills_of_the_engine_and_faults_of_its_server_on_postgres() {
    kills_on("postgres:");
}

#[test]
fn six_kills_of_the_engine_and_faults_of_its_server_on_mariadb() {
    kills_on("mysql:");
}

fn kills_on(store: &str) {
    let report = run_on(store, 6, None, 3);
    assert!(report.is_good(), "{}", report.words());
    let suffered: u32 = report.server_faults.values().sum();
    assert!(report.kills == 6 && suffered > 1, "{report:?}");
}

/// Whoever never finds anything may be blind.
#[test]
fn participants_that_break_their_word_are_found_out() {
    type Count = fn(&Report) -> usize;
    let lies: [(Lie, Count); 4] = [
        (Lie::Doubles, |report| report.doubled),
        (Lie::Loses, |report| report.lost),
        (Lie::Keeps, |report| report.left_over),
        (Lie::Undoes, |report| report.wrongly_undone),
    ];
    for (lie, found) in lies {
        // Whether a lie shows depends on which faults a short run meets; four runs meet enough of them.
        let mut noticed = false;
        for seed in 1..=4 {
            let report = run(2, Some(lie), seed);
            noticed = !report.is_good() && found(&report) > 0;
            if noticed {
                break;
            }
        }
        assert!(noticed, "{lie:?} was not noticed in four runs");
    }
}
