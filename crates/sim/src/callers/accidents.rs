//! Accidents that have nothing to do with what a node is doing.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::sim::Sim;

/// Lets accidents happen for as long as there are faults.
pub(crate) async fn accidents(sim: Arc<Sim>) {
    if let Some((at, wrong_by_ms)) = sim.options.clock_set {
        sleep(at).await;
        sim.note(format_args!("all clocks are set to be wrong by {wrong_by_ms} ms"));
        sim.hosts().iter().filter_map(|host| host.life()).for_each(|life| life.clock.set(wrong_by_ms));
    }
    let rate = sim.options.accidents_per_minute;
    if rate <= 0.0 {
        return;
    }
    while !sim.is_calm() {
        let (pause, host, what, time, hours) = {
            let mut state = sim.state();
            let dice = &mut state.dice.nodes;
            let pause = Duration::from_secs_f64(60.0 / rate)
                .mul_f64(f64::from(u32::try_from(dice.within(1..=200)).unwrap_or(100)) / 100.0);
            (
                pause,
                sim.hosts()[dice.below(sim.hosts().len())].clone(),
                dice.below(5),
                dice.ms(500..=9_000),
                dice.below(3),
            )
        };
        sleep(pause).await;
        if sim.is_calm() {
            return;
        }
        let Some(life) = host.life() else { continue };
        match what {
            0 => {
                sim.state().tally.crashes += 1;
                life.crash("is killed");
            }
            1 => {
                sim.note(format_args!("{} stands still for {time:?}", life.id));
                life.stand_still(time);
            }
            2 if sim.options.outages => sim.go_away(time),
            // An hour back, right again, or an hour ahead.
            3 if sim.options.clocks_are_set => {
                sim.note(format_args!("the clock of {} is set to {hours} h, less one", life.id));
                life.clock.set(3_600_000 * (i64::try_from(hours).unwrap_or(1) - 1));
            }
            _ => host.stop(&sim, time / 10).await,
        }
    }
}
